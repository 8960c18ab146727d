"""What `numbers_in_text` writes between the marks of a page: a table, or a sentence, for each stored run.

A function has the name of its block, and reads the raw numbers of docs/data.
"""

from __future__ import annotations

import json
import re
import statistics
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"


def stored(name: str) -> dict[str, Any]:
    """One file of docs/data."""
    return json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


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
            f"{r['largest difference']:.0e}" if r["largest difference"] else "0",
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
    return f"The same with {size}: {'; '.join(shares)}.\n\n" + origin(run)


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
    names = {
        "GEMM queries @ atoms.T": "GEMM queries × atoms",
        "residuum: exact": "**residuum, exact**",
        "residuum: ADMM, 5 steps": "residuum, five steps of ADMM",
        "residuum: SoftNRC, gap 1e-10": "residuum, SoftNRC to a gap of 1e-10",
        "spams": "SPAMS, positive LARS with cached Gram",
        "celer": "celer",
        "skglm": "skglm",
        "scipy": "SciPy nnls",
        "scikit-learn LassoLars": "scikit-learn LassoLars",
    }
    place = ("MNIST 300 per class", "nonnegative")
    found = {r["method"]: r for r in run["rows"] if (r["data"], r["problem"]) == place}
    rows = []
    for name, words in names.items():
        r = found[name]
        note = f" (violation {r['violation']:.0e}, gap {r['gap']:.0e}, proved)" if "gap" in r else ""
        ratio = f"{r['ratio']:,.1f}" if r["ratio"] < 100 else f"{r['ratio']:,.0f}"
        rows.append([words + note, f"{r['ms_per_query']:.3g}", ratio])
    heads = [
        f"non-negative codes, support {found['residuum: exact']['support']:.0f}",
        "ms per query",
        "GEMM = 1",
    ]
    return table(heads, rows) + "\n\n" + origin(run)


def wide_bars() -> str:
    runs = stored("wide_bars"), stored("wide_bars_large")
    rows = []
    for row in [row for run in runs for row in run["rows"]]:
        assert row["converged"] == row["queries"]
        product, ours, spams = (row["ms"].get(side) for side in ("product", "residuum", "SPAMS"))
        rows.append([
            f"{row['data']}, {row['atoms']:,} atoms", f"{product:.3g}",
            f"**{ours:.3g}** ({ours / product:.1f} products)",
            f"{spams:.3g} ({spams / ours:.1f} times ours)" if spams else "", f"{row['gap']:.0e}",
        ])  # fmt: skip
    heads = ["", "product", "residuum", "SPAMS", "largest gap"]
    return table(heads, rows) + "\n\n" + "\n\n".join(map(origin, runs))


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


def scale_model() -> str:
    runs = [stored(f"scale_nnls_{size}") for size in ("30k", "60k", "120k", "240k")]
    atoms = [run["atoms"] for run in runs]
    passes = [run["passes"] for run in runs]
    measured = [run["sharded"]["processor"] for run in runs]
    each = [ms / count for ms, count in zip(measured, passes)]
    slope = (each[1] - each[0]) / (atoms[1] - atoms[0])
    start = each[0] - slope * atoms[0]
    model = [count * (start + slope * n) for count, n in zip(passes, atoms)]
    rows = [
        [f"{n:,}", f"{count:.1f}", f"{ms:.1f}", "fitted" if i < 2 else f"{model[i]:.1f}"]
        for i, (n, count, ms) in enumerate(zip(atoms, passes, measured))
    ]
    apart = " and ".join(f"{100 * (measured[i] / model[i] - 1):+.0f} %" for i in (2, 3))
    violation, gap = (max(run[name] for run in runs) for name in ("violation", "gap"))
    large = stored("scale_nnls_1m")
    far, whole = large["passes"] * (start + slope * large["atoms"]), 8 * 1e9 * slope / 1e3
    told = _paragraph(
        f"The model is `passes x ({start:.2f} ms + {1e6 * slope:.1f} ns x N)`: the working set, and 2 D",
        "operations for each atom with the search for candidates. It was fitted to the first two rows; the",
        f"last two were held out, and their measurements are {apart} from the model. In all four the",
        f"largest violation was {violation:.1e}, the largest gap {gap:.1e};",
        f"{runs[0]['converged']} queries converged at each size. At N = 1,000,000 on two workers the model",
        f"says {far:.0f} ms; measured are {large['sharded']['processor']:.0f} with 384 queries, and more",
        "with fewer, which share each reading of the shards.",
    )
    told += "\n\n" + _paragraph(
        "Extrapolated, a query over 10^9 atoms takes 8 passes or more (their number grows slowly with N)",
        f"of {1e6 * slope:.1f} s, {whole:.0f} s of processor time. The memory of 10^4 cores holds the",
        f"dictionary (1 TB, 100 MB each), and their share of a query would be {whole / 10:.0f} ms; the one",
        "driver of today takes as long as that (below). This is an extrapolation of four thousand times.",
    )
    assert len({run["converged"] for run in runs}) == 1
    return "\n\n".join([table(["N", "passes", "measured, ms", "model, ms"], rows), told, origin(runs[-1])])


