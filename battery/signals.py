"""Ctrl-C and SIGTERM at random moments: the process ends by itself, alone, and leaves nothing half-written.

Moments are drawn from the time that an undisturbed run takes. Nothing is asserted about seconds: a process
that does not end is given up after minutes.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np

from battery import Case, Scope
from battery.commands import COMMAND, COMMANDS, Command, assert_whole, ended, run, started, work_folder

SIGNALS = (signal.SIGINT, signal.SIGTERM)
# Python ends by the signal itself where it comes before the command has taken over.
ENDS = (130, -signal.SIGINT, -signal.SIGTERM)

LIBRARY = """
import sys
import numpy as np
from residuum import {name}
rng = np.random.default_rng(0)
X, Q = np.abs(rng.normal(size=(1500, 100))), np.abs(rng.normal(size=(400, 100)))
model = {name}({options}).fit(X, np.arange(1500) % 10)
labels = model.predict(Q[:20])
for left in reversed(range({times})):
    try:
        print("ready", flush=True)
        while True:
            model.{call}
    except KeyboardInterrupt:
        assert (model.predict(Q[:20]) == labels).all(), "after an interrupt it answers otherwise"
        if not left:
            raise
"""
CALLS = {"fit": "fit(X, np.arange(1500) % 10)", "predict": "predict(Q)"}
MODELS = {"NRC": "", "exact NRC": "solver='exact'", "SoftNRC": "", "SRC": "", "CRC": "", "NSC": ""}
# Long enough for every moment that matters; these take longer than they need to.
LONGEST = 15.0


def cases(scope: Scope) -> Iterator[Case]:
    """Every command and the library itself, each signal at several moments."""
    for name in COMMANDS:
        if not scope.quick:
            yield Case(f"{name}, undisturbed", partial(undisturbed, name))
        for number in SIGNALS:
            for moment in range(scope.count(1, 10)):
                seed = 1000 * scope.seed + moment
                longest = partial(duration, name) if not scope.quick else lambda: 4.0
                yield Case(
                    f"{name}, {number.name}, moment {seed}",
                    partial(interrupted, name, number, seed, longest),
                )
    for number in SIGNALS:
        for moment in range(scope.count(1, 10)):
            yield Case(f"data fetch, {number.name}, moment {moment}", partial(download, number, moment))
    for name in MODELS if not scope.quick else ("exact NRC", "SoftNRC"):
        for call in CALLS:
            yield Case(f"{name}.{call}, SIGINT", partial(library, name, call, scope.count(2, 10), scope.seed))
            for moment in range(scope.count(0, 2)):  # left to the kernel, which ends any program
                seed = 1000 * scope.seed + moment
                yield Case(
                    f"{name}.{call}, SIGTERM, moment {moment}", partial(ended_by_kernel, name, call, seed)
                )


def undisturbed(name: str) -> None:
    """It runs to its end and writes what it should; how long it takes says when to interrupt it."""
    duration(name)


@cache
def duration(name: str) -> float:
    """Seconds of an undisturbed run."""
    command = COMMANDS[name]
    with work_folder() as folder:
        line, begun = command.line(), time.perf_counter()
        done = run(line, folder)
        assert done.returncode == 0, done.stderr
        assert all((folder / written).exists() for written in command.writes)
        assert_whole(command, folder)
        return time.perf_counter() - begun


def interrupted(name: str, number: signal.Signals, seed: int, longest: Callable[[], float]) -> None:
    """One signal at one moment."""
    command = COMMANDS[name]
    rng = np.random.default_rng([seed, int(number), *name.encode()])  # other moments for every command
    moment = rng.uniform(0, min(longest(), LONGEST))
    with work_folder() as folder, started(command.line(), folder) as process:
        check_end(process, number, moment, command, folder)


def check_end(
    process: subprocess.Popen[str], number: signal.Signals, moment: float, command: Command, folder: Path
) -> None:
    """Send the signal and look at what remains; a process that was quicker is left to finish.

    It is held while the signal is sent, so that a process which then ends with success has lost the signal.
    """
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGSTOP)
    sent = is_held(process)
    if sent and number is signal.SIGINT:  # Ctrl-C reaches all processes of a terminal
        os.killpg(process.pid, number)
    elif sent:
        os.kill(process.pid, number)
    if sent:
        os.kill(process.pid, signal.SIGCONT)
    code, _, err = ended(process)
    if sent and had_not_begun(code, err):
        return
    assert code in (ENDS if sent else (0,)), f"exit code {code} after {moment:.2f} s: {err[-800:]}"
    assert code < 0 or "Traceback" not in err, f"after {moment:.2f} s: {err[-800:]}"
    assert_whole(command, folder)


def had_not_begun(code: int, err: str) -> bool:
    """Whether the signal came while Python itself was starting, which then ends with an error of its own."""
    return code == 1 and "init_import_site" in err


def is_held(process: subprocess.Popen[str]) -> bool:
    """Whether a process is stopped, and has not come to its end."""
    if process.returncode is not None:
        return False
    stat = Path(f"/proc/{process.pid}/stat")
    while (state := stat.read_text().rpartition(")")[2].split()[0]) not in "TZ":
        time.sleep(0.01)
    return state == "T"


@contextmanager
def silent_server() -> Iterator[str]:
    """The address of a server that begins an answer and never goes on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 1000000\r\n\r\nBZh9")

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


def download(number: signal.Signals, moment: int) -> None:
    """A download that waits for its server is ended as well; its partial file is kept to go on from."""
    seconds = np.random.default_rng([moment, int(number)]).uniform(0, 6)
    with silent_server() as address, work_folder() as folder:
        line = [*COMMAND, "data", "fetch", "usps", "--mirror", address, "--data", "home"]
        with started(line, folder) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
            code, _, err = ended(process)
        assert not (folder / "home" / "usps.bz2").exists()
        if had_not_begun(code, err):
            return
        assert code in ENDS, f"exit code {code}: {err[-800:]}"
        assert code < 0 or "Traceback" not in err, err[-800:]


def library(name: str, call: str, times: int, seed: int) -> int:
    """A program of the user's own goes on after all interrupts but the last, with the model as it was."""
    rng = np.random.default_rng(seed)
    with work_folder() as folder, started(program(name, call, times), folder) as process:
        for _ in range(times):
            signalled(process, signal.SIGINT, rng)
        code, _, err = ended(process)
        assert code in (-signal.SIGINT, 130, 1), f"exit code {code}: {err[-800:]}"
        assert err.rstrip().endswith("KeyboardInterrupt"), err[-800:]
    return times


def ended_by_kernel(name: str, call: str, seed: int) -> None:
    """A program of the user's own that does nothing about SIGTERM."""
    with work_folder() as folder, started(program(name, call, 1), folder) as process:
        signalled(process, signal.SIGTERM, np.random.default_rng(seed))
        code, _, err = ended(process)
        assert code == -signal.SIGTERM, f"exit code {code}: {err[-800:]}"


def program(name: str, call: str, times: int) -> list[str]:
    """The command line of a program that calls one method again and again, and goes on after interrupts."""
    script = LIBRARY.format(
        name=name.removeprefix("exact "), options=MODELS[name], call=CALLS[call], times=times
    )
    return [sys.executable, "-c", script]


def signalled(process: subprocess.Popen[str], number: signal.Signals, rng: np.random.Generator) -> None:
    """Wait until the program is ready, and a moment more; then send it a signal."""
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1][-800:]
    time.sleep(rng.uniform(0, 0.8))
    process.send_signal(number)
