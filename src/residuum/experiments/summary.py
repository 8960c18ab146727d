"""From the raw cells of a comparison to one row per method, and to its table."""

from __future__ import annotations

import statistics
from typing import Any

from residuum.reports.numbers import mean_and_deviation, percent, scientific, significant
from residuum.reports.table import Table

COLUMNS = ("Method", "Accuracy %", "Fit s", "Predict ms", "Support", "Gap", "Violation")


def summarise(results: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per method: accuracy over the trials, mean times and support, worst certificate."""
    labels = [trial["labels"] for trial in results["trials"]]
    rows = []
    for method in results["settings"]["methods"]:
        cells = [cell for cell in results["cells"] if cell["method"] == method]
        accuracies = [_accuracy(cell["predictions"], labels[cell["trial"]]) for cell in cells]
        mean, deviation = mean_and_deviation(accuracies)
        queries = [len(cell["predictions"]) for cell in cells]
        rows.append(
            {
                "method": method,
                "accuracies": accuracies,
                "accuracy_mean": mean,
                "accuracy_std": deviation,
                "fit_seconds": statistics.fmean(cell["fit_seconds"] for cell in cells),
                "predict_ms_per_query": 1000 * sum(c["predict_seconds"] for c in cells) / sum(queries),
                "support": _over_queries(cells, "support", statistics.fmean),
                "worst_gap": _over_queries(cells, "gap", max),
                "worst_violation": _over_queries(cells, "violation", max),
                "queries": sum(queries),
                "unconverged": sum(cell["unconverged"] for cell in cells),
                "chosen": [cell["chosen"] for cell in cells if cell["chosen"] is not None],
                "warnings": list(dict.fromkeys(text for cell in cells for text in cell["warnings"])),
            }
        )
    return rows


def _accuracy(predictions: list[Any], labels: list[Any]) -> float:
    return statistics.fmean(p == label for p, label in zip(predictions, labels, strict=True))


def _over_queries(cells: list[dict[str, Any]], name: str, reduce: Any) -> float | None:
    if any(cell[name] is None for cell in cells):
        return None
    return float(reduce([value for cell in cells for value in cell[name]]))


def comparison_table(results: dict[str, Any]) -> Table:
    """The summary of results.json as a table, best accuracy in bold."""
    summary = results["summary"]
    rows = tuple(
        (
            row["method"],
            percent(row["accuracy_mean"], row["accuracy_std"]),
            significant(row["fit_seconds"]),
            significant(row["predict_ms_per_query"]),
            "" if row["support"] is None else f"{row['support']:.1f}",
            scientific(row["worst_gap"]),
            scientific(row["worst_violation"]),
        )
        for row in summary
    )
    highest = max(row["accuracy_mean"] for row in summary)
    best = frozenset((i, 1) for i, row in enumerate(summary) if row["accuracy_mean"] == highest)
    return Table(_title(results), COLUMNS, rows, best, _notes(results))


def _title(results: dict[str, Any]) -> str:
    settings, trials = results["settings"], results["settings"]["trials"]
    first = results["trials"][0]
    samples = f"{len(first['train'])} training samples"
    if settings["train_per_class"] is not None:
        samples = f"{settings['train_per_class']} training samples per class"
    made = [f"scale {results['data']['scale']}"] if results["data"].get("scale") else []
    made += [f"PCA {results['data']['pca']}"] if results["data"].get("pca") else []
    return ", ".join(
        [
            f"{results['data']['name']}: {samples}",
            f"{len(first['labels'])} queries",
            f"{trials} trial{'s' * (trials > 1)}",
            *made,
        ]
    )


def _notes(results: dict[str, Any]) -> tuple[str, ...]:
    methods, trials = results["settings"]["methods"], results["settings"]["trials"]
    spread = "mean ± standard deviation over the trials" if trials > 1 else "of a single trial"
    notes = [
        f"Accuracy: {spread}. Predict: milliseconds per query. Support: mean number of non-zero "
        "coefficients. Gap and violation: the worst certificate of all queries, 0 at the optimum."
    ]
    if results["settings"]["select"] == "cv":
        return (*notes, *_chosen_notes(results["summary"]), *_missed(results["summary"]))
    if "NRC" in methods:
        notes.append(
            "NRC stops after five steps of ADMM, as published: its code is not meant to be the optimum."
        )
    tuned = [
        f"{method} ({', '.join(f'{name}={value:g}' for name, value in values.items())})"
        for method, values in results["tuned"].items()
    ]
    place = "at 50 per class" if not results["data"].get("arguments") else "of the bundled digits"
    if tuned:
        notes.append(
            f"Not all methods were tuned: {', '.join(tuned)} by cross-validation inside the training samples "
            f"{place}; all others have their default parameters."
        )
    return (*notes, *_missed(results["summary"]))


def _chosen_notes(summary: list[dict[str, Any]]) -> list[str]:
    """What cross-validation chose, trial by trial, equal choices counted."""
    notes = [
        "Parameters by 5-fold cross-validation within the training samples of each trial. Fit includes it."
    ]
    for row in summary:
        texts = [
            ", ".join(f"{name.split('__')[-1]}={_short(value)}" for name, value in sorted(chosen.items()))
            for chosen in row["chosen"]
        ]
        counted = [f"{text} ({texts.count(text)}x)" for text in dict.fromkeys(texts)]
        notes.append(f"{row['method']} chose {'; '.join(counted)}.")
    return notes


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _missed(summary: list[dict[str, Any]]) -> list[str]:
    return [
        f"{row['method']}: {row['unconverged']} of {row['queries']} queries missed the tolerance."
        for row in summary
        if row["unconverged"]
    ]
