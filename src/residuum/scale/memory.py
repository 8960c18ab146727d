"""Arrays of this process: read into one buffer per thread, or kept while there is room."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_lock = threading.Lock()
_kept: dict[Any, Bytes] = {}
_room = 0  # bytes that may be kept
_buffers = threading.local()


def keep_at_most(room: int) -> None:
    """Keep arrays of at most so many bytes from now on; drop some of those that are kept if need be."""
    global _room
    with _lock:
        _room = max(0, room)
        while _kept and sum(array.nbytes for array in _kept.values()) > _room:
            _kept.popitem()


def remembered(key: Any, n_bytes: int, fill: Callable[[Bytes], None]) -> Bytes:
    """The bytes that `fill` writes into an array: kept ones, or in the buffer of this thread.

    What is in the buffer holds until the next call in the same thread. Nothing is dropped to make room, since
    passes over all parts would drop each part just before it is needed again.
    """
    with _lock:
        found = _kept.get(key)
        used = sum(array.nbytes for array in _kept.values())
    if found is not None:
        return found
    if used + n_bytes <= _room:
        array = np.empty(n_bytes, np.uint8)
        fill(array)
        with _lock:
            if sum(kept.nbytes for kept in _kept.values()) + n_bytes <= _room:
                _kept[key] = array
        return array
    buffer = getattr(_buffers, "bytes", None)
    if buffer is None or len(buffer) < n_bytes:
        _buffers.bytes = buffer = np.empty(n_bytes, np.uint8)
    fill(buffer[:n_bytes])
    return buffer[:n_bytes]
