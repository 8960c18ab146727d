"""docs/descendants.md: benchmarks/descendants.py."""

from __future__ import annotations

import statistics
from typing import Any

from stored_figures.runs import origin, paragraph, stored, table

RUNS = ("descendants", "descendants_usps_50")
DATA = {"digits": "digits", "usps": "USPS, 100", "usps_50": "USPS, 50", "mnist": "MNIST", "yale": "Yale B"}
METHODS = (
    *("NSC", "CRC", "ProCRC", "NRC, five steps", "NRC, exact"),
    *("SimplexRC, l2 = 0", "SimplexRC", "CRNRC"),
)
PAIRS = (
    ("SimplexRC, l2 = 0", "NRC, exact"),
    ("SimplexRC", "SimplexRC, l2 = 0"),
    ("CRNRC", "NRC, exact"),
    ("CRNRC", "SimplexRC, l2 = 0"),
    ("CRNRC", "NSC"),
    ("NSC", "SimplexRC, l2 = 0"),
)


def _found() -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Data and method -> what was found in each trial."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in RUNS:
        for row in stored(name)["rows"]:
            found.setdefault((row["data"], row["method"]), []).append(row)
    return found


def descendants() -> str:
    found = _found()
    rows = [[method, *(_spread(_scores(found, data, method)) for data in DATA)] for method in METHODS]
    missed = sum(row["unconverged"] for some in found.values() for row in some)
    said = f"{missed} codes missed their tolerance; NRC with five steps has none to meet."
    origins = [origin(stored(name)) for name in RUNS]
    return "\n\n".join([table(["", *DATA.values()], rows), said, *origins])


def descendants_pairs() -> str:
    found, rows = _found(), []
    for one, other in PAIRS:
        cells = []
        for data in DATA:
            pairs = zip(_scores(found, data, one), _scores(found, data, other))
            cells.append(_spread([a - b for a, b in pairs], "+"))
        rows.append([f"{one} less {'exact NRC' if other == 'NRC, exact' else other}", *cells])
    return table(["difference", *DATA.values()], rows)


def descendants_chosen() -> str:
    found = _found()
    rows = [
        [
            name,
            *(", ".join(f"{r['chosen'][key]:g}" for r in found.get((data, method), [])) for data in DATA),
        ]
        for name, method, key in (("γ of CRNRC", "CRNRC", "gamma"), ("l2 of SimplexRC", "SimplexRC", "l2"))
    ]
    return table(["chosen in each trial", *DATA.values()], rows)


def descendants_faces() -> str:
    found = _found()
    mean = {method: statistics.mean(_scores(found, "yale", method)) for method in METHODS}
    behind = [
        mean[better] - mean[worse]
        for better in ("NRC, five steps", "ProCRC")
        for worse in ("NRC, exact", "SimplexRC, l2 = 0", "SimplexRC", "CRNRC")
    ]
    return paragraph(
        "On Extended Yale B exact NRC, SimplexRC and CRNRC are",
        f"{min(behind):.1f} to {max(behind):.1f} points behind NRC with five steps and ProCRC.",
    )


def descendants_cost() -> str:
    found = _found()
    methods = ("NRC, exact", *(f"CRNRC, gamma = {gamma}" for gamma in (0.01, 1, 100)))
    rows = []
    for data, name in DATA.items():
        seconds = [statistics.median(r["seconds"] for r in found[data, method]) for method in methods]
        rows.append([name, *(f"{s:.2g}" for s in seconds)])
    heads = ["", "exact NRC", *(f"γ = {gamma}" for gamma in (0.01, 1, 100))]
    return table(heads, rows)


def _scores(found: dict[tuple[str, str], list[dict[str, Any]]], data: str, method: str) -> list[float]:
    return [row["accuracy"] for row in found.get((data, method), [])]


def _spread(values: list[float], sign: str = "") -> str:
    """Mean, standard deviation and number of trials."""
    if not values:
        return ""
    spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):{sign}z.1f}{spread} ({len(values)})".replace("-", "−")
