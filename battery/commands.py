"""The command in real processes: its inputs, every sub-command, what it writes and what remains of it."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from battery import ROOT

COMMAND = [sys.executable, "-m", "residuum"]
# `reproduce` has its grids cut; all else is the command as it is.
SMALL = [sys.executable, str(ROOT / "battery" / "small_reproduce.py")]
HANG = 180  # seconds of processor time that nothing here may take, and seconds of waiting without any
_folder = tempfile.TemporaryDirectory(prefix="battery-")


@dataclass(frozen=True)
class Command:
    """Words of a command line with {inputs} in them, and the files that it writes below its own folder."""

    words: str
    writes: tuple[str, ...] = ()

    def line(self) -> list[str]:
        """The whole command line, with its paths filled in."""
        start = SMALL if self.words.startswith("reproduce") else COMMAND
        return [*start, *(word.format(inputs=inputs()) for word in self.words.split())]


COMMANDS = {
    "compare": Command(
        "compare {inputs}/digits.csv --trials 2 --train-per-class 12 --out run",
        ("run/results.json", "run/table.md", "run/report.html"),
    ),
    "fit": Command(
        "fit {inputs}/digits.csv --select cv --test-size 0.3 --probability --out model.residuum",
        ("model.residuum",),
    ),
    "predict": Command(
        "predict {inputs}/model.residuum {inputs}/digits.csv --out answers.csv", ("answers.csv",)
    ),
    "evaluate": Command("evaluate {inputs}/model.residuum {inputs}/digits.csv --json"),
    "explain": Command(
        "explain {inputs}/model.residuum {inputs}/digits.csv --row 3 --html why.html", ("why.html",)
    ),
    "features": Command("features {inputs}/photos --out features.npz --cache cache", ("features.npz",)),
    "bench": Command("bench --quick --no-peers --shape tall --json"),
    "reproduce": Command(
        "reproduce table1 --quick --protocol authors --data {inputs}/home --out run --n-jobs 2",
        ("run/report.md", "run/report.html"),
    ),
    "results": Command("results {inputs}/run --out page.md", ("page.md",)),
    "data import": Command("data import ar {inputs}/home/AR_DAT.mat --data home", ("home/ar/AR_DAT.mat",)),
    "data verify": Command("data verify ar --data {inputs}/home --json"),
    "doctor": Command("doctor --json"),
}


@cache
def inputs() -> Path:
    """A folder with a table, a model, photographs, faces and a run folder, made once for all groups."""
    shared = Path(os.environ.get("BATTERY_SHARED", _folder.name))
    with (shared / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "inputs").exists():
            _make_inputs(shared / "unfinished")
            (shared / "unfinished").rename(shared / "inputs")
    return shared / "inputs"


def _make_inputs(folder: Path) -> None:
    folder.mkdir()
    X, y = load_digits(return_X_y=True)
    head = [*(f"p{i}" for i in range(64)), "digit"]
    rows = [",".join(map(str, [*x.astype(int), f"d{label}"])) for x, label in zip(X[:600], y, strict=False)]
    (folder / "digits.csv").write_text("\n".join([",".join(head), *rows]) + "\n")
    _write_photos(folder / "photos")
    _write_faces(folder / "home")
    for words in (
        f"fit {folder}/digits.csv --probability --out {folder}/model.residuum",
        f"reproduce table1 --quick --protocol authors --data {folder}/home --out {folder}/run --n-jobs 2",
    ):
        done = run([*(SMALL if "reproduce" in words else COMMAND), *words.split()], folder)
        assert done.returncode == 0, done.stderr


def _write_photos(folder: Path) -> None:
    from PIL import Image
    from ugly_images import scene

    for i in range(24):
        place = folder / f"class {i % 3}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(scene(128, 160, seed=i)).save(place / f"{i}.png")


def _write_faces(folder: Path) -> None:
    """A synthetic AR_DAT.mat of the exact shape of the public file."""
    from scipy.io import savemat

    rng = np.random.default_rng(0)
    faces = rng.uniform(40, 220, size=(100, 2580))
    train = np.repeat(np.arange(1, 101), 7)
    test = np.delete(train, 76 * 7)  # subject 77 lacks one image

    def images(labels: np.ndarray) -> np.ndarray:
        noisy = faces[labels - 1] + rng.normal(scale=60, size=(len(labels), 2580))
        return np.clip(noisy, 0, 255).astype(np.uint8).T

    folder.mkdir()
    content = {"NewTrain_DAT": images(train), "NewTest_DAT": images(test)}
    labels = {"trainlabels": train[None].astype(np.uint8), "testlabels": test[None].astype(np.uint8)}
    savemat(folder / "AR_DAT.mat", {**content, **labels})


def environment(**more: str) -> dict[str, str]:
    """The variables of a process of the command, without those that change what it prints."""
    kept = {
        k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "RESIDUUM_DATA", "PYTHONUNBUFFERED")
    }
    cache_folder = Path(_folder.name) / "cache"
    return {
        **kept, "PYTHONPATH": f"{ROOT / 'src'}", "XDG_CACHE_HOME": str(cache_folder),
        "OMP_NUM_THREADS": "1", **more,
    }  # fmt: skip


def run(line: list[str], cwd: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end in a folder."""
    settings = {"env": environment(), "capture_output": True, "text": True, "errors": "replace", **options}
    return subprocess.run(line, cwd=cwd, timeout=10 * HANG, check=False, **settings)


