"""An ordered map of a pure function over parts: by threads of this process, or by the workers of Dask.

Every algorithm of this room is written against `Runner.map`. What a part gives depends on the part and on the
arguments alone, and results come in the order of the parts, so they are the same to the last bit however the
parts are divided among threads or workers, and whether or not a worker died and its parts were done again.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Protocol

from residuum.errors import ResiduumError, UsageError
from residuum.scale.memory import keep_at_most
from residuum.system.machine import PACKAGES, free_memory, installed_version
from residuum.system.packages import package
from residuum.system.threads import in_order, single_threaded_blas, thread_count

INSTALL = "pip install 'residuum[scale]'"
_TASKS_PER_THREAD = 4
_AT_ONCE = 64  # results that are fetched from the workers together
_NAMED = 4  # parts that an error names
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _ONE_GIB = -1, -3, 2**30
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


class ClusterError(ResiduumError):
    """Workers or scheduler failed so often that a part cannot be done."""

    exit_code = 1


class Runner(Protocol):
    """Where parts are worked on."""

    def map(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """Yield ``function(part, *common)`` for every part, in order.

        The function lives in a module and changes nothing that another call could see.
        """
        ...


class Local:
    """Threads of this process.

    Parameters
    ----------
    n_jobs : int or None, default=None
        Threads; None follows joblib's configuration and OMP_NUM_THREADS.
    memory : int, str or None, default=None
        Bytes that parts may take in memory, as a number or as text such as "4GB"; None is half of what is
        free. Parts that fit are kept, the others are read again whenever they are needed.
    """

    def __init__(self, *, n_jobs: int | None = None, memory: int | str | None = None) -> None:
        self.n_jobs, self.memory = n_jobs, memory
        self._bytes = (free_memory() or 2**32) // 2 if memory is None else as_bytes(memory)

    def map(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """Yield ``function(part, *common)`` for every part, in order."""
        largest = max((getattr(part, "nbytes", 0) for part in parts), default=0)
        # A thread holds a part and about as much again while it works on it.
        n_threads = min(thread_count(self.n_jobs), max(1, self._bytes // max(1, 2 * largest)))
        keep_at_most(self._bytes - 2 * n_threads * largest)
        with single_threaded_blas():
            yield from in_order(partial(_applied, function, common), parts, n_jobs=n_threads)


def _applied(function: Callable[..., Any], common: tuple[Any, ...], part: Any) -> Any:
    return function(part, *common)


class Dask:
    """The workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        A client that is connected. With ``direct_to_workers=True`` results take the short way.
    memory : int, str or None, default=None
        Bytes of parts that each worker keeps in memory, as a number or as text such as "2GB"; None is a
        quarter of the memory that a worker is allowed.

    Notes
    -----
    Parts are files: every worker must see them under the same path. Workers must run the same versions of
    residuum, NumPy, SciPy and numba as this process, since other versions give other last bits.
    """

    def __init__(self, client: Any, *, memory: int | str | None = None) -> None:
        self.client, self.memory = client, memory
        self._setup = Setup(_versions(), None if memory is None else as_bytes(memory))

    def map(self, function: Callable[..., Any], parts: Sequence[Any], *common: Any) -> Iterator[Any]:
        """Yield ``function(part, *common)`` for every part, in order."""
        run, client = uuid.uuid4().hex[:12], self.client
        threads = self._threads()
        addresses: list[str | None] = [*sorted(threads)] or [None]
        bundles = bundled(parts, sum(threads.values()))
        futures: list[Any] = []
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sending large graph")
                # A task and not scattered data, because a worker that dies takes scattered data with it.
                shared = client.submit(_opened, _Sealed(common), key=f"residuum-common-{run}")
                for i, bundle in enumerate(bundles):
                    # The same part goes to the same worker where it can, which may have it in memory.
                    home = {"workers": [addresses[i % len(addresses)]], "allow_other_workers": True}
                    futures.append(
                        client.submit(
                            on_worker,
                            self._setup,
                            function,
                            _Sealed(bundle),
                            shared,
                            key=f"residuum-part-{run}-{i}",
                            **(home if addresses[0] else {}),
                        )
                    )
            for first in range(0, len(futures), _AT_ONCE):
                some = futures[first : first + _AT_ONCE]
                for found in self._gathered(some, bundles[first : first + _AT_ONCE]):
                    yield from found
                futures[first : first + _AT_ONCE] = [None] * len(some)  # their results can be freed
        finally:
            left = [future for future in futures if future is not None]
            if left:
                with suppress(Exception):  # the error that brought us here is the one to be told
                    client.cancel(left)

    def _threads(self) -> dict[str, int]:
        """Threads of every worker, by its address."""
        try:
            if self.client.status in ("closing", "closed"):  # by Dask, when no scheduler answers any more
                raise OSError("the client is closed")
            return self.client.nthreads()
        except (TimeoutError, OSError) as error:
            raise _lost(error) from error

    def _gathered(self, futures: list[Any], parts: Sequence[Any]) -> list[Any]:
        distributed = package("distributed", INSTALL)
        try:
            return self.client.gather(futures)
        except distributed.KilledWorker as error:
            unfinished = [pair for pair in zip(futures, parts, strict=True) if pair[0].status != "finished"]
            # Dask blames a part that was on the worker, maybe one that waited there: it is named first.
            blamed = [part for future, part in unfinished if future.key == error.task]
            others = [part for future, part in unfinished if future.key != error.task]
            raise ClusterError(
                f"Workers died again and again while they had {_some([*blamed, *others])} to work on. They "
                "may have too little memory: give them more, or make smaller parts."
            ) from error
        except (distributed.CancelledError, TimeoutError, OSError) as error:
            if isinstance(error, ResiduumError):
                raise
            if any(future.status == "error" for future in futures):
                raise ClusterError(
                    f"A worker could not do its part: {error}. Workers must see every file under the same "
                    "path as the client."
                ) from error
            raise _lost(error) from error


def _lost(error: BaseException) -> ClusterError:
    return ClusterError(
        f"The connection to the Dask scheduler was lost ({type(error).__name__}). What was written is whole; "
        "start the cluster again and repeat the command to go on."
    )


def _some(parts: list[Any]) -> str:
    """The first of some parts in words."""
    named = ", ".join(map(str, parts[:_NAMED]))
    return f"{named} and {len(parts) - _NAMED} more parts" if len(parts) > _NAMED else named or "a part"


def bundled(parts: Sequence[Any], n_threads: int) -> list[Bundle]:
    """Consecutive parts of a dictionary in few tasks, since a task costs milliseconds; others one by one.

    Each part still gives a result of its own, so it does not matter which parts go together.
    """
    light = all(hasattr(part, "nbytes") for part in parts)
    step = -(-len(parts) // max(1, _TASKS_PER_THREAD * n_threads)) if light and parts else 1
    return [Bundle(parts[first : first + step]) for first in range(0, len(parts), step)]


class Bundle(tuple[Any, ...]):
    """Parts that one task works on."""

    def __str__(self) -> str:
        return str(self[0]) if len(self) == 1 else f"{self[0]} and the {len(self) - 1} after it"


class Setup(NamedTuple):
    """What a worker process has to know before it works on parts."""

    versions: dict[str, str | None]
    memory: int | None


class _Sealed(NamedTuple):
    """A value that Dask does not search for other tasks."""

    value: Any


def _opened(sealed: _Sealed) -> _Sealed:
    return sealed


_prepared = threading.local()


def on_worker(setup: Setup, function: Callable[..., Any], bundle: _Sealed, common: _Sealed) -> list[Any]:
    """``function(part, *common)`` for the parts of a bundle on a worker of Dask, with one BLAS thread."""
    if getattr(_prepared, "setup", None) != setup:
        _refuse_other_versions(setup.versions)
        _keep_freed_memory()
        keep_at_most(_allowed_memory() // 4 if setup.memory is None else setup.memory)
        _prepared.setup = setup
    with single_threaded_blas():
        return [function(part, *common.value) for part in bundle.value]


def _versions() -> dict[str, str | None]:
    import residuum

    exact = [name for name in PACKAGES if name in ("numpy", "scipy", "numba")]
    return {"residuum": residuum.__version__} | {name: installed_version(name) for name in exact}


def _refuse_other_versions(wanted: dict[str, str | None]) -> None:
    found = _versions()
    differ = [
        f"{name} {found.get(name)} and not {wanted[name]}"
        for name in wanted
        if found.get(name) != wanted[name]
    ]
    if differ:
        from distributed import get_worker

        raise ClusterError(
            f"The worker {get_worker().address} has {', '.join(differ)} as the client. Other versions give "
            "other last bits: install the same on all machines."
        )


def _allowed_memory() -> int:
    from distributed import get_worker

    return get_worker().memory_manager.memory_limit or free_memory() or 2**32


def _keep_freed_memory() -> None:
    """Let glibc keep what is freed: Dask has it give back every small piece, which costs much time."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            mallopt = ctypes.CDLL(None).mallopt
            mallopt(_M_TRIM_THRESHOLD, _ONE_GIB)
            mallopt(_M_MMAP_THRESHOLD, _ONE_GIB)


def as_bytes(size: int | str) -> int:
    """A number of bytes from a number or from text such as "4GB" or "512 MiB"; units are powers of 1024."""
    found = _SIZE.fullmatch(str(size))
    if found is None or float(found[1]) <= 0:
        raise UsageError(f"memory must be a number of bytes or text such as '4GB'. Got {size!r}.")
    return int(float(found[1]) * 1024 ** " kmgt".index(found[2].lower() or " "))
