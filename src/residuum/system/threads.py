"""Threads: how many, one BLAS thread in each, work shared out to them, and estimators that they share."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import wraps
from typing import Any, TypeVar

import joblib
from joblib.externals.loky import cpu_count  # joblib's own says 1 where no file can be written
from threadpoolctl import ThreadpoolController, threadpool_limits

from residuum.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
Method = TypeVar("Method", bound=Callable[..., Any])

_lock = threading.Lock()
_holders = 0
_limiter: Any = None
_libraries: tuple[int, ThreadpoolController] | None = None
_most_threads: int | None = None  # what `limit_threads` allows


def _blas() -> ThreadpoolController:
    """The BLAS libraries; looking for them takes milliseconds, so it is done again only after an import."""
    global _libraries
    if _libraries is None or _libraries[0] != len(sys.modules):
        _libraries = (len(sys.modules), ThreadpoolController())
    return _libraries[1]


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread per call while any caller is inside.

    The limit of ``threadpoolctl`` belongs to the process: if each of several Python threads set and restored
    it, the last to leave could restore the limit of another. So the first to enter sets it and the last to
    leave restores it.
    """
    global _holders, _limiter
    with _lock:
        if _holders == 0:
            _limiter = _blas().limit(limits=1, user_api="blas")
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limiter.restore_original_limits()
                _limiter = None


def allowed_cores(n_jobs: int | None) -> int:
    """Cores that ``n_jobs`` stands for; -1 and None are every core that this process may use."""
    cores = int(cpu_count())
    if n_jobs in (None, -1):
        return cores
    if not 1 <= n_jobs <= cores:
        raise UsageError(f"n_jobs must be -1 (all cores) or from 1 to {cores}, the cores here. Got {n_jobs}.")
    return n_jobs


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Give BLAS, OpenMP, numba and the solvers `n_jobs` threads; -1 is every usable core, None no limit."""
    global _most_threads
    if n_jobs is None:
        yield
        return
    count = allowed_cores(n_jobs)
    import numba
    import scipy.linalg  # noqa: F401  (a library loaded later would not be limited)
    import sklearn.utils  # noqa: F401

    before, outer = numba.get_num_threads(), _most_threads
    numba.set_num_threads(min(count, vars(numba.config)["NUMBA_NUM_THREADS"]))
    try:
        _most_threads = count
        with threadpool_limits(count):
            yield
    finally:
        _most_threads = outer
        numba.set_num_threads(before)


def thread_count(n_jobs: int | None) -> int:
    """Threads for ``n_jobs``; None means joblib's configuration, else the environment, else all cores."""
    if n_jobs is not None:
        return max(1, int(joblib.effective_n_jobs(n_jobs)))
    configured = joblib.parallel.get_active_backend()[1]
    if configured is not None and configured != 1:
        return max(1, int(joblib.effective_n_jobs(configured)))
    if getattr(joblib.parallel.get_active_backend()[0], "nesting_level", 0):
        return 1
    cores = _most_threads or joblib.cpu_count()
    for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "").split(",")[0].strip()
        if text.isdigit() and int(text) > 0:
            cores = min(cores, int(text))
    return max(1, int(cores))


def run_chunks(work: Callable[[int, int], None], n_items: int, chunk: int, n_threads: int) -> None:
    """Call ``work(start, stop)`` over consecutive chunks, at most ``n_threads`` at a time."""
    spans = [(start, min(start + chunk, n_items)) for start in range(0, n_items, chunk)]
    with single_threaded_blas():
        if n_threads == 1 or len(spans) <= 1:
            for span in spans:
                work(*span)
            return
        with ThreadPoolExecutor(min(n_threads, len(spans)), thread_name_prefix="residuum") as pool:
            for _ in pool.map(lambda span: work(*span), spans):
                pass  # an error or an interrupt is raised here and cancels the chunks that have not begun


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    n_jobs: int | None = None,
    ahead: int | None = None,
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in order, computed by threads at most `ahead` items early.

    Unlike the generators of joblib this waits for its consumer, so memory stays bounded. ``n_jobs`` is that
    of scikit-learn: None is 1, -1 is one thread per core.
    """
    n_threads = joblib.effective_n_jobs(n_jobs)
    if n_threads == 1 and not ahead:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > (ahead or 2 * n_threads):
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # after an error or an interrupt, what is waiting must not be computed first
            pool.shutdown(wait=False, cancel_futures=True)


def snapshot(estimator: Any) -> Any:
    """A shallow copy; copying the attributes is one step that no other thread can interrupt."""
    copied = object.__new__(type(estimator))
    copied.__dict__ = vars(estimator).copy()
    return copied


def all_or_nothing(method: Method) -> Method:
    """Let a method that changes its estimator work on a copy, whose attributes then replace all at once.

    If it fails, the estimator is as it was. Other threads may query the estimator meanwhile, but only one may
    change it at a time.
    """

    @wraps(method)
    def changed(self: Any, *args: Any, **options: Any) -> Any:
        draft = snapshot(self)
        result = method(draft, *args, **options)
        self.__dict__ = vars(draft)
        return self if result is draft else result

    return changed  # type: ignore[return-value]


def by_one_model(method: Method) -> Method:
    """Let a query pass read its estimator once, at its beginning.

    So it is answered by the model before or after any change that another thread makes, never by a mixture.
    """

    @wraps(method)
    def answered(self: Any, *args: Any, **options: Any) -> Any:
        return method(snapshot(self), *args, **options)

    return answered  # type: ignore[return-value]
