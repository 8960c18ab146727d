"""``residuum predict``: a saved model's answers for new data."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click

from residuum.cli.input_output import (
    check_target,
    read_queries,
    report_warnings,
    require_convergence,
    write_output,
)
from residuum.cli.options import FILE, n_jobs_option, reading_options
from residuum.errors import UsageError
from residuum.system.json_text import to_json


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE)
@reading_options
@click.option("--out", type=FILE, help="File to write.  [default: standard output]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of CSV; implied by --out NAME.json.")
@n_jobs_option
def predict(
    model: Path, data: Path, out: Path | None, as_json: bool, n_jobs: int | None, **options: Any
) -> None:
    """Answer every sample of DATA by MODEL, a file from 'residuum fit'.

    Columns: name (file, name or row from 0), label, margin to the runner-up, runner_up, residual of the
    winner; probability where the model is calibrated; rejected, nearest class and confidence where it has a
    threshold. DATA goes through the model's own feature steps. Columns are found by name; labels are not
    needed.
    """
    from residuum.models import answer, records
    from residuum.system.threads import limit_threads

    if out is not None:
        target = check_target(out, model, data, options["labels"])
        as_json = as_json or out.suffix.lower() == ".json"
        if out.suffix.lower() in {".parquet", ".npz", ".npy", ".mat", ".xlsx"}:
            raise UsageError(f"--out writes CSV or JSON. Got {out.name}: name it .csv or .json.")
    with limit_threads(n_jobs), report_warnings() as unconverged:
        _, queries, estimator = read_queries(model, data, options)
        found = list(records(answer(estimator, queries.features), queries.names))
    text = to_json(found) if as_json else _csv(found)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_output(target, text)
        click.echo(f"{out}: {len(queries)} answers", err=True)
    require_convergence(unconverged)


def _csv(records: list[dict[str, Any]]) -> str:
    """Records as a text table with a header; None becomes an empty cell, and truth a lower-case word."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(records[0])
    for record in records:
        writer.writerow(str(v).lower() if isinstance(v, bool) else v for v in record.values())
    return table.getvalue()
