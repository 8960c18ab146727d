"""``residuum predict``: a saved model's answers for new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from residuum.cli.options import n_jobs_option, reading_arguments, reading_options
from residuum.cli.output import (
    check_target,
    csv_text,
    image_progress,
    json_text,
    report_warnings,
    require_convergence,
    say_notes,
    write_output,
)
from residuum.errors import UsageError


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@reading_options
@click.option("--out", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
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
    from residuum.models import answer, open_queries, records
    from residuum.models.file import open_model
    from residuum.system.threads import limit_threads

    if out is not None:
        target = check_target(out, model, data, options["labels"])
        as_json = as_json or out.suffix.lower() == ".json"
        if out.suffix.lower() in {".parquet", ".npz", ".npy", ".mat", ".xlsx"}:
            raise UsageError(f"--out writes CSV or JSON. Got {out.name}: name it .csv or .json.")
    reading = reading_arguments(options)
    saved = open_model(model)
    with limit_threads(n_jobs), report_warnings() as unconverged, image_progress(data.name) as progress:
        queries, estimator = open_queries(saved, data, progress=progress, **reading)
        answers = answer(estimator, queries.features)
    say_notes(queries)
    found = records(answers, queries.names)
    text = json_text(list(found)) + "\n" if as_json else csv_text(found)
    if out is None:
        click.echo(text, nl=False)
    else:
        write_output(target, text)
        click.echo(f"{out}: {len(queries)} answers", err=True)
    require_convergence(unconverged)
