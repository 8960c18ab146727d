"""Arrays: .npz files, pairs of .npy files and MATLAB files. Pickled objects are never read.

The name of an array says what it is: ``X`` and ``y``, ``x_train``/``y_train``/``x_test``/``y_test``,
``images`` and ``labels``, MATLAB's ``fea`` and ``gnd``, and similar ones. Pictures (n, height, width) become
rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataFormatError, DataNotFoundError, UsageError
from residuum.inputs.columns import ColumnOptions, TableFormat
from residuum.inputs.matlab import mat_shapes, read_mat
from residuum.inputs.own_data import Array, OwnData, checked, quoted_list
from residuum.inputs.splitting import join_train_and_test
from residuum.system.files import FileContent, naming_damage, open_npz, view_npy

SAMPLES = ("x", "data", "samples", "features", "images", "fea", "inputs", "spectra", "embeddings")
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

# The arrays of a file by name; each is read when it is called for.
Arrays = Mapping[str, Callable[[], Array]]


def read_npz(path: Path, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read an .npz file by the names of its arrays."""
    with open_npz(path) as arrays:
        yield _by_names(path, arrays, options, form.missing)


def read_mat_file(path: Path, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read a MATLAB file (version 4 to 7) by the names of its variables."""

    def read(name: str) -> Array:
        return _matlab_array(read_mat(path, [name])[name])

    yield _by_names(path, {name: partial(read, name) for name in mat_shapes(path)}, options, form.missing)


def _matlab_array(value: Any) -> Array:
    """A variable as an array of numbers or text: cells become text, and text loses its padding."""
    array = value.toarray() if hasattr(value, "toarray") else np.asarray(value)
    if array.dtype == object:
        array = np.array([str(np.asarray(cell).ravel()[0]) if np.size(cell) else "" for cell in array.flat])
    return np.char.strip(array) if array.dtype.kind == "U" else array


def read_npy_pair(path: Path | FileContent, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read features and labels from two .npy files, mapped rather than loaded."""
    content, label = {"X": np.atleast_2d(_map_npy(path))}, None
    if options.labels is not None:
        content["y"], label = _labels(options.labels), options.labels.name
    yield _samples(path, content, options, form.missing, label=label)


def _labels(path: Path) -> Array:
    """Labels of an .npy file, or of a text file with one label in each line."""
    if path.suffix.lower() != ".txt":
        return _map_npy(path)
    with naming_damage(path, "UTF-8 text"):
        return np.array(path.read_text(encoding="utf-8-sig").splitlines(), dtype=np.str_)


def _map_npy(path: Path | FileContent) -> Array:
    if isinstance(path, FileContent):
        return view_npy(np.frombuffer(path.read_bytes(), dtype=np.uint8), str(path))
    if not path.is_file():
        raise DataNotFoundError(f"{path} does not exist, or is not a file.")
    with naming_damage(path, "an .npy file"):
        content = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    return view_npy(content, str(path))


def _by_names(path: Path, arrays: Arrays, options: ColumnOptions, missing: str) -> OwnData:
    """Find out which array is what."""
    names = list(arrays)
    known = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(names)}
    if options.label is None:
        for parts in PARTS:
            if parts[0] in known and parts[1] in known:
                found = [known.get(part) for part in parts]
                return _train_and_test(path, found, arrays, options, missing)

    def first(usual: Iterable[str]) -> str | None:
        return next((known[name] for name in usual if name in known), None)

    def asked(option: str, name: str | int | None) -> str | None:
        if name is not None and name not in arrays:
            raise UsageError(
                f"{option} {name!r} is not an array of {path}, which holds {quoted_list(names)}."
            )
        return None if name is None else str(name)

    label = asked("--label", options.label) or first(LABELS)
    samples = first(name for name in SAMPLES if known.get(name) != label)
    if samples is None:
        raise DataFormatError(
            f"{path} holds {quoted_list(names) or 'no arrays'}. Call the samples X and the labels y, or "
            "x_train, y_train, x_test and y_test."
        )
    wanted = {
        "X": samples,
        "y": label,
        "names": first(NAMES),
        "split": asked("--split", options.split),
        "groups": asked("--groups", options.group),
    }
    content = {role: arrays[name]() for role, name in wanted.items() if name is not None}
    data = _samples(path, content, options, missing, label=label)
    bad = arrays["bad"]() if samples == "images" and "bad" in arrays else np.zeros(0)
    if bad.shape == (len(data),):
        note = f"{np.count_nonzero(bad)} of {len(bad)} images are marked bad and left out"
        data = data.rows(~bad.astype(bool)).noted(note)
    return data


