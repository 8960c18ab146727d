"""The command given nonsense: an exit code of the table, one line that says what is wrong, no traceback."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from battery import Case, Scope
from battery.commands import COMMANDS, inputs, run, work_folder
from residuum.cli.main import COMMANDS as NAMES
from residuum.cli.main import cli, main

QUICK = ("predict", "evaluate", "doctor")
GARBAGE = ["", " ", "-", "ä" * 50, "x" * 5000, "../../etc/passwd", "/dev/null", "%s%n", "1e999", "nan"]
NUMBERS = ["", "x", "nan", "1e99", "-99999999999999999999", "0x10", "٣", "1.5"]


def cases(scope: Scope) -> Iterator[Case]:
    """Every command and every one of its options."""
    for path, command in every_command():
        name = " ".join(path)
        yield Case(f"{name}, nothing given", partial(nothing, path, command))
        yield Case(f"{name}, --help", partial(help_text, path))
        yield Case(f"{name}, an unknown option", partial(usage, [*path, "--no-such-option"]))
        yield Case(f"{name}, too many words", partial(refused, [*path, *["surplus"] * 9]))
        for text in GARBAGE:
            yield Case(f"{name}, {text[:20]!r}", partial(refused, [*path, *[text] * needed(command)]))
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag:
                yield Case(
                    f"{name}, {option.opts[0]} without a value", partial(usage, [*path, option.opts[0]])
                )
                for value in NUMBERS:
                    if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
                        words = [*path, *["x"] * needed(command), option.opts[0], value]
                        yield Case(f"{name}, {option.opts[0]} {value!r}", partial(refused, words))
    for words in WRONG_FILES:
        yield Case(f"wrong file: {words}", partial(wrong_file, words))
    for name in QUICK if scope.quick else COMMANDS:
        yield Case(f"{name}, closed pipe", partial(closed_pipe, name))
    for name in ("predict",) if scope.quick else ("predict", "evaluate", "explain", "fit", "compare"):
        yield Case(f"{name}, a path that is not UTF-8", partial(not_utf8, name))
    for name in QUICK if scope.quick else COMMANDS:
        yield Case(f"{name}, no terminal and no stdin", partial(no_terminal, name))


def every_command() -> Iterator[tuple[list[str], click.Command]]:
    """Words and definition of each command, those of groups one by one."""
    context = click.Context(cli)
    for name in NAMES:
        command = cli.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                found = command.get_command(context, inner)
                assert found is not None
                yield [name, inner], found
        else:
            yield [name], command


def needed(command: click.Command) -> int:
    """How many words a command must be given, at least one."""
    required = [p for p in command.params if isinstance(p, click.Argument) and p.required]
    return max(1, len(required))


def called(words: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command in this process, in an empty folder."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    with work_folder() as folder, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        os.chdir(folder)
        try:
            code = main(words)
        finally:
            os.chdir(before)
        left = [path for path in folder.rglob("*") if path.is_file()]
    assert code == 0 or not left, f"it left {left[0].name}"
    return code, out.getvalue(), err.getvalue()


def refused(words: list[str]) -> None:
    """An exit code of the table other than success, and one line."""
    code, out, err = called(words)
    assert code in (1, 2, 3), f"exit code {code}: {err}"
    assert "Traceback" not in err, err
    if words[:2] == ["data", "verify"] and code == 3:
        return  # its result is which data sets are wrong
    assert out == "", f"stdout: {out[:200]}"
    assert err.splitlines()[-1].startswith("Error: "), err
    assert "Error: unexpected" not in err, err


def usage(words: list[str]) -> None:
    """Wrong usage is exit code 2."""
    code, _, err = called(words)
    assert code == 2, f"exit code {code}: {err}"
    assert err.count("\n") == 1, err


def nothing(path: list[str], command: click.Command) -> None:
    """Without what it needs, a command says so; `compare`, `bench` and others need nothing."""
    if any(parameter.required for parameter in command.params):
        usage(path)


def help_text(path: list[str]) -> None:
    """Help on stdout, exit code 0."""
    code, out, err = called([*path, "--help"])
    assert (code, err) == (0, ""), err
    assert "Usage: residuum" in out


WRONG_FILES = [
    "predict {inputs}/digits.csv {inputs}/digits.csv",
    "predict {inputs}/model.residuum {inputs}/model.residuum",
    "predict {inputs}/model.residuum {inputs}/home/AR_DAT.mat",
    "predict {inputs}/model.residuum {inputs}/photos",
    "predict {inputs}/model.residuum /dev/null",
    "predict /dev/null {inputs}/digits.csv",
    "predict {inputs} {inputs}/digits.csv",
    "evaluate {inputs}/photos {inputs}/digits.csv",
    "explain {inputs}/model.residuum {inputs}/digits.csv --row 100000",
    "explain {inputs}/model.residuum {inputs}/digits.csv --row nobody",
    "fit {inputs}/model.residuum",
    "fit {inputs}/home",
    "fit /dev/zero",
    "fit {inputs}/digits.csv --out /dev/null",
    "fit {inputs}/digits.csv --out {inputs}",
    "fit {inputs}/digits.csv --method nobody",
    "fit {inputs}/digits.csv --set rho=1",
    "fit {inputs}/digits.csv --method nrc --set rho=-1",
    "fit {inputs}/digits.csv --label nobody",
    "fit {inputs}/digits.csv --test-size 7",
    "fit {inputs}/digits.csv --pca 100000",
    "compare {inputs}/model.residuum",
    "compare {inputs}/photos/nothing",
    "compare {inputs}/digits.csv --methods nobody",
    "compare {inputs}/digits.csv --out {inputs}/digits.csv",
    "features {inputs}/digits.csv",
    "features {inputs}/home",
    "reproduce table1 --data {inputs}/photos",
    "reproduce table1 --data /dev/null",
    "results {inputs}/photos",
    "results {inputs}/digits.csv",
    "data verify ar --data {inputs}/photos",
    "data import ar {inputs}/digits.csv --data home",
    "data import usps {inputs}/home/AR_DAT.mat --data home",
    "data fetch usps --mirror ftp://nowhere --data home",
    "data fetch ar --data home",
]


def wrong_file(words: str) -> None:
    """A file or value of another kind than the command takes."""
    refused([word.format(inputs=inputs()) for word in words.split()])


def closed_pipe(name: str) -> None:
    """A reader that has gone, as after ``| head``: silence, and what was written is whole."""
    reading, writing = os.pipe()
    os.close(reading)
    with work_folder() as folder:
        done = run(
            COMMANDS[name].line(), folder, capture_output=False, stdout=writing, stderr=subprocess.PIPE
        )
        os.close(writing)
        assert done.returncode in (0, 1), f"exit code {done.returncode}: {done.stderr}"
        assert "Traceback" not in done.stderr, done.stderr
        assert "Broken" not in done.stderr, done.stderr


def not_utf8(name: str) -> None:
    """Paths of any bytes are read and written."""
    odd = os.fsdecode(b"d\xff\xfe")
    with work_folder() as folder:
        place = folder / odd
        place.mkdir()
        for file in ("digits.csv", "model.residuum"):
            (place / file).write_bytes((inputs() / file).read_bytes())
        line = [word.replace(str(inputs()), str(place)) for word in COMMANDS[name].line()]
        line = [f"{odd}/{word}" if word in ("run", *COMMANDS[name].writes) else word for word in line]
        done = run(line, folder)
        assert done.returncode == 0, done.stderr
        for written in COMMANDS[name].writes:
            assert (place / written).exists(), f"{written} is not there"


def no_terminal(name: str) -> None:
    """Without a terminal there are no bars, no colours and no questions."""
    with work_folder() as folder:
        done = run([*COMMANDS[name].line()], folder, stdin=subprocess.DEVNULL, start_new_session=True)
        assert done.returncode == 0, done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert "\r" not in done.stdout + done.stderr
