"""Disks that are full or cannot be written, a folder that is gone, and eight processes that want one file."""

from __future__ import annotations

import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from battery import ROOT, Case, Scope, Skipped
from battery.commands import COMMAND, COMMANDS, assert_whole, environment, inputs, run, started, work_folder
from battery.through_pytest import results_of

FULL = Path("/dev/full")
# Every command that prints results, in the form that prints most of them.
PRINTING = {
    **{name: command.words for name, command in COMMANDS.items() if not command.writes},
    "predict": "predict {inputs}/model.residuum {inputs}/digits.csv",
    "predict, JSON": "predict {inputs}/model.residuum {inputs}/digits.csv --json",
    "explain": "explain {inputs}/model.residuum {inputs}/digits.csv --row 3",
    "evaluate": "evaluate {inputs}/model.residuum {inputs}/digits.csv",
    "compare": "compare {inputs}/digits.csv --methods crc --trials 1 --train-per-class 5 --out run",
    "compare, JSON": "compare {inputs}/digits.csv --methods crc --trials 1 --out run --json",
    "fit": "fit {inputs}/digits.csv --method crc --out model.residuum",
    "results": "results {inputs}/run",
    "data status": "data status",
    "--help": "--help",
    "--version": "--version",
}
CODES = (1, 2, 3)
FEW = ("predict", "evaluate", "explain", "results", "doctor", "--help")  # the quick share


def cases(scope: Scope) -> Iterator[Case]:
    """Every command that writes or prints."""
    for name in COMMANDS:
        if COMMANDS[name].writes:
            for limit in () if scope.quick else (0, 1, 1000, 20_000):
                yield Case(f"{name}, files of {limit} bytes at most", partial(small_files, name, limit))
            if name in FEW or not scope.quick:
                yield Case(f"{name}, a disk of 64 kB", partial(small_disk, name))
    for name, words in PRINTING.items():
        if name in FEW or not scope.quick:
            yield Case(f"{name} > /dev/full", partial(full_output, words))
    for name in ("predict", "explain", "fit"):
        yield Case(f"{name}, the earlier file stays", partial(earlier_file, name))
    for name in ("predict", "features") if scope.quick else ("fit", "predict", "compare", "features"):
        yield Case(f"{name}, no cache folder can be made", partial(no_cache, name))
    yield Case("predict, nothing can be written but its output", read_only_installation)
    for name in COMMANDS:
        if name in FEW or not scope.quick:
            yield Case(f"{name}, the current folder is deleted", partial(deleted_folder, name))
    if scope.quick:
        return  # `make test` runs most of the rest
    yield Case("features, eight processes and one cache", eight_extractions)
    names = "eight_processes or full_disk or cannot_be_made"
    yield results_of("tests/test_download.py", "-n0", "-k", names)
    yield results_of("tests/test_features_cache.py", "-n0", "-k", "full or space or processes or damaged")


def refused(done: subprocess.CompletedProcess[str], folder: Path, *named: str) -> None:
    """A documented exit code and one error that names what could not be written."""
    assert done.returncode in CODES, f"exit code {done.returncode}: {done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    assert "Error: unexpected" not in done.stderr, done.stderr
    error = done.stderr.strip().splitlines()[-1]
    assert error.startswith("Error: "), error
    assert any(name in error for name in named), f"none of {named} is named: {error}"
    assert not list(folder.rglob("*.part")), "an unfinished file is left"


def small_files(name: str, limit: int) -> None:
    """No file may grow beyond a limit, as on a disk that is nearly full."""
    command = COMMANDS[name]
    with work_folder() as folder:
        done = run(
            command.line(),
            folder,
            env=environment(XDG_CACHE_HOME=str(folder / "cache"), NUMBA_CACHE_DIR=""),
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        if done.returncode == 0:  # all that it writes is smaller
            assert all((folder / written).exists() for written in command.writes)
            assert_whole(command, folder)
            return
        places = {written.split("/")[0] for written in command.writes}
        refused(done, folder, *places, *command.writes, "cache")
        assert_whole(command, folder)


@contextmanager
def tiny_disk(size: str = "64k") -> Iterator[Path]:
    """A small file system in memory."""
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
        )
        if made.returncode:
            raise Skipped("needs the right to mount a file system")
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def small_disk(name: str) -> None:
    """A real disk that is full."""
    command = COMMANDS[name]
    with tiny_disk() as folder:
        (folder / "filling").write_bytes(bytes(56 * 1024))
        done = run(command.line(), folder)
        if done.returncode == 0:
            assert_whole(command, folder)
            return
        places = {written.split("/")[0] for written in command.writes}
        refused(done, folder, *places, *command.writes, "cache")
        assert_whole(command, folder)


