"""``residuum compare``: which representation helps, answered on data that is at hand."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli import input_output, training_data
from residuum.cli import options as shared
from residuum.errors import DataFormatError, NotConvergedError, UsageError

if TYPE_CHECKING:
    from residuum.experiments.compared_data import Data


@click.command()
@click.argument("data", required=False, type=click.Path(path_type=Path))
@click.option("--methods", metavar="A,B,...", help="Methods to compare, in any case.  [default: all]")
@click.option("--trials", type=int, help="Number of random splits.  [default: 5]")
@click.option(
    "--train-per-class",
    type=int,
    help="Training samples of each class.  [default: 50, or half of the smallest class of DATA]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random splits.")
@click.option(
    "--with",
    "extractor",
    metavar="NAME",
    help="Features of a folder of images.  [default: bow_sift; pixels where most images are smaller]",
)
@shared.preparing_options
@shared.splitting_options
@shared.reading_options
@shared.encoding_options
@click.option("--out", metavar="FOLDER", help="Run folder.  [default: residuum-runs/compare-DATE-TIME]")
@click.option("--n-jobs", type=int, help="Threads; -1 is all cores.  [default: as the libraries choose]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON instead of a table.")
def compare(
    data: Path | None,
    methods: str | None,
    trials: int | None,
    train_per_class: int | None,
    select: str,
    seed: int,
    out: str | None,
    n_jobs: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare NSC, SRC, CRC, CROC, ProCRC, NRC, SoftNRC, SimplexRC and CRNRC with SVM, softmax, k-nearest
    neighbours (kNN) and gradient boosting on DATA, or on the handwritten digits that come with scikit-learn.

    DATA is a table (.csv, .tsv, .xlsx, .parquet), arrays (.npz, .npy with --labels, .mat), or a folder of
    images with one sub-folder per class. Where it has held-out samples (--test, --split, x_test in the file),
    there is one trial on them; --test-size and --groups say how random splits are made.

    The table goes to standard output; one sentence under it says who leads, and whether within chance. A run
    folder gets results.json (every raw prediction, certificate, version and seed), table.md and report.html,
    with the classes that are confused and the worst errors explained. An interrupted run continues when the
    same command is given again with --out and its folder.
    """
    from residuum.experiments import comparison
    from residuum.experiments.compared_data import bundled_digits, check_trials, random_splits
    from residuum.experiments.report import comparison_table, report_page
    from residuum.experiments.runner import open_folder
    from residuum.models.preparing import check_feature_options
    from residuum.reports.table import markdown, print_table
    from residuum.system.files import write_text
    from residuum.system.json_text import to_json
    from residuum.system.machine import machine_facts
    from residuum.system.progress import tell_progress
    from residuum.system.threads import limit_threads

    context = click.get_current_context()
    chosen = comparison.choose_methods(methods)
    check_trials(5 if trials is None else trials, seed)
    check_feature_options(options)
    if train_per_class is not None and train_per_class < 1:
        raise UsageError(f"--train-per-class must be 1 or more. Got {train_per_class}.")
    with limit_threads(n_jobs):
        # Before features are computed: what was kept is not computed again and loads no library with threads.
        machine = machine_facts()
    if data is None:
        for name, parameter in _given(context).items():
            if name in options:
                raise UsageError(f"{parameter.opts[0]} goes with DATA, a file or folder of your own.")
        samples = bundled_digits()
        train_per_class = 50 if train_per_class is None else train_per_class
    else:
        samples, train_per_class = _own_samples(data, trials, train_per_class, seed, select, options)
    if train_per_class is not None:
        count = 5 if trials is None else trials
        splits = random_splits(
            samples.labels, trials=count, train_per_class=train_per_class, seed=seed, name=samples.name
        )
        samples = replace(samples, trials=splits)
    samples = replace(samples, arguments=_command_line(context))
    settings = comparison.Settings(chosen, len(samples.trials), train_per_class, seed, n_jobs, select)
    comparison.check_selection(settings, samples)
    with limit_threads(n_jobs):
        decisive = {
            "command": "compare",
            "data": samples.name,
            **asdict(settings),
            "parameters": comparison.parameters(settings, samples),
            "features": comparison.features_of(settings, samples),
            "machine": machine,
            "content": samples.fingerprint(),
        }
        folder = open_folder("compare", out, decisive)

        def on_step(text: str, done: int, total: int) -> None:
            tell_progress("compare", done, total, text)

        results = comparison.run(settings, samples, folder, machine, on_step=on_step)
    table = comparison_table(results)
    write_text(folder / "table.md", markdown(table))
    write_text(folder / "report.html", report_page(results, table, samples))
    if as_json:
        raw = ("tuned", "trials", "cells", "illustration")  # they are in results.json
        brief = {name: value for name, value in results.items() if name not in raw}
        click.echo(to_json({"folder": str(folder), **brief}), nl=False)
    else:
        print_table(table, sys.stdout)
    click.echo(f"Wrote results.json, table.md and report.html to {folder}", err=True)
    short = [f"{row['method']} {row['unconverged']}" for row in results["summary"] if row["unconverged"]]
    if short:
        raise NotConvergedError(
            f"Some queries missed the tolerance of their solver: {', '.join(short)} (method, queries). The "
            "results are written; the gaps in results.json say how far from the optimum each one is."
        )


