"""What the commands on people's own data share: options of reading, notes and warnings on stderr, output."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.errors import DataError, NotConvergedError, UsageError

if TYPE_CHECKING:
    from residuum.inputs import OwnData, TextFormat

DELIMITERS = {"comma": ",", ",": ",", "semicolon": ";", ";": ";", "tab": "\t", "bar": "|", "|": "|"}

# Options of every command that reads a table; `reading` takes their values out of the keywords again.
_READING = (
    click.option("--label", metavar="COLUMN", help="Label column by name or position (-1: the last)."),
    click.option("--drop", metavar="A,B,...", multiple=True, help="Columns to leave out."),
    click.option("--labels", type=click.Path(path_type=Path), help="File of labels for a .npy file."),
    click.option(
        "--header/--no-header", default=None, help="First line of a text table.  [default: guessed]"
    ),
    click.option(
        "--delimiter",
        type=click.Choice(list(DELIMITERS)),
        metavar="MARK",
        help="comma, semicolon, tab or bar.",
    ),
    click.option("--decimal", type=click.Choice([".", ","]), help="Decimal mark of a text table."),
    click.option("--encoding", default="utf-8", show_default=True, help="Encoding of a text table."),
    click.option(
        "--missing",
        type=click.Choice(["error", "drop"]),
        default="error",
        show_default=True,
        help="A row that lacks a number: stop and name it, or leave it out.",
    ),
)
_SPLITTING = (
    click.option("--test", type=click.Path(path_type=Path), help="File of held-out samples."),
    click.option("--split", metavar="COLUMN", help="Column that says train or test."),
    click.option(
        "--test-size", type=float, metavar="SHARE", help="Share of every class to hold out, as 0.3."
    ),
    click.option("--groups", metavar="COLUMN", help="Samples of one group stay on one side of a split."),
)


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of reading."""
    for option in reversed(_READING):
        command = option(command)
    return command


def splitting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of holding samples out."""
    for option in reversed(_SPLITTING):
        command = option(command)
    return command


def reading(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of reading out of `options`, as keywords of `read_data`."""
    from residuum.inputs import TextFormat

    mark = options.pop("delimiter")
    text: TextFormat = TextFormat(
        header=options.pop("header"),
        delimiter=None if mark is None else DELIMITERS[mark],
        decimal=options.pop("decimal"),
        encoding=options.pop("encoding"),
        missing=options.pop("missing"),
    )
    drop = tuple(name.strip() for group in options.pop("drop") for name in group.split(",") if name.strip())
    return {"label": options.pop("label"), "drop": drop, "labels": options.pop("labels"), "text": text}


def read_with_test(path: Path, options: dict[str, Any], keywords: dict[str, Any]) -> OwnData:
    """The data, joined with those of --test as their held-out part; notes go to stderr."""
    from residuum.inputs import Expected, read_data
    from residuum.inputs.arrays import joined

    test, split, group = options.pop("test"), options.pop("split"), options.pop("groups")
    data = read_data(path, split=split, group=group, **keywords)
    say_notes(data)
    if test is None:
        return data
    if data.split is not None or options["test_size"] is not None:
        raise UsageError("--test brings the held-out samples: leave --split and --test-size out.")
    if data.features is None:
        raise UsageError(
            f"--test goes with tables and arrays. Put the images into {path}/train and {path}/test instead."
        )
    expected = Expected(data.columns, data.features.shape[1], data.label)
    held_out = read_data(test, group=group, expected=expected, **keywords)
    say_notes(held_out)
    return joined(data, held_out)


def say_notes(data: OwnData) -> None:
    """What was guessed or left out, on stderr."""
    for note in data.notes:
        click.echo(f"{data.source}: {note}", err=True)


def image_shape(_context: Any, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """HEIGHTxWIDTH as numbers."""
    if value is None:
        return None
    try:
        shape = tuple(int(side) for side in value.lower().replace("×", "x").split("x"))
    except ValueError:
        shape = ()
    if len(shape) != 2 or min(shape) < 1:
        raise click.BadParameter(f"{value!r} must be HEIGHTxWIDTH, such as 32x32.", param=parameter)
    return shape


@contextmanager
def told_warnings() -> Iterator[list[str]]:
    """Say every warning once on stderr, in one line; those about convergence are also collected."""
    from sklearn.exceptions import ConvergenceWarning

    missed: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield missed
        finally:
            texts = dict.fromkeys(" ".join(str(w.message).split()) for w in caught)
            missed += dict.fromkeys(str(w.message) for w in caught if w.category is ConvergenceWarning)
            for text in texts:
                click.echo(f"Warning: {text}", err=True)


def demand_convergence(missed: list[str]) -> None:
    """Exit code 4 where the results stand but some code missed its tolerance."""
    if missed:
        raise NotConvergedError(f"The results are complete, but: {missed[0]}")


def check_target(path: Path, *inputs: Path | None, option: str = "--out") -> Path:
    """The file to write, links followed; a place that must not or cannot be written is refused beforehand.

    Writing is by renaming, which would take the place of a file that is read (`inputs`), a pipe or a device.
    """
    if os.path.isdir(path):  # noqa: PTH112  (unlike Path.is_dir, no error where the name is too long)
        raise UsageError(f"{option} must name a file. Got the folder {path}.")
    if not path.parent.is_dir():
        raise UsageError(
            f"The folder {path.parent} for {path.name} does not exist. Make it first, or change {option}."
        )
    if os.path.exists(path):  # noqa: PTH110
        if not path.is_file():
            raise UsageError(f"{option} must name an ordinary file. Got {path}, a pipe or a device.")
        for source in inputs:
            if source is not None and source.exists() and path.samefile(source):
                raise UsageError(
                    f"{option} {path} would overwrite {source}, which is read. Choose another name."
                )
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"The folder {path.parent} cannot be written. Choose another place with {option}.")
    return path.resolve()


def write_text(path: Path, text: str, *, option: str = "--out") -> None:
    """Write a whole file or none."""
    from residuum.system.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. Choose another place with {option}."
        ) from error


def as_csv(records: Iterable[dict[str, Any]]) -> str:
    """Records as a text table with a header; nothing where a value is None."""
    buffer = io.StringIO()
    writer = None
    for record in records:
        if writer is None:
            writer = csv.DictWriter(buffer, record.keys(), lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in record.items()})
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    return "true" if value is True else "false" if value is False else value


def as_json(value: Any) -> str:
    """JSON in which inf and nan, which it does not have, are null."""
    from residuum.system.json_text import plain

    return json.dumps(plain(value), indent=2, ensure_ascii=False)


@contextmanager
def image_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr for the images of a folder, or nothing where no one can see it."""
    from residuum.system.progress import progress_bars

    with progress_bars() as report:
        yield lambda done, total: report(name, done, total)
