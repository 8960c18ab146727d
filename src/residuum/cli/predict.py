"""``residuum predict``: a saved model's answers for new data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from residuum.cli import own_data as own
from residuum.errors import UsageError


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@own.reading_options
@click.option("--out", type=click.Path(path_type=Path), help="File to write.  [default: standard output]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of CSV; implied by --out NAME.json.")
@click.option("--n-jobs", type=int, help="Threads; -1 is all cores.  [default: as the libraries choose]")
def predict(
    model: Path, data: Path, out: Path | None, as_json: bool, n_jobs: int | None, **options: Any
) -> None:
    """Answer every sample of DATA by MODEL, a file from 'residuum fit'.

    Columns: name (file, name or row from 0), label, margin to the runner-up, runner_up, residual of the
    winner; probability where the model is calibrated; rejected, nearest class and confidence where it has a
    threshold. DATA goes through the model's own feature steps. Columns are found by name; labels are not
    needed.
    """
    from residuum.models import answer, open_queries
    from residuum.models.file import open_model
    from residuum.system.machine import limit_threads

    if out is not None:
        target = own.check_target(out, model, data, options["labels"])
        as_json = as_json or out.suffix.lower() == ".json"
        if out.suffix.lower() in {".parquet", ".npz", ".npy", ".mat", ".xlsx"}:
            raise UsageError(f"--out writes CSV or JSON. Got {out.name}: name it .csv or .json.")
    keywords = own.reading(options)
    saved = open_model(model)
    with limit_threads(n_jobs), own.told_warnings() as missed, own.image_progress(data.name) as progress:
        queries, estimator = open_queries(saved, data, progress=progress, **keywords)
        answers = answer(estimator, queries.features)
    own.say_notes(queries)
    records = answers.records(queries.names)
    text = own.as_json(list(records)) + "\n" if as_json else own.as_csv(records)
    if out is None:
        click.echo(text, nl=False)
    else:
        own.write_text(target, text)
        click.echo(f"{out}: {len(queries)} answers", err=True)
    own.demand_convergence(missed)
