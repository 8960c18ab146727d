"""The progress bar of every long job: on stderr, only on a terminal, gone when the work is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# report(task, done, total, note): `task` names the bar, a total of None shows a bar without an end, and
# `note` is shown behind it, for example the time left.
Report = Callable[..., None]


@contextmanager
def progress_bars(*, of_bytes: bool = False, shown: bool = True) -> Iterator[Report]:
    """Yield ``report(task, done, total=None, note="")``, which moves the bar of a task and makes it at need.

    Parameters
    ----------
    of_bytes : bool, default=False
        Whether the numbers are bytes, shown as file sizes.
    shown : bool, default=True
        False reports nothing, as does a stderr that is not a terminal.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    count = DownloadColumn() if of_bytes else MofNCompleteColumn()
    left = TextColumn("{task.fields[note]}")
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        count,
        TimeRemainingColumn(),
        left,
    )
    bars = Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
    tasks: dict[str, Any] = {}

    def report(task: str, done: int, total: int | None = None, note: str = "") -> None:
        if task not in tasks:
            tasks[task] = bars.add_task(task, total=total, note=note)
        bars.update(tasks[task], completed=done, total=total, note=note)

    with bars:
        yield report
