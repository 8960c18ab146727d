"""From the raw cells of a comparison to one row per method, and to who leads, and whether by chance."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from residuum.experiments.paired import LEVEL, p_text, paired_test
from residuum.reports.numbers import mean_and_deviation


def summarise(results: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per method: accuracy over the trials, mean times and support, worst certificate."""
    labels = [trial["labels"] for trial in results["trials"]]
    rows = []
    for method in results["settings"]["methods"]:
        cells = [cell for cell in results["cells"] if cell["method"] == method]
        accuracies = [
            statistics.fmean(p == y for p, y in zip(cell["predictions"], labels[cell["trial"]], strict=True))
            for cell in cells
        ]
        mean, deviation = mean_and_deviation(accuracies)
        queries = sum(len(cell["predictions"]) for cell in cells)
        rows.append(
            {
                "method": method,
                "accuracies": accuracies,
                "accuracy_mean": mean,
                "accuracy_std": deviation,
                "fit_seconds": statistics.fmean(cell["fit_seconds"] for cell in cells),
                "predict_ms_per_query": 1000 * sum(c["predict_seconds"] for c in cells) / queries,
                "support": _over_queries(cells, "support", statistics.fmean),
                "worst_gap": _over_queries(cells, "gap", max),
                "worst_violation": _over_queries(cells, "violation", max),
                "queries": queries,
                "unconverged": sum(cell["unconverged"] for cell in cells),
                "chosen": [cell["chosen"] for cell in cells if cell["chosen"] is not None],
                "warnings": list(dict.fromkeys(text for cell in cells for text in cell["warnings"])),
            }
        )
    return rows


def _over_queries(cells: list[dict[str, Any]], name: str, reduce: Any) -> float | None:
    if any(cell[name] is None for cell in cells):
        return None
    return float(reduce([value for cell in cells for value in cell[name]]))


def lead(results: dict[str, Any], baselines: set[str]) -> dict[str, Any]:
    """Whether a baseline or a representation classifier is ahead, by how much, and whether by chance.

    The best method is compared with the best one of the other kind or, where only one kind was run, with the
    next one. The test is that of `paired_test` on the same queries.
    """
    # Of equally good methods, one that explains its answers counts as the best.
    order = sorted(results["summary"], key=lambda row: (-row["accuracy_mean"], row["method"] in baselines))
    best, *others = order
    is_baseline = best["method"] in baselines
    found: dict[str, Any] = {"best": best["method"], "is_baseline": is_baseline}
    if not others:
        return {**found, "rival": None, "sentence": f"{best['method']} is the only method here."}
    rival = next((row for row in others if (row["method"] in baselines) != is_baseline), others[0])
    train, test = (sum(len(trial[part]) for trial in results["trials"]) for part in ("train", "test"))
    hits = (_hits(results, row["method"]) for row in (best, rival))
    p, name = paired_test(*hits, overlap=test / train)
    found |= {
        "rival": rival["method"],
        "points": 100 * (best["accuracy_mean"] - rival["accuracy_mean"]),
        "p_value": p,
        "test": name,
        "within_chance": p >= LEVEL,
    }
    kind = "representation classifier" if is_baseline else "baseline"
    other = f"the best {kind}" if (rival["method"] in baselines) != is_baseline else "the next best"
    return {**found, "sentence": _sentence(found, best, rival, other)}


def _sentence(found: dict[str, Any], best: dict[str, Any], rival: dict[str, Any], other: str) -> str:
    """The lead in words; `other` says what the rival is."""
    first, second = (f"{100 * row['accuracy_mean']:.1f}" for row in (best, rival))
    if found["points"] < 1e-9:
        return f"{best['method']} and {rival['method']}, {other}, are right equally often: {first} %."
    numbers = f"{first} against {second} %; {p_text(found['p_value'])}, {found['test']}"
    ahead = f"{found['points']:.1f} points ahead of {rival['method']}, {other} ({numbers})"
    if found["within_chance"]:
        return f"{best['method']} is {ahead}: a lead within chance."
    who = f"A baseline, {best['method']}," if found["is_baseline"] else best["method"]
    return f"{who} wins clearly: it is {ahead}."


def _hits(results: dict[str, Any], method: str) -> list[Any]:
    """For each trial, which queries a method got right."""
    cells = [cell for cell in results["cells"] if cell["method"] == method]
    return [
        np.array([p == y for p, y in zip(c["predictions"], results["trials"][c["trial"]]["labels"])])
        for c in cells
    ]
