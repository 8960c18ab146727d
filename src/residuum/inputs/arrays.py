"""Arrays: .npz, .npy pairs and MATLAB files. Pickled objects are never read.

Which array is what is told by its name: ``X`` and ``y``, ``x_train``/``y_train``/``x_test``/``y_test``,
``images`` and ``labels``, MATLAB's ``fea`` and ``gnd``, and kin. Pictures (n, height, width) become rows.
"""

from __future__ import annotations

import math
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from residuum.errors import DataFormatError, DataNotFoundError, ResiduumError, UsageError
from residuum.inputs.data import TEST, TRAIN, Array, OwnData, TextFormat
from residuum.inputs.matlab import mat_shapes
from residuum.inputs.roles import Asked, as_labels, as_split, clipped, shown

SAMPLES = ("x", "data", "samples", "features", "images", "fea", "inputs", "spectra")
LABELS = ("y", "label", "labels", "target", "targets", "gnd", "class", "classes")
NAMES = ("names", "paths", "filenames", "files", "ids")
# (training samples, labels, test samples, labels); names are compared without case and underscores.
PARTS = (
    ("xtrain", "ytrain", "xtest", "ytest"),
    ("trainx", "trainy", "testx", "testy"),
    ("traindata", "trainlabels", "testdata", "testlabels"),
    ("trainfeatures", "trainlabels", "testfeatures", "testlabels"),
    ("trainimages", "trainlabels", "testimages", "testlabels"),
    ("trdat", "trls", "ttdat", "ttls"),
    ("newtraindat", "trainlabels", "newtestdat", "testlabels"),
)

Get = Callable[[str], Array]
_OBJECTS = (
    "holds Python objects, which only a pickle can store, and pickles are not read. Save text labels with "
    "y.astype(str)."
)


def read_npz(path: Path, asked: Asked, text: TextFormat) -> OwnData:
    """Read an .npz file by the names of its arrays."""
    with _undamaged(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist() if info.filename.endswith(".npy")}

        def get(key: str) -> Array:
            info = members[f"{key}.npy"]
            with archive.open(info) as stream:
                return _npy(stream, info.file_size, f"{path}, array '{key}'")

        drop = text.missing == "drop"
        return _by_names(path, [name.removesuffix(".npy") for name in members], get, asked, drop=drop)


def read_npy(path: Path, labels: Path | None, asked: Asked, text: TextFormat) -> OwnData:
    """Read features from one .npy file, mapped rather than loaded, and labels from another."""
    X = _mapped(path)
    y = None
    if labels is not None:
        y = _mapped(labels) if labels.suffix.lower() == ".npy" else _label_lines(labels)
    X = X[None] if X.ndim == 1 else X
    data = _finished(path, asked, X, y, label=None if labels is None else labels.name)
    return _complete(data, drop=text.missing == "drop")


@contextmanager
def _undamaged(path: Path, what: str) -> Iterator[None]:
    """Turn whatever the libraries raise on damaged bytes into one error that names the file."""
    try:
        yield
    except ResiduumError:
        raise
    except (OSError, ValueError, EOFError, KeyError, SyntaxError, MemoryError, OverflowError) as error:
        raise DataFormatError(f"{path}: damaged or not {what}: {error}.") from error
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise DataFormatError(f"{path}: damaged or not {what}: {error}.") from error


def _mapped(path: Path) -> Array:
    if not path.is_file():
        raise DataNotFoundError(f"{path} does not exist.")
    with _undamaged(path, "an .npy file"):
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            if "Python objects" in str(error):
                raise DataFormatError(f"{path}: {_OBJECTS}") from error
            if "pickle" in str(error):  # what NumPy takes any unknown bytes for, with advice to trust them
                raise DataFormatError(f"{path}: damaged or not an .npy file.") from error
            raise
    if not isinstance(array, np.ndarray):
        raise DataFormatError(f"{path}: an archive of arrays under the name of a single one. Call it .npz.")
    return array


