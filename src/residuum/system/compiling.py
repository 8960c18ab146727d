"""What numba compiles: kept on disk where a folder can be written, announced when it really happens.

A signal that arrives meanwhile is not lost.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import event


def forget_outdated(package: Path) -> None:
    """Delete compiled functions that are older than a source file beside any of them.

    Numba keeps a function until the file changes that it stands in. It does not see that a function changed
    which that one calls, and would go on with the old code of it. Only functions that are kept beside the
    sources are looked at, not those in the folder NUMBA_CACHE_DIR or in that of the user.
    """
    kept = _dates(package.rglob("__pycache__/*.nbi"))
    sources = _dates(path for folder in {path.parents[1] for path in kept} for path in folder.glob("*.py"))
    now = time.time()
    newest = max((date for date in sources.values() if date <= now), default=0.0)  # clocks may be wrong
    for path, date in kept.items():
        if date < newest:
            with suppress(OSError):  # a folder that cannot be written, or another process deletes it too
                path.unlink()


def _dates(paths: Iterable[Path]) -> dict[Path, float]:
    """When files were changed; those that another process has just deleted are left out."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = path.stat().st_mtime
    return found


def _probe() -> None:
    """Stands for the functions of the package when numba is asked where it could keep them."""


def _can_keep() -> bool:
    """Whether numba finds a folder for what it compiles; it refuses to cache without one."""
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        return False
    return True


forget_outdated(Path(__file__).parents[1])
# The option `cache` of every function that Python calls: True, unless no folder can be written.
KEPT = _can_keep()


class Notice(event.Listener):
    """Says once that functions of residuum are being compiled; those that are loaded from disk are not."""

    said = False

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function."""
        module = event.data["dispatcher"].py_func.__module__ or ""  # None where `exec` made the function
        if self.said or not module.startswith("residuum."):
            return
        self.said = True
        sys.stderr.write(
            "residuum: compiling a solver, which takes up to 20 s; the result is kept for later runs.\n"
            if KEPT
            else "residuum: compiling a solver, which takes up to 20 s in every process, because no folder "
            "can be written where the result could be kept. Set NUMBA_CACHE_DIR to one that can.\n"
        )

    def on_end(self, event: Any) -> None:
        """Numba is done."""


class Interrupts(event.Listener):
    """Raises the interrupt of a signal again that numba could not pass on while it loaded or compiled.

    LLVM calls back into Python through ctypes, which prints an exception and drops it. If a signal arrives in
    such a callback, the KeyboardInterrupt of its handler is dropped as well, and the program runs on as if
    nobody had asked it to end. While numba holds its lock, dropped interrupts are therefore noted, and the
    handler is called once more when the lock is free.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._lost: list[int] = []
        self._number = 0  # of the last signal
        self._before: dict[int, Any] = {}
        self._hook: Any = None

    def on_start(self, event: Any) -> None:
        """Numba takes its lock; only the main thread gets signals and may say what is done with them."""
        if threading.current_thread() is not threading.main_thread():
            return
        self._depth += 1
        if self._depth > 1:
            return
        self._lost.clear()
        self._hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        for number in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(number)
            if callable(handler) and handler != self._handle:
                self._before[number] = handler
                signal.signal(number, self._handle)

    def on_end(self, event: Any) -> None:
        """The lock is free again."""
        if threading.current_thread() is not threading.main_thread() or not self._depth:
            return
        self._depth -= 1
        if self._depth:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._hook
        for number in self._lost[:1]:
            self._before[number](number, None)

    def _handle(self, number: int, frame: Any) -> None:
        self._number = number
        self._before[number](number, frame)

    def _unraisable(self, dropped: Any) -> None:
        if isinstance(dropped.exc_value, KeyboardInterrupt):
            self._lost.append(self._number)
        else:
            self._hook(dropped)


event.register("numba:compile", Notice())
event.register("numba:compiler_lock", Interrupts())
