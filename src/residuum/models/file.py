"""Save a fitted classifier, alone or at the end of a Pipeline, and open it again bit for bit.

A model file is a zip of `model.json` and arrays. Members are stored, never compressed, so that an array can
be mapped from where it lies. The zip comment ends in a seal: the SHA-256 of the whole file with zeros in the
place of its 64 digits. It finds damage and careless edits. It is no signature: whoever computes it anew can
write any model.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import residuum
from residuum.errors import DataNotFoundError, ModelFileError, UsageError, WriteError
from residuum.models.parts import chosen, classifier_node, selection_of, step_node, steps_from
from residuum.selection import PipelineCV
from residuum.system.files import sha256, view_npy, written_whole
from residuum.system.json_text import plain

FORMAT_VERSION = 1
MODEL = "model.json"
_FORMAT = "residuum-model"
_COMMENT = b"residuum model, sha256 "
_BLANK = b"0" * 64
_ALIGN = 64
_PADDING_FIELD = 0xD935  # the extra field by which zipalign pads
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same bytes
_KEYS = {"format", "format_version", "residuum", "about", "steps", "images"}
# Enough for the names of a million training samples; what is read takes less than 1 GB.
_MOST_BYTES, _MOST_VALUES = 2**26, 2**21
# What building a model from values of any kind may raise.
_UNFIT = (
    ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError,
)  # fmt: skip
_FRESH = "Get a fresh copy, or save the model again."

Bytes = npt.NDArray[np.uint8]
Content = bytes | npt.NDArray[Any]


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


def save_model(
    estimator: Any,
    path: str | Path,
    *,
    about: dict[str, Any] | None = None,
    images: np.ndarray | None = None,
) -> Path:
    """Write a fitted model as one file, a zip of plain arrays and JSON, without pickle.

    The file is written under another name and renamed, so a failure leaves what was there before.

    Parameters
    ----------
    estimator : classifier or Pipeline
        A fitted classifier of residuum; one that chose its own parameters (``NRCCV``, ``PipelineCV`` ...),
        which is saved as its ``best_estimator_`` with the choice in ``about["selection"]``; or a fitted
        Pipeline of EigenfacePCA, KernelMap, Scattering2D, BowSift, CNNFeatures, scikit-learn's Normalizer,
        StandardScaler, MinMaxScaler and PCA that ends in one of them.
    path : str or Path
        Where to write.
    about : dict or None, default=None
        Notes of your own: anything that JSON can hold.
    images : ndarray of uint8, shape (n_samples, height, width[, 3]), or None, default=None
        Thumbnails of all training samples in the order they were given.

    Returns
    -------
    Path
        Where the model is.

    Examples
    --------
    >>> import tempfile
    >>> from residuum import NRC, load_model, save_model
    >>> model = NRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, folder + "/letters.residuum")
    ...     load_model(path).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """
    path = Path(path)
    check_is_fitted(estimator)
    selection = selection_of(estimator)
    if isinstance(estimator, PipelineCV):
        estimator = estimator.best_estimator_
    *before, (last_name, last) = estimator.steps if isinstance(estimator, Pipeline) else [(None, estimator)]
    members: dict[str, Content] = {MODEL: b""}

    def keep(array: np.ndarray) -> str:
        name = f"{len(members)}.npy"
        members[name] = np.asarray(array)
        return name

    nodes = [{"name": name, **step_node(step, f"step {name!r}", keep)} for name, step in before]
    nodes.append({"name": last_name, **classifier_node(chosen(last), keep)})
    selection = selection or selection_of(last)
    described = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "residuum": residuum.__version__,
        "about": plain({**({"selection": selection} if selection else {}), **(about or {})}),
        "steps": nodes,
        "images": None if images is None else keep(_checked_images(images, chosen(last).n_samples_seen_)),
    }
    try:
        content = json.dumps(described, indent=1, allow_nan=False).encode()
        _parsed(np.frombuffer(content, np.uint8))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"The 'about' parameter of save_model must be JSON that can be read: {error}."
        ) from error
    members[MODEL] = content
    _write_members(path, members)
    return path


def _checked_images(images: Any, n_samples: int) -> np.ndarray:
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
        described = _parsed(members.pop(MODEL))
        version = described["format_version"]
        if described["format"] != _FORMAT or type(version) is not int or version != FORMAT_VERSION:
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
            _checked_images(images, last.n_samples_seen_)
        if members:
            raise ValueError(f"it holds {min(members)!r}, which belongs to no part of it")
        return SavedModel(last if steps[-1][0] is None else Pipeline(steps), about, images)
    except _UNFIT as error:
        reason = f"{error} is missing or not known here" if isinstance(error, KeyError) else error
        raise ModelFileError(f"{path}: does not describe a model that can be built: {reason}.") from error


def _parsed(content: Bytes) -> Any:
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


def _write_members(path: Path, members: Mapping[str, Content]) -> None:
    """Write bytes as they are and arrays as .npy; a reader of `path` sees the old model or the new one."""
    try:
        with written_whole(path) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.comment = _COMMENT + _BLANK
                for name, content in members.items():
                    _write_member(archive, file.tell(), name, content)
            file.seek(0)
            seal = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            file.seek(-len(_BLANK), os.SEEK_END)
            file.write(seal.encode())
    except WriteError:
        raise
    except OSError as error:
        raise UsageError(f"{path}: the model cannot be written: {error.strerror or error}.") from error


def _write_member(archive: zipfile.ZipFile, position: int, name: str, content: Content) -> None:
    """Write a member whose data begin at a multiple of 64 bytes."""
    info = zipfile.ZipInfo(name, _DATE)
    info.external_attr = 0o644 << 16
    large = (len(content) if isinstance(content, bytes) else content.nbytes) > 2**31 - 2**20
    padding = -(position + 30 + len(name) + (20 if large else 0) + 4) % _ALIGN
    info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=large) as target:
        if isinstance(content, bytes):
            target.write(content)
        else:
            np.lib.format.write_array(target, content, allow_pickle=False)


def _read_members(path: Path, *, mmap: bool) -> dict[str, Bytes]:
    """The bytes of every member where they lie in the file, mapped from disk if asked for."""
    data = _load(path, mmap)
    n_digits = len(_BLANK)
    comment = data[-n_digits - len(_COMMENT) :].tobytes()
    if not comment.startswith(_COMMENT):
        raise ModelFileError(
            f"{path}: has no seal at its end: it is cut off, or was not written by save_model. {_FRESH}"
        )
    if sha256(data[:-n_digits], _BLANK).encode() != comment[-n_digits:]:
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
