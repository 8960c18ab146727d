"""What several commands do with their results: notes and warnings on stderr, and files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from residuum.errors import DataError, NotConvergedError, UsageError

if TYPE_CHECKING:
    from residuum.inputs import OwnData


def say_notes(data: OwnData, *, before: OwnData | None = None) -> None:
    """Print what was guessed or left out to stderr, without the notes that `before` had already."""
    for note in data.notes[len(before.notes) if before else 0 :]:
        click.echo(f"{data.source}: {note}", err=True)


@contextmanager
def report_warnings() -> Iterator[list[str]]:
    """Print every warning once to stderr, in one line; yield a list that gets those about convergence."""
    from sklearn.exceptions import ConvergenceWarning

    unconverged: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield unconverged
        finally:
            unconverged += [str(w.message) for w in caught if w.category is ConvergenceWarning]
            for text in dict.fromkeys(" ".join(str(w.message).split()) for w in caught):
                click.echo(f"Warning: {text}", err=True)


def require_convergence(unconverged: list[str]) -> None:
    """Leave with exit code 4 where the results are complete but some code missed its tolerance."""
    if unconverged:
        raise NotConvergedError(f"The results are complete, but: {unconverged[0]}")


def check_target(path: Path, *inputs: Path | None, option: str = "--out") -> Path:
    """The file to write, with links followed; a place that must not or cannot be written is refused now.

    A file is written under another name and then renamed, which would replace a file that is read (one of
    `inputs`), a pipe or a device.
    """
    there = os.path.exists(path)  # noqa: PTH110  (unlike Path.exists, no error where the name is too long)
    if there and not path.is_file():
        raise UsageError(f"{option} must name an ordinary file. Got {path}, a folder, a pipe or a device.")
    if not path.parent.is_dir():
        raise UsageError(
            f"The folder {path.parent} for {path.name} does not exist. Make it first, or change {option}."
        )
    for source in inputs:
        if there and source is not None and source.exists() and path.samefile(source):
            raise UsageError(f"{option} {path} would overwrite {source}, which is read. Choose another name.")
    if not os.access(path.parent, os.W_OK):
        raise DataError(f"The folder {path.parent} cannot be written. Choose another place with {option}.")
    return path.resolve()


def write_output(path: Path, text: str, *, option: str = "--out") -> None:
    """Write the whole file or nothing; an error names the option that chose the place."""
    from residuum.system.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. Choose another place with {option}."
        ) from error
