"""Open what `saving` has written, bit for bit, and say what the model takes.

A model file is a zip of `model.json` and arrays. Members are stored, never compressed, so that an array can
be mapped from where it lies. The zip comment ends in a seal: the SHA-256 of the whole file with zeros in the
place of its 64 digits. It finds damage and careless edits. It is no signature: whoever computes it anew can
write any model.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.pipeline import Pipeline

import residuum
from residuum.errors import DataFormatError, DataNotFoundError, ModelFileError, UsageError
from residuum.features import TableEncoder
from residuum.inputs import ExpectedColumns, OwnData
from residuum.models.parts import is_count, steps_from
from residuum.system.files import sha256, view_npy

FORMAT_VERSION = 1
MODEL = "model.json"
FORMAT = "residuum-model"
COMMENT = b"residuum model, sha256 "
BLANK = b"0" * 64
_KEYS = {"format", "format_version", "residuum", "about", "steps", "images"}
# Enough for the names of a million training samples; what is read takes less than 1 GB.
_MOST_BYTES, _MOST_VALUES = 2**26, 2**21
# What building a model from values of any kind may raise.
_UNFIT = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError,
)  # fmt: skip
EXTRACTOR = "images"  # name of the step of a model that takes image files
_FRESH = "Get a fresh copy, or save the model again."

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    estimator : classifier or Pipeline
        Fitted, ready to predict.
    about : dict
        The notes that were saved with it.
    images : ndarray of uint8 or None
        Thumbnails of the training samples; ``dictionary_.samples`` indexes them.
    """

    estimator: Any
    about: dict[str, Any]
    images: np.ndarray | None


def checked_images(images: Any, n_samples: int) -> np.ndarray:
    images = np.ascontiguousarray(images)
    shaped = images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
    if images.dtype != np.uint8 or not shaped or len(images) != n_samples:
        raise UsageError(
            "The 'images' parameter of save_model must be uint8 of shape (n_samples, height, width) or "
            f"(n_samples, height, width, 3), one for each of the {n_samples} training samples in their "
            f"order. Got {images.dtype} of shape {images.shape}."
        )
    return images


def open_model(path: str | Path, *, mmap: bool = False) -> SavedModel:
    """Verify a model file and build what it holds; no code from the file is ever run.

    Parameters
    ----------
    path : str or Path
        What `save_model` has written.
    mmap : bool, default=False
        Whether arrays stay on disk and are mapped into memory, read-only. The file is read once all the same
        to verify it, and must not be changed while the model is in use.

    Returns
    -------
    SavedModel
        With ``estimator``, ``about`` and ``images``.

    Raises
    ------
    ModelFileError
        If the file is damaged, was altered, has an unknown version or type, or is a pickle.
    DataNotFoundError
        If there is no such file.
    """
    path = Path(path)
    members = _read_members(path, mmap=mmap)

    def fetch(name: str) -> np.ndarray:
        return view_npy(members.pop(name), f"member {name}")

    try:
        described = parsed(members.pop(MODEL))
        version = described["format_version"]
        if described["format"] != FORMAT or type(version) is not int or version != FORMAT_VERSION:
            raise ValueError(
                f"it has format version {version!r}, written by residuum {described['residuum']!r}. This is "
                f"residuum {residuum.__version__}, which reads version {FORMAT_VERSION}. Update residuum, or "
                "save the model again with this one"
            )
        if set(described) != _KEYS:
            raise ValueError(f"its description must have the keys {', '.join(sorted(_KEYS))}")
        about = described["about"]
        if not isinstance(about, dict):
            raise ValueError("its notes are not a JSON object")
        steps = steps_from(described["steps"], fetch)
        last = steps[-1][1]
        images = None if described["images"] is None else fetch(described["images"])
        if images is not None:
            checked_images(images, last.n_samples_seen_)
        if members:
            raise ValueError(f"it holds {min(members)!r}, which belongs to no part of it")
        return SavedModel(last if steps[-1][0] is None else Pipeline(steps), about, images)
    except _UNFIT as error:
        reason = f"{error} is missing or not known here" if isinstance(error, KeyError) else error
        raise ModelFileError(f"{path}: does not describe a model that can be built: {reason}.") from error


def parsed(content: Bytes) -> Any:
    """The description of a model. Its size is limited first, since JSON takes up to 30 times its bytes."""
    marks = np.zeros(256, dtype=np.bool_)
    marks[list(b",:[{")] = True  # there is one for every value but the first
    values = int(np.count_nonzero(marks[content])) if len(content) <= _MOST_BYTES else 0
    if len(content) > _MOST_BYTES or values > _MOST_VALUES:
        raise ValueError(
            f"its description has {len(content)} bytes and {values or 'too many'} values; "
            f"at most {_MOST_BYTES} and {_MOST_VALUES} are read"
        )
    return json.loads(content.tobytes())


def load_model(path: str | Path, *, mmap: bool = False) -> Any:
    """The estimator of a model file: ``open_model(path, mmap=mmap).estimator``.

    Parameters
    ----------
    path : str or Path
        What `save_model` has written.
    mmap : bool, default=False
        Whether arrays are mapped from disk.

    Returns
    -------
    classifier or Pipeline
        Fitted, ready to predict.
    """
    return open_model(path, mmap=mmap).estimator


