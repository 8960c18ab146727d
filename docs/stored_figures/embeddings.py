"""docs/embeddings.md: runs of `residuum episodes`."""

from __future__ import annotations

from typing import Any

from residuum.reports.numbers import signed
from stored_figures.runs import origin, paragraph, stored, table

SHOTS = (1, 5, 10)
WORDS = {"NRC": "NRC, five steps", "NRC exact": "NRC, exact", "logistic": "logistic regression"}
Rows = dict[str, dict[int, dict[str, Any]]]  # method -> shots -> its row


def episodes_birds() -> str:
    return _episodes("episodes_birds")


def episodes_digits() -> str:
    return _episodes("episodes_digits")


def episodes_centred() -> str:
    """What subtracting the mean of other classes changes."""
    runs = [(stored(name), stored(f"{name}_centred")) for name in ("episodes_birds", "episodes_digits")]
    pairs = [(_by_method(raw), _by_method(centred)) for raw, centred in runs]
    columns = [(pair, "accuracy", shots) for pair in pairs for shots in SHOTS]
    columns[3:3], columns[7:7] = [(pairs[0], "auroc", 5)], [(pairs[1], "auroc", 5)]
    rows = []
    for method in pairs[0][0]:
        if method != "SimpleShot":  # subtracts that mean always
            values = [(100 * raw[method][n][m], 100 * mean[method][n][m]) for (raw, mean), m, n in columns]
            cells = [f"{centred:.1f} ({signed(round(centred - raw, 1) or 0.0)})" for raw, centred in values]
            rows.append([WORDS.get(method, method), *cells])
    heads = ["", "birds 1", "5", "10", "AUROC 5", "digits 1", "5", "10", "AUROC 5"]
    return "\n\n".join([table(heads, rows), *(origin(centred) for _, centred in runs)])


def episodes_score_or_margin() -> str:
    """AUROC of known against unknown classes by two scores of ours."""
    runs = [stored(name) for name in ("episodes_birds", "episodes_digits")]
    ours = [row["method"] for row in runs[0]["summary"] if row["ours"] and row["shots"] == 5]
    rows = []
    for method in ours:
        pairs = [_by_method(run)[method][shots] for run in runs for shots in (5, 10)]
        cells = [f"{100 * row['auroc']:.1f} / {100 * row['margin_auroc']:.1f}" for row in pairs]
        rows.append([WORDS.get(method, method), *cells])
    heads = ["score / margin", "birds, 5 shots", "10", "digits, 5 shots", "10"]
    return table(heads, rows) + "\n\nThe runs are those of the two tables above."


def episodes_own_mean() -> str:
    """Three methods on birds with three means."""
    names = ("episodes_birds_100", "episodes_birds_100_centred", "episodes_birds_own_mean")
    runs = [stored(name) for name in names]
    rows, widest, settings = [], 0.0, runs[-1]["settings"]
    for method in _by_method(runs[0]):
        for shots in SHOTS:
            found = [_by_method(run)[method][shots] for run in runs]
            asked = settings["episodes"] * settings["queries"] * (settings["ways"] + settings["unknown"])
            unproved = f"{100 * found[-1]['unconverged'] / asked:.0f} %"
            cells = [f"{100 * row['accuracy']:.1f}" for row in found]
            name = f"{WORDS.get(method, method)}, {shots} shot{'s' * (shots > 1)}"
            rows.append([name, *cells, "" if method == "NRC" else unproved])
            widest = max(widest, *(100 * row["accuracy_interval"] for row in found))
    heads = ["", "raw", "mean of other classes", "own mean", "own mean: not converged"]
    return "\n\n".join([table(heads, rows), f"95 % intervals: at most ± {widest:.1f}.", origin(runs[-1])])


def _by_method(run: dict[str, Any]) -> Rows:
    found: Rows = {}
    for row in run["summary"]:
        found.setdefault(row["method"], {})[row["shots"]] = row
    return found


def _episodes(name: str) -> str:
    run = stored(name)
    found = _by_method(run)
    columns = [(measure, shots) for measure in ("accuracy", "auroc", "fpr") for shots in SHOTS]
    values = {m: [f"{100 * rows[n][measure]:.1f}" for measure, n in columns] for m, rows in found.items()}
    best = [
        (min if measure == "fpr" else max)((cells[i] for cells in values.values()), key=float)
        for i, (measure, _) in enumerate(columns)
    ]
    rows = [
        [WORDS.get(m, m), *(f"**{cell}**" if cell == best[i] else cell for i, cell in enumerate(cells))]
        for m, cells in values.items()
    ]
    heads = ["", "1 shot", "5 shots", "10 shots", "AUROC 1", "5", "10", "FPR 1", "5", "10"]
    settings, data = run["settings"], run["data"]
    told = paragraph(
        f"{data['n_classes']} classes, {data['n_features']:,} features; mean of {settings['episodes']}",
        f"episodes of {settings['ways']} known and {settings['unknown']} unknown classes. 95 % intervals: at",
        f"most ± {_widest(found, 'accuracy')} (accuracy), {_widest(found, 'auroc')} (AUROC) and",
        f"{_widest(found, 'fpr')} (FPR). Our best method against the best of the others, on the same",
        "episodes, in points:",
    )
    verdicts = "\n".join(f"- {paragraph(text)}".replace("\n", "\n  ") for text in run["verdicts"])
    return "\n\n".join([table(heads, rows), told, verdicts, origin(run)])


def _widest(found: Rows, measure: str) -> str:
    """Largest half width of the 95 % intervals, in points."""
    return f"{max(100 * row[f'{measure}_interval'] for rows in found.values() for row in rows.values()):.1f}"
