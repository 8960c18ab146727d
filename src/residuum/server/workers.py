"""Several processes that accept connections of one socket, and the one that watches over them.

The socket belongs to the supervisor. A connection that no worker has accepted yet waits in it, so a worker
that is killed takes only the connections with it that it had accepted; it is started again.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from residuum.errors import ResiduumError
from residuum.server.metrics import Layout, Metrics, shared_rows
from residuum.server.running import GRACE, Build, Settings, Worker, run_here, say

READY = "ready"
PAUSE = 1.0  # seconds before a worker is started again that could not begin


class _Process:
    """One worker: its process, and the pipe through which it says that it is ready or why it is not."""

    def __init__(self, start: Callable[[Connection], Any]) -> None:
        self.pipe, theirs = multiprocessing.Pipe(duplex=False)
        self.process = start(theirs)
        theirs.close()
        self.ready = False
        self.reload_later = False

    def hear(self) -> tuple[str, int] | None:
        """What the worker says, with the exit code of an error; None if it has nothing to say."""
        try:
            return self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return None

    def signal(self, number: int) -> None:
        if self.process.is_alive():
            os.kill(self.process.pid, number)


def supervise(build: Build, settings: Settings, listening: socket.socket, ready: Callable[[], None]) -> int:
    """Keep `settings.workers` processes alive until a signal; return that signal."""
    with _noted_signals() as (noted, bell):
        return _Supervisor(build, settings, listening, ready).run(noted, bell)


class _Supervisor:
    def __init__(
        self, build: Build, settings: Settings, listening: socket.socket, ready: Callable[[], None]
    ) -> None:
        self.settings, self.listening, self.tell_ready = settings, listening, ready
        self.build = build
        self.context = multiprocessing.get_context("spawn")  # a forked BLAS can wait forever for its threads
        self.rows = shared_rows(Layout(settings.paths), settings.workers)
        self.workers: list[_Process] = []
        self.began = False
        self.again: dict[int, float] = {}  # worker -> when to start it again

    def run(self, noted: list[int], bell: socket.socket) -> int:
        try:
            self.workers = [self._started(i) for i in range(self.settings.workers)]
            while True:
                pause = min(self.again.values()) - time.monotonic() if self.again else None
                alive = [w.process.sentinel for i, w in enumerate(self.workers) if i not in self.again]
                pipes = [
                    worker.pipe for worker in self.workers if not worker.ready and not worker.pipe.closed
                ]
                wait([bell, *alive, *pipes], timeout=None if pause is None else max(0.0, pause))
                _silence(bell)
                while noted:
                    number = noted.pop(0)
                    if number in (signal.SIGINT, signal.SIGTERM):
                        return number
                    self._reload()
                self._look_after()
        finally:
            self._end()

    def _started(self, number: int) -> _Process:
        def start(theirs: Connection) -> Any:
            process = self.context.Process(
                target=_work,
                args=(self.build, self.settings, self.listening, self.rows, number, theirs),
                daemon=True,
            )
            process.start()
            return process

        return _Process(start)

    def _reload(self) -> None:
        for worker in self.workers:
            if worker.ready:
                worker.signal(signal.SIGHUP)
            else:
                worker.reload_later = True

    def _look_after(self) -> None:
        """Hear those that begin, and start those again that have ended."""
        for number, worker in enumerate(self.workers):
            told = None if worker.ready or number in self.again else worker.hear()
            if told == (READY, 0):
                worker.ready = True
                if worker.reload_later:
                    worker.signal(signal.SIGHUP)
            elif told is not None and not self.began:
                error = ResiduumError(told[0])
                error.exit_code = told[1]
                raise error
            elif told is not None:
                say(f"Warning: a worker cannot begin. {told[0]}")
            if number in self.again:
                if time.monotonic() >= self.again[number]:
                    del self.again[number]
                    self.workers[number] = self._started(number)
            elif not worker.process.is_alive():
                self._lost(number, worker)
        if not self.began and all(worker.ready for worker in self.workers):
            self.began = True
            self.tell_ready()

    def _lost(self, number: int, worker: _Process) -> None:
        code = worker.process.exitcode
        if not self.began:
            raise ResiduumError(f"A worker process ended before it could serve, with exit code {code}.")
        worker.pipe.close()
        if worker.ready:
            say(f"Warning: worker {number} ended with exit code {code}; it is started again.")
            self.workers[number] = self._started(number)
        else:
            self.again[number] = time.monotonic() + PAUSE

    def _end(self) -> None:
        """Let every worker finish what it has begun; nobody accepts connections any more."""
        self.listening.close()
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        until = time.monotonic() + GRACE + 5
        for worker in self.workers:
            worker.process.join(max(0.0, until - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


@contextmanager
def _noted_signals() -> Iterator[tuple[list[int], socket.socket]]:
    """A list that gets the signals, and a socket that can be read when one has come."""
    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        numbers.append(signal.SIGINT)
    noted: list[int] = []
    bell, hammer = socket.socketpair()
    bell.setblocking(False)
    hammer.setblocking(False)
    before = {number: signal.signal(number, lambda n, _: noted.append(n)) for number in numbers}
    wakeup = signal.set_wakeup_fd(hammer.fileno(), warn_on_full_buffer=False)
    try:
        yield noted, bell
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        bell.close()
        hammer.close()


def _silence(bell: socket.socket) -> None:
    with suppress(BlockingIOError):
        bell.recv(1024)  # what is left rings again


def _work(
    build: Build, settings: Settings, listening: socket.socket, rows: Any, number: int, pipe: Connection
) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the supervisor decides
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to read again
    worker = Worker(settings, Metrics(Layout(settings.paths), rows, number))
    try:
        parent = multiprocessing.parent_process()
        assert parent is not None
        run_here(build, worker, listening, lambda: pipe.send((READY, 0)), parent=parent.sentinel)
    except Exception as error:
        expected = isinstance(error, ResiduumError)
        told = str(error) if expected else f"Unexpected {type(error).__name__}: {error}"
        pipe.send((told, getattr(error, "exit_code", 1)))
