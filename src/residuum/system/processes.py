"""Work side by side: processes that take one piece after another and tell what they are doing.

A process that dies ends the whole with an error, instead of letting it wait forever.
"""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any

from residuum.errors import ResiduumError
from residuum.system.machine import limit_threads

# What a piece of work reports, with the name of the report first.
Tell = Callable[..., None]

PATIENCE = 20.0  # seconds for a process to put away what it is writing


def side_by_side(
    make: Callable[[], Callable[[Any, Tell], None]],
    pieces: Sequence[Any],
    on_report: Tell,
    *,
    workers: int,
    threads: int,
) -> None:
    """Do all pieces, `workers` at a time.

    Parameters
    ----------
    make : callable
        Called once in every process, where it returns the function ``work(piece, tell)``. It must be possible
        to pickle it.
    pieces : sequence
        What `work` is called with, in this order.
    on_report : callable
        Called in this process with whatever a `work` gave to its `tell`.
    workers, threads : int
        Processes, and threads of BLAS and of the solvers within each.
    """
    waiting = iter(pieces)
    with _processes(make, workers, threads) as pipes:
        busy = {pipe for pipe in pipes if _give(pipe, waiting)}
        while busy:
            for pipe in wait(busy):
                name, *told = _receive(pipe, pipes)
                if name == "failed":
                    raise told[0]
                if name == "told":
                    on_report(*told[0])
                elif not _give(pipe, waiting):
                    busy.remove(pipe)


def _give(pipe: Any, waiting: Iterator[Any]) -> bool:
    for piece in waiting:
        with suppress(BrokenPipeError):  # a dead process is noticed when its answer is read
            pipe.send(piece)
        return True
    return False


def _receive(pipe: Any, pipes: dict[Any, Any]) -> Any:
    try:
        return pipe.recv()
    except (EOFError, ConnectionResetError):
        pipes[pipe].join()
        raise ResiduumError(
            f"A worker process ended with code {pipes[pipe].exitcode}, perhaps for want of memory. What was "
            "finished is kept; the same command with --n-jobs 1 needs the least memory."
        ) from None


@contextmanager
def _processes(make: Any, workers: int, threads: int) -> Iterator[dict[Any, Any]]:
    context = multiprocessing.get_context("spawn")  # a fork would inherit the threads of BLAS half
    processes: dict[Any, Any] = {}
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, make, threads), daemon=True)
            with _interrupts_ignored():
                process.start()
            theirs.close()
            processes[ours] = process
        yield processes
    finally:
        for process in processes.values():
            process.terminate()
        for pipe, process in processes.items():
            process.join(PATIENCE)
            process.kill()
            process.join()
            pipe.close()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; those started in here leave it to their parent."""
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _ParentGoneError(BaseException):
    """Nobody is left to work for."""


def _serve(pipe: Connection, make: Any, threads: int) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def send(name: str, *told: Any) -> None:
        try:
            pipe.send((name, *told))
        except OSError:
            raise _ParentGoneError from None

    def receive() -> Any:
        try:
            return pipe.recv()
        except (EOFError, OSError):
            raise _ParentGoneError from None

    with suppress(_ParentGoneError, KeyboardInterrupt), limit_threads(threads):
        try:
            work = make()
            while True:
                work(receive(), lambda *report: send("told", report))
                send("free")
        except Exception as error:
            send("failed", _portable(error))


def _portable(error: Exception) -> Exception:
    """The error itself where it survives the way to another process, else its traceback as text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = None
    same = type(copy) is type(error) and isinstance(error, ResiduumError)
    return error if same else RuntimeError("".join(traceback.format_exception(error)))
