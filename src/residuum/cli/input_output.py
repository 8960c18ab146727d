"""Input and output of several commands: the data that options name, notes and warnings, files to write."""

from __future__ import annotations

import math
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
    DataFormatError,
    DataNotFoundError,
    InterruptedRunError,
    ModelFileError,
    NotConvergedError,
    ResiduumError,
    UsageError,
)
from residuum.system.progress import tell_progress

if TYPE_CHECKING:
    from residuum.features import TableEncoder
    from residuum.inputs import OwnData
    from residuum.models.file import SavedModel

EXTRACTOR = "images"  # name of the step of a model that takes image files


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


def read_with_test(path: Path, options: dict[str, Any]) -> OwnData:
    """The samples at `path`, joined with those of --test as their held-out part; notes go to stderr.

    The options for reading and splitting, other than --test-size, are taken out of `options`.
    """
    from residuum.inputs import ExpectedColumns, read_data
    from residuum.inputs.splitting import join_train_and_test

    reading = reading_arguments(options)
    test, split, group = options.pop("test"), options.pop("split"), options.pop("groups")
    twice = "--test brings the held-out samples: leave --split and --test-size out."
    if test is not None and (split is not None or options["test_size"] is not None):
        raise UsageError(twice)
    if test is not None and not test.exists():
        raise DataNotFoundError(f"{test} does not exist.")
    data = read_data(path, split=split, group=group, **reading)
    say_notes(data)
    if test is None:
        return data
    if data.split is not None:
        raise UsageError(twice)
    expected = None
    if data.features is not None:
        expected = ExpectedColumns(data.columns, data.features.shape[1], data.label, data.texts)
    held_out = read_data(test, group=group, expected=expected, **reading)
    say_notes(held_out)
    return join_train_and_test(data, held_out)


def read_queries(
    model: Path, data: Sequence[Path], options: dict[str, Any], *, split: str | None = None
) -> tuple[SavedModel, OwnData]:
    """The model and the samples of `data`, image files without features yet; notes go to stderr.

    The samples are read as the training samples were, of which `residuum fit` left a description in the
    model. `with_model_features` gives image files their features.
    """
    from residuum.inputs import read_data

    saved, about, reading = _opened_model(model, options)
    if about.get("kind") == "images":
        queries = _listed_images(data, reading)
    else:
        queries = _numbers(read_data(_one_file(data), split=split, **reading), saved, about)
    say_notes(queries)
    return saved, queries


def query_blocks(
    model: Path, data: Sequence[Path], options: dict[str, Any]
) -> tuple[SavedModel, Iterator[OwnData]]:
    """The same by blocks of rows, so that a table may be of any length; images are one block."""
    saved, about, reading = _opened_model(model, options)
    if about.get("kind") != "images":
        return saved, _number_blocks(_one_file(data), reading, saved, about)
    queries = _listed_images(data, reading)
    say_notes(queries)
    return saved, iter([queries])


def _number_blocks(
    path: Path, reading: dict[str, Any], saved: SavedModel, about: dict[str, Any]
) -> Iterator[OwnData]:
    from residuum.inputs import read_blocks
    from residuum.models import BLOCK_ROWS

    rows = left_out = 0
    for block in read_blocks(path, rows=BLOCK_ROWS, **reading):
        queries = _numbers(block, saved, about)
        if not rows:
            say_notes(queries)
        rows, left_out = rows + len(queries), left_out + queries.left_out
        yield queries
    if left_out:
        click.echo(f"{path}: {left_out} of {rows + left_out} rows with missing values are left out", err=True)


def _numbers(queries: OwnData, saved: SavedModel, about: dict[str, Any]) -> OwnData:
    """Samples of a model that takes numbers, if they are such and as many as it takes."""
    if queries.kind == "images":
        raise UsageError(f"The model takes numbers; {queries.source} is a folder of images.")
    n_features = about.get("n_features") or getattr(saved.estimator, "n_features_in_", None)
    return _checked_queries(queries, n_features, about.get("image_shape"))


def _opened_model(model: Path, options: dict[str, Any]) -> tuple[SavedModel, dict[str, Any], dict[str, Any]]:
    """The model, what `residuum fit` noted of its input, and how to read new data for it."""
    from residuum.inputs import ExpectedColumns
    from residuum.models.file import open_model

    asked = options["missing"]
    reading = reading_arguments(options)
    saved = open_model(model)
    about = _input_notes(model, saved.about)
    encoder = encoder_of(saved.estimator)
    if asked == "impute" and encoder is None:
        raise UsageError(
            f"--missing impute: {model} does not know what to fill in. Fit it with --missing impute."
        )
    if asked is None and encoder is not None:
        reading["text"] = replace(reading["text"], missing="impute")
    n_features = about.get("n_features") or getattr(saved.estimator, "n_features_in_", None)
    if n_features is not None and about.get("kind") != "images":
        columns = tuple(about.get("columns") or ()) or None
        texts = () if encoder is None else tuple(encoder.is_text_.nonzero()[0].tolist())
        without = tuple(about.get("without") or ())
        reading["expected"] = ExpectedColumns(columns, n_features, about.get("label"), texts, without)
    return saved, about, reading