def scale_runs() -> str:
    rows = [
        *(_scale_row(f"nnls_{size}", _exact_codes) for size in ("60k", "250k", "1m")),
        *(_scale_row(f"nnls_1m_{count}", _walls) for count in ("one_worker", "two_workers")),
        *(_scale_row(f"soft_{size}", _labels) for size in ("60k", "250k")),
        *(_scale_row(f"moments_{size}", _labels) for size in ("60k", "1m")),
        _scale_row("queries", _many_queries),
        _scale_row("search", _search),
    ]
    one, two, middle = (stored(f"scale_nnls_{name}") for name in ("1m_one_worker", "1m_two_workers", "250k"))
    share = two["sharded"]["wall"] / one["sharded"]["wall"]
    growth = two["sharded"]["processor"] / middle["sharded"]["processor"]
    told = _paragraph(
        f"With two workers a query takes {share:.2f} of the wall time that it takes with one. From 250,000",
        f"to 1,000,000 atoms the processor time of 128 queries grows {growth:.1f} times. The driver takes",
        f"{two['sharded']['driver'] / two['passes']:.1f} ms for each query and pass.",
    )
    heads = ["command", "sharded, ms", "one process, ms", "sharded / one process", "and"]
    runs = [stored(path.stem) for path in sorted(DATA.glob("scale_*.json"))]
    dates, commits = (sorted({run[name] for run in runs}) for name in ("date", "commit"))
    loads = [run["load_average"][0] for run in runs]
    origins = (
        f"*From {dates[0]} to {dates[-1]}, commits {', '.join(commits)}, 2 cores"
        f" ({runs[0]['machine']['cpu']}), load average {min(loads)} to {max(loads)}.*"
    )
    return "\n\n".join([table(heads, rows, "---"), origins, told])


def _paragraph(*parts: str) -> str:
    return textwrap.fill(" ".join(parts), 130, break_on_hyphens=False, break_long_words=False)


def _scale_row(name: str, told: Callable[[dict[str, Any]], str]) -> list[str]:
    run = stored(f"scale_{name}")
    ours = run.get("sharded") or run["cluster"]
    alone = run.get("one process") or run.get("one process by codes")
    beside = (
        [_milliseconds(alone["processor"]), f"{ours['processor'] / alone['processor']:.2g}"]
        if alone
        else ["", ""]
    )
    command = run["command"].partition("scale.py ")[2]
    return [f"`{command}`", _milliseconds(ours["processor"]), *beside, told(run)]


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _exact_codes(run: dict[str, Any]) -> str:
    parts = [
        f"{run['passes']:.1f} passes, at most {run['most passes']}",
        f"violation {run['violation']:.1e}",
        f"the same supports in {run['same supports']} of {run['queries']}, codes to {run['codes apart']:.1e}",
    ]
    if "kB up" in run:
        parts.append(f"{run['kB down']:.0f} kB down and {run['kB up']:.0f} kB up per query")
        parts.append(f"{max(run['largest memory of workers, MB'])} MB per worker")
    return "; ".join(parts)


def _walls(run: dict[str, Any]) -> str:
    return (
        f"wall time {run['sharded']['wall']:.1f} ms, of which the driver takes {run['sharded']['driver']:.1f}"
    )


def _labels(run: dict[str, Any]) -> str:
    if "passes" not in run:
        return f"the same labels as in float64 for {run['same labels as float64']} of {run['queries']}"
    first = f"of the first 16 queries {run['passes']:.0f} passes and a gap of {run['gap']:.1e}"
    return f"the same labels for {run['same labels']} of {run['queries']}; {first}"


def _many_queries(run: dict[str, Any]) -> str:
    walls = f"{run['cluster']['wall']:.2f} against {run['one process']['wall']:.2f} ms"
    moved = run["bytes that workers sent per query, by Dask's count"]
    assert run["same bytes in 25 parts"]
    return f"wall time {walls}; {moved:.1f} bytes per query between workers; the same bytes in all 25 parts"


def _search(run: dict[str, Any]) -> str:
    assert run["same scores"]
    return "45 fits on the digits, two new workers; the same scores"


RENDER: dict[str, Callable[[], str]] = {
    f.__name__: f
    for f in (
        own_tables, continuum, calibration, selection, enrolment, enrolment_60000, memory, core, moments,
        few_right_hand_sides, million, explorer, wide_speed, wide_bars, tall_speed,
        tall_speed_two_threads, scale_model,
        scale_runs,
    )
}  # fmt: skip
