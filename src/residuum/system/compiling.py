"""What numba compiles: kept on disk where a folder can be written, and announced when it really happens."""

from __future__ import annotations

import sys
from typing import Any

from numba import njit
from numba.core import event


def _probe() -> None:
    """Stands for the functions of the package when numba is asked where it could keep them."""


def _can_keep() -> bool:
    """Whether numba finds a folder for what it compiles; it refuses to cache without one."""
    try:
        njit(cache=True)(_probe)
    except RuntimeError:
        return False
    return True


# The option `cache` of every function that Python calls: True, unless no folder can be written.
KEPT = _can_keep()


class Notice(event.Listener):
    """Says once that functions of residuum are being compiled; those that are loaded from disk are not."""

    said = False

    def on_start(self, event: Any) -> None:
        """Numba begins to compile a function."""
        if self.said or not event.data["dispatcher"].py_func.__module__.startswith("residuum."):
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


event.register("numba:compile", Notice())
