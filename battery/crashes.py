"""SIGKILL, which no program can handle: what was finished is kept, and the same command finishes the rest.

A worker process of ``reproduce`` is killed, or the whole command; in the full battery also the workers and
the scheduler of Dask clusters (`clusters`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from battery import Case, Scope, clusters
from battery.commands import COMMANDS, Patience, children, ended, run, started, work_folder

MOMENTS = ("starting", "first result", "later")


def cases(scope: Scope) -> Iterator[Case]:
    """Workers of reproduce at three moments, ten times each; other commands as a whole."""
    for moment in MOMENTS[1:2] if scope.quick else MOMENTS:
        for turn in range(scope.count(1, 10)):
            yield Case(f"reproduce, a worker killed, {moment}, {turn}", partial(worker, moment, turn))
    for name in ("fit", "predict") if scope.quick else RESULTS:
        for turn in range(scope.count(1, 10)):
            seed = 1000 * scope.seed + turn
            yield Case(f"{name}, killed, moment {seed}", partial(whole_command, name, seed))
    if not scope.quick:
        yield Case("Dask workers, killed 20 times", partial(clusters.many_kills, scope.seed, 20))
        yield Case("Dask scheduler, killed", clusters.lost_scheduler)
        yield Case("Dask worker, out of memory", clusters.worker_without_memory)


def worker(moment: str, turn: int) -> None:
    """One clear error, no process left, and a second run that gives what an undisturbed one gives."""
    line = COMMANDS["reproduce"].line()
    with work_folder() as folder:
        with started(line, folder) as process:
            patience = Patience(process.pid)
            while not (workers := children(process.pid)) or not _reached(folder, moment, turn):
                assert process.poll() is None, process.communicate()[1]
                patience.wait("a worker process and its results")
            os.kill(workers[turn % len(workers)], signal.SIGKILL)
            code, _, err = ended(process)
        if code:  # it may just have been done
            assert code == 1, f"exit code {code}: {err}"
            assert "A worker process ended before its work was done" in err, err
            assert "Traceback" not in err, err
        assert not list(folder.rglob("*.part")), "an unfinished file is left"
        done = run(line, folder)
        assert done.returncode == 0, done.stderr
        assert RESULTS["reproduce"](folder) == undisturbed("reproduce")


def _reached(folder: Path, moment: str, turn: int) -> bool:
    cells = len(list(folder.glob("run/cells/*/*/*.json")))
    return cells >= {"starting": 0, "first result": 1, "later": 3 + turn % 4}[moment]


def whole_command(name: str, seed: int) -> None:
    """Kill everything at a random moment, run it again, and get the result of an undisturbed run."""
    expected = undisturbed(name)
    seconds = np.random.default_rng(seed).uniform(0.2, min(durations[name], 20))
    line = COMMANDS[name].line()
    with work_folder() as folder:
        with started(line, folder) as process:
            try:
                process.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
            ended(process)
        for written in COMMANDS[name].writes:
            if (folder / written).exists():
                RESULTS[name](folder)  # whole, or it could not be read
                break
        done = run(line, folder)
        assert done.returncode == 0, f"killed after {seconds:.2f} s, then: {done.stderr}"
        assert RESULTS[name](folder) == expected, f"another result; killed after {seconds:.2f} s"


durations: dict[str, float] = {}


@cache
def undisturbed(name: str) -> Any:
    """The result of a run that nothing happens to."""
    with work_folder() as folder:
        line, begun = COMMANDS[name].line(), time.perf_counter()
        done = run(line, folder)
        durations[name] = time.perf_counter() - begun
        assert done.returncode == 0, done.stderr
        return RESULTS[name](folder)


def _compared(folder: Path) -> Any:
    results = json.loads((folder / "run" / "results.json").read_text())
    return sorted((c["method"], c["trial"], c["predictions"], c["gap"]) for c in results["cells"])


def _reproduced(folder: Path) -> Any:
    kept = ("recipe", "predictions", "parameters", "candidates", "selection_score")
    cells = sorted((folder / "run" / "cells").rglob("*.json"))
    return [{key: json.loads(cell.read_text())[key] for key in kept} for cell in cells]


def _fitted(folder: Path) -> Any:
    from sklearn.datasets import load_digits

    from residuum import load_model

    return load_model(folder / "model.residuum").predict(load_digits().data[600:]).tolist()


def _features(folder: Path) -> Any:
    content = np.load(folder / "features.npz")
    return {name: content[name].tolist() for name in ("X", "y", "paths")}


RESULTS: dict[str, Callable[[Path], Any]] = {
    "compare": _compared,
    "reproduce": _reproduced,
    "fit": _fitted,
    "predict": lambda folder: (folder / "answers.csv").read_text(),
    "features": _features,
}