def _read_members(path: Path, *, mmap: bool) -> dict[str, Bytes]:
    """The bytes of every member where they lie in the file, mapped from disk if asked for."""
    data = _load(path, mmap)
    n_digits = len(BLANK)
    comment = data[-n_digits - len(COMMENT) :].tobytes()
    if not comment.startswith(COMMENT):
        raise ModelFileError(
            f"{path}: has no seal at its end: it is cut off, or was not written by save_model. {_FRESH}"
        )
    if sha256(data[:-n_digits], BLANK).encode() != comment[-n_digits:]:
        raise ModelFileError(f"{path}: its bytes are not those that were written. {_FRESH}")
    members: dict[str, Bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename in members:
                    raise ValueError(f"two members are called {info.filename}")
                if info.compress_type != zipfile.ZIP_STORED or info.flag_bits:
                    raise ValueError(f"the member {info.filename!r} is compressed or encrypted")
                start = info.header_offset + 30
                start += sum(struct.unpack("<HH", data[start - 4 : start].tobytes()))
                members[info.filename] = data[start : start + info.file_size]
    except Exception as error:  # zipfile raises a dozen types on hostile directories
        raise ModelFileError(f"{path}: is not a zip file of save_model: {error}. {_FRESH}") from error
    return members


def _load(path: Path, mmap: bool) -> Bytes:
    """The bytes of a file that begins like one of ours."""
    if not path.exists():
        raise DataNotFoundError(f"{path}: there is no such model file. Check the path.")
    if (path / "model.json").is_file():
        raise ModelFileError(
            f"{path}: is a model in shards, which commands do not open. Open it with "
            "residuum.scale.load_model and classify from Python, or fit one file with 'residuum fit'."
        )
    if not path.is_file():
        raise ModelFileError(
            f"{path}: is not a model file but a folder or a device. Pass what save_model has written."
        )
    try:
        with path.open("rb") as file:
            start = file.read(4)
        is_pickle = start[:1] == b"\x80" and start[1:2] <= b"\x08"
        if is_pickle or path.suffix.lower() in (".pkl", ".pickle", ".joblib"):
            raise ModelFileError(
                f"{path} is a pickle, and opening one can run any program it carries, so residuum does not. "
                "Load it where you trust it and write it with residuum.save_model."
            )
        if start != b"PK\x03\x04":
            raise ModelFileError(
                f"{path} is not a model file. Pass one that 'residuum fit' or save_model has written."
            )
        return np.asarray(np.memmap(path, np.uint8, mode="r")) if mmap else np.fromfile(path, np.uint8)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}.") from error


def input_notes(model: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What `residuum fit` noted of the data, or nothing; notes of another form are refused.

    Notes are free, so any of these may be missing.
    """

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


def encoder_of(estimator: Any) -> TableEncoder | None:
    """The step of a model that takes the columns of a table as they are, if it has one."""
    steps = (step for _, step in getattr(estimator, "steps", ()))
    return next((step for step in steps if isinstance(step, TableEncoder)), None)


def n_features_of(saved: SavedModel) -> int | None:
    """How many numbers the model takes for each sample, where that is known."""
    noted = saved.about.get("input", {}).get("n_features")
    return noted or getattr(saved.estimator, "n_features_in_", None)


def names_of(saved: SavedModel) -> list[str] | None:
    """The columns that the model was fitted to, where they have names."""
    noted = saved.about.get("input", {}).get("columns")
    names = noted or getattr(saved.estimator, "feature_names_in_", None)
    return None if names is None else list(names)


def expected_columns(saved: SavedModel) -> ExpectedColumns | None:
    """How a table for this model is read; None for a model of images."""
    notes, n_features = saved.about.get("input", {}), n_features_of(saved)
    if n_features is None or notes.get("kind") == "images":
        return None
    encoder = encoder_of(saved.estimator)
    texts = () if encoder is None else tuple(encoder.is_text_.nonzero()[0].tolist())
    columns = tuple(names_of(saved) or ()) or None
    return ExpectedColumns(columns, n_features, notes.get("label"), texts, tuple(notes.get("without") or ()))


def checked_queries(queries: OwnData, saved: SavedModel) -> OwnData:
    """Samples of a model that takes numbers, if they are such and as many as it takes.

    They get the shape of the model's pictures where it has any.
    """
    if queries.kind == "images":
        raise UsageError(f"The model takes numbers; {queries.source} is a folder of images.")
    assert queries.features is not None
    n_features, shape = n_features_of(saved), saved.about.get("input", {}).get("image_shape")
    found = queries.features.shape[1]
    if n_features not in (None, found):
        raise DataFormatError(
            f"{queries.source} has {found} features for each sample, the model takes {n_features}."
        )
    if queries.image_shape is None and shape and math.prod(shape) == found:
        return replace(queries, image_shape=tuple(shape))
    return queries


def extractor_name(notes: dict[str, Any]) -> Any:
    """What --with said when the model was fitted, by its notes on the input."""
    return (notes.get("features") or {}).get("with")


def features_used(estimator: Any, notes: dict[str, Any]) -> list[str]:
    """What makes the features that the classifier of a whole model takes, one text for each step.

    A step is named with the parameters that differ from its defaults. `notes` are what `residuum fit` notes
    of the input.
    """
    texts = []
    if extractor_name(notes) == "pixels":
        shape = notes.get("image_shape") or ()
        texts.append(f"pixels of {'x'.join(map(str, shape))}" if shape else "pixels")
    for _, step in getattr(estimator, "steps", [])[:-1]:
        if step in (None, "passthrough"):
            continue
        texts.append(step_text(step))
    return texts or ["numbers as they are"]


def step_text(step: Any) -> str:
    """A step in one line, without `n_jobs`, which changes no feature."""
    plain = clone(step)
    if "n_jobs" in plain.get_params(deep=False):
        plain.set_params(n_jobs=None)
    return " ".join(repr(plain).split())