def _train_and_test(
    path: Path, found: list[str | None], arrays: Arrays, options: ColumnOptions, missing: str
) -> OwnData:
    """Training and test samples from arrays of their own."""
    if options.split is not None:
        raise UsageError(f"{path} holds training and test samples in separate arrays: leave --split out.")

    def part(samples: str | None, label: str | None) -> OwnData | None:
        content = {role: arrays[name]() for role, name in (("X", samples), ("y", label)) if name is not None}
        return _samples(path, content, options, missing, label=label) if samples is not None else None

    train, test = part(*found[:2]), part(*found[2:])
    assert train is not None
    return train if test is None else join_train_and_test(train, test)


def _samples(
    path: Path | FileContent,
    content: Mapping[str, Array],
    options: ColumnOptions,
    missing: str,
    *,
    label: str | None,
) -> OwnData:
    """Checked samples (n_samples, n_features) from arrays called X, y, names, split and groups."""
    if options.drop:
        raise UsageError(f"--drop is for tables; {path} holds arrays.")
    X, y = content["X"], content.get("y")
    if X.dtype.kind not in "biuf" or X.ndim < 2 or X.size == 0:
        raise DataFormatError(
            f"{path}: the samples must be numbers of shape (n_samples, n_features) or (n_samples, height, "
            f"width). Got {X.dtype} of shape {X.shape}."
        )
    if y is not None and (max(y.shape, default=0) != y.size or y.dtype.kind not in "biufUS"):
        raise DataFormatError(
            f"{path}: the labels '{label}' must be text or whole numbers, one per sample. Got {y.dtype} of "
            f"shape {y.shape}."
        )
    X, notes = _samples_as_rows(path, X, None if y is None else y.size, options)
    n, shape = len(X), X.shape[1:]

    def texts(role: str) -> Array | None:
        values = content.get(role)
        if values is not None and values.size != n:
            raise DataFormatError(f"{path}: {values.size} {role} for {n} samples.")
        return None if values is None else values.ravel().astype(np.str_)

    names = texts("names")
    is_picture = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    data = OwnData(
        source=str(path),
        kind="array",
        features=X.reshape(n, -1),
        labels=None if y is None else y.ravel(),
        names=np.arange(n).astype(np.str_) if names is None else names,
        label=label,
        split=texts("split"),
        groups=texts("groups"),
        image_shape=shape if is_picture else None,
        notes=notes,
    )

    def place(row: int, column: int | str) -> str:
        return f"{path}, row {row}" + (f", column {column}" if isinstance(column, int) else "")

    return checked(data, place, missing=missing)


def _samples_as_rows(
    path: Path | FileContent, X: Array, n_labels: int | None, options: ColumnOptions
) -> tuple[Array, tuple[str, ...]]:
    """Samples as rows. MATLAB users keep them as columns: the labels or what a model takes show it."""
    if n_labels is None:
        wanted = options.expected.n_features if options.expected is not None else X.shape[-1]
        as_columns = X.ndim == 2 and X.shape[1] != wanted and X.shape[0] == wanted
    else:
        as_columns = str(path).lower().endswith(".mat") and X.shape[0] != n_labels and X.shape[-1] == n_labels
        if X.shape[0] != n_labels and not as_columns:
            raise DataFormatError(f"{path}: {n_labels} labels for samples of shape {X.shape}.")
    if not as_columns:
        return X, ()
    return np.moveaxis(X, -1, 0), ("the samples are columns in this file; they are turned into rows",)
