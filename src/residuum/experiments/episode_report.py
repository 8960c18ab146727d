"""From the episodes of every method to means with intervals, verdicts and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from residuum.experiments.episode_methods import OTHERS, OURS
from residuum.reports.numbers import mean_and_deviation, percent, signed
from residuum.reports.table import Table

# Measure -> (title, whether larger is better); those of unknown classes are missing without such classes.
MEASURES = {
    "accuracy": ("Accuracy on queries of known classes, %", True),
    "auroc": ("AUROC of known against unknown classes by the score of the winner, %", True),
    "fpr": ("Unknown classes accepted where 95 % of known queries are (same score), %", False),
    "margin_auroc": ("AUROC of known against unknown classes by the margin to the runner-up, %", True),
}
# The same in short, for the sentences under the tables.
_SHORT = {
    "accuracy": "Accuracy",
    "auroc": "AUROC by the score",
    "fpr": "Unknown classes accepted (fewer are better)",
    "margin_auroc": "AUROC by the margin",
}

Values = Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]  # shots -> method -> measure -> episodes


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean of the episodes and half the width of its 95 % interval, by the normal approximation."""
    mean, deviation = mean_and_deviation(values)
    return mean, 1.96 * (deviation or 0.0) / math.sqrt(len(values))


def summarise(values: Values) -> list[dict[str, Any]]:
    """One row per number of shots and method: mean and half interval of every measure."""
    rows = []
    for shots, methods in values.items():
        for method, measures in methods.items():
            row: dict[str, Any] = {"shots": int(shots), "method": method, "ours": method in OURS}
            for name in (name for name in measures if name != "unconverged"):
                row[name], row[f"{name}_interval"] = interval(measures[name])
            rows.append({**row, "unconverged": sum(measures["unconverged"])})
    return rows


def verdicts(results: dict[str, Any]) -> list[str]:
    """For every measure and number of shots: our best method against the best of the others.

    The two answered the same episodes, so the interval is that of the difference of each episode.
    """
    lines = []
    for name in MEASURES:
        parts = []
        for shots, methods in results["episodes"].items():
            ours, other = (_best(methods, group, name) for group in (OURS, OTHERS))
            if ours is None or other is None:
                continue
            pairs = zip(methods[ours][name], methods[other][name], strict=True)
            gain, half = interval([100 * (a - b) for a, b in pairs])
            chance = "" if abs(gain) > half else ", within chance"
            parts.append(f"{_shots(shots)} {ours} {signed(gain)} ± {half:.1f} against {other}{chance}")
        if parts:
            lines.append(f"{_SHORT[name]}: {'; '.join(parts)}.")
    return lines


def _best(methods: Mapping[str, Any], group: Mapping[str, Any], measure: str) -> str | None:
    means = {
        method: interval(values[measure])[0]
        for method, values in methods.items()
        if method in group and measure in values
    }
    best = max if MEASURES[measure][1] else min
    return best(means, key=lambda method: means[method]) if means else None


def tables(results: dict[str, Any]) -> list[Table]:
    """One table for every measure: methods down, numbers of shots across."""
    settings, data, rows = results["settings"], results["data"], results["summary"]
    kinds = list(dict.fromkeys(row["shots"] for row in rows))
    found = []
    for name, (title, larger) in MEASURES.items():
        if name not in rows[0]:
            continue
        cells = {(row["method"], row["shots"]): row for row in rows}
        body, best = [], set()
        for i, method in enumerate(settings["methods"]):
            line = [cells[method, shots] for shots in kinds]
            body.append((method, *(percent(row[name], row[f"{name}_interval"]) for row in line)))
            for j, row in enumerate(line):
                column = [each[name] for each in rows if each["shots"] == row["shots"]]
                if row[name] == (max(column) if larger else min(column)):
                    best.add((i, j + 1))
        found.append(Table(title, ("Method", *map(_shots, kinds)), tuple(body), frozenset(best)))
    return [*found[:-1], _with_notes(found[-1], _notes(results, settings, data))]


def _with_notes(table: Table, notes: Sequence[str]) -> Table:
    return Table(table.title, table.columns, table.rows, table.best, tuple(notes))


def _notes(results: dict[str, Any], settings: dict[str, Any], data: dict[str, Any]) -> list[str]:
    centred = {
        "none": "as they are",
        "others": "less the mean of the classes outside the episode",
        "train": "less the mean of the training samples",
    }[settings["centre"]]
    notes = [
        f"{data['name']}: mean ± 95 % interval over {settings['episodes']} episodes of {settings['ways']} "
        f"known and {settings['unknown']} unknown classes, {settings['queries']} queries each. Embeddings "
        f"{centred}, with norm 1; SimpleShot always subtracts the mean of the classes outside the episode.",
        "Our best method against the best of the others, on the same episodes, in points:",
        *verdicts(results),
    ]
    short = [f"{row['method']} {row['unconverged']}" for row in results["summary"] if row["unconverged"]]
    if short:
        notes.append(f"Queries that missed the tolerance of their solver: {', '.join(short)}.")
    return notes


def _shots(count: Any) -> str:
    return f"{count} shot{'s' * (int(count) > 1)}"
