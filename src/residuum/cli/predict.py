"""``residuum predict``: a saved model's answers for new data."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from residuum.cli.input_output import (
    check_target,
    output_file,
    query_blocks,
    reading_arguments,
    report_warnings,
    require_convergence,
    with_model_features,
)
from residuum.cli.options import FILE, n_jobs_option, reading_options
from residuum.errors import InterruptedRunError, UsageError
from residuum.system.json_text import to_json

_IN_MEMORY = 2**24  # bytes of answers for standard output; more wait on disk


@click.command()
@click.argument("model", type=FILE)
@click.argument("data", type=FILE, nargs=-1, required=True)
@reading_options
@click.option(
    "--all-probabilities", is_flag=True, help="The probability of every class, not only the largest."
)
@click.option("--out", type=FILE, help="File to write.  [default: standard output]")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of CSV; implied by --out NAME.json.")
@click.option(
    "--cluster",
    metavar="WHERE",
    help="Answer part by part on Dask: local, local:4, an ADDRESS, or the FILE.json of a scheduler.",
)
@click.option("--memory", metavar="SIZE", help="Of shards to hold in memory, such as 4GB.")
@n_jobs_option
def predict(
    model: Path,
    data: tuple[Path, ...],
    all_probabilities: bool,
    out: Path | None,
    as_json: bool,
    cluster: str | None,
    memory: str | None,
    n_jobs: int | None,
    **options: Any,
) -> None:
    """Answer every sample of DATA by MODEL, a file from 'residuum fit'.

    DATA is a file as 'residuum fit' takes it. A model of images takes a folder of them, with or without
    sub-folders, one or more image files, or '-' for a list of files in standard input.

    Columns: name (file, name or row from 0), label, margin to the runner-up, runner_up, residual of the
    winner (called score where its rule compares something else); probability where the model is calibrated;
    rejected, nearest class and confidence where it has a threshold. DATA goes through the model's own feature
    steps. Columns are found by name; labels are not needed.

    With --cluster, and for a model over shards, DATA may also be a folder of .npy, .parquet or .csv parts or
    a zarr array, and --out is a folder with one CSV file for each part. A run that was interrupted goes on.
    """
    if cluster is not None or (model.is_dir() and (model / "model.json").is_file()):
        if all_probabilities or as_json:
            raise UsageError(
                "--all-probabilities and --json are for answers in one file: leave --cluster out."
            )
        _by_parts(model, data, out, cluster=cluster, memory=memory, n_jobs=n_jobs, options=options)
        return
    if memory is not None:
        raise UsageError("--memory is for --cluster and for models over shards.")
    from residuum.models import answer, records, score_heading
    from residuum.models.file import features_used
    from residuum.system.threads import limit_threads

    if out is not None:
        target = check_target(out, model, *data, options["labels"])
        as_json = as_json or out.suffix.lower() == ".json"
        if out.suffix.lower() in {".parquet", ".npz", ".npy", ".mat", ".xlsx"}:
            raise UsageError(f"--out writes CSV or JSON. Got {out.name}: name it .csv or .json.")
    n_answers = 0
    with (
        _destination(None if out is None else target) as file,
        report_warnings() as unconverged,
        limit_threads(n_jobs),
    ):
        saved, blocks = query_blocks(model, data, options)
        if all_probabilities and not hasattr(saved.estimator, "predict_proba"):
            raise UsageError(f"{model} has no probabilities. Fit it with --probability to get them.")
        score = score_heading(saved.estimator)
        used = features_used(saved.estimator, saved.about.get("input", {}))
        source = str(data[0]) if len(data) == 1 else "the command line"
        about = {"model": str(model), "data": source, "features_used": used, "answers": []}
        before, after = to_json(about).rsplit("[]", 1) if as_json else ("", "")
        file.write(before.encode())
        for block in blocks:
            queries, estimator = with_model_features(saved, block)
            answers = answer(estimator, queries.features)
            found = list(records(answers, queries.names, score=score, all_probabilities=all_probabilities))
            file.write((_json if as_json else _csv)(found, is_first=not n_answers).encode())
            n_answers += len(found)
        file.write(f"\n]{after}".encode() if as_json else b"")
    click.echo(f"Features: {' -> '.join(used)}", err=True)
    if out is not None:
        click.echo(f"{out}: {n_answers} answers", err=True)
    require_convergence(unconverged)


def _by_parts(
    model: Path,
    data: tuple[Path, ...],
    out: Path | None,
    *,
    cluster: str | None,
    memory: str | None,
    n_jobs: int | None,
    options: dict[str, Any],
) -> None:
    """Answer a source part by part, on a cluster or by threads, into a folder."""
    from residuum.scale import answer
    from residuum.scale.cluster import connected
    from residuum.system.threads import limit_threads

    if out is None or len(data) != 1 or out.is_file():
        raise UsageError("--cluster takes one DATA, and --out must name the folder for its answers.")
    reading = {name: value for name, value in reading_arguments(options).items() if value is not None}
    with (
        report_warnings() as unconverged,
        limit_threads(n_jobs),
        connected(cluster, memory, n_jobs) as runner,
    ):
        try:
            answer(model, data[0], out, runner=runner, reading=reading)
        except KeyboardInterrupt:
            raise InterruptedRunError(f"The parts in {out} are kept; the same command goes on.") from None
    click.echo(f"{out}: {len(list(out.glob('*.csv')))} parts", err=True)
    require_convergence(unconverged)


@contextmanager
def _destination(target: Path | None) -> Iterator[IO[bytes]]:
    """A file to write, or one whose content goes to standard output; all of it or nothing."""
    if target is not None:
        with output_file(target) as file:
            yield file
        return
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
        yield spool
        spool.seek(0)
        for line in io.TextIOWrapper(spool, "utf-8", newline=""):
            click.echo(line, nl=False)


def _csv(records: list[dict[str, Any]], *, is_first: bool) -> str:
    """Records as rows of a table, the first below a header; None is an empty cell, truth a small word.

    The probability of each class gets a column, such as ``probability of setosa``.
    """
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for i, record in enumerate(records):
        every = record.pop("probabilities", {})
        record |= {f"probability of {label}": value for label, value in every.items()}
        if is_first and i == 0:
            writer.writerow(record)
        writer.writerow(str(v).lower() if isinstance(v, bool) else v for v in record.values())
    return table.getvalue()


def _json(records: list[dict[str, Any]], *, is_first: bool) -> str:
    """Records as a part of a JSON list, which the first of them opens."""
    opening, inside = ("[\n" if is_first else ",\n"), to_json(records)
    return opening + inside.removeprefix("[\n").removesuffix("\n]\n")