def _label_lines(path: Path) -> Array:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        raise DataNotFoundError(f"{path} does not exist.") from None
    except UnicodeDecodeError as error:
        raise DataFormatError(
            f"{path}: labels must be .npy, or UTF-8 text with one per line: {error}."
        ) from None
    return as_labels([line.strip() for line in lines], lambda i: f"{path}, line {i + 1}")


def _npy(stream: IO[bytes], size: int, where: str) -> Array:
    """One array of an archive; nothing is allocated that its header merely declares."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise DataFormatError(f"{where}: .npy version {version} is not supported.")
    read_header = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, fortran, dtype = read_header(stream)
    if dtype.hasobject:
        raise DataFormatError(f"{where}: {_OBJECTS}")
    n_bytes = math.prod(shape) * dtype.itemsize
    if size - stream.tell() != n_bytes:
        raise DataFormatError(
            f"{where}: the header declares {shape} of {dtype}, {n_bytes} bytes; got {size - stream.tell()}."
        )
    _check_memory(n_bytes, where)
    array = np.empty(math.prod(shape), dtype=dtype)
    view, done = array.view(np.uint8).data if n_bytes else memoryview(b""), 0
    while done < n_bytes:
        got = stream.readinto(view[done : done + 2**24])  # type: ignore[attr-defined]
        if not got:
            raise DataFormatError(f"{where}: truncated after {done} of {n_bytes} bytes.")
        done += got
    stream.read(1)  # the end: zipfile checks the checksum there
    return array.reshape(shape, order="F" if fortran else "C")


def _check_memory(n_bytes: int, where: str) -> None:
    try:
        have = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        have = 2**36
    if n_bytes > have:
        raise DataFormatError(
            f"{where}: {n_bytes / 2**30:.1f} GiB do not fit into the memory of this machine."
        )


def read_mat_file(path: Path, asked: Asked, text: TextFormat) -> OwnData:
    """Read a MATLAB file (version 4 to 7) by the names of its variables."""
    from scipy.io import loadmat

    shapes = mat_shapes(path)

    def get(key: str) -> Array:
        _check_memory(8 * math.prod(shapes[key]), f"{path}, variable '{key}'")
        try:
            value = loadmat(str(path), variable_names=[key])[key]
        except Exception as error:  # scipy raises nearly anything on damaged bytes
            raise DataFormatError(
                f"{path}, variable '{key}': cannot be read: {type(error).__name__}: {error}."
            ) from error
        return _uncelled(value)

    return _by_names(path, list(shapes), get, asked, drop=text.missing == "drop")


def _uncelled(value: Any) -> Array:
    """A cell array of texts as an array of text; char matrices lose their padding."""
    array = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    if array.dtype == object:
        array = np.array(
            [str(np.asarray(cell).ravel()[0]) if np.size(cell) else "" for cell in array.ravel()]
        )
    return np.char.strip(array) if array.dtype.kind == "U" else array


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _by_names(path: Path, keys: list[str], get: Get, asked: Asked, *, drop: bool) -> OwnData:
    """Find out which array is what."""
    known = {_plain(key): key for key in reversed(keys)}
    if asked.label is None:
        for parts in PARTS:
            if parts[0] in known and parts[1] in known:
                return _parts(path, [known.get(part) for part in parts], get, asked, drop=drop)
    label = _array_name(asked.label, keys, path, "--label") if asked.label is not None else None
    label = label or next((known[name] for name in LABELS if name in known), None)
    samples = next((known[name] for name in SAMPLES if name in known and known[name] != label), None)
    if samples is None:
        raise DataFormatError(
            f"{path} holds {shown(keys) or 'no arrays'}. Call the samples X and the labels y, or x_train, "
            "y_train, x_test and y_test."
        )
    extra: dict[str, Any] = {}
    names = next((known[name] for name in NAMES if name in known), None)
    extra["names"] = get(names) if names is not None else None
    for role, wanted in (("split", asked.split), ("groups", asked.group)):
        if wanted is not None:
            extra[role] = get(_array_name(wanted, keys, path, f"--{role}"))
    data = _finished(path, asked, get(samples), None if label is None else get(label), label=label, **extra)
    if samples == "images" and "bad" in keys and get("bad").shape == (len(data),):
        bad = get("bad").astype(bool)
        data = data.rows(~bad).noted(f"{int(bad.sum())} of {len(bad)} images are marked bad and left out")
    return _complete(data, drop=drop)


def _array_name(wanted: str | int, keys: list[str], path: Path, option: str) -> str:
    if str(wanted) not in keys:
        raise UsageError(f"{option} {wanted!r} is not an array of {path}, which holds {shown(keys)}.")
    return str(wanted)


def _parts(path: Path, keys: list[str | None], get: Get, asked: Asked, *, drop: bool) -> OwnData:
    """Training and test samples in arrays of their own."""
    if asked.split is not None:
        raise UsageError(f"{path} has training and test samples apart already: leave --split out.")
    train, train_y, test, test_y = keys
    assert train is not None
    assert train_y is not None
    first = _complete(_finished(path, asked, get(train), get(train_y), label=train_y), drop=drop)
    if test is None:
        return first
    second = _finished(path, asked, get(test), None if test_y is None else get(test_y), label=test_y)
    return joined(first, _complete(second, drop=drop))


def joined(train: OwnData, test: OwnData) -> OwnData:
    """Training and test samples as one, with their split; the two must have the same features."""
    if train.labels is None or test.labels is None:
        raise DataFormatError(f"{test.source if test.labels is None else train.source} holds no labels.")
    assert train.features is not None
    assert test.features is not None
    if train.features.shape[1] != test.features.shape[1]:
        raise DataFormatError(
            f"The test samples of {test.source} have {test.features.shape[1]} features, the training samples "
            f"{train.features.shape[1]}."
        )
    labels = [train.labels, test.labels]
    if {array.dtype.kind for array in labels} != {"i"}:
        labels = [array.astype(np.str_) for array in labels]
    groups = None
    if train.groups is not None and test.groups is not None:
        groups = np.concatenate([train.groups, test.groups])
    return replace(
        train,
        features=np.concatenate([train.features, test.features]),
        labels=np.concatenate(labels),
        names=np.concatenate([train.names, test.names]),
        split=np.repeat([TRAIN, TEST], [len(train), len(test)]),
        groups=groups,
        notes=tuple(dict.fromkeys((*train.notes, *test.notes))),
    )


def _finished(
    path: Path,
    asked: Asked,
    X: Array,
    y: Array | None,
    *,
    label: str | None,
    names: Array | None = None,
    split: Array | None = None,
    groups: Array | None = None,
) -> OwnData:
    """Checked samples (n_samples, n_features) and labels."""
    if asked.drop:
        raise UsageError(f"--drop goes with tables; {path} holds arrays.")
    if X.dtype.kind not in "biuf" or X.ndim < 2:
        raise DataFormatError(
            f"{path}: the samples must be numbers of shape (n_samples, n_features) or (n_samples, height, "
            f"width). Got {X.dtype} of shape {X.shape}."
        )
    labels = None if y is None else _labels(path, y, label)
    X, notes = _turned(path, X, None if labels is None else len(labels), asked)
    n = len(X)
    if n == 0 or X.size == 0:
        raise DataFormatError(f"{path}: no samples, shape {X.shape}.")
    shape = X.shape[1:] if X.ndim > 2 else None
    flat = X.reshape(n, -1)
    marks = None
    if split is not None:
        marks, more = as_split([str(cell) for cell in _column(path, split, n, "split")], "", _row_of(path))
        notes = (*notes, *more)
    return OwnData(
        source=str(path),
        kind="array",
        features=flat,
        labels=labels,
        names=np.arange(n).astype(np.str_)
        if names is None
        else _column(path, names, n, "names").astype(np.str_),
        label=label,
        split=marks,
        groups=None if groups is None else _column(path, groups, n, "groups").astype(np.str_),
        image_shape=shape if shape is None or len(shape) == 2 or shape[2:] == (3,) else None,
        notes=notes,
    )


def _row_of(path: Path) -> Callable[[int], str]:
    return lambda i: f"{path}, row {i}"


def _column(path: Path, array: Array, n: int, what: str) -> Array:
    if array.size != n:
        raise DataFormatError(f"{path}: {array.size} {what} for {n} samples.")
    return np.asarray(array).ravel()


def _labels(path: Path, y: Array, label: str | None) -> Array:
    """A vector of whole numbers or text; MATLAB's columns and rows are vectors too."""
    if y.ndim != 1 and max(y.shape, default=0) != y.size:
        raise DataFormatError(
            f"{path}: the labels '{label}' have shape {y.shape}; one per sample is expected."
        )
    y = np.asarray(y).ravel()
    if y.dtype.kind in "US":
        cells = np.char.strip(y.astype(np.str_))
        empty = np.flatnonzero(cells == "")
        if len(empty) == len(cells):
            return None  # type: ignore[return-value]
        if len(empty):
            raise DataFormatError(f"{path}, row {empty[0]}: the label is missing.")
        return cells
    if y.dtype.kind == "f":
        whole = np.isfinite(y) & (np.floor(y) == y)
        if not whole.all():
            bad = int(np.flatnonzero(~whole)[0])
            raise DataFormatError(
                f"{path}, row {bad}: the label is {clipped(y[bad])}. Labels must be text or whole numbers."
            )
    elif y.dtype.kind not in "biu":
        raise DataFormatError(f"{path}: labels of type {y.dtype}; they must be text or whole numbers.")
    return y.astype(np.int64)


