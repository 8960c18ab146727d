"""``residuum predict``: a saved model's answers for new data."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from residuum.cli.input_output import (
    check_target,
    features_used,
    read_queries,
    report_warnings,
    require_convergence,
    with_model_features,
    write_output,
)
from residuum.cli.options import FILE, n_jobs_option, reading_options
from residuum.errors import UsageError
from residuum.system.json_text import to_json


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE, nargs=-1, required=True)
@reading_options
@click.option(
    "--all-probabilities", is_flag=True, help="The probability of every class, not only the largest."
)
@click.option("--out", type=FILE, help="File to write.  [default: standard output]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of CSV; implied by --out NAME.json.")
@n_jobs_option
def predict(
    model: Path,
    data: tuple[Path, ...],
    all_probabilities: bool,
    out: Path | None,
    as_json: bool,
    n_jobs: int | None,
    **options: Any,
) -> None:
    """Answer every sample of DATA by MODEL, a file from 'residuum fit'.

    DATA is a file as 'residuum fit' takes it. A model of images takes a folder of them, with or without
    sub-folders, one or more image files, or '-' for a list of files in standard input.

    Columns: name (file, name or row from 0), label, margin to the runner-up, runner_up, residual of the
    winner; probability where the model is calibrated; rejected, nearest class and confidence where it has a
    threshold. DATA goes through the model's own feature steps. Columns are found by name; labels are not
    needed.
    """
    from residuum.models import answer, records
    from residuum.system.threads import limit_threads

    if out is not None:
        target = check_target(out, model, *data, options["labels"])
        as_json = as_json or out.suffix.lower() == ".json"
        if out.suffix.lower() in {".parquet", ".npz", ".npy", ".mat", ".xlsx"}:
            raise UsageError(f"--out writes CSV or JSON. Got {out.name}: name it .csv or .json.")
    with limit_threads(n_jobs), report_warnings() as unconverged:
        saved, queries = read_queries(model, data, options)
        if all_probabilities and not hasattr(saved.estimator, "predict_proba"):
            raise UsageError(f"{model} has no probabilities. Fit it with --probability to get them.")
        queries, estimator = with_model_features(saved, queries)
        answers = answer(estimator, queries.features)
        found = list(records(answers, queries.names, all_probabilities=all_probabilities))
    used = features_used(saved.estimator, saved.about.get("input", {}))
    if as_json:
        about = {"model": str(model), "data": queries.source, "features_used": used}
        text = to_json({**about, "answers": found})
    else:
        text = _csv(found)
    click.echo(f"Features: {' -> '.join(used)}", err=True)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_output(target, text)
        click.echo(f"{out}: {len(queries)} answers", err=True)
    require_convergence(unconverged)


def _csv(records: list[dict[str, Any]]) -> str:
    """Records as a text table with a header; None becomes an empty cell, and truth a lower-case word.

    The probability of each class gets a column, such as ``probability of setosa``.
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for i, record in enumerate(records):
        every = record.pop("probabilities", {})
        record |= {f"probability of {label}": value for label, value in every.items()}
        if i == 0:
            writer.writerow(record)
        writer.writerow(str(v).lower() if isinstance(v, bool) else v for v in record.values())
    return table.getvalue()
