"""The progress bars of long work: on stderr, only on a terminal, gone when the work is done.

Whatever takes long calls `tell_progress`. That moves a bar while a command runs, and does nothing in a
program that shows no bars.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_bars: _Bars | None = None  # those of the command that runs


def tell_progress(
    task: str, done: int, total: int | None = None, note: str = "", *, of_bytes: bool = False
) -> None:
    """Move the bar of a task, if bars are shown; may be called from any thread, and often.

    Parameters
    ----------
    task : str
        What is done. The first report makes its bar, and the report that all is done removes it.
    done, total : int
        How much is done, of how much; a total of None shows a bar without an end.
    note : str
        Stands behind the bar, for example the time left.
    of_bytes : bool
        Whether the numbers are bytes, shown as file sizes.
    """
    if _bars is not None:
        _bars.move(task, done, total, note, of_bytes)


@contextmanager
def progress_bars() -> Iterator[None]:
    """Show bars for whatever the block does."""
    global _bars
    outer, _bars = _bars, _Bars()
    try:
        yield
    finally:
        _bars.stop()
        _bars = outer


class _Bars:
    """A bar for every task that is not done; nothing is on the screen when all are."""

    def __init__(self) -> None:
        self._tasks: dict[str, Any] = {}
        self._display: Any = None
        self._lock = threading.Lock()

    def move(self, task: str, done: int, total: int | None, note: str, of_bytes: bool) -> None:
        if not (sys.stderr and sys.stderr.isatty()):
            return
        with self._lock:
            if total is not None and done >= total:
                self._finish(task)
                return
            if self._display is None:
                self._display = _display()
                self._display.start()
            if task not in self._tasks:
                self._tasks[task] = self._display.add_task(task, total=total, note="", amount="")
            amount = _amount(done, total, of_bytes)
            self._display.update(self._tasks[task], completed=done, total=total, note=note, amount=amount)

    def _finish(self, task: str) -> None:
        if task in self._tasks:
            self._display.remove_task(self._tasks.pop(task))
            if not self._tasks:
                self.stop()

    def stop(self) -> None:
        self._tasks.clear()
        if self._display is not None:
            self._display.stop()
            self._display = None


def _amount(done: int, total: int | None, of_bytes: bool) -> str:
    """How much is done, of how much."""
    if of_bytes:
        return f"{done / 1e6:.1f}/{'?' if total is None else f'{total / 1e6:.1f}'} MB"
    return f"{done}/{'?' if total is None else total}"


def _display() -> Any:
    from rich import progress  # loads slowly, so only where a bar is to be shown
    from rich.console import Console
    from rich.text import Text

    class TimeLeft(progress.TimeRemainingColumn):
        """The time left, except where a note says it better, since steps may differ in length."""

        def render(self, task: progress.Task) -> Text:
            return Text() if task.fields["note"] else super().render(task)

    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[amount]}", markup=False),
        TimeLeft(),
        progress.TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
