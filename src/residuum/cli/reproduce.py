"""``residuum reproduce``: the paper's tables and figures again, its numbers beside ours."""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from residuum.experiments.runner import OnStep
    from residuum.paper.running import Plan

# Without importing `paper`, so that --help is quick; a test compares them with its EXPERIMENTS.
NAMES = (*(f"table{number}" for number in range(1, 12)), "figure1", "figure2")


@click.command()
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=click.Choice([*NAMES, "all"]))
@click.option("--trials", type=int, help="Random splits.  [default: as the paper]")
@click.option("--quick", is_flag=True, help="Fewer trials, rows and queries; for a first look.")
@click.option(
    "--protocol",
    type=click.Choice(["published", "authors", "best", "all"]),
    default="all",
    show_default=True,
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
    finished result (raw predictions, parameters, seed, versions, machine), report.md and report.html. An
    interrupted run continues when the same command is given again.

    Table 6 has six sets of photographs; tables 7 to 11 are its rows of one data set each, with the figures of
    other systems that the paper quotes. Data sets and features that are not at hand are left out by name.
    """
    from residuum.experiments.compared_data import check_trials
    from residuum.experiments.runner import open_folder, run_job
    from residuum.paper.extras import extra_job
    from residuum.paper.protocols import PROTOCOLS
    from residuum.paper.running import accuracy_job
    from residuum.system.threads import allowed_cores, limit_threads

    wanted = NAMES if "all" in names else tuple(dict.fromkeys(names))
    protocols = tuple(PROTOCOLS) if protocol == "all" else (protocol,)
    check_trials(1 if trials is None else trials, seed)
    find = partial(_available, data=data, allow_subset=allow_subset, strict="all" not in names)
    chosen = {"trials": trials, "quick": quick, "protocols": protocols, "seed": seed}
    plans, extras = _to_run(wanted, find, chosen)
    homes: dict[str, Any] = {"data_home": data, "cache_dir": _cache_dir(data)}
    settings = {"command": "reproduce", "quick": quick, "seed": seed}
    with limit_threads(n_jobs):
        folder = open_folder("reproduce", out or f"residuum-runs/reproduce{'-quick' * quick}", settings)
        jobs = [accuracy_job(plan, folder, **homes) for plan in plans]
        jobs += [extra_job(extra, quick=quick, seed=seed, **homes) for extra in extras]
        for job in jobs:
            run_job(job, folder, fresh=not resume, n_jobs=allowed_cores(n_jobs), on_step=_progress())
        if confusions:
            _write_confusions(plans, folder, homes)
    _report(folder, wanted, protocols, as_json)


def _to_run(
    wanted: tuple[str, ...], find: Callable[..., dict[int | str, str | None]], chosen: dict[str, Any]
) -> tuple[list[Plan], list[Any]]:
    """The plans of the tables, of which several may be rows of one, and the other experiments."""
    from residuum.paper.running import make_plan
    from residuum.paper.tables import EXPERIMENTS

    asked: dict[str, list[Any]] = {}
    plans, extras = [], []
    for entry in (EXPERIMENTS[name] for name in wanted):
        if entry.kind == "accuracy":
            asked.setdefault(entry.run_as or entry.name, []).append(entry)
        elif find(entry.setting, [entry.row], [entry.name]):
            extras.append(entry)
    for name, tables in asked.items():
        rows = [row.name for table in tables for row in table.rows]
        listings = find(name, rows, [table.name for table in tables])
        if listings:
            table = EXPERIMENTS[name]
            at_hand = tuple(row for row in table.rows if row.name in listings)
            plans.append(make_plan(table, at_hand, **chosen, listings=listings))
    return plans, extras


def _available(
    name: str, rows: list[Any], asked: list[str], *, data: str | None, allow_subset: bool, strict: bool
) -> dict[int | str, str | None]:
    """The rows of a table that can run here; what cannot is named on stderr.

    With `strict`, it is an error if nothing can run.
    """
    from residuum.errors import DataNotFoundError
    from residuum.paper.availability import available
    from residuum.paper.tables import EXPERIMENTS

    listings, missing = available(EXPERIMENTS[name], rows, data, allow_subset=allow_subset)
    if not listings and strict:
        reasons = "\n".join(f"  {what}: {reason}" for what, reason in missing.items())
        raise DataNotFoundError(f"Nothing of {', '.join(asked)} can run here.\n{reasons}")
    for what, reason in missing.items():
        click.echo(f"Left out {what} ({', '.join(asked)}): {reason}", err=True)
    return listings


def _write_confusions(plans: list[Plan], folder: Path, homes: dict[str, Any]) -> None:
    from residuum.paper.confusions import write_confusions

    for plan in (plan for plan in plans if plan.table.data == "photographs"):
        for row in plan.rows:
            path = write_confusions(plan, row, folder, **homes)
            if path is not None:
                click.echo(f"Wrote {path}", err=True)


def _cache_dir(data: str | None) -> Path | None:
    """Slow features are kept beside the data where that folder can be written."""
    return Path(data) / "features" if data and os.access(data, os.W_OK) else None


def _report(folder: Path, names: tuple[str, ...], protocols: tuple[str, ...], as_json: bool) -> None:
    from residuum.paper.report import numbers, tables_of, write_reports
    from residuum.reports.table import print_table

    contents = write_reports(folder).chosen(set(names), protocols)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **numbers(contents, names)}, indent=2))
    else:
        for table in tables_of(contents, names):
            print_table(table, sys.stdout)
            click.echo()
    click.echo(f"Wrote report.md and report.html to {folder}", err=True)


def _progress() -> OnStep:
    """What moves the bar; without a terminal, it prints a line now and then."""
    from residuum.system.progress import tell_progress

    printed = -math.inf

    def on_step(text: str, done: int, total: int) -> None:
        nonlocal printed
        tell_progress("reproduce", done, total, text)
        if not sys.stderr.isatty() and time.monotonic() - printed > 15 and done < total:
            printed = time.monotonic()
            click.echo(f"[{done}/{total}] {text}", err=True)

    return on_step
