"""Columns that tell rows apart instead of classes: numbers of rows, ids, names.

Where a table is sorted by class, a column that counts rows gives every answer away, in the held-out rows too,
and nothing of that holds for new data. A column of ids says nothing at all. Both are found by what they hold:

- text that differs from row to row and is never missing;
- whole numbers that rise or fall from row to row;
- whole numbers that differ from row to row, although numbers drawn from their range would not: of n numbers
  from a range of R, about n(n-1)/(2R) pairs are equal;
- whole numbers that differ from row to row in a column whose name ends in id, index, number or the like.

A measurement may differ from row to row too. It is kept: it has fractions, or a range so large that no two
equal values were to be expected.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from typing import Any

import numpy as np

from residuum.errors import DataFormatError
from residuum.inputs.own_data import Array, OwnData, missing_cells, quoted

_FEWEST = 8  # rows; so few numbers rise by chance once in 40,000
_EXPECTED_PAIRS = 10  # with which no pair is equal by chance once in 20,000
_ID_NAME = re.compile(r"(.*[^a-z])?(id|ids|uuid|guid|key|index|idx|row|nr|no|number)|.*[a-z](Id|ID|No|Nr)")


def without_row_ids(data: OwnData, train: Any = slice(None)) -> tuple[OwnData, tuple[int, ...]]:
    """The data without the columns that tell rows apart, each with a note; and the positions of these.

    Parameters
    ----------
    data : OwnData
        A table; anything else is given back as it is.
    train : index or mask
        The training samples; others are not looked at.
    """
    if data.kind != "table" or data.image_shape is not None:
        return data, ()
    assert data.features is not None
    assert data.called is not None
    n_features, found = data.features.shape[1], {}
    for j in set(range(n_features)) - set(data.kept):
        reason = _reason(data.features[:, j][train], data.called[j])
        if reason is not None:
            found[j] = reason
    notes = [
        f"column {quoted(name)} is left out: {reason}; --keep {shlex.quote(name)} keeps it"
        for name, reason in ((data.called[j], reason) for j, reason in sorted(found.items()))
    ]
    if len(found) == n_features:
        raise DataFormatError(f"{data.source}: no column of features is left. {'. '.join(notes)}.")
    return (without_features(data, sorted(found)).noted(*notes) if found else data), tuple(sorted(found))


def without_features(data: OwnData, positions: list[int]) -> OwnData:
    """The same without the features at these positions."""
    assert data.features is not None
    stay = [j for j in range(data.features.shape[1]) if j not in set(positions)]
    place = {old: new for new, old in enumerate(stay)}

    def names(these: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return None if these is None else tuple(these[j] for j in stay)

    features = data.features[:, stay]
    texts = tuple(place[j] for j in data.texts if j in place)
    return replace(
        data,
        features=features if texts or features.dtype != object else features.astype(np.float64),
        columns=names(data.columns),
        called=names(data.called),
        texts=texts,
        kept=tuple(place[j] for j in data.kept if j in place),
    )


def _reason(cells: Array, name: str) -> str | None:
    """Why a column tells rows apart; None if it does not."""
    known = cells[~missing_cells(cells)]
    if len(known) < _FEWEST:
        return None
    if isinstance(known[0], str):
        # Where cells are missing, that may say something even if the others do not.
        different = len(set(known.tolist())) == len(cells)
        return "its text is different in every row, as that of names and ids is" if different else None
    if not _all_whole_and_different(known[:1000]):  # this settles it for nearly all columns
        return None
    numbers = known.astype(np.float64)
    if not _all_whole_and_different(numbers):
        return None
    steps = np.diff(numbers)
    if (steps > 0).all() or (steps < 0).all():
        way = "rise" if steps[0] > 0 else "fall"
        return f"its whole numbers {way} from row to row, as those of a count do"
    n, span = len(numbers), float(numbers.max() - numbers.min()) + 1
    named = _ID_NAME.fullmatch(name) or _ID_NAME.fullmatch(name.lower())
    if named or n * (n - 1) / 2 / span >= _EXPECTED_PAIRS:
        return "its whole numbers are different in every row, as ids are"
    return None


def _all_whole_and_different(values: Array) -> bool:
    numbers = values.astype(np.float64)
    return bool((numbers == np.floor(numbers)).all()) and len(np.unique(numbers)) == len(numbers)
