"""``residuum episodes``: few-shot and open-set benchmarks of embeddings."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli.options import FILE, json_option, n_jobs_option, reading_options
from residuum.cli.training_data import read_with_test
from residuum.errors import DataFormatError, NotConvergedError, UsageError

if TYPE_CHECKING:
    from residuum.experiments.compared_data import Data


@click.command()
@click.argument("data", type=FILE)
@click.option(
    "--shots", default="1,5,10", show_default=True, metavar="A,B,...", help="Training samples of a class."
)
@click.option("--ways", type=int, default=5, show_default=True, help="Known classes of an episode.")
@click.option(
    "--unknown",
    type=int,
    help="Classes of an episode without training samples; 0 for none.  "
    "[default: as many as --ways, at most half of the other classes]",
)
@click.option("--queries", type=int, default=15, show_default=True, help="Queries of every class.")
@click.option("--episodes", type=int, default=600, show_default=True, help="Number of episodes.")
@click.option("--methods", metavar="A,B,...", help="Methods to compare, in any case.  [default: all]")
@click.option(
    "--centre",
    type=click.Choice(["none", "others", "train"]),
    default="none",
    show_default=True,
    help="Subtract nothing, the mean of the classes outside the episode, or that of its training samples.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the episodes.")
@reading_options
@click.option("--out", metavar="FOLDER", help="Run folder.  [default: residuum-runs/episodes-DATE-TIME]")
@n_jobs_option
@json_option
def episodes(
    data: Path,
    shots: str,
    methods: str | None,
    out: str | None,
    n_jobs: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare classifiers on DATA, embeddings with labels, in few-shot and open-set episodes.

    DATA is a file of arrays (.npz, .npy with --labels, .mat) or a table (.parquet, .csv). Each episode draws
    some known classes with a few training samples and queries, and queries of unknown classes. Every method
    answers the same episodes: accuracy on known classes, and how well it tells unknown ones from them (AUROC,
    and false positives at 95 % true positives), as means with 95 % intervals.

    Tables go to standard output. A run folder gets results.json (every episode) and table.md. An interrupted
    run continues when the same command is given again with --out and its folder.
    """
    from residuum.experiments import episodes as work
    from residuum.experiments.episode_methods import choose_methods
    from residuum.experiments.episode_report import tables, verdicts
    from residuum.experiments.runner import open_folder
    from residuum.reports.table import markdown, print_table
    from residuum.system.files import write_text
    from residuum.system.json_text import to_json
    from residuum.system.machine import machine_facts
    from residuum.system.progress import tell_progress
    from residuum.system.threads import allowed_cores, limit_threads

    drawing = {name: options.pop(name) for name in ("ways", "queries", "episodes", "centre", "seed")}
    unknown = options.pop("unknown")
    settings = work.Settings(choose_methods(methods), _whole_numbers(shots), unknown=unknown or 0, **drawing)
    samples, cores = _samples(data, options), allowed_cores(n_jobs)
    settings, notes = work.completed(
        settings, samples, guess_unknown=unknown is None, all_methods=not methods
    )
    for note in notes:
        click.echo(f"{data}: {note}", err=True)
    with limit_threads(n_jobs):
        decisive = {"command": "episodes", "content": samples.fingerprint(), **asdict(settings)}
        folder = open_folder("episodes", out, decisive)

        def on_step(text: str, done: int, total: int) -> None:
            tell_progress("episodes", done, total, text)

        results = work.run(settings, samples, folder, machine_facts(), n_jobs=cores, on_step=on_step)
    found = tables(results)
    write_text(folder / "table.md", "\n".join(markdown(table, level=2) for table in found))
    if as_json:
        brief = {name: value for name, value in results.items() if name != "episodes"}
        click.echo(to_json({"folder": str(folder), **brief, "verdicts": verdicts(results)}), nl=False)
    else:
        for table in found:
            print_table(table, sys.stdout)
    click.echo(f"Wrote results.json and table.md to {folder}", err=True)
    if any(row["unconverged"] for row in results["summary"]):
        raise NotConvergedError("Some queries missed the tolerance of their solver; the results are written.")


def _whole_numbers(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(f"--shots must be whole numbers from 1 on, such as 1,5,10. Got {text!r}.")
    return tuple(sorted({int(part) for part in parts}))


def _samples(path: Path, options: dict[str, Any]) -> Data:
    """Embeddings with labels; what the file calls training and test samples are drawn from alike."""
    from residuum.experiments.compared_data import Data

    found = read_with_test(path, options | dict.fromkeys(("test", "split", "groups", "test_size")))
    if found.features is None:
        raise UsageError(
            f"{path} is a folder of images. Turn them into embeddings first: residuum features {path} "
            "--with efficientnet_lite0 --out features.npz"
        )
    if found.labels is None:
        raise DataFormatError(f"{path} has no labels: there are no classes to draw.")
    return Data(path.name, found.features, found.labels)
