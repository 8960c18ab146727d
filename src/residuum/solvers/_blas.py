"""One BLAS thread per worker, safely when several Python threads solve at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_users = 0
_limiter = None
_controller: ThreadpoolController | None = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread until the last concurrent caller leaves.

    The limit is global to the process: with a limiter per caller, the first to leave would restore the
    thread count under the others, and the last would "restore" the limit itself for ever.
    """
    global _users, _limiter, _controller
    with _lock:
        if _users == 0:
            # Finding the loaded libraries takes milliseconds, so it is done once.
            _controller = _controller or ThreadpoolController()
            _limiter = _controller.limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and _limiter is not None:
                _limiter.restore_original_limits()
                _limiter = None


def run_blocks(task: Callable[[int, int], None], n_rows: int, block: int, n_jobs: int | None) -> None:
    """Call ``task(start, stop)`` for consecutive blocks of rows, on ``n_jobs`` threads."""
    starts = range(0, n_rows, block)
    n_threads = min(effective_n_jobs(n_jobs), len(starts))
    with single_threaded_blas():
        if n_threads <= 1:
            for start in starts:
                task(start, min(start + block, n_rows))
            return
        with ThreadPoolExecutor(n_threads) as pool:
            for future in [pool.submit(task, start, min(start + block, n_rows)) for start in starts]:
                future.result()
