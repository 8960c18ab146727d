"""``residuum evaluate``: how good a saved model is on labelled data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from residuum.cli.input_output import (
    read_queries,
    report_warnings,
    require_convergence,
    say_notes,
    with_model_features,
)
from residuum.cli.options import FILE, json_option, n_jobs_option, reading_options
from residuum.errors import UsageError
from residuum.reports.numbers import four_digits, percent
from residuum.reports.table import Table, print_table
from residuum.system.json_text import to_json

_LARGEST_MATRIX = 12
_SHOWN = 10


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE)
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
    from residuum.models import answer, samples_in_model
    from residuum.models import evaluate as figures
    from residuum.models.file import features_used
    from residuum.system.threads import limit_threads

    with limit_threads(n_jobs), report_warnings() as unconverged:
        saved, queries = read_queries(model, [data], options, split=split)
        if queries.labels is None:
            raise UsageError(f"{data} has no labels to compare with. Name them with --label, or use predict.")
        if queries.split is not None and (queries.split == "test").any():
            every, queries = queries, queries.rows(queries.split == "test")
            say_notes(queries.noted("only the test samples are used"), before=every)
        queries, estimator = with_model_features(saved, queries)
        held = samples_in_model(estimator, queries.features)
        found = figures(answer(estimator, queries.features), queries.labels, held=held)
    used = features_used(saved.estimator, saved.about.get("input", {}))
    if as_json:
        about = {"model": str(model), "data": str(data), "features_used": used}
        click.echo(to_json({**about, **found}), nl=False)
    else:
        click.echo(f"Features: {' -> '.join(used)}")
        _show(found)
    require_convergence(unconverged)


def _show(found: dict[str, Any]) -> None:
    click.echo(f"Accuracy: {100 * found['accuracy']:.2f} % of {found['samples']} samples")
    if found["in_model"]:
        click.echo(_told_of_held(found))
    if found["unknown"]:
        listed = ", ".join(found["unknown_labels"][:_SHOWN])
        click.echo(f"{found['unknown']} samples are of classes that the model does not know: {listed}")
    if "probability" in found:
        part = found["probability"]
        click.echo(f"Calibration error (ECE): {part['ece']:.4f}   Log-loss: {part['log_loss']:.4f}")
    print_table(_class_table(found["classes"]), sys.stdout)
    print_table(_confusion_table(found["confusion"]), sys.stdout)
    if "rejection" in found:
        part = found["rejection"]
        right = percent(part["accuracy_of_given"])
        click.echo(f"Rejected: {part['rejected']} of {found['samples']}; right of those answered: {right} %")
        print_table(_curve_table(part), sys.stdout)


def _told_of_held(found: dict[str, Any]) -> str:
    """What it means that the model holds some of the samples."""
    count, every, others = found["in_model"], found["samples"], found["accuracy_of_others"]
    which = f"All {every} samples are" if count == every else f"{count} of these samples {_is(count)}"
    warning = f"{which} in the model itself, as training samples: this says nothing about new ones."
    if others is None:
        return f"{warning} Evaluate on samples that it was not fitted to."
    return f"{warning} Accuracy on the other {every - count}: {100 * others:.2f} %"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def _class_table(classes: list[dict[str, Any]]) -> Table:
    rows = tuple(
        (str(k["label"]), percent(k["precision"]), percent(k["recall"]), str(k["samples"]), str(k["answers"]))
        for k in classes
    )
    return Table("Classes", ("Class", "Precision %", "Recall %", "Samples", "Answers"), rows)


def _confusion_table(confusion: dict[str, Any]) -> Table:
    """The matrix, or with many classes the most frequent confusions."""
    true, answered, counts = confusion["true"], confusion["answered"], confusion["counts"]
    if len(answered) <= _LARGEST_MATRIX:
        rows = tuple((str(label), *map(str, row)) for label, row in zip(true, counts, strict=True))
        return Table("Confusion: true class down, answer across", ("", *map(str, answered)), rows)
    pairs = [
        (str(label), str(answer), count)
        for label, row in zip(true, counts, strict=True)
        for answer, count in zip(answered, row, strict=True)
        if count and label != answer
    ]
    pairs.sort(key=lambda pair: -pair[2])
    rows = tuple((label, answer, str(count)) for label, answer, count in pairs[:_SHOWN])
    return Table("Most frequent confusions (--json has the matrix)", ("True", "Answered", "Count"), rows)


def _curve_table(part: dict[str, Any]) -> Table:
    rows = tuple(
        (four_digits(point["threshold"]), percent(point["false_accept"]), percent(point["false_reject"]))
        for point in part["curve"]
    )
    accept, reject = (percent(part[name]) or "-" for name in ("false_accept", "false_reject"))
    notes = (
        "False accept: share of the samples without a right answer, misclassified or of unknown class, that "
        "get an answer. False reject: share of the right answers that are withheld.",
        f"At the model's threshold: {accept} % and {reject} %.",
    )
    return Table("Rejection", ("Threshold", "False accept %", "False reject %"), rows, notes=notes)
