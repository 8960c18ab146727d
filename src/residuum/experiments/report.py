"""From the results.json of a comparison to its table and its page."""

from __future__ import annotations

from typing import Any

from residuum.experiments.compared_data import Data
from residuum.reports.confusion import confused_pairs, confusion_drawing, score_words
from residuum.reports.numbers import percent, scientific, significant
from residuum.reports.page import render
from residuum.reports.plots import coefficient_figure, convergence_figure
from residuum.reports.table import Table
from residuum.reports.thumbnails import to_pixels

COLUMNS = ("Method", "Accuracy %", "Fit s", "Predict ms", "Support", "Gap", "Violation")


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
        results["lead"]["sentence"],  # the page leaves it out of its notes
        feature_words(results["data"]["features"]),
        "The p-value compares the best of each kind, picked on the same queries, so it is optimistic.",
        f"Accuracy: {spread}. Predict: milliseconds per query. Support: mean number of non-zero "
        "coefficients. Gap and violation: the worst certificate of all queries, 0 at the optimum.",
    ]
    notes += _chosen_notes(summary) if settings["select"] == "cv" else _fixed_notes(results)
    notes += [
        f"{row['method']}: {row['unconverged']} of {row['queries']} queries missed the tolerance."
        for row in summary
        if row["unconverged"]
    ]
    notes += [f"{row['method']} warned: {text}" for row in summary for text in row["warnings"][:2]]
    return tuple(notes)


def feature_words(features: dict[str, Any]) -> str:
    """What the methods were given, in one sentence."""
    ways: dict[str, list[str]] = {}
    for method, candidates in features["candidates"].items():
        ways.setdefault(" or ".join(candidates), []).append(method)
    parts = [f"{way} for {', '.join(methods)}" for way, methods in ways.items()]
    return f"Features: {features['count']} {features['numbers']}; {'; '.join(parts)}."


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


def report_page(results: dict[str, Any], table: Table, data: Data | None = None) -> str:
    """The whole page: table, errors, coefficients, convergence, and how to get the same numbers again.

    With the data, samples are shown by their names and pictures.
    """
    illustration, query = results["illustration"], None
    if "image_shape" in illustration:
        sample = illustration["sample"]
        query = to_pixels(sample, illustration["image_shape"], low=0.0, high=max(sample))
    return render(
        "compare.html",
        title="Sparse, collaborative or non-negative: which helps?",
        results=results,
        table_of_results=table,
        matrix_of_errors=confusion_drawing(results["confusion"]),
        pairs=confused_pairs(results["confusion"]),
        cases=[_case(error, data) for error in results["worst_errors"]["errors"]],
        query_image=query,
        coefficients=coefficient_figure(illustration),
        convergence=convergence_figure(illustration),
    )


def _case(error: dict[str, Any], data: Data | None) -> dict[str, Any]:
    """What the page shows of one error and of the training samples that explain it."""

    def shown(sample: int) -> dict[str, Any]:
        picture = None if data is None else data.picture(sample)
        return {"file": f"sample {sample}" if data is None else data.name_of(sample), "image": picture}

    return {
        **shown(error["query"]),
        "truth": error["truth"],
        "given": error["given"],
        "scores": score_words(
            error["rule"],
            {error["given"]: error["score_of_given"], error["truth"]: error["score_of_truth"]},
            error["place_of_truth"],
        ),
        "atoms": [
            {
                **shown(atom["sample"]),
                "name": atom["label"],
                "share": percent(atom["share"]),
                "right": atom["label"] == error["truth"],
            }
            for atom in error["atoms"]
        ],
    }
