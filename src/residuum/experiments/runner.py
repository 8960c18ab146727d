"""The runner of every experiment: each finished cell is one file, written whole or not at all.

A cell is one result: one method on one trial, for example. Its file holds what was computed and the recipe,
which is everything that decided it; a later run keeps a cell of an equal recipe and computes the others. The
files are also all that worker processes hand back, so progress is read from the folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from residuum.errors import InterruptedRunError
from residuum.experiments.run_folder import CELLS
from residuum.system.files import write_text
from residuum.system.json_text import to_json
from residuum.system.processes import run_in_processes

FORMAT = "residuum cell 2"

Say = Callable[[str], None]
# on_step(text, cells done, cells in all, seconds left or None)
OnStep = Callable[[str, int, int, float | None], None]


@dataclass(frozen=True)
class Cell:
    """One result to compute.

    Attributes
    ----------
    name : str
        Path of its file below the folder of cells, without the ending.
    title : str
        What a progress bar says.
    recipe : dict
        Everything that decides the result, as plain JSON.
    group : tuple
        Cells of one group share their preparation: one process computes them one after the other.
    like : tuple
        Cells that are alike in this take about as long.
    cost : float
        Guess of the time relative to other cells, until like cells have been measured.
    """

    name: str
    title: str
    recipe: dict[str, Any]
    group: tuple[Any, ...] = ()
    like: tuple[Any, ...] = ()
    cost: float = 1.0

    def path(self, folder: Path) -> Path:
        """The file of this cell in a run folder."""
        return folder / CELLS / f"{self.name}.json"


# Yields the content of each cell of a group, in order. The content has "predictions" or the like, and
# "seconds", the time this cell took.
Work = Callable[[list[Cell], Say], Iterator[dict[str, Any]]]


def read_cell(path: Path) -> dict[str, Any] | None:
    """A finished cell; None where there is none that can be read."""
    try:
        cell = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cell if isinstance(cell, dict) and cell.get("format") == FORMAT else None


@dataclass(frozen=True)
class Job:
    """Cells, and how they are computed.

    Attributes
    ----------
    cells : list of Cell
        What to compute, cells of one group next to each other.
    work : callable
        Computes the cells of one group. For several processes it must be possible to pickle it.
    most_workers : int
        How many processes may share the work; one process is this one.
    before_workers : callable
        Called with the cells to compute before other processes start, to leave on disk what all of them need.
    """

    cells: list[Cell]
    work: Work
    most_workers: int = 1
    before_workers: Callable[[list[Cell], Say], None] = lambda cells, say: None


def run_job(
    job: Job,
    folder: Path,
    *,
    fresh: bool = False,
    n_jobs: int = 1,
    on_step: OnStep = lambda text, done, total, left: None,
) -> int:
    """Compute every cell that the folder does not hold yet; return how many were computed.

    Parameters
    ----------
    job : Job
        What to compute.
    folder : Path
        Run folder.
    fresh : bool
        Whether cells of an earlier run are computed again.
    n_jobs : int
        Cores that worker processes share.
    on_step : callable
        Called with (what, cells done, cells in all, seconds left or None).
    """
    progress = _Progress(job.cells, folder, on_step)
    if not fresh:
        progress.look()
    pending = list(progress.pending)
    for cell in pending:
        cell.path(folder).unlink(missing_ok=True)
    groups = [list(group) for _, group in groupby(pending, key=lambda cell: cell.group)]
    workers = progress.workers = max(1, min(n_jobs, job.most_workers, len(groups)))
    try:
        if workers == 1:
            for group in groups:
                _compute(job.work, group, folder, progress.say, progress.update)
        else:
            job.before_workers(pending, progress.say)
            # The longest of a trial first, so that none of them is left over for one process at the end.
            groups.sort(key=lambda group: (group[0].group[0], -sum(cell.cost for cell in group)))
            run_in_processes(
                partial(_compute_group, job.work, groups, folder),
                range(len(groups)),
                workers=workers,
                threads=n_jobs // workers,
                on_wait=progress.update,
            )
    except KeyboardInterrupt:
        progress.look()
        raise InterruptedRunError(
            f"{progress.done} of {progress.total} results are kept in {folder}; "
            f"the same command with --out {folder} continues from there."
        ) from None
    finally:
        for part in folder.rglob(".*.part"):  # of processes that were ended while they wrote
            part.unlink(missing_ok=True)
    on_step("report", progress.total, progress.total, 0.0)
    return len(pending)


def _compute_group(work: Work, groups: list[list[Cell]], folder: Path, number: int) -> None:
    _compute(work, groups[number], folder, lambda text: None, lambda: None)


def _compute(work: Work, cells: list[Cell], folder: Path, say: Say, after: Callable[[], None]) -> None:
    contents = work(cells, say)
    for cell in cells:
        say(cell.title)
        content = next(contents)
        path = cell.path(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        write_text(path, to_json({"format": FORMAT, "created": created, "recipe": cell.recipe, **content}))
        after()


class _Progress:
    """Which cells are finished, and the time left: from like cells, or else in proportion to `Cell.cost`."""

    def __init__(self, cells: Sequence[Cell], folder: Path, on_step: OnStep) -> None:
        self.pending, self.total, self.workers = list(cells), len(cells), 1
        self._folder, self._on_step, self._text = folder, on_step, ""
        self._seconds: dict[tuple[Any, ...], list[float]] = {}
        self._spent = self._cost = 0.0

    @property
    def done(self) -> int:
        return self.total - len(self.pending)

    def say(self, text: str) -> None:
        self._text = text
        self._on_step(text, self.done, self.total, self.left())

    def look(self) -> None:
        """Find out which cells have been finished."""
        for cell in list(self.pending):
            found = read_cell(cell.path(self._folder))
            if found is not None and found["recipe"] == cell.recipe:
                self.finish(cell, found["seconds"])
                self._text = cell.title

    def update(self) -> None:
        self.look()
        self.say(self._text)

    def finish(self, cell: Cell, seconds: float) -> None:
        self.pending.remove(cell)
        self._seconds.setdefault(cell.like, []).append(seconds)
        self._spent += seconds
        self._cost += cell.cost

    def left(self) -> float | None:
        """Seconds left; None before anything was measured."""
        if not self._cost:
            return None
        total = 0.0
        for cell in self.pending:
            like = self._seconds.get(cell.like)
            total += sum(like) / len(like) if like else cell.cost * self._spent / self._cost
        return total / self.workers