def _given(context: click.Context) -> dict[str, click.Parameter]:
    """The arguments and options that the user gave, by name."""
    source = {parameter.name or "": parameter for parameter in context.command.params}
    given = click.core.ParameterSource.COMMANDLINE
    return {name: each for name, each in source.items() if context.get_parameter_source(name) is given}


def _command_line(context: click.Context) -> str:
    """The command that gives the same results again."""
    words = ["residuum compare"]
    for name, parameter in _given(context).items():
        value = context.params[name]
        if name in ("out", "as_json"):
            continue
        if isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            text = "x".join(map(str, value)) if name == "image_shape" else value
            flag = "" if name == "data" else f"{parameter.opts[0]} "
            items = text if isinstance(text, tuple) else (text,)
            words += [f"{flag}{shlex.quote(str(item))}" for item in items]
    return " ".join(words)


def _own_samples(
    path: Path,
    trials: int | None,
    train_per_class: int | None,
    seed: int,
    select: str,
    options: dict[str, Any],
) -> tuple[Data, int | None]:
    """Samples of a file or folder with their trials, or else how many samples of each class are to train."""
    from residuum.experiments.compared_data import (
        Data,
        baseline_features,
        given_trials,
        half_of_smallest_class,
    )
    from residuum.inputs.row_ids import without_row_ids
    from residuum.models.file import step_text
    from residuum.models.preparing import chosen_features

    found, numbers = training_data.read_with_test(path, options), "columns"
    if found.labels is None:
        raise DataFormatError(f"{path} has no labels: there is nothing to compare.")
    read, (found, _) = found, without_row_ids(found)
    input_output.say_notes(found, before=read)
    if found.kind == "images":
        with input_output.report_warnings():
            found, extractor = training_data.features_of_images(found, options)
        numbers = "pixels" if extractor is None else f"features by {step_text(extractor)}"
        if found.split is None and hasattr(extractor, "learned_array"):
            numbers += " (words learned from all images without their labels; --test keeps test images apart)"
    elif options["extractor"] is not None:
        raise UsageError(f"--with {options['extractor']} goes with a folder of images. Got {found.source}.")
    size, note = options["test_size"], ""
    given = given_trials(found, trials=trials, train_per_class=train_per_class, test_size=size, seed=seed)
    if given is None:
        half, note = half_of_smallest_class(found)
        note, train_per_class = (note, half) if train_per_class is None else ("", train_per_class)
    elif found.split is None and size is None:
        note = "0.3 of the samples are held out, whole groups; --test-size changes that"
    if note:
        click.echo(f"{found.source}: {note}", err=True)
    assert found.features is not None
    assert found.labels is not None
    shape = found.image_shape
    if found.kind == "array":
        numbers = "numbers of an array" if shape is None else "pixels"
    features = chosen_features(found, options, select=select)
    data = Data(
        name=path.name,
        samples=found.features,
        labels=found.labels,
        image_shape=shape if shape is not None and len(shape) == 2 else None,
        trials=given or (),
        numbers=numbers,
        features=features,
        baseline_features=replace(baseline_features(found, options), encode=features[0].encode),
        groups=found.groups,
        names=found.names,
        paths=found.paths,
    )
    return data, train_per_class if given is None else None
