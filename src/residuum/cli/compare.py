"""``residuum compare``: which representation helps, answered on data that is at hand."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.cli import options as own
from residuum.cli.comparison_data import Plan, fingerprint, own_samples, refuse_without_data
from residuum.errors import InterruptedRunError, NotConvergedError

if TYPE_CHECKING:
    from residuum.experiments.comparison import Data, Settings


@click.command()
@click.argument("data", required=False, type=click.Path(path_type=Path))
@click.option("--methods", metavar="A,B,...", help="Methods to compare, in any case.  [default: all nine]")
@click.option("--trials", type=int, help="Number of random splits.  [default: 5]")
@click.option(
    "--train-per-class",
    type=int,
    help="Training samples of each class.  [default: 50, or half of the smallest class of DATA]",
)
@click.option(
    "--select",
    type=click.Choice(["fixed", "cv"]),
    default="fixed",
    show_default=True,
    help="Fixed parameters, or chosen by cross-validation within the training samples.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random splits.")
@click.option(
    "--scale",
    type=click.Choice(["none", "standard", "minmax", "unit"]),
    help="Scaling of DATA, fitted in each trial.  [default: minmax for tables, else none]",
)
@click.option("--pca", type=int, metavar="D", help="Principal directions of DATA, fitted in each trial.")
@click.option(
    "--with", "extractor", metavar="NAME", help="Features of a folder of images.  [default: bow_sift]"
)
@click.option("--weights", type=click.Path(path_type=Path), help="Weight file of the network.")
@click.option("--device", help="Where the network runs, such as cpu or cuda.")
@click.option("--image-shape", callback=own.image_shape, metavar="HxW", help="Size for --with pixels.")
@own.splitting_options
@own.reading_options
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
    """Compare NSC, SVM, softmax, SRC, CRC, CROC, ProCRC, NRC and SoftNRC on DATA, or on the handwritten
    digits that come with scikit-learn.

    DATA is a table (.csv, .tsv, .parquet), arrays (.npz, .npy with --labels, .mat), or a folder of images
    with one sub-folder per class. Where it has held-out samples (--test, --split, x_test in the file), there
    is one trial on them; --test-size and --groups say how random splits are made.

    The table goes to standard output. A run folder gets results.json (every raw prediction, certificate,
    version and seed), table.md and report.html. An interrupted run continues when the same command is given
    again with --out and its folder.
    """
    from residuum.experiments import comparison
    from residuum.experiments.run_folder import open_folder
    from residuum.experiments.summary import comparison_table
    from residuum.reports.table import print_table
    from residuum.system.machine import limit_threads, machine_facts

    chosen = comparison.choose_methods(methods)
    plan = Plan(trials, train_per_class, seed)
    if data is None:
        refuse_without_data(options)
        samples, plan = comparison.bundled_digits(), plan.filled(5, 50)
    else:
        samples, plan = own_samples(data, plan, options)
    settings = comparison.Settings(
        chosen, 1 if plan.trials is None else plan.trials, plan.train_per_class, seed, n_jobs, select
    ).checked(samples)
    with limit_threads(n_jobs):
        machine = machine_facts()
        decisive = {
            "command": "compare",
            "data": samples.name,
            **({} if data is None else {"arguments": samples.arguments, "content": fingerprint(samples)}),
            **asdict(settings),
            "parameters": comparison.parameters(settings),
            "machine": machine,
        }
        folder = open_folder("compare", out, decisive)
        results = _run_and_write(settings, samples, folder, machine)
    if as_json:
        click.echo(json.dumps(_brief(results, folder), indent=2))
    else:
        print_table(comparison_table(results), sys.stdout)
    click.echo(f"Wrote results.json, table.md and report.html to {folder}", err=True)
    _demand_convergence(results["summary"])


def _run_and_write(settings: Settings, data: Data, folder: Path, machine: dict[str, Any]) -> dict[str, Any]:
    """Run with a progress bar and fill the run folder; an interruption says what was kept."""
    from residuum.experiments.comparison import run
    from residuum.experiments.report import report_page
    from residuum.experiments.summary import comparison_table
    from residuum.reports.table import markdown
    from residuum.system.files import write_text

    total = settings.trials * len(settings.methods)
    done = 0

    try:
        with _progress(total) as show:

            def on_step(method: str, trial: int, finished: int) -> None:
                nonlocal done
                done = finished
                show(method, trial, finished)

            results = run(settings, data, folder, machine, on_step=on_step)
        table = comparison_table(results)
        write_text(folder / "table.md", markdown(table))
        write_text(folder / "report.html", report_page(results, table))
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"{done} of {total} results are kept in {folder}; "
            f"the same command with --out {folder} continues from there."
        ) from None
    return results


def _brief(results: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The results without the raw lists, which are in results.json."""
    kept = ("format", "created", "data", "settings", "parameters", "machine", "summary")
    return {"folder": str(folder), **{name: results[name] for name in kept}}


def _demand_convergence(summary: list[dict[str, Any]]) -> None:
    short = [f"{row['method']} {row['unconverged']}" for row in summary if row["unconverged"]]
    if short:
        raise NotConvergedError(
            f"Some queries missed the tolerance of their solver: {', '.join(short)} (method, queries). The "
            "results are written; the gaps in results.json say how far from the optimum each one is."
        )


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int, int], None]]:
    """A bar on stderr, or nothing where no one can see it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:<18}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def show(method: str, trial: int, finished: int) -> None:
            text = f"{method}, trial {trial + 1}" if method else "report"
            bar.update(task, completed=finished, description=text)

        yield show