def full_output(words: str) -> None:
    """Standard output that takes nothing."""
    if not FULL.exists():
        raise Skipped("needs /dev/full")
    with work_folder() as folder, FULL.open("w") as full:
        line = [*COMMAND, *(word.format(inputs=inputs()) for word in words.split())]
        done = run(line, folder, capture_output=False, stdout=full, stderr=subprocess.PIPE)
        refused(done, folder, "standard output")
        assert done.returncode == 1, f"exit code {done.returncode}: {done.stderr}"


def earlier_file(name: str) -> None:
    """What was there before a failed write is there afterwards."""
    command = COMMANDS[name]
    with work_folder() as folder:
        (folder / command.writes[0]).write_bytes(b"earlier" * 100)
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (500, 500))
        done = run(command.line(), folder, preexec_fn=limit)
        refused(done, folder, command.writes[0])
        assert (folder / command.writes[0]).read_bytes() == b"earlier" * 100


def no_cache(name: str) -> None:
    """Where nothing can be kept, a command works without or says what to choose."""
    command = COMMANDS[name]
    with work_folder() as folder:
        line = [word for word in command.line() if word not in ("--cache", "cache")]
        done = run(line, folder, env=environment(XDG_CACHE_HOME="/dev/null/cache", HOME="/dev/null"))
        if name == "features":
            refused(done, folder, "cache")
        else:
            assert done.returncode == 0, done.stderr
            assert_whole(command, folder)


def read_only_installation() -> None:
    """An installation, a home and a cache that cannot be written: slower, but the same answers."""
    with tiny_disk("32m") as installed, work_folder() as folder:
        left_out = shutil.ignore_patterns("__pycache__")
        source = shutil.copytree(ROOT / "src", installed / "src", ignore=left_out)
        subprocess.run(["mount", "-o", "remount,ro", str(installed)], check=True)
        settings = environment(PYTHONPATH=str(source), HOME="/dev/null", XDG_CACHE_HOME="/dev/null/cache")
        done = run(COMMANDS["predict"].line(), folder, env=settings)
        assert done.returncode == 0, done.stderr
        assert_whole(COMMANDS["predict"], folder)


def deleted_folder(name: str) -> None:
    """A command whose folder was deleted works, or says that it cannot write there, or that it needs one.

    It needs one where the package coverage is installed, which numba imports, and which asks for the folder.
    """
    command = COMMANDS[name]
    with work_folder() as folder:
        gone = folder / "gone"
        gone.mkdir()
        script = f'cd {gone} && rmdir {gone} && exec "$@"'
        done = run(["sh", "-c", script, "sh", *command.line()], folder)
        if command.writes:
            assert done.returncode in CODES, f"exit code {done.returncode}: {done.stderr}"
        else:
            said = done.returncode == 1 and "The current folder was deleted." in done.stderr
            assert said or done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr, done.stderr
        assert "Error: unexpected" not in done.stderr, done.stderr


def eight_extractions() -> None:
    """Eight processes compute the features of the same images into one cache: all get the same."""
    words = f"features {inputs()}/photos --n-jobs 1 --cache cache --json"
    with work_folder() as folder:
        from contextlib import ExitStack

        with ExitStack() as stack:
            processes = [
                stack.enter_context(started([*COMMAND, *words.split(), "--out", f"{i}.npz"], folder))
                for i in range(8)
            ]
            for process in processes:
                _, err = process.communicate()
                assert process.returncode == 0, err
        import numpy as np

        first = np.load(folder / "0.npz")["X"]
        for i in range(1, 8):
            assert (np.load(folder / f"{i}.npz")["X"] == first).all()
        assert not list(folder.rglob("*.part"))
