"""Locks between processes: of several that want the same file or folder, one works and the others wait."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock that the operating system releases even when the process is killed."""
    while True:
        with path.open("a") as file:
            _lock(file.fileno())
            # The previous holder may have removed the file while we waited; then our lock protects nothing.
            if os.fstat(file.fileno()).st_nlink == 0:
                continue
            try:
                yield
            finally:
                if os.name != "nt":  # Windows cannot remove an open file
                    path.unlink(missing_ok=True)
            return


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
                return
            except OSError:
                time.sleep(0.1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
