"""``residuum reproduce``: the paper's tables and figures again, its numbers beside ours."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from residuum.experiments.runner import OnStep
    from residuum.paper.availability import Availability
    from residuum.paper.running import Plan


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
    finished result (raw predictions, parameters, seed, versions, machine), and report.md and
    report.html. An interrupted run continues when the same command is given again.

    Table 6 has six sets of photographs; tables 7 to 11 are its rows of one data set each, with the figures of
    other systems that the paper quotes. Data sets and features that are not at hand are left out by name.
    """
    from residuum.experiments.comparison import check_trials
    from residuum.experiments.run_folder import open_folder
    from residuum.experiments.runner import run_job
    from residuum.paper.figures import figure_job
    from residuum.paper.protocols import choose_protocols
    from residuum.paper.running import accuracy_job, make_plan
    from residuum.paper.speed import speed_job
    from residuum.paper.tables import EXPERIMENTS, get_experiment
    from residuum.system.threads import allowed_cores, limit_threads

    wanted = list(EXPERIMENTS) if "all" in names else list(dict.fromkeys(names))
    experiments = [get_experiment(name) for name in wanted]
    protocols = choose_protocols(protocol)
    check_trials(1 if trials is None else trials, seed)
    here = partial(_available, data=data, allow_subset=allow_subset, strict="all" not in names)
    plans = [
        make_plan(
            EXPERIMENTS[name],
            found.rows,
            trials=trials,
            quick=quick,
            protocols=protocols,
            seed=seed,
            listings=found.listings,
        )
        for name, tables in _tables_to_run(experiments).items()
        if (found := here(name, [row.name for table in tables for row in table.rows], tables)).rows
    ]
    extras = [e for e in experiments if e.kind != "accuracy" and here(e.setting, [e.row], [e]).rows]
    homes: dict[str, Any] = {"data_home": data, "cache_dir": _cache_dir(data)}
    settings = {"command": "reproduce", "quick": quick, "seed": seed}
    with limit_threads(n_jobs):
        folder = open_folder("reproduce", out or f"residuum-runs/reproduce{'-quick' * quick}", settings)
        jobs = [accuracy_job(plan, folder, **homes) for plan in plans]
        make: dict[str, Any] = {"speed": speed_job, "figure": figure_job}
        jobs += [make[extra.kind](extra, quick=quick, seed=seed, **homes) for extra in extras]
        for job in jobs:
            with _progress() as on_step:
                run_job(job, folder, fresh=not resume, n_jobs=allowed_cores(n_jobs), on_step=on_step)
        if confusions:
            _write_confusions(plans, folder, homes)
    _report(folder, wanted, protocols, as_json)


def _tables_to_run(experiments: list[Any]) -> dict[str, list[Any]]:
    """Name of every table to run -> the tables asked for, of which several may be rows of one."""
    asked: dict[str, list[Any]] = {}
    for table in (e for e in experiments if e.kind == "accuracy"):
        asked.setdefault(table.run_as or table.name, []).append(table)
    return asked


def _available(
    name: str, rows: list[Any], asked: list[Any], *, data: str | None, allow_subset: bool, strict: bool
) -> Availability:
    """The rows of a table that can run here; what cannot is named on stderr.

    With `strict`, it is an error if nothing can run.
    """
    from residuum.errors import DataNotFoundError
    from residuum.paper.availability import available
    from residuum.paper.tables import EXPERIMENTS

    found = available(EXPERIMENTS[name], rows, data, allow_subset=allow_subset)
    names = ", ".join(experiment.name for experiment in asked)
    if not found.rows and strict:
        reasons = "\n".join(f"  {what}: {reason}" for what, reason in found.missing.items())
        raise DataNotFoundError(f"Nothing of {names} can run here.\n{reasons}")
    for what, reason in found.missing.items():
        click.echo(f"Left out {what} ({names}): {reason}", err=True)
    return found


def _write_confusions(plans: list[Plan], folder: Path, homes: dict[str, Any]) -> None:
    from residuum.paper.confusions import write_confusions
    from residuum.system.progress import progress_bars

    pages = [(plan, row) for plan in plans if plan.table.data == "photographs" for row in plan.rows]
    with progress_bars() as report:
        for number, (plan, row) in enumerate(pages):
            report("confusions", number, len(pages), row.title)
            for path in write_confusions(plan, row, folder, **homes):
                click.echo(f"Wrote {path}", err=True)


def _cache_dir(data: str | None) -> Path | None:
    """Slow features are kept beside the data where that folder can be written."""
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
    click.echo(f"Wrote report.md and report.html to {folder}", err=True)


@contextmanager
def _progress() -> Iterator[OnStep]:
    """A bar on stderr with what is being done and the time left; without a terminal, a line now and then."""
    from residuum.system.progress import progress_bars

    printed = -1e9
    with progress_bars() as report:

        def on_step(text: str, done: int, total: int, left: float | None) -> None:
            nonlocal printed
            note = text if left is None else f"{text}, about {_duration(left)} left"
            report("reproduce", done, total, note)
            if not sys.stderr.isatty() and time.monotonic() - printed > 15 and done < total:
                printed = time.monotonic()
                click.echo(f"[{done}/{total}] {note}", err=True)

        yield on_step


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
