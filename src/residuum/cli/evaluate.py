"""``residuum evaluate``: how good a saved model is on labelled data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli.options import json_option, n_jobs_option, reading_arguments, reading_options
from residuum.cli.output import (
    image_progress,
    json_text,
    report_warnings,
    require_convergence,
    say_notes,
)
from residuum.errors import UsageError

if TYPE_CHECKING:
    from residuum.reports.table import Table

_LARGEST_MATRIX = 12
_SHOWN = 10


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@reading_options
@click.option("--split", metavar="COLUMN", help="Column that says train or test: only test is used.")
@json_option
@n_jobs_option
def evaluate(
    model: Path, data: Path, split: str | None, as_json: bool, n_jobs: int | None, **options: Any
) -> None:
    """Compare the answers of MODEL, a file from 'residuum fit', with the labels of DATA.

    Accuracy, precision and recall of every class, the confusion matrix; calibration error (ECE) and log-loss
    where the model has probabilities; false accepts and false rejects over the threshold where it rejects.
    Where DATA has training and test samples apart, the test samples are used.
    """
    from residuum.models import answer, open_queries
    from residuum.models import evaluate as figures
    from residuum.models.file import open_model
    from residuum.system.threads import limit_threads

    reading = reading_arguments(options)
    saved = open_model(model)
    with limit_threads(n_jobs), report_warnings() as unconverged, image_progress(data.name) as progress:
        queries, estimator = open_queries(saved, data, progress=progress, split=split, **reading)
        if queries.labels is None:
            raise UsageError(f"{data} has no labels to compare with. Name them with --label, or use predict.")
        if queries.split is not None and (queries.split == "test").any():
            queries = queries.rows(queries.split == "test").noted("only the test samples are used")
        found = figures(answer(estimator, queries.features), queries.labels)
    say_notes(queries)
    if as_json:
        click.echo(json_text({"model": str(model), "data": str(data), **found}))
    else:
        _show(found)
    require_convergence(unconverged)


def _show(found: dict[str, Any]) -> None:
    from residuum.reports.numbers import percent
    from residuum.reports.table import print_table

    click.echo(f"Accuracy: {100 * found['accuracy']:.2f} % of {found['samples']} samples")
    if found["unknown"]:
        listed = ", ".join(map(str, found["unknown_labels"][:_SHOWN]))
        click.echo(f"{found['unknown']} samples are of classes that the model does not know: {listed}")
    if "probability" in found:
        part = found["probability"]
        click.echo(f"Calibration error (ECE): {part['ece']:.4f}   Log-loss: {part['log_loss']:.4f}")
    print_table(_class_table(found["classes"]), sys.stdout)
    print_table(_confusion_table(found["confusion"]), sys.stdout)
    if "rejection" in found:
        part = found["rejection"]
        click.echo(
            f"Rejected: {part['rejected']} of {found['samples']}; right of those answered: "
            f"{percent(part['accuracy_of_given'])} %"
        )
        print_table(_curve_table(part), sys.stdout)


def _class_table(rows: list[dict[str, Any]]) -> Table:
    from residuum.reports.numbers import percent
    from residuum.reports.table import Table

    return Table(
        "Classes",
        ("Class", "Precision %", "Recall %", "Samples", "Answers"),
        tuple(
            (
                str(row["label"]),
                percent(row["precision"]),
                percent(row["recall"]),
                str(row["samples"]),
                str(row["answers"]),
            )
            for row in rows
        ),
    )


def _confusion_table(confusion: dict[str, Any]) -> Table:
    """The matrix, or with many classes the most frequent confusions."""
    from residuum.reports.table import Table

    true, answered, counts = confusion["true"], confusion["answered"], confusion["counts"]
    if len(answered) <= _LARGEST_MATRIX:
        rows = tuple((str(label), *map(str, row)) for label, row in zip(true, counts, strict=True))
        return Table("Confusion: true class down, answer across", ("", *map(str, answered)), rows)
    pairs = [
        (count, true[i], answered[j])
        for i, row in enumerate(counts)
        for j, count in enumerate(row)
        if count and true[i] != answered[j]
    ]
    pairs.sort(key=lambda pair: -pair[0])
    rows = tuple((str(t), str(a), str(count)) for count, t, a in pairs[:_SHOWN])
    return Table("Most frequent confusions (--json has the matrix)", ("True", "Answered", "Count"), rows)


def _curve_table(part: dict[str, Any]) -> Table:
    from residuum.reports.numbers import four_digits, percent
    from residuum.reports.table import Table

    rows = tuple(
        (four_digits(point["threshold"]), percent(point["false_accept"]), percent(point["false_reject"]))
        for point in part["curve"]
    )
    note = (
        "False accept: share of the samples without a right answer, misclassified or of unknown class, that "
        "get an answer. False reject: share of the right answers that are withheld."
    )
    here = (
        f"At the model's threshold: {percent(part['false_accept']) or '-'} % and "
        f"{percent(part['false_reject']) or '-'} %."
    )
    return Table("Rejection", ("Threshold", "False accept %", "False reject %"), rows, notes=(note, here))
