"""Samples of people's own data: what every reader returns, and the checks that all of them share.

A reader fills `OwnData` with raw content: features in which nan is a missing value, and the cells of the
label, split and group columns as they stand in the file. `checked` turns that into samples, or raises an
error that names the cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError

Array = npt.NDArray[Any]
# Names the cell of a row in errors; the column is the position of a feature, or "label", "split" or "groups".
Place = Callable[[int, int | str], str]

_NONE = np.array(None, dtype=object)
TRAIN, TEST = "train", "test"

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0*)?")
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")
_VALIDATION = {"val", "valid", "validation", "dev"}
_PARTS = {
    **dict.fromkeys(("train", "training", "trn", "fit", "learn", *_VALIDATION), TRAIN),
    **dict.fromkeys(("test", "testing", "tst", "holdout", "held-out", "heldout"), TEST),
}
PART_NAMES = set(_PARTS)


@dataclass(frozen=True)
class OwnData:
    """Samples as rows, with what is known about them.

    Attributes
    ----------
    source : str
        The file or folder that was read.
    kind : {"table", "array", "images"}
        A table has columns, perhaps with names; an array holds numbers, perhaps pixels; images are files.
    features : ndarray of shape (n_samples, n_features) or None
        Numbers, nan where one is missing and is to be filled in; objects where some columns are text, None
        where a cell is missing. None for a folder of images, whose features are computed from `paths`.
    labels : ndarray of shape (n_samples,) or None
        Text, or whole numbers where all labels are.
    names : ndarray of str, shape (n_samples,)
        What a user calls the sample: a file, the value of a name column, or the number of the row from 0.
    columns : tuple of str or None
        Names of the features where the file has them.
    label : str or None
        Name (or number, from 0) of the label column or array.
    split : ndarray of str, shape (n_samples,), or None
        "train" or "test" for every sample.
    groups : ndarray of str, shape (n_samples,), or None
        Samples of one group must stay on one side of a split.
    paths : tuple of Path or None
        Files of a folder of images.
    image_shape : tuple of int or None
        (height, width) or (height, width, 3) where a row of `features` holds the pixels of an image.
    notes : tuple of str
        What was guessed or left out, one sentence each, for the user to read.
    texts : tuple of int
        Positions of the features that are text.
    called : tuple of str or None
        How an option names each feature of a table: by name, or by position in the file where it has none.
    kept : tuple of int
        Positions of the features that the user wants whatever they look like.
    left_out : int
        Number of rows that were left out because a value is missing.
    """

    source: str
    kind: str
    features: npt.NDArray[np.floating[Any]] | None
    labels: Array | None
    names: Array
    columns: tuple[str, ...] | None = None
    label: str | None = None
    split: Array | None = None
    groups: Array | None = None
    paths: tuple[Path, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()
    texts: tuple[int, ...] = ()
    called: tuple[str, ...] | None = None
    kept: tuple[int, ...] = ()
    left_out: int = 0

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, chosen: Any) -> OwnData:
        """The same with some of the samples, by index or mask; their features are not copied if all stay."""
        index = np.arange(len(self))[chosen]
        if np.array_equal(index, np.arange(len(self))):
            return self
        arrays = {name: getattr(self, name) for name in ("features", "labels", "names", "split", "groups")}
        picked: dict[str, Any] = {k: array[index] for k, array in arrays.items() if array is not None}
        if self.paths is not None:
            picked["paths"] = tuple(self.paths[i] for i in index)
        return replace(self, **picked)

    def noted(self, *notes: str) -> OwnData:
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))


def checked(data: OwnData, place: Place, *, missing: str) -> OwnData:
    """Samples with typed labels, a split and groups, from raw content; rows that lack a value as asked."""
    rows = _usable_rows(data, place, missing)
    data = replace(data.rows(rows), left_out=len(data) - len(rows))

    def places(role: str) -> Callable[[int], str]:
        return lambda i: place(int(rows[i]), role)

    if data.labels is not None:
        guess_type = data.kind == "table"
        data = replace(data, labels=_as_labels(data.labels, places("label"), guess_type=guess_type))
    if data.groups is not None:
        _refuse_empty(data.groups, places("groups"), "group")
    if data.split is not None:
        split, notes = as_split(data.split.tolist(), places("split"))
        data = replace(data, split=split).noted(*notes)
    return data


def _usable_rows(data: OwnData, place: Place, missing: str) -> Array:
    """Numbers of the rows that stay; an infinite value is always an error, and a missing one may be."""
    X = data.features
    assert X is not None
    if X.dtype.kind not in "fO":
        return np.arange(len(X))
    usable = np.ones(len(X), dtype=bool)
    for first in range(0, len(X), 4096):
        block = X[first : first + 4096]
        if X.dtype != object and np.isfinite(block).all():
            continue
        gaps = missing_cells(block)
        wrong = np.zeros_like(gaps) if X.dtype == object else np.isinf(block)
        for cells, is_error in ((wrong, True), (gaps, missing == "error")):
            if is_error and cells.any():
                row, column = np.argwhere(cells)[0].tolist()
                where = place(first + row, column)
                if cells is wrong:
                    raise DataFormatError(f"{where}: {block[row, column]} is not a finite number.")
                column_too = ", or the column with --drop" if data.kind == "table" else ""
                raise DataFormatError(
                    f"{where}: the value is missing. Fill it in, have it filled in with --missing impute, or "
                    f"leave such rows out with --missing drop{column_too}."
                )
        if missing == "drop":
            usable[first : first + 4096] = ~gaps.any(axis=1)
    return np.flatnonzero(usable)


def missing_cells(features: Array) -> npt.NDArray[np.bool_]:
    """Where a value is missing: nan among numbers, None among objects."""
    return np.equal(features, _NONE).astype(np.bool_) if features.dtype == object else np.isnan(features)


def _refuse_empty(cells: Array, place: Callable[[int], str], what: str) -> None:
    empty = np.flatnonzero(cells == "")
    if len(empty):
        raise DataFormatError(f"{place(int(empty[0]))}: the {what} is missing.")


def _as_labels(values: Array, place: Callable[[int], str], *, guess_type: bool) -> Array | None:
    """Labels as whole numbers or as text; None where all of them are empty, kept free for the answers.

    Text becomes whole numbers where `guess_type` is set and all cells are such numbers. Those with a leading
    zero stay text: 007 is a name. ``place(i)`` names the place of label i.
    """
    texts = None
    if values.dtype.kind not in "biuf":
        texts = np.char.strip(values.astype(np.str_))
        if (texts == "").all():
            return None
        _refuse_empty(texts, place, "label")
        if not guess_type or not all(_NUMBER.fullmatch(cell) for cell in texts.tolist()):
            return texts
    numbers = values if texts is None else texts.astype(np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers) | (np.floor(numbers) != numbers))
    if len(wrong):
        raise DataFormatError(
            f"{place(int(wrong[0]))}: the label is {quoted(values[wrong[0]])}. Labels must be text or whole "
            "numbers: name the right ones with --label."
        )
    if texts is None:
        return values.astype(np.int64)
    whole = all(_WHOLE.fullmatch(cell) for cell in texts.tolist())
    return np.array([int(cell.split(".")[0]) for cell in texts.tolist()]) if whole else texts


def as_split(cells: Sequence[str], place: Callable[[int], str]) -> tuple[Array, tuple[str, ...]]:
    """Whether each row is "train" or "test", from the cells of a split column, and notes.

    Validation rows train, because parameters are chosen by cross-validation within the training samples.
    """
    words = [str(cell).strip().lower() for cell in cells]
    bad = next((i for i, word in enumerate(words) if word not in _PARTS), None)
    if bad is not None:
        raise DataFormatError(
            f"{place(bad)}: the split says {quoted(cells[bad])}, which must be train or test."
        )
    notes = ("rows marked as validation count as training",) if _VALIDATION.intersection(words) else ()
    return np.array([_PARTS[word] for word in words]), notes


def quoted_list(names: Sequence[str], most: int = 10) -> str:
    """The first names of a list for a message, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more


def quoted(text: Any, most: int = 40) -> str:
    """A cell for a message: in quotation marks, in one line, at most `most` characters long."""
    text = str(text)
    return repr(text if len(text) <= most else text[: most - 3] + "...")
