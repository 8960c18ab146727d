"""What several commands do with their results: notes and warnings on stderr, files, CSV and JSON text."""

from __future__ import annotations

import csv
import io
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residuum.errors import DataError, NotConvergedError, UsageError

if TYPE_CHECKING:
    from residuum.inputs import OwnData
    from residuum.system.progress import Report


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
            texts = dict.fromkeys(" ".join(str(w.message).split()) for w in caught)
            unconverged += dict.fromkeys(str(w.message) for w in caught if w.category is ConvergenceWarning)
            for text in texts:
                click.echo(f"Warning: {text}", err=True)


def require_convergence(unconverged: list[str]) -> None:
    """Leave with exit code 4 where the results are complete but some code missed its tolerance."""
    if unconverged:
        raise NotConvergedError(f"The results are complete, but: {unconverged[0]}")


@contextmanager
def image_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for the images of a folder: call what is yielded with the numbers done and in all.

    The bar is made by the first call, because a table has no images and the library of the bar loads slowly.
    """
    from residuum.system.progress import progress_bars

    with ExitStack() as stack:
        bars: list[Report] = []

        def show(done: int, total: int) -> None:
            if not bars:
                bars.append(stack.enter_context(progress_bars()))
            bars[0](name, done, total)

        yield show


def check_target(path: Path, *inputs: Path | None, option: str = "--out") -> Path:
    """The file to write, with links followed; a place that must not or cannot be written is refused now.

    A file is written under another name and then renamed, which would replace a file that is read (one of
    `inputs`), a pipe or a device.
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


def write_output(path: Path, text: str, *, option: str = "--out") -> None:
    """Write the whole file or nothing; an error names the option that chose the place."""
    from residuum.system.files import write_text

    try:
        write_text(path, text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. Choose another place with {option}."
        ) from error


def csv_text(records: Iterable[dict[str, Any]]) -> str:
    """Records as a text table with a header; a value of None becomes an empty cell."""
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


def json_text(value: Any) -> str:
    """Indented JSON: NaN is null, infinity the text "inf"."""
    from residuum.system.json_text import plain

    return json.dumps(plain(value), indent=2, ensure_ascii=False)