@contextmanager
def work_folder() -> Iterator[Path]:
    """An empty folder for one process."""
    with tempfile.TemporaryDirectory(dir=_folder.name) as folder:
        yield Path(folder)


@contextmanager
def started(line: list[str], cwd: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own, of which nothing is left at the end."""
    process = subprocess.Popen(
        line, cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors="replace", process_group=0, **options,
    )  # fmt: skip
    try:
        yield process
    finally:
        if _lives(process.pid):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


class Patience:
    """Waits for a group of processes as long as it works, however little a busy machine lets it work."""

    def __init__(self, group: int) -> None:
        self._group, self._used, self._since = group, -1.0, time.monotonic()

    def wait(self, waiting_for: str) -> None:
        """A short pause; an error if the group has worked for too long, or does not work at all."""
        used = _processor_time(self._group)
        if used != self._used:
            self._used, self._since = used, time.monotonic()
        assert used < HANG, f"{waiting_for}: not after {HANG} s of processor time"
        assert time.monotonic() < self._since + HANG, f"{waiting_for}: nothing was done for {HANG} s"
        time.sleep(0.02)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a process that must end by itself and leave no other behind."""
    patience = Patience(process.pid)
    while True:
        try:
            out, err = process.communicate(timeout=0.5)
            break
        except subprocess.TimeoutExpired:
            patience.wait("its end")
    while _lives(process.pid):
        patience.wait("the end of every process that it started")
    return process.returncode, out, err


def _stats(group: int) -> Iterator[list[str]]:
    """What /proc tells of every process of a group that is not a zombie, from its state on."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            yield fields


def _lives(group: int) -> bool:
    """Whether any process of a group is left."""
    return any(True for _ in _stats(group))


def _processor_time(group: int) -> float:
    """Seconds that the processes of a group have used."""
    return sum(int(fields[11]) + int(fields[12]) for fields in _stats(group)) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Worker processes of a process: those that Python's pool has spawned, without its resource tracker."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"spawn_main" in words:
            found.append(int(entry.name))
    return sorted(found)


def assert_whole(command: Command, folder: Path) -> None:
    """Everything that a command has written is complete, and no unfinished file lies beside it."""
    for name in command.writes:
        if (folder / name).exists():
            READERS.get((folder / name).suffix, _not_empty)(folder / name)
    parts = [str(path) for path in folder.rglob("*.part")]
    assert not parts, f"an unfinished file is left: {parts[0]}"


def _not_empty(path: Path) -> None:
    assert path.read_bytes().strip(), f"{path.name} is empty"


def _read_model(path: Path) -> None:
    from residuum import load_model

    load_model(path)


def _read_answers(path: Path) -> None:
    assert len(path.read_text().splitlines()) == 601, f"{path.name} is not whole"


def _read_page(path: Path) -> None:
    assert path.read_text().rstrip().endswith("</html>"), f"{path.name} is not whole"


READERS: dict[str, Callable[[Path], Any]] = {
    ".json": lambda path: json.loads(path.read_text()),
    ".residuum": _read_model,
    ".csv": _read_answers,
    ".html": _read_page,
    ".npz": lambda path: zipfile.ZipFile(path).testzip(),
}
