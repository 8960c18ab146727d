"""Requests that wait at the same time are computed together, in one thread that takes turns.

A solver codes 64 queries in one product much faster than one query in 64 products. So what arrives while
the thread is busy, or within 5 ms while it is idle, is joined into one call. Waiting ends early when every
request that is being handled has arrived: a single client never waits.

Everything that computes runs in this one thread. The solvers use the other cores themselves, and a turn is
short: `Lane.rows` is the number of rows that take about a tenth of a second. A request with more rows takes
several turns (`Lane.by_turns`), between which others have theirs.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from residuum.server.errors import too_busy

WAIT = 0.005  # seconds that a request waits for others to join it
TURN = 0.1  # seconds that a turn should take
FEWEST_ROWS, MOST_ROWS = 64, 4096  # of a turn

Work = Callable[[list[Any]], Sequence[Any]]


@dataclass(eq=False)
class _Waiting:
    """A request for one call; `key` is None where it cannot be joined with others."""

    work: Callable[..., Any]
    item: Any
    rows: int
    key: Hashable
    result: asyncio.Future[Any]
    since: float = field(default_factory=time.monotonic)


class Lane:
    """One thread that works for all requests of this process, in turns.

    Parameters
    ----------
    most_waiting : int, default=256
        Calls that may wait; one more is refused with status 429.
    expected : callable or None, default=None
        How many requests are being handled now; no more than these can join a batch.
    told : callable or None, default=None
        Called as ``told(requests, rows)`` after every turn, for metrics.
    """

    def __init__(
        self,
        *,
        most_waiting: int = 256,
        expected: Callable[[], int] | None = None,
        told: Callable[[int, int], None] | None = None,
    ) -> None:
        self.rows = FEWEST_ROWS
        self.most_waiting = most_waiting
        self._expected = expected
        self._told = told
        self._waiting: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._pump: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="residuum-lane")

    def __len__(self) -> int:
        return len(self._waiting)

    async def alone(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function(*arguments)`` in a turn of its own."""
        return await self._queued(lambda _: function(*arguments), None, 1, None)

    async def together(self, work: Work, item: Any, *, rows: int = 1, key: Hashable = ()) -> Any:
        """The result for `item` of ``work([item, ...])``, called for all that wait with this work and key.

        If the call raises, it is made again for each item alone, so that only the request that caused the
        error gets it.
        """
        return await self._queued(work, item, rows, (work, key))

    async def by_turns(self, work: Work, rows: Any, *, key: Hashable = ()) -> list[Any]:
        """The results of `together` for consecutive pieces of an array, each in a turn of its own."""
        found: list[Any] = []
        first = 0
        while first < len(rows) or not found:
            piece = rows[first : first + self.rows]
            found.append(await self.together(work, piece, rows=len(piece), key=key))
            first += max(1, len(piece))
        return found

    async def close(self) -> None:
        """Let the turn that runs come to its end; nothing waits any more."""
        if self._pump is not None:
            self._pump.cancel()
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def _queued(self, work: Callable[..., Any], item: Any, rows: int, key: Hashable) -> Any:
        if len(self._waiting) >= self.most_waiting:
            raise too_busy(f"{len(self._waiting)} computations are waiting")
        loop = asyncio.get_running_loop()
        if self._pump is None:
            self._pump = loop.create_task(self._take_turns())
        waiting = _Waiting(work, item, rows, key, loop.create_future())
        self._waiting.append(waiting)
        self._arrived.set()
        try:
            return await waiting.result
        except asyncio.CancelledError:
            if waiting in self._waiting:  # it was not begun
                self._waiting.remove(waiting)
            raise

    async def _take_turns(self) -> None:
        while True:
            while not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            await self._wait_for_others(self._waiting[0])
            batch = self._next_batch()
            if batch:
                await self._run(batch)

    async def _wait_for_others(self, first: _Waiting) -> None:
        """Until 5 ms have passed since the first arrived, or everyone who could join has arrived."""
        loop, until = asyncio.get_running_loop(), first.since + WAIT
        while first.key is not None and (left := until - time.monotonic()) > 0:
            joined = sum(waiting.rows for waiting in self._waiting)
            everyone = self._expected is not None and len(self._waiting) >= self._expected()
            if everyone or joined >= self.rows or not self._waiting:
                return
            self._arrived.clear()
            timer = loop.call_later(left, self._arrived.set)
            await self._arrived.wait()
            timer.cancel()

    def _next_batch(self) -> list[_Waiting]:
        """The one that has waited longest, and those that can join it, as many rows as a turn takes."""
        batch: list[_Waiting] = []
        others: deque[_Waiting] = deque()
        rows = 0
        for waiting in self._waiting:
            joins = not batch or (waiting.key is not None and waiting.key == batch[0].key)
            if joins and (not batch or rows + waiting.rows <= self.rows):
                batch.append(waiting)
                rows += waiting.rows
            else:
                others.append(waiting)
        self._waiting = others
        return batch

    async def _run(self, batch: list[_Waiting]) -> None:
        loop, began = asyncio.get_running_loop(), time.monotonic()
        rows = sum(waiting.rows for waiting in batch)
        outcomes = await loop.run_in_executor(self._thread, _outcomes, batch)
        if batch[0].key is not None:
            pace = (time.monotonic() - began) / max(1, rows)
            self.rows = int(min(MOST_ROWS, max(FEWEST_ROWS, TURN / max(pace, 1e-9))))
        if self._told is not None:
            self._told(len(batch), rows)
        for waiting, (result, error) in zip(batch, outcomes, strict=True):
            if waiting.result.done():
                continue  # its client has gone
            if error is not None:
                waiting.result.set_exception(error)
            else:
                waiting.result.set_result(result)


def _outcomes(batch: list[_Waiting]) -> list[tuple[Any, Exception | None]]:
    """(result, None) or (None, error) for each of them, from one call if that succeeds."""
    first = batch[0]
    try:
        if first.key is None:
            return [(first.work(first.item), None)]
        results = first.work([waiting.item for waiting in batch])
        if len(results) != len(batch):
            raise RuntimeError(f"{len(results)} results for {len(batch)} items")
        return [(result, None) for result in results]
    except Exception as error:
        if len(batch) == 1:
            return [(None, error)]
    return [outcome for waiting in batch for outcome in _outcomes([waiting])]
