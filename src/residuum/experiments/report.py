"""From the results.json of a comparison to one row per method, its table and its page."""

from __future__ import annotations

import statistics
from typing import Any

from residuum.reports.numbers import mean_and_deviation, percent, scientific, significant
from residuum.reports.page import render
from residuum.reports.plots import coefficient_figure, convergence_figure
from residuum.reports.table import Table
from residuum.reports.thumbnails import to_pixels

COLUMNS = ("Method", "Accuracy %", "Fit s", "Predict ms", "Support", "Gap", "Violation")


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
    settings, data, first = results["settings"], results["data"], results["trials"][0]
    samples = f"{len(first['train'])} training samples"
    if settings["train_per_class"] is not None:
        samples = f"{settings['train_per_class']} training samples per class"
    words = [f"{data['name']}: {samples}", f"{len(first['labels'])} queries"]
    words.append(f"{settings['trials']} trial{'s' * (settings['trials'] > 1)}")
    return ", ".join(words)


def _notes(results: dict[str, Any]) -> tuple[str, ...]:
    settings, summary = results["settings"], results["summary"]
    spread = "mean ± standard deviation over the trials" if settings["trials"] > 1 else "of a single trial"
    notes = [
        f"Accuracy: {spread}. Predict: milliseconds per query. Support: mean number of non-zero "
        "coefficients. Gap and violation: the worst certificate of all queries, 0 at the optimum."
    ]
    kinds = results["data"]["features"]
    notes.append(f"Features: {'; or '.join(kinds)}.")
    notes += _chosen_notes(summary) if settings["select"] == "cv" else _fixed_notes(results)
    notes += [
        f"{row['method']}: {row['unconverged']} of {row['queries']} queries missed the tolerance."
        for row in summary
        if row["unconverged"]
    ]
    return tuple(notes)


def _fixed_notes(results: dict[str, Any]) -> list[str]:
    notes = []
    if "NRC" in results["settings"]["methods"]:
        notes = ["NRC stops after five steps of ADMM, as published: its code is not meant to be the optimum."]
    tuned = [f"{method} ({_values(values)})" for method, values in results["tuned"].items()]
    place = "at 50 per class" if results["data"]["name"] == "digits" else "of the bundled digits"
    if tuned:
        notes.append(
            f"Not all methods were tuned: {', '.join(tuned)} by cross-validation inside the training samples "
            f"{place}; all others have their default parameters."
        )
    return notes


def _chosen_notes(summary: list[dict[str, Any]]) -> list[str]:
    """What cross-validation chose, trial by trial, equal choices counted."""
    notes = [
        "Parameters by 5-fold cross-validation within the training samples of each trial. Fit includes it."
    ]
    for row in summary:
        texts = [_values(dict(sorted(chosen.items()))) for chosen in row["chosen"]]
        counted = [f"{text} ({texts.count(text)}x)" for text in dict.fromkeys(texts)]
        notes.append(f"{row['method']} chose {'; '.join(counted)}.")
    return notes


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}" for k, v in values.items())


def report_page(results: dict[str, Any], table: Table) -> str:
    """The whole page: table, coefficients, convergence, and how to get the same numbers again."""
    illustration, query = results["illustration"], None
    if "image_shape" in illustration:
        sample = illustration["sample"]
        query = to_pixels(sample, illustration["image_shape"], low=0.0, high=max(sample))
    return render(
        "compare.html",
        title="Sparse, collaborative or non-negative: which helps?",
        results=results,
        best=max(results["summary"], key=lambda row: row["accuracy_mean"]),
        table_of_results=table,
        query_image=query,
        coefficients=coefficient_figure(illustration),
        convergence=convergence_figure(illustration),
    )
