"""The runner of every experiment: a finished cell is one file of a run folder, written whole or not at all.

A cell is one result: one method on one trial, for example. Its file holds what was computed and the recipe,
which is everything that decided it; a later run keeps a cell of an equal recipe and computes the others. The
files are also all that worker processes hand back, so progress is read from the folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from residuum.errors import InterruptedRunError, UsageError
from residuum.system.files import write_text
from residuum.system.json_text import plain, to_json
from residuum.system.processes import run_in_processes

FORMAT = "residuum cell 2"
SETTINGS = "settings.json"
CELLS = "cells"

# say(text), and where cells need features first say(text, share), with the share of them that is computed.
Say = Callable[..., None]
OnStep = Callable[[str, int, int], None]  # on_step(text, cells done, cells in all)


def open_folder(kind: str, out: str | None, settings: dict[str, Any]) -> Path:
    """A folder for this run: a new one, an empty one, or that of an earlier run with the same settings.

    By default it is ``residuum-runs/KIND-DATE-TIME``. The settings are everything that decides the results.
    """
    if out == "":
        raise UsageError("out must name a folder. Got an empty name.")
    folder = Path(out or f"residuum-runs/{kind}-{datetime.now():%Y%m%d-%H%M%S-%f}")
    if (folder / SETTINGS).is_file():
        _check_same(folder, plain(settings))
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{folder} is a file, not a folder. Pass --out with a new folder.") from None
    except OSError as error:
        raise UsageError(
            f"Cannot make the folder {folder}: {error.strerror}. Pass --out with a folder you can write to."
        ) from None
    if any(folder.iterdir()):
        raise UsageError(
            f"The folder {folder} is not empty and holds no earlier run of {kind}. "
            "Pass --out with a new folder, an empty one, or that of an earlier run."
        )
    (folder / CELLS).mkdir()
    write_text(folder / SETTINGS, to_json(settings))
    return folder


def _check_same(folder: Path, settings: dict[str, Any]) -> None:
    try:
        earlier = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except ValueError:
        earlier = None
    if earlier != settings:
        raise UsageError(
            f"The folder {folder} holds a run with other settings ({_first_difference(earlier, settings)}). "
            "Pass the same settings to continue it, or --out with a new folder."
        )


def _first_difference(earlier: Any, now: Any, name: str = "format") -> str:
    if isinstance(earlier, dict) and isinstance(now, dict):
        key = next(key for key in {**earlier, **now} if earlier.get(key) != now.get(key))
        return _first_difference(earlier.get(key), now.get(key), key)
    return f"{name}: {earlier} there, {now} here"


@dataclass(frozen=True)
class Cell:
    """One result to compute."""

    name: str  # path of its file below the folder of cells, without the ending
    title: str  # what a progress bar says
    recipe: dict[str, Any]  # everything that decides the result, as plain JSON
    group: tuple[Any, ...] = ()  # cells of one group share their preparation: one process computes them

    def path(self, folder: Path) -> Path:
        """The file of this cell in a run folder."""
        return folder / CELLS / f"{self.name}.json"


@dataclass(frozen=True)
class Job:
    """Cells, and how they are computed. For several processes it must be possible to pickle `work`."""

    cells: list[Cell]  # those of one group next to each other
    work: Callable[[list[Cell], Say], Iterator[dict[str, Any]]]  # yields the content of each cell of a group
    most_workers: int = 1  # how many processes may share the work; one process is this one
    # Called with the cells to compute before other processes start, to leave on disk what all of them need.
    before_workers: Callable[[list[Cell], Say], None] = lambda cells, say: None
    also_kept: str = ""  # a sentence for who interrupts: what is kept beside the finished cells


def read_cell(path: Path, expected: str = FORMAT) -> dict[str, Any] | None:
    """A finished cell, or another file of the `expected` format; None where there is none to be read."""
    try:
        cell = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return cell if isinstance(cell, dict) and cell.get("format") == expected else None


class TimeLeft:
    """An estimate from what is done: seconds of a group for its features, and of a cell without them.

    The features of a group come before its cells. Groups that are still to come are taken to need as long
    for theirs as those before. `clock` gives the seconds.
    """

    def __init__(self, groups: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.groups = groups  # still to be begun
        self._clock, self._now = clock, clock()
        self._share: float | None = None  # of the features of the current group; None when there are none
        self._first: tuple[float, float] | None = None  # seconds and share when the first ones were there
        self._features = 0.0  # seconds spent on the features of the current group
        self._before: list[float] = []  # the same for the groups before
        self._cells = 0.0  # seconds spent on cells

    def begin_group(self) -> None:
        """Another group is begun."""
        self._pass()
        self.groups -= 1

    def prepare(self, share: float) -> None:
        """So much of the features of the current group is computed."""
        self._share = self._share or 0.0
        self._pass()
        self._share = share
        if share and self._first is None:
            self._first = self._features, share

    def compute(self) -> None:
        """The features are complete, or there are none; a cell is computed."""
        self._pass()
        if self._share is not None:
            self._before.append(self._features)
            self._share, self._first, self._features = None, None, 0.0

    def _pass(self) -> None:
        """Book the time since the last call."""
        before, self._now = self._now, self._clock()
        if self._share is None:
            self._cells += self._now - before
        else:
            self._features += self._now - before

    def _features_left(self) -> float | None:
        """Seconds for the features of the current and of later groups; None while it is not known."""
        left, known = 0.0, self._before
        if self._share is not None:
            # What went before the first features, such as learning a codebook, does not count for the rest.
            if self._first is None or self._share == self._first[1]:
                return None
            seconds, share = self._first
            left = (self._features - seconds) / (self._share - share) * (1 - self._share)
            known = [*known, self._features + left]
        return left + self.groups * sum(known) / max(len(known), 1)

    def words(self, finished: int, left: int) -> str:
        """The time left in words, empty while it is not known, when so many cells are finished and left."""
        self._pass()
        features = self._features_left()
        if features is None or not (features or finished):
            return ""
        if not finished:
            return f"about {_rounded(features)} left for features, then {left} results"
        return f"about {_rounded(features + left * self._cells / finished)} left"


def _rounded(seconds: float) -> str:
    """A time in one unit, as a person says it."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def run_job(
    job: Job,
    folder: Path,
    *,
    fresh: bool = False,
    n_jobs: int = 1,
    on_step: OnStep = lambda text, done, total: None,
) -> int:
    """Compute every cell that the folder does not hold yet, or with `fresh` every one; return how many.

    Worker processes share `n_jobs` cores. `on_step` is called with (what, cells done, cells in all).
    """
    pending = [cell for cell in job.cells if fresh or not _is_finished(cell, folder)]
    for cell in pending:
        cell.path(folder).unlink(missing_ok=True)
    groups = [list(group) for _, group in groupby(pending, key=lambda cell: cell.group)]
    workers, total = max(1, min(n_jobs, job.most_workers, len(groups))), len(job.cells)

    left_before, time_left = len(pending), TimeLeft(len(groups))

    def done() -> int:
        return total - sum(not cell.path(folder).exists() for cell in pending)

    def say(text: str, share: float | None = None) -> None:
        if share is None:
            time_left.compute()
        else:
            time_left.prepare(share)
        finished = done() - (total - left_before)
        words = time_left.words(finished, left_before - finished)
        on_step(f"{text}, {words}" if words else text, total - left_before + finished, total)

    try:
        if workers == 1:
            for group in groups:
                time_left.begin_group()
                _compute(job.work, folder, say, group)
        else:
            job.before_workers(pending, say)
            time_left.groups = 0  # what they need was prepared before
            run_in_processes(
                partial(_compute, job.work, folder, _say_nothing),
                groups,
                workers=workers,
                threads=n_jobs // workers,
                on_wait=partial(say, f"{workers} processes"),
            )
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"{done()} of {total} results are kept in {folder}; "
            f"the same command with --out {folder} continues from there. {job.also_kept}".rstrip()
        ) from None
    finally:
        for part in folder.rglob(".*.part"):  # of processes that were ended while they wrote
            part.unlink(missing_ok=True)
    on_step("report", total, total)
    return len(pending)


def _is_finished(cell: Cell, folder: Path) -> bool:
    found = read_cell(cell.path(folder))
    return found is not None and found["recipe"] == cell.recipe


def _say_nothing(text: str, share: float | None = None) -> None:
    pass


def _compute(work: Any, folder: Path, say: Say, cells: list[Cell]) -> None:
    def told() -> Iterator[Cell]:
        for cell in cells:
            say(cell.title)
            yield cell

    for cell, content in zip(told(), work(cells, say), strict=True):  # to the end of the work
        path = cell.path(folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        write_text(path, to_json({"format": FORMAT, "created": created, "recipe": cell.recipe, **content}))
