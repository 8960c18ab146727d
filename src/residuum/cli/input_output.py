"""Input and output of several commands: the queries of a model, notes and warnings, files to write."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from residuum.cli.options import DELIMITERS
from residuum.errors import (
    DataError,
    InterruptedRunError,
    NotConvergedError,
    ResiduumError,
    UsageError,
)
from residuum.system.progress import tell_progress

if TYPE_CHECKING:
    from residuum.inputs import OwnData
    from residuum.models.file import SavedModel


def reading_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options for reading out of `options` and return them as keyword arguments of `read_data`."""
    from residuum.inputs import TableFormat

    delimiter = DELIMITERS.get(options.pop("delimiter"))
    layout = {name: options.pop(name) for name in ("header", "decimal", "encoding", "sheet")}
    encode = options.pop("encode", "none") == "auto"
    missing = options["missing"] or ("impute" if encode else "error")
    as_text = _names(options.pop("text", ()))
    if as_text and not encode:
        raise UsageError("--text names columns to encode: leave --encode none out.")
    return {
        "label": options.pop("label"),
        "drop": _names(options.pop("drop")),
        "labels": options.pop("labels"),
        "text": TableFormat(
            delimiter=delimiter,
            missing=missing,
            encode=encode,
            as_text=as_text,
            keep=_names(options.pop("keep", ())),
            **layout,
        ),
    }


def _names(lists: Sequence[str]) -> tuple[str, ...]:
    """Names from lists with commas between them."""
    return tuple(name.strip() for names in lists for name in names.split(",") if name.strip())


def read_queries(
    model: Path, data: Sequence[Path], options: dict[str, Any], *, split: str | None = None
) -> tuple[SavedModel, OwnData]:
    """The model and the samples of `data`, image files without features yet; notes go to stderr.

    The samples are read as the training samples were, of which `residuum fit` left a description in the
    model. `with_model_features` gives image files their features.
    """
    from residuum.inputs import read_data
    from residuum.models.file import checked_queries

    saved, about, reading = _opened_model(model, options)
    if about.get("kind") == "images":
        queries = _listed_images(data, reading)
    else:
        queries = checked_queries(read_data(_one_file(data), split=split, **reading), saved)
    say_notes(queries)
    return saved, queries


def query_blocks(
    model: Path, data: Sequence[Path], options: dict[str, Any]
) -> tuple[SavedModel, Iterator[OwnData]]:
    """The same by blocks of rows, so that a table may be of any length; images are one block."""
    saved, about, reading = _opened_model(model, options)
    if about.get("kind") != "images":
        return saved, _number_blocks(_one_file(data), reading, saved)
    queries = _listed_images(data, reading)
    say_notes(queries)
    return saved, iter([queries])


def _number_blocks(path: Path, reading: dict[str, Any], saved: SavedModel) -> Iterator[OwnData]:
    from residuum.inputs import read_blocks
    from residuum.models import BLOCK_ROWS
    from residuum.models.file import checked_queries

    rows = left_out = 0
    for block in read_blocks(path, rows=BLOCK_ROWS, **reading):
        queries = checked_queries(block, saved)
        if not rows:
            say_notes(queries)
        rows, left_out = rows + len(queries), left_out + queries.left_out
        yield queries
    if left_out:
        click.echo(f"{path}: {left_out} of {rows + left_out} rows with missing values are left out", err=True)


def _opened_model(model: Path, options: dict[str, Any]) -> tuple[SavedModel, dict[str, Any], dict[str, Any]]:
    """The model, what `residuum fit` noted of its input, and how to read new data for it."""
    from residuum.models.file import encoder_of, expected_columns, input_notes, open_model

    asked = options["missing"]
    reading = reading_arguments(options)
    saved = open_model(model)
    about = input_notes(model, saved.about)
    encoder = encoder_of(saved.estimator)
    if asked == "impute" and encoder is None:
        raise UsageError(
            f"--missing impute: {model} does not know what to fill in. Fit it with --missing impute."
        )
    if asked is None and encoder is not None:
        reading["text"] = replace(reading["text"], missing="impute")
    if (expected := expected_columns(saved)) is not None:
        reading["expected"] = expected
    return saved, about, reading