def _turned(path: Path, X: Array, n_labels: int | None, asked: Asked) -> tuple[Array, tuple[str, ...]]:
    """Samples as rows. MATLAB users keep them as columns: told by the labels, or by what a model takes."""
    wanted = asked.expected.n_features if asked.expected is not None else None
    if n_labels is not None:
        matlab = path.suffix.lower() == ".mat"
        turned = matlab and X.shape[0] != n_labels and X.shape[-1] == n_labels
        if X.shape[0] != n_labels and not turned:
            raise DataFormatError(f"{path}: {n_labels} labels for samples of shape {X.shape}.")
    else:
        turned = X.ndim == 2 and wanted is not None and X.shape[1] != wanted and X.shape[0] == wanted
    if not turned:
        return X, ()
    return np.moveaxis(X, -1, 0), ("the samples are columns in this file; they are turned into rows",)


def _complete(data: OwnData, *, drop: bool) -> OwnData:
    """The data where every number is finite; rows with nan, a missing value, are left out if `drop`."""
    X = data.features
    assert X is not None
    if X.dtype.kind != "f":
        return data
    kept = np.ones(len(X), dtype=bool)
    for first in range(0, len(X), 4096):
        block = X[first : first + 4096]
        wrong = np.isinf(block) if drop else ~np.isfinite(block)
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            value = block[row, column]
            what = "Fill it in, or leave such rows out with --missing drop." if value != value else "Mend it."
            raise DataFormatError(
                f"{data.source}, row {first + row}, column {column}: {value} is not a finite number. {what}"
            )
        kept[first : first + 4096] = ~np.isnan(block).any(axis=1)
    if kept.all():
        return data
    if not kept.any():
        raise DataFormatError(f"{data.source}: every row has a missing value, so none is left.")
    n = len(kept)
    return data.rows(kept).noted(f"{n - int(kept.sum())} of {n} rows with missing values are left out")
