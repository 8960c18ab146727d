"""Dask clusters that fail: workers that are killed, a worker without memory, a scheduler that is gone."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from battery import ROOT, refusal
from battery.commands import COMMAND, Patience, ended, run, started, work_folder

PARTS = 40


def many_kills(seed: int, kills: int) -> int:
    """Workers killed again and again over all methods: every bit as in one process. Each kill counts."""
    line = [
        sys.executable,
        str(ROOT / "tests" / "kill_workers.py"),
        "--kills",
        str(kills),
        "--seed",
        str(seed),
    ]
    with work_folder() as folder:
        done = run(line, folder)
    assert done.returncode == 0, done.stderr[-4000:]
    assert f"{kills} kills" in done.stdout, done.stdout[-1000:]
    return kills


@contextmanager
def _cluster(folder: Path) -> Iterator[Any]:
    """The process of a scheduler, which describes itself in cluster.json, and beside it one worker."""
    file = folder / "cluster.json"
    file.unlink(missing_ok=True)
    dask = [sys.executable, "-m", "distributed.cli.dask_"]
    options = ["--no-dashboard", "--scheduler-file", str(file)]
    with ExitStack() as stack:
        scheduler = stack.enter_context(
            started([*dask[:2], dask[2] + "scheduler", "--port", "0", *options], folder)
        )
        stack.enter_context(started([*dask[:2], dask[2] + "worker", "--nthreads", "1", *options], folder))
        yield scheduler


def lost_scheduler() -> None:
    """One clear error and exit code 1; whole parts only; the same command finishes on a new cluster."""
    from residuum import SoftNRC, save_model, scale

    rng = np.random.default_rng(0)
    with work_folder() as folder:
        save_model(SoftNRC().fit(rng.uniform(size=(600, 64)), np.arange(600) % 4), folder / "m.residuum")
        (folder / "new").mkdir()
        for i in range(PARTS):
            np.save(folder / "new" / f"{i:02}.npy", rng.uniform(size=(200, 64)))
        scale.answer(folder / "m.residuum", folder / "new", folder / "alone", runner=scale.Local(n_jobs=1))
        line = [*COMMAND, *["predict", "m.residuum", "new", "--out", "out", "--cluster", "cluster.json"]]
        with _cluster(folder) as scheduler:
            _wait_for(folder / "cluster.json", scheduler)
            with started(line, folder) as process:
                _wait_for(folder / "out" / "00000.csv", process)
                os.kill(scheduler.pid, signal.SIGKILL)
                code, _, err = ended(process)
        assert code == 1, f"exit code {code}: {err}"
        assert "connection to the Dask scheduler was lost" in err, err
        assert "Traceback" not in err, err
        _compare(folder, whole=False)
        with _cluster(folder) as scheduler:
            _wait_for(folder / "cluster.json", scheduler)
            done = run(line, folder)
        assert done.returncode == 0, done.stderr
        _compare(folder, whole=True)


def _wait_for(file: Path, process: Any) -> None:
    patience = Patience(process.pid)
    while not file.exists():
        assert process.poll() is None, process.communicate()[1]
        patience.wait(file.name)


def _compare(folder: Path, *, whole: bool) -> None:
    expected = {file.name: file.read_bytes() for file in (folder / "alone").glob("*.csv")}
    found = {file.name: file.read_bytes() for file in (folder / "out").glob("*.csv")}
    assert len(expected) == PARTS
    assert found.items() <= expected.items(), "a part has other bytes"
    assert len(found) == PARTS if whole else 0 < len(found) < PARTS, sorted(found)


class Greedy(int):
    """A part that takes more memory than a worker has."""

    def __str__(self) -> str:
        return f"part {int(self)}"


def fill_memory(part: int) -> int:
    """Take memory without end for part 1."""
    taken = []
    while part == 1:
        taken.append(np.ones(2**20))
    return part


def worker_without_memory() -> None:
    """Workers that exceed their limit end in one error that names the part."""
    from residuum.scale import Dask
    from residuum.scale.cluster import local_workers
    from residuum.scale.runner import ClusterError

    with (
        tempfile.TemporaryDirectory() as place,
        local_workers(1, memory_limit="1GB", local_directory=place) as client,
    ):
        message = refusal(
            lambda: list(Dask(client).map(fill_memory, [Greedy(i) for i in range(3)])), ClusterError
        )
    assert "part 1" in message, message
    assert "memory" in message, message
