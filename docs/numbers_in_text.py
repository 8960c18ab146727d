"""Figures of stored runs in README and docs/*.md: write them, and check that the text has them.

    python docs/numbers_in_text.py            # writes the blocks of all pages from docs/data/*.json
    python docs/numbers_in_text.py --keep     # and keeps the figures that have no stored run, as they are now
    python docs/numbers_in_text.py --check    # says what differs; a test does the same

A block of a page stands between ``<!-- run: NAME -->`` and ``<!-- end -->``. The function NAME below
writes what is between them from the raw numbers of docs/data. Figures outside of such blocks come from runs
whose raw output was not kept. docs/data/earlier_runs.json holds them section by section, so that none changes
unnoticed; docs/data/README.md says which they are.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
EARLIER = DOCS / "data" / "earlier_runs.json"
# Pages with figures of their own. Others quote these, which tests/test_docs.py checks.
MEASURED = ("README.md", *(f"docs/{name}.md" for name in (
    "battery", "descendants", "embeddings", "explorer", "images", "least_squares", "measurements",
    "reproduction", "results", "scale", "serve",
)))  # fmt: skip
BLOCK = re.compile(r"(<!-- run: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


def stored(name: str) -> dict[str, Any]:
    """One file of docs/data."""
    return json.loads((DOCS / "data" / f"{name}.json").read_text(encoding="utf-8"))


def table(heads: list[str], rows: list[list[str]], align: str = "---:") -> str:
    """Markdown."""
    lines = [heads, ["---"] + [align] * (len(heads) - 1), *rows]
    return "\n".join(
        "|" + "|".join(row) + "|" if row is lines[1] else f"| {' | '.join(row)} |" for row in lines
    )


def origin(run: dict[str, Any]) -> str:
    """One line under a table: when, where, with what else on the machine."""
    machine, load = run["machine"], run["load_average"]
    return (
        f"*`{run['command']}`, {run['date']}, commit {run['commit']}, {machine['cores']} cores"
        f" ({machine['cpu']}), load average {load[0]}.*"
    )


def own_tables() -> str:
    run, columns = stored("own_tables"), ("default", "--select cv", "logistic", "kNN", "boosting")
    heads = ["table", "default", "--select cv", "logistic regression", "kNN", "gradient boosting"]
    rows = [
        [
            row["table"],
            *(f"{row[c]:.1f}" for c in columns),
            f"{row[columns[1]] - max(row[c] for c in columns[2:]):+.1f}",
        ]
        for row in run["rows"]
    ]
    return table([*heads, "cv - best of the three"], rows) + "\n\n" + origin(run)


def continuum() -> str:
    run = stored("continuum")
    methods = [name for name in run["rows"][0] if name != "data"]
    rows = [
        [row["data"], *(f"{statistics.mean(row[m]):.1f} ± {statistics.stdev(row[m]):.1f}" for m in methods)]
        for row in run["rows"]
    ]
    return table(["", *methods], rows, "---") + "\n\n" + origin(run)


def calibration() -> str:
    run = stored("calibration")
    words = {
        "rule='scaled_residual', solver='exact'": ", exact, scaled residual",
        "rule='scaled_residual'": ", scaled residual",
    }
    rows = []
    for row in run["rows"]:
        name, parameters = re.fullmatch(r"(\w+)\((.*)\)", row["classifier"]).groups()
        errors = [f"{row[key]:.3f}" for key in ("ECE t = 1", "ECE ours", "ECE sklearn")]
        rows.append([name + words.get(parameters, ""), f"{row['accuracy']:.1f}", *errors])
    heads = ["", "accuracy %", "softmax of residuals", "`ConfidentClassifier`", "sklearn"]
    return table(heads, rows) + "\n\n" + origin(run)


def selection() -> str:
    run = stored("selection")
    rows = [
        [
            r["name"],
            str(r["candidates"]),
            str(r["timed by GridSearchCV"]),
            f"1/{r['GridSearchCV s'] / r['ours s']:.0f}",
            f"{r['largest difference']:.0e}",
        ]
        for r in run["rows"]
    ]
    heads = ["", "candidates", "of these timed by GridSearchCV", "our share of its time", "scores differ by"]
    return table(heads, rows) + "\n\n" + origin(run)


def enrolment() -> str:
    run = stored("enrolment")
    names = {"NRC admm": "NRC, five steps", "NRC exact": "NRC, exact"}
    shares = {(r["model"], r["classes"]): f"1/{r['refit ms'] / r['enrol ms']:.1f}" for r in run["rows"]}
    models, classes = dict.fromkeys(model for model, _ in shares), (100, 10)
    rows = [[names.get(model, model), *(shares[model, k] for k in classes)] for model in models]
    return table(["", "K = 100", "K = 10"], rows, "---") + "\n\n" + origin(run)


def enrolment_60000() -> str:
    run = stored("enrolment_60000")
    words = {"NRC admm": "NRC, five steps,", "NRC exact": "NRC, exact,"}
    shares = [
        f"{words.get(r['model'], r['model'])} 1/{r['refit ms'] / r['enrol ms']:.1f}" for r in run["rows"]
    ]
    size = f"N = {run['atoms']:,}, D = {run['features']}, K = 10"
    return f"With {size}: {'; '.join(shares)}.\n\n" + origin(run)


def memory() -> str:
    run = stored("memory")
    rows = [
        [r["method"], f"{r['atoms']:,}", f"{r['kept']:.1f}", f"{r['peak']:.1f}", f"{r['predict MB']:.0f} MB"]
        for r in run["rows"]
    ]
    heads = ["", "training samples", "kept after a fit", "peak of a fit", "`predict`, 200 queries"]
    return table(heads, rows) + "\n\n" + origin(run)


def core() -> str:
    run = stored("core")
    rows = [[r["method"], f"{r['float64']:.1f}", f"{r['float32']:.1f}"] for r in run["rows"]]
    return table(["10 classes, N = 3,000, D = 500", "float64", "float32"], rows) + "\n\n" + origin(run)


def moments() -> str:
    run = stored("moments")
    rows = [[r["method"], f"{r['ratio']:.2f}"] for r in run["rows"]]
    return table(["10 classes, N = 60,000, D = 256", "float64"], rows) + "\n\n" + origin(run)


def few_right_hand_sides() -> str:
    run = stored("few_right_hand_sides")
    rows = [[f"{r['right-hand sides']:,}", f"{r['residuum']:.3g}", f"{r['SciPy']:.3g}"] for r in run["rows"]]
    return (
        table(["right-hand sides of 200 x 10", "residuum, µs each", "SciPy, µs each"], rows)
        + "\n\n"
        + origin(run)
    )


def million() -> str:
    run = stored("million_right_hand_sides")
    beyond, each = f"{run['beyond both MB']:.0f} MB", f"{run['microseconds']:.1f} microseconds"
    return (
        f"**{run['count']:,} right-hand sides** of 200 x 10: input {run['input MB']:,.0f} MB, returned\n"
        f"{run['returned MB']:.0f} MB, {beyond} beyond both at the peak (`getrusage`); {each} each,\n"
        f"{run['products']:.1f} times the product A'B; {run['converged']:,} certified.\n\n" + origin(run)
    )


def explorer() -> str:
    runs = stored("explorer_digits"), stored("explorer_mnist")
    rows = []
    for digits, mnist in zip(*(run["rows"] for run in runs), strict=True):
        cells = [f"{r['median ms']:.3g} ({r['largest ms']:.3g})" for r in (digits, mnist)]
        slider = {"exact": "exact optimum", "max_iter": "T"}.get(digits["slider"], digits["slider"])
        rows.append([f"{digits['method']}, {slider}", *cells])
    heads = [
        f"{name}, {run['atoms']:,} atoms × {run['features']}" for name, run in zip(("digits", "MNIST"), runs)
    ]
    return table(["", *heads], rows) + "\n\n" + "\n\n".join(map(origin, runs))


def wide_speed() -> str:
    run = stored("bench_wide")
    place = ("MNIST 300 per class", "nonnegative")
    rows = []
    for r in run["rows"]:
        if (r["data"], r["problem"]) == place and "ratio" in r:
            note = f" (violation {r['violation']:.0e}, gap {r['gap']:.0e}, proved)" if "gap" in r else ""
            ratio = f"{r['ratio']:,.1f}" if r["ratio"] < 100 else f"{r['ratio']:,.0f}"
            rows.append([r["method"] + note, f"{r['ms_per_query']:.3g}", ratio])
    return table(["non-negative codes", "ms per query", "GEMM = 1"], rows) + "\n\n" + origin(run)


def tall_speed() -> str:
    return _tall(
        "bench_tall",
        ("SPAMS", "SciPy", "pyMCR", "cvxopt", "pysptools", "daqp", "proxqp", "osqp", "fnnls", "jaxopt"),
    )


def tall_speed_two_threads() -> str:
    return _tall("bench_tall_two_threads", ("SPAMS", "SciPy", "cvxopt"))


def _tall(name: str, peers: tuple[str, ...]) -> str:
    run, cases = stored(name), {}
    for row in run["rows"]:
        if "us_per_rhs" in row:
            cases.setdefault(f"{row['data']}, {row['problem']}", {})[row["method"].lower()] = row[
                "us_per_rhs"
            ]
    found = [p for p in peers if any(any(m.startswith(p.lower()) for m in times) for times in cases.values())]
    rows = []
    for case, times in cases.items():
        cells = [next((_plain(us) for m, us in times.items() if m.startswith(p.lower())), "") for p in found]
        rows.append([case, _plain(times["product a'b"]), f"**{_plain(times['residuum'])}**", *cells])
    return table(["", "A'B", "residuum", *found], rows) + "\n\n" + origin(run)


def _plain(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


RENDER: dict[str, Callable[[], str]] = {
    f.__name__: f
    for f in (
        own_tables, continuum, calibration, selection, enrolment, enrolment_60000, memory, core, moments,
        few_right_hand_sides, million, explorer, wide_speed, tall_speed, tall_speed_two_threads,
    )
}  # fmt: skip


def pages() -> Iterator[Path]:
    """README and the pages of docs."""
    yield ROOT / "README.md"
    yield from sorted(DOCS.glob("*.md"))


def filled(text: str) -> str:
    """A page with its blocks written from the stored runs."""
    return BLOCK.sub(lambda block: block[1] + RENDER[block[2]]() + block[3], text)


def sections(text: str) -> dict[str, str]:
    """Heading -> all numbers under it, in their order, blocks of stored runs and program code left out."""
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", BLOCK.sub("", text), flags=re.DOTALL)
    found: dict[str, str] = {}
    for part in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        head, _, body = part.partition("\n")
        numbers = " ".join(NUMBER.findall(body))
        if numbers:
            found[head.strip("# ")] = (
                f"{found[head.strip('# ')]} {numbers}" if head.strip("# ") in found else numbers
            )
    return found


def kept() -> dict[str, dict[str, str]]:
    """Page -> heading -> numbers, as the pages are now."""
    return {name: sections((ROOT / name).read_text(encoding="utf-8")) for name in MEASURED}


def differences() -> list[str]:
    """What the text has that no run has."""
    found = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if filled(block[0]) != block[0]:
                found.append(f"{page.name}: the block '{block[2]}' differs from the stored run")
    earlier = json.loads(EARLIER.read_text(encoding="utf-8"))
    for page, now in kept().items():
        for heading in sorted(now.keys() | earlier[page].keys()):
            if now.get(heading) != earlier[page].get(heading):
                found.append(
                    f"{page}: under '{heading}' {_first_change(now.get(heading), earlier[page].get(heading))}"
                )
    return found


def _first_change(now: str | None, then: str | None) -> str:
    ours, theirs = (now or "").split(), (then or "").split()
    at = next(
        (i for i, pair in enumerate(zip(ours, theirs)) if pair[0] != pair[1]), min(len(ours), len(theirs))
    )
    return f"the text has {ours[at : at + 3]}, the record {theirs[at : at + 3]}"


def main() -> int:
    """Write, keep or check."""
    if "--check" in sys.argv:
        found = differences()
        print("\n".join(found) or "The text has the figures of the runs.")
        return bool(found)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if filled(text) != text:
            page.write_text(filled(text), encoding="utf-8")
            print(f"{page.name} is written")
    if "--keep" in sys.argv:
        EARLIER.write_text(json.dumps(kept(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
