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
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
            # The previous holder may have removed the file while we waited; then our lock protects nothing.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                break
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        yield
    finally:
        if os.name != "nt":  # Windows cannot remove an open file
            path.unlink(missing_ok=True)
        os.close(handle)


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
