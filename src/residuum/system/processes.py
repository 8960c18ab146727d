"""Work in several processes at once, which end with this one, with an error, or with Ctrl-C.

The pool is that of the standard library. loky would do as well but for two of its habits: it ends a worker
whose memory has grown by 300 MB, with the data it had loaded, and it needs psutil or pgrep to stop workers.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any

from residuum.errors import ResiduumError
from residuum.system.threads import limit_threads

PAUSE = 0.5  # seconds between two calls of `on_wait`

_work: Callable[[Any], None]
_threads: int


def run_in_processes(
    work: Callable[[Any], None],
    pieces: Sequence[Any],
    *,
    workers: int,
    threads: int,
    on_wait: Callable[[], None] = lambda: None,
) -> None:
    """Call ``work(piece)`` for every piece, `workers` at a time; the first error of a piece is raised here.

    `work` is sent to every process once, so it must be possible to pickle it; what it keeps, it keeps for the
    next piece of the same process. Pieces are begun in their order and should be small.
    Each process has so many `threads`. `on_wait` is called here about twice a second while the others work.
    """
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),  # a forked BLAS can wait forever for its threads
        initializer=_begin,
        initargs=(work, threads),
    )
    try:
        with _interrupts_waiting():
            waiting = {pool.submit(_call, piece) for piece in pieces}
        while waiting:
            finished, waiting = wait(waiting, timeout=PAUSE, return_when=FIRST_COMPLETED)
            for future in finished:
                future.result()
            on_wait()
    except BrokenProcessPool as error:
        raise ResiduumError(
            "A worker process ended before its work was done, perhaps because memory ran out. What was "
            "finished is kept; the same command with --n-jobs 1 needs the least memory."
        ) from error
    finally:
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_waiting() -> Iterator[None]:
    """Let Ctrl-C wait until the end, and never reach the processes that are started meanwhile.

    It is sent to every process of a terminal. They inherit that it is blocked; it is this process that ends
    them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # where the pool would start it, it would unblock the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(work: Callable[[Any], None], threads: int) -> None:
    global _work, _threads
    _work, _threads = work, threads
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call(piece: Any) -> None:
    with limit_threads(_threads):
        _work(piece)
