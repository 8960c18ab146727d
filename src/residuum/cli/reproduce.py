"""``residuum reproduce`` and ``residuum results``: the paper's tables and figures beside our own."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from residuum.errors import InterruptedRunError


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--trials", type=int, help="Random splits.  [default: as the paper]")
@click.option("--quick", is_flag=True, help="Fewer trials, rows and queries; for a first look.")
@click.option(
    "--protocol",
    default="all",
    show_default=True,
    metavar="published|authors|best|all",
    help="How parameters are chosen.",
)
@click.option("--resume/--fresh", default=True, help="Keep finished results (default) or compute them again.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random splits.")
@click.option("--n-jobs", type=int, help="Cores: trials run side by side.  [default: all]")
@click.option("--out", metavar="FOLDER", help="Run folder.  [default: residuum-runs/reproduce, or ...-quick]")
@click.option("--data", metavar="FOLDER", help="Data home.  [default: $RESIDUUM_DATA, else the cache folder]")
@click.option("--allow-subset", is_flag=True, help="Photographs: run a part of a data set, labelled as such.")
@click.option(
    "--confusions", is_flag=True, help="Photographs: also write pages of wrongly classified images."
)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON instead of tables.")
def reproduce(
    names: tuple[str, ...],
    trials: int | None,
    quick: bool,
    protocol: str,
    resume: bool,
    seed: int,
    n_jobs: int | None,
    out: str | None,
    data: str | None,
    allow_subset: bool,
    confusions: bool,
    as_json: bool,
) -> None:
    """Run the paper's experiments again: table1 to table11, figure1, figure2, or all.

    Tables go to standard output with the paper's numbers beside ours. The run folder keeps one file for every
    finished result (raw predictions, parameters, seed, versions, machine), and report.md, report.tex and
    report.html. An interrupted run continues when the same command is given again.

    Table 6 has six sets of photographs; tables 7 to 11 are its rows of one data set each, with the figures of
    other systems that the paper quotes. Data sets and features that are not at hand are left out by name.
    """
    from residuum.experiments.run_folder import open_folder
    from residuum.paper.extras import run_figure, run_speed
    from residuum.paper.plans import plan
    from residuum.paper.protocol import choose_protocols
    from residuum.paper.run import run_plan
    from residuum.paper.tables import EXPERIMENTS, get_experiment
    from residuum.system.machine import allowed_cores, limit_threads, machine_facts

    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    experiments = [get_experiment(name) for name in wanted]
    protocols = choose_protocols(protocol)
    plans = {
        e.name: plan(e, trials=trials, quick=quick, protocols=protocols, seed=seed)
        for e in experiments
        if e.kind == "accuracy"
    }
    options = {"trials": trials, "quick": quick, "protocols": protocols, "seed": seed}
    photo_plan = _photo_plan(experiments, data, allow_subset, options, strict="all" not in names)
    extras: dict[str, Callable[..., Any]] = {"speed": run_speed, "figure": run_figure}
    folder = Path(out or f"residuum-runs/reproduce{'-quick' * quick}")
    with limit_threads(n_jobs):
        machine = machine_facts()
        folder = open_folder("reproduce", str(folder), {"command": "reproduce", "quick": quick, "seed": seed})
        common: dict[str, Any] = {"resume": resume, "data_home": data, "cache_dir": _cache_dir(data)}
        skipped = []
        for experiment in (e for e in experiments if e.kind not in _PHOTOS):
            if "all" in names and _missing(experiment, data):
                skipped.append(experiment.name)
                continue
            with _progress(folder) as show:
                if experiment.kind == "accuracy":
                    job = plans[experiment.name]
                    run_plan(job, folder, machine, on_step=show, n_jobs=allowed_cores(n_jobs), **common)
                else:
                    extras[experiment.kind](
                        experiment, folder, machine, quick=quick, seed=seed, on_step=show, **common
                    )
        if photo_plan is not None:
            with _progress(folder) as show:
                run_plan(photo_plan, folder, machine, on_step=show, **common)
                if confusions:
                    _write_confusions(photo_plan, folder, data, show)
    for name in skipped:
        click.echo(
            f"Left out {name}: its data set is not in the data home ('residuum data status').", err=True
        )
    _report(folder, wanted, protocols, as_json)


_PHOTOS = ("photos", "quoted")


def _photo_plan(
    experiments: list[Any], data: str | None, allow_subset: bool, options: dict[str, Any], *, strict: bool
) -> Any:
    """The rows of photographs that were asked for and can run; what cannot is named on stderr.

    None where nothing of the kind was asked for, or can run and need not (`strict`).
    """
    from residuum.errors import DataNotFoundError
    from residuum.paper.photos import available
    from residuum.paper.plans import photo_plan
    from residuum.paper.tables import EXPERIMENTS

    asked = [experiment for experiment in experiments if experiment.kind in _PHOTOS]
    if not asked:
        return None
    whole = any(experiment.kind == "photos" for experiment in asked)
    datasets = {name for experiment in asked if experiment.kind == "quoted" for name in experiment.datasets}
    table = EXPERIMENTS["table6"]
    rows = [row for row in table.entries if whole or row.dataset in datasets]
    found = available(rows, data, allow_subset=allow_subset)
    names = ", ".join(experiment.name for experiment in asked)
    if not found.rows and strict:
        reasons = "\n".join(f"  {name}: {reason}" for name, reason in found.missing.items())
        raise DataNotFoundError(f"Nothing of {names} can run here.\n{reasons}")
    for name, reason in found.missing.items():
        click.echo(f"Left out {name} ({names}): {reason}", err=True)
    return photo_plan(table, found.rows, **options) if found.rows else None


def _write_confusions(
    plan: Any, folder: Path, data: str | None, show: Callable[[str, int, int, float | None], None]
) -> None:
    from residuum.paper.confusions import write_confusions

    for number, row in enumerate(plan.rows):
        show(f"{row}: confusions", number, len(plan.rows), None)
        for path in write_confusions(plan, row, folder, data_home=data, cache_dir=_cache_dir(data)):
            click.echo(f"Wrote {path}", err=True)


def _missing(experiment: Any, data: str | None) -> bool:
    """Whether ``all`` must leave this one out, because its data set is not at hand."""
    from residuum.errors import DataNotFoundError
    from residuum.paper.data import load_dataset
    from residuum.paper.tables import EXPERIMENTS

    table = experiment if experiment.kind == "accuracy" else EXPERIMENTS[experiment.setting]
    try:
        load_dataset(table.dataset, data_home=data, image_shape=table.image_shape)
    except DataNotFoundError:
        return True
    return False


def _cache_dir(data: str | None) -> Path | None:
    """Slow features are kept beside the data where that folder can be written."""
    import os

    return Path(data) / "features" if data and os.access(data, os.W_OK) else None


def _report(folder: Path, names: list[str], protocols: tuple[str, ...], as_json: bool) -> None:
    from residuum.paper.report import numbers, tables_of, write_reports
    from residuum.reports.table import print_table

    contents = write_reports(folder)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **numbers(contents, names, protocols)}, indent=2))
    else:
        for table in tables_of(contents, names, protocols):
            print_table(table, sys.stdout)
            click.echo()
    click.echo(f"Wrote report.md, report.tex and report.html to {folder}", err=True)


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...")
@click.option("--out", metavar="FILE", help="Markdown page to write.  [default: standard output]")
def results(folders: tuple[str, ...], out: str | None) -> None:
    """Write a page of results from run folders of 'reproduce': all tables, all protocols, and what they say.

    Where two folders hold the same result, that of the folder named later is shown.
    """
    from residuum.paper.report import read_contents, results_page
    from residuum.system.files import write_text

    page = results_page(read_contents([Path(folder) for folder in folders]))
    if out is None:
        click.echo(page)
        return
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    click.echo(f"Wrote {path}", err=True)


@contextmanager
def _progress(folder: Path) -> Iterator[Callable[[str, int, int, float | None], None]]:
    """A bar on stderr with what is being done and the time left; without a terminal, a line now and then."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:<44}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    done = total = 0
    told = -1e9
    try:
        with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task("", total=None, left="")

            def show(text: str, finished: int, of: int, left: float | None) -> None:
                nonlocal done, total, told
                done, total = finished, of
                remaining = "" if left is None else f"about {_duration(left)} left"
                bar.update(task, completed=finished, total=of, description=text, left=remaining)
                if not console.is_terminal and time.monotonic() - told > 15 and finished < of:
                    told = time.monotonic()
                    click.echo(f"[{finished}/{of}] {text} {remaining}".rstrip(), err=True)

            yield show
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"{done} of {total} results are kept in {folder}; the same command continues from there."
        ) from None


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