def encoder_of(estimator: Any) -> TableEncoder | None:
    """The step of a model that takes the columns of a table as they are, if it has one."""
    from residuum.features import TableEncoder

    steps = (step for _, step in getattr(estimator, "steps", ()))
    return next((step for step in steps if isinstance(step, TableEncoder)), None)


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


def _input_notes(model: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What `residuum fit` noted of the data, or nothing; notes of another form are refused.

    Notes are free, so any of these may be missing.
    """
    from residuum.models.parts import is_count

    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)

    tests: dict[str, Callable[[Any], bool]] = {
        "kind": lambda value: value in ("table", "array", "images"),
        "columns": texts,
        "label": lambda value: isinstance(value, str | int),
        "n_features": is_count,
        "without": lambda value: isinstance(value, list) and all(type(i) is int for i in value),
        "image_shape": lambda value: isinstance(value, list) and all(map(is_count, value)),
        "features": lambda value: isinstance(value, dict),
    }
    notes = about.get("input", {})
    for name, test in tests.items():
        if not isinstance(notes, dict) or not (notes.get(name) is None or test(notes[name])):
            raise ModelFileError(f"{model}: its note on '{name}' of the input is not one that fit writes.")
    return notes


def _checked_queries(queries: OwnData, n_features: int | None, shape: Sequence[int] | None) -> OwnData:
    """Samples with as many features as the model takes, and with the shape of its pictures."""
    assert queries.features is not None
    found = queries.features.shape[1]
    if n_features not in (None, found):
        raise DataFormatError(
            f"{queries.source} has {found} features for each sample, the model takes {n_features}."
        )
    if queries.image_shape is None and shape and math.prod(shape) == found:
        return replace(queries, image_shape=tuple(shape))
    return queries


def with_model_features(saved: SavedModel, queries: OwnData) -> tuple[OwnData, Any]:
    """The samples with features, and the estimator that takes them; notes go to stderr.

    The estimator is the model without the step that reads image files, whose work is done here.
    """
    from sklearn.pipeline import Pipeline

    from residuum.inputs.image_features import with_features, with_pixels

    about, estimator = saved.about.get("input", {}), saved.estimator
    if queries.kind != "images":
        return queries, estimator
    if _extractor_name(about) == "pixels":
        found = with_pixels(queries, about["image_shape"])
    elif not isinstance(estimator, Pipeline) or estimator.steps[0][0] != EXTRACTOR:
        raise UsageError("The model was fitted to images, but holds no step that reads them.")
    else:
        with _extracting("images") as progress:
            found, estimator = with_features(queries, estimator[0], progress=progress), estimator[1:]
    say_notes(found, before=queries)
    return found, estimator


def _extractor_name(about: dict[str, Any]) -> Any:
    """What --with said when the model was fitted, by its notes on the input."""
    return (about.get("features") or {}).get("with")


def features_used(estimator: Any, about: dict[str, Any]) -> list[str]:
    """What makes the features that the classifier of a whole model takes, one text for each step.

    A step is named with the parameters that differ from its defaults. `about` is what `residuum fit` notes
    of the input.
    """
    from sklearn.base import clone

    texts = []
    if _extractor_name(about) == "pixels":
        shape = about.get("image_shape") or ()
        texts.append(f"pixels of {'x'.join(map(str, shape))}" if shape else "pixels")
    for _, step in getattr(estimator, "steps", [])[:-1]:
        if step in (None, "passthrough"):
            continue
        plain = clone(step)
        if "n_jobs" in plain.get_params(deep=False):
            plain.set_params(n_jobs=None)  # changes no feature
        texts.append(" ".join(repr(plain).split()))
    return texts or ["numbers as they are"]


@contextmanager
def _extracting(name: str) -> Iterator[Callable[[int, int], None]]:
    """What to call with the images done and all of them; an interrupt says that features are kept."""
    try:
        yield partial(tell_progress, name)
    except KeyboardInterrupt:
        raise InterruptedRunError(
            "The features computed so far are kept; the same command goes on from there."
        ) from None


def features_of_images(data: OwnData, options: dict[str, Any]) -> tuple[OwnData, Any]:
    """A folder of images with features as --with says, and what extracted them (None for pixels).

    An extractor learns from the training images where some are held out, else from all of them. `options` get
    the name of the features and the size of pixels where they were not given.
    """
    from residuum.features.extraction import fit_extractor
    from residuum.inputs.image_features import size_of_small_images, with_features, with_pixels
    from residuum.models.preparing import built_extractor

    read = training = data
    if data.split is not None and (data.split == "test").any():
        training = data.rows(data.split == "train")
    if options["extractor"] is None:
        small = size_of_small_images(training)
        options["extractor"] = "bow_sift" if small is None else "pixels"
        if small is not None:
            shape = options["image_shape"] = options["image_shape"] or small
            data = data.noted(
                f"most images are too small for bow_sift, so the features are {shape[0]}x{shape[1]} pixels; "
                "--with and --image-shape say otherwise"
            )
    name, extractor = options["extractor"], None
    if name == "pixels":
        found = with_pixels(data, options["image_shape"])
    else:
        extractor = built_extractor(name, options["weights"], options["device"])
        fit_extractor(extractor, training.paths or ())
        with _extracting(name) as progress:
            found = with_features(data, extractor, progress=progress)
    say_notes(found, before=read)
    return found, extractor


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
