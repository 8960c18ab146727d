"""Work on many images at once, in order, with few of them in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib
import numpy as np

from residuum.errors import UsageError

Item = TypeVar("Item")
Result = TypeVar("Result")
Advance = Callable[[int], None]


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], n_threads: int, *, ahead: int | None = None
) -> Iterator[Result]:
    """Yield ``function(item)`` for every item, in order, computed by threads at most `ahead` items early."""
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
        finally:  # on an error or an interrupt the queue must not be worked off first
            pool.shutdown(wait=False, cancel_futures=True)


def n_threads(n_jobs: int | None) -> int:
    """Number of threads that scikit-learn's ``n_jobs`` stands for."""
    return max(1, joblib.effective_n_jobs(n_jobs))


def as_images(X: Any, owner: str) -> Sequence[Any]:
    """A sequence of paths or pixel arrays, or an error that says what is wanted."""
    if isinstance(X, (str, bytes)) or hasattr(X, "__fspath__"):
        raise UsageError(f"{owner} takes a list of images. Got one path; put it into a list.")
    if hasattr(X, "iloc"):  # a pandas column of paths
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "OU":
            X = X.reshape(-1)
        elif X.ndim not in (3, 4):
            raise UsageError(
                f"{owner} takes a list of image paths or arrays, or one array (n, height, width[, 3]). "
                f"Got an array of shape {X.shape} and dtype {X.dtype}."
            )
    elif not isinstance(X, Sequence):
        raise UsageError(f"{owner} takes a list of image paths or arrays. Got {type(X).__name__}.")
    if len(X) == 0:
        raise UsageError(f"{owner} needs at least one image. Got an empty list.")
    return X


@contextmanager
def progress_bar(what: str, total: int, shown: bool) -> Iterator[Advance]:
    """A bar on stderr, or nothing; the caller reports how many more are done."""
    if not shown:
        yield lambda n: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(what, total=total)
        yield lambda n: bars.advance(task, n)
