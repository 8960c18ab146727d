"""From what a reader found to samples: one path for text tables, Parquet files and arrays.

A reader fills `OwnData` with raw content: features in which nan is a missing value, and the cells of the
label, split and group columns as they stand in the file. `checked` turns that into samples, or raises an
error that names the cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from residuum.errors import DataFormatError
from residuum.inputs.columns import Columns, Roles, quoted
from residuum.inputs.own_data import TEST, TRAIN, Array, OwnData

# Names the cell of a row in errors; the column is the position of a feature, or "label", "split" or "groups".
Place = Callable[[int, int | str], str]

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0*)?")
_NUMBER = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")
_VALIDATION = {"val", "valid", "validation", "dev"}
_PARTS = {
    **dict.fromkeys(("train", "training", "trn", "fit", "learn", *_VALIDATION), TRAIN),
    **dict.fromkeys(("test", "testing", "tst", "holdout", "held-out", "heldout"), TEST),
}
PART_NAMES = set(_PARTS)


def table_data(
    columns: Columns,
    roles: Roles,
    features: Array,
    cells: Mapping[str, Sequence[str]],
    *,
    row_place: Callable[[int], str],
    missing: str,
    notes: Sequence[str] = (),
) -> OwnData:
    """The samples of a table: numbers of its features (nan: missing) and cells of the columns by role.

    ``row_place(i)`` names row i in errors, by its line or its number.
    """
    header, label = columns.names, roles.positions.get("label")
    texts = {role: np.array(column, dtype=np.str_) for role, column in cells.items()}

    def place(row: int, column: int | str) -> str:
        position = roles.features[column] if isinstance(column, int) else roles.positions[column]
        return f"{row_place(row)}, {columns.called(position)}"

    data = OwnData(
        source=columns.where,
        kind="table",
        features=features,
        labels=texts.get("label"),
        names=texts.get("name", np.arange(len(features)).astype(np.str_)),
        columns=None if header is None else tuple(header[i] for i in roles.features),
        label=None if label is None else (header[label] if header else str(label)),
        split=texts.get("split"),
        groups=texts.get("groups"),
        notes=(*notes, *roles.notes),
    )
    return checked(data, place, missing=missing)


def checked(data: OwnData, place: Place, *, missing: str) -> OwnData:
    """Samples with finite features, typed labels, a split and groups, from raw content."""
    rows = _complete_rows(data, place, drop=missing == "drop")
    n_rows = len(data)
    if len(rows) < n_rows:
        left_out = f"{n_rows - len(rows)} of {n_rows} rows with missing values are left out"
        data = data.rows(rows).noted(left_out)

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


def _complete_rows(data: OwnData, place: Place, *, drop: bool) -> Array:
    """Numbers of the rows without a missing value; infinite values are always an error."""
    X = data.features
    assert X is not None
    if X.dtype.kind != "f":
        return np.arange(len(X))
    complete = np.ones(len(X), dtype=bool)
    for first in range(0, len(X), 4096):
        block = X[first : first + 4096]
        wrong = np.isinf(block) if drop else ~np.isfinite(block)
        if wrong.any():
            row, column = np.argwhere(wrong)[0].tolist()
            where, value = place(first + row, column), block[row, column]
            if not np.isnan(value):
                raise DataFormatError(f"{where}: {value} is not a finite number.")
            column_too = ", or leave out the column with --drop" if data.kind == "table" else ""
            raise DataFormatError(
                f"{where}: the value is missing. Fill it in, or leave such rows out with --missing drop"
                f"{column_too}."
            )
        complete[first : first + 4096] = ~np.isnan(block).any(axis=1)
    if not complete.any():
        raise DataFormatError(f"{data.source}: every row has a missing value, so none is left.")
    return np.flatnonzero(complete)


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
