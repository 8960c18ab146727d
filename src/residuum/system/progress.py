"""The progress bar of every long job: on stderr, only on a terminal, gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[..., None]


@contextmanager
def progress_bars(*, of_bytes: bool = False, shown: bool = True) -> Iterator[Report]:
    """Yield ``report(task, done, total=None, note="")``, which moves the bar of a task and makes it at need.

    A total of None shows a bar without an end; the note stands behind the bar, for example the time left. The
    library of the bars loads slowly, so it is loaded by the first report to a terminal.

    Parameters
    ----------
    of_bytes : bool, default=False
        Whether the numbers are bytes, shown as file sizes.
    shown : bool, default=True
        False reports nothing, as does a stderr that is not a terminal.
    """
    tasks: dict[str, Any] = {}
    bars: Any = None

    def report(task: str, done: int, total: int | None = None, note: str = "") -> None:
        nonlocal bars
        if not (shown and sys.stderr and sys.stderr.isatty()):
            return
        if bars is None:
            bars = _bars(of_bytes)
            bars.start()
        if task not in tasks:
            tasks[task] = bars.add_task(task, total=total, note=note)
        bars.update(tasks[task], completed=done, total=total, note=note)

    try:
        yield report
    finally:
        if bars is not None:
            bars.stop()


def _bars(of_bytes: bool) -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn() if of_bytes else progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
