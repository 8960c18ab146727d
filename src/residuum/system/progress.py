"""The progress bar of every long job: on stderr, only on a terminal, gone when the work is done.

A command opens the bars. Whatever works below it calls `tell_progress`, which moves a bar of the command that
runs, and does nothing in a program that shows none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[..., None]

_open: list[Report] = []  # of the commands that run, the innermost last


def tell_progress(task: str, done: int, total: int | None = None, *, of_bytes: bool = False) -> None:
    """Move the bar of a task, if bars are open; may be called from any thread, and often."""
    if _open:
        _open[-1](task, done, total, of_bytes=of_bytes)


@contextmanager
def progress_bars(*, of_bytes: bool = False, shown: bool = True) -> Iterator[Report]:
    """Yield ``report(task, done, total=None, note="")``, which moves the bar of a task and makes it at need.

    `tell_progress` calls it too as long as the bars are open.

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

    def report(
        task: str, done: int, total: int | None = None, note: str = "", *, of_bytes: bool = of_bytes
    ) -> None:
        nonlocal bars
        if not (shown and sys.stderr and sys.stderr.isatty()):
            return
        if bars is None:
            bars = _bars()
            bars.start()
        amount = _amount(done, total, of_bytes)
        if task not in tasks:
            tasks[task] = bars.add_task(task, total=total, note=note, amount=amount)
        bars.update(tasks[task], completed=done, total=total, note=note, amount=amount)

    _open.append(report)
    try:
        yield report
    finally:
        _open.remove(report)
        if bars is not None:
            bars.stop()


def _amount(done: int, total: int | None, of_bytes: bool) -> str:
    """How much is done, of how much."""
    if of_bytes:
        return f"{done / 1e6:.1f}/{'?' if total is None else f'{total / 1e6:.1f}'} MB"
    return f"{done}/{'?' if total is None else total}"


def _bars() -> Any:
    from rich import progress
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[amount]}", markup=False),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    )