def _one_file(data: Sequence[Path]) -> Path:
    """The only path; several, or a list from standard input, are for models of images."""
    if len(data) > 1:
        raise UsageError(f"The model takes numbers, and DATA one file of them. Got {len(data)} names.")
    if data[0] == Path("-"):
        raise UsageError("The model takes numbers: DATA must be a file. Only lists of images come by '-'.")
    return data[0]


def _listed_images(data: Sequence[Path], reading: dict[str, Any]) -> OwnData:
    """The images of a folder; or the files that are named, on the command line or in standard input."""
    from residuum.inputs import READERS, read_data
    from residuum.inputs.image_folder import read_image_list

    table = next((path for path in data if path.suffix.lower() in READERS and path.is_file()), None)
    if table is not None:
        raise UsageError(f"The model takes images; {table} is a file of numbers.")
    if len(data) == 1 and data[0].is_dir():
        return read_data(data[0], **reading)
    if data[0] != Path("-"):
        return read_image_list(data, source=str(data[0]) if len(data) == 1 else "the command line")
    if len(data) > 1:
        raise UsageError("DATA '-' stands for the list in standard input: name no other files beside it.")
    text = sys.stdin.buffer.read()
    lines = text.split(b"\0" if b"\0" in text else b"\n")
    paths = [Path(os.fsdecode(line.rstrip(b"\r"))) for line in lines if line.strip()]
    return read_image_list(paths, source="standard input")


def with_model_features(saved: SavedModel, queries: OwnData) -> tuple[OwnData, Any]:
    """The samples with features, and the estimator that takes them; notes go to stderr.

    The estimator is the model without the step that reads image files, whose work is done here.
    """
    from sklearn.pipeline import Pipeline

    from residuum.inputs.image_features import with_features, with_pixels
    from residuum.models.file import EXTRACTOR, extractor_name

    about, estimator = saved.about.get("input", {}), saved.estimator
    if queries.kind != "images":
        return queries, estimator
    if extractor_name(about) == "pixels":
        found = with_pixels(queries, about["image_shape"])
    elif not isinstance(estimator, Pipeline) or estimator.steps[0][0] != EXTRACTOR:
        raise UsageError("The model was fitted to images, but holds no step that reads them.")
    else:
        with extracting("images") as progress:
            found, estimator = with_features(queries, estimator[0], progress=progress), estimator[1:]
    say_notes(found, before=queries)
    return found, estimator


@contextmanager
def extracting(name: str) -> Iterator[Callable[[int, int], None]]:
    """What to call with the images done and all of them; an interrupt says that features are kept."""
    try:
        yield partial(tell_progress, name)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "The features computed so far are kept; the same command goes on from there."
        ) from None


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
            alike: dict[str, list[str]] = {}
            for text in dict.fromkeys(" ".join(str(w.message).split()) for w in caught):
                # Each block of rows may give the same warning with other numbers.
                alike.setdefault(re.sub(r"[0-9.]+", "0", text), []).append(text)
            for text, *others in alike.values():
                more = f" (and {len(others)} more like this, with other numbers)" if others else ""
                click.echo(f"Warning: {text}{more}", err=True)


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
    with output_file(path, option=option) as file:
        file.write(text.encode("utf-8"))


@contextmanager
def output_file(path: Path, *, option: str = "--out") -> Iterator[IO[bytes]]:
    """A file that takes its place when the block ends without an error; else there is nothing new."""
    from residuum.system.files import written_whole

    try:
        with written_whole(path) as file:
            yield file
    except OSError as error:
        is_ours = path.name in Path(str(error.filename)).name  # the block may read other files
        if isinstance(error, ResiduumError) or not is_ours:
            raise
        raise UsageError(
            f"{path} cannot be written: {error.strerror or error}. Choose another place with {option}."
        ) from error
