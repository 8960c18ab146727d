"""Which column is what: label, split, groups, names, features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.data import TEST, TRAIN, Array, Expected

LABEL_NAMES = ("label", "labels", "class", "classes", "target", "y")
NAME_NAMES = ("name", "names", "id", "file", "filename", "file_name", "path", "image", "sample", "sample_id")
INDEX_NAMES = ("", "unnamed: 0")
ROLE_NAMES = {*LABEL_NAMES, *NAME_NAMES, "split", "group", "groups", "fold", "species", "subject"}

_WHOLE = re.compile(r"[+-]?(0|[1-9]\d{0,17})(\.0*)?")
_FRACTION = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Asked:
    """What the user said about the columns, by name or position."""

    label: str | int | None = None
    split: str | int | None = None
    group: str | int | None = None
    drop: tuple[str | int, ...] = ()
    expected: Expected | None = None


@dataclass(frozen=True)
class Roles:
    """Positions of the columns."""

    label: int | None
    split: int | None
    group: int | None
    name: int | None
    features: tuple[int, ...]
    notes: tuple[str, ...]


class Columns:
    """The columns of a table as far as their names and kinds are known.

    Parameters
    ----------
    where : str
        The file, for messages.
    names : sequence of str or None
        The header; None where there is none.
    text : sequence of str or None per column
        An example cell of a column that does not hold numbers, None for a column of numbers.
    """

    def __init__(self, where: str, names: Sequence[str] | None, text: Sequence[str | None]) -> None:
        self.where, self.names, self.text = where, names, text
        self.n = len(text)

    def called(self, index: int) -> str:
        """How messages call a column; positions count from 1 as spreadsheets do."""
        return f"column {index + 1}" if self.names is None else f"column {index + 1} ({self.names[index]!r})"

    def position(self, wanted: str | int, option: str) -> int:
        """Position of a column given by name, or by number from 0, negative ones from the end."""
        if isinstance(wanted, str) and self.names is not None and wanted in self.names:
            return list(self.names).index(wanted)  # spectra have numbers for names: the name goes first
        try:
            index: int | None = int(wanted)
        except ValueError:
            index = None
        if index is not None and -self.n <= index < self.n:
            return index % self.n
        have = f"has {self.n} columns without names" if self.names is None else f"has {shown(self.names)}"
        raise UsageError(
            f"{option} {wanted!r} is not a column of {self.where}, which {have}. "
            f"Give a name, or a position from 0 to {self.n - 1} (or -1 for the last)."
        )

    def roles(self, asked: Asked) -> Roles:
        """Decide about every column."""
        if asked.expected is not None and asked.expected.n_features is not None:
            return self._as_expected(asked, asked.expected)
        notes: list[str] = []
        split = None if asked.split is None else self.position(asked.split, "--split")
        group = None if asked.group is None else self.position(asked.group, "--groups")
        dropped = {self.position(column, "--drop") for column in asked.drop}
        label = None if asked.label is None else self.position(asked.label, "--label")
        taken = {split, group, label, *dropped} - {None}
        name = self._name_column(taken, notes)
        free = [i for i in range(self.n) if i not in taken | {name}]
        if label is None:
            label = self._guess_label(free, notes)
        _check_distinct({"--label": label, "--split": split, "--groups": group}, self)
        features = tuple(i for i in free if i != label)
        self._check_features(features)
        return Roles(label, split, group, name, features, tuple(notes))

    def _name_column(self, taken: set[Any], notes: list[str]) -> int | None:
        if self.names is None:
            return None
        lower = [name.strip().lower() for name in self.names]
        if 0 not in taken and lower[0] in INDEX_NAMES and self.n > 1:
            notes.append("the first column has no name and is taken for the number of the row")
            return 0
        for i, name in enumerate(lower):
            if name in NAME_NAMES and self.text[i] is not None and i not in taken:
                notes.append(f"{self.called(i)} is taken for the names of the samples")
                return i
        return None

    def _guess_label(self, free: list[int], notes: list[str]) -> int:
        known = [i for i in free if self.names is not None and self.names[i].strip().lower() in LABEL_NAMES]
        texts = [i for i in free if self.text[i] is not None]
        if not free:
            raise DataFormatError(f"{self.where}: no column is left for the label.")
        if len(known) == 1:
            label, why = known[0], "its name"
        elif len(known) > 1:
            listed = ", ".join(self.called(i) for i in known)
            raise UsageError(f"{self.where}: {listed} may all be the label. Name it with --label.")
        elif len(texts) == 1:
            label, why = texts[0], "the only one that is not numbers"
        elif len(texts) > 1:
            listed = ", ".join(self.called(i) for i in texts[:5])
            raise UsageError(
                f"{self.where}: {listed} hold text. Name the label with --label and leave the others out "
                "with --drop."
            )
        else:
            label, why = free[-1], "the last one"
        notes.append(f"label: {self.called(label)}, guessed as {why}; --label says otherwise")
        return label

    def _check_features(self, features: tuple[int, ...]) -> None:
        texts = [i for i in features if self.text[i] is not None]
        if texts:
            first = texts[0]
            more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
            raise DataFormatError(
                f"{self.where}: {self.called(first)}{more} holds text ({clipped(self.text[first])}), and "
                "features must be numbers. Leave it out with --drop, or name it as --label."
            )
        if not features:
            raise DataFormatError(f"{self.where}: no column of features is left beside the label.")

    def _as_expected(self, asked: Asked, expected: Expected) -> Roles:
        """The columns of a model: by name where both sides have names, else by position."""
        if expected.columns is not None and self.names is not None:
            return self._by_name(asked, expected)
        split = None if asked.split is None else self.position(asked.split, "--split")
        group = None if asked.group is None else self.position(asked.group, "--groups")
        out = {self.position(column, "--drop") for column in asked.drop} | {split, group}
        n_features = expected.n_features
        free = [i for i in range(self.n) if i not in out]
        label = self._expected_label(asked, expected)
        if label is not None and asked.label is not None:
            free = [i for i in free if i != label]
        elif len(free) == n_features:
            label = None
        elif label is not None:
            free = [i for i in free if i != label]
        if len(free) != n_features:
            raise DataFormatError(
                f"{self.where} has {len(free)} columns of features, the model takes {n_features}. "
                "Leave columns out with --drop, or name the label with --label."
            )
        self._check_features(tuple(free))
        notes: tuple[str, ...] = ()
        if expected.columns is not None:
            notes = ("there is no header: columns are taken in the order of the training data",)
        return Roles(label, split, group, None, tuple(free), notes)

    def _expected_label(self, asked: Asked, expected: Expected) -> int | None:
        if asked.label is not None:
            return self.position(asked.label, "--label")
        if expected.label is None:
            return None
        try:
            return self.position(expected.label, "--label")
        except UsageError:
            return None

    def _by_name(self, asked: Asked, expected: Expected) -> Roles:
        assert expected.columns is not None
        assert self.names is not None
        dropped = {self.position(column, "--drop") for column in asked.drop}
        where = {name: i for i, name in enumerate(self.names) if i not in dropped}
        missing = [name for name in expected.columns if name not in where]
        if missing:
            raise DataFormatError(
                f"{self.where} lacks {len(missing)} of the {len(expected.columns)} columns that the model "
                f"takes: {shown(missing)}."
            )
        features = tuple(where[name] for name in expected.columns)
        label = None
        if asked.label is not None:
            label = self.position(asked.label, "--label")
        elif expected.label in where and where[str(expected.label)] not in features:
            label = where[str(expected.label)]
        split = None if asked.split is None else self.position(asked.split, "--split")
        group = None if asked.group is None else self.position(asked.group, "--groups")
        notes: list[str] = []
        taken = {*features, label, split, group, *dropped}
        name = self._name_column(taken, notes)
        extra = [self.names[i] for i in range(self.n) if i not in taken | {name}]
        if extra:
            notes.append(f"columns that the model does not know are passed over: {shown(extra)}")
        if list(features) != sorted(features):
            notes.append("the columns are in another order than in training: they are taken by name")
        self._check_features(features)
        return Roles(label, split, group, name, features, tuple(notes))


def _check_distinct(options: dict[str, int | None], columns: Columns) -> None:
    seen: dict[int, str] = {}
    for option, index in options.items():
        if index is not None and index in seen:
            raise UsageError(f"{seen[index]} and {option} are both {columns.called(index)}.")
        if index is not None:
            seen[index] = option


def shown(names: Sequence[str], most: int = 10) -> str:
    """A list for a message, clipped."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(clipped(name) for name in names[:most]) + more


def clipped(text: Any, most: int = 40) -> str:
    """A cell for a message, quoted, clipped and without line ends."""
    text = str(text)
    return repr(text if len(text) <= most else text[: most - 3] + "...")


def as_labels(cells: Sequence[str], where: Any) -> Array:
    """Labels as whole numbers where all cells are, else as text.

    ``where(i)`` names the place of cell i. Numbers with a leading zero stay text: 007 is a name.
    """
    if all(_WHOLE.fullmatch(cell) for cell in cells):
        return np.array([int(cell.split(".")[0]) for cell in cells], dtype=np.int64)
    if all(_FRACTION.fullmatch(cell) for cell in cells):
        bad = next((i for i, cell in enumerate(cells) if float(cell) != int(float(cell))), None)
        if bad is not None:
            raise DataFormatError(
                f"{where(bad)}: the label is {clipped(cells[bad])}. Labels must be text or whole numbers: "
                "name the label column with --label."
            )
    return np.array(cells, dtype=np.str_)


_TRAIN = {"train", "training", "trn", "fit", "learn"}
_VALID = {"val", "valid", "validation", "dev"}
_TEST = {"test", "testing", "tst", "holdout", "held-out", "heldout"}
_YES = {"1", "true", "yes", "t", "1.0"}
_NO = {"0", "false", "no", "f", "0.0"}


def as_split(cells: Sequence[str], name: str, where: Any) -> tuple[Array, tuple[str, ...]]:
    """Whether each row is "train" or "test", from the cells of a split column, and notes.

    Validation rows train, because parameters are chosen by cross-validation within the training samples.
    Yes and no are understood where the column is called after one of the two parts.
    """
    words = [cell.strip().lower() for cell in cells]
    called = name.strip().lower().removeprefix("is_").removeprefix("is")
    yes_no = {**dict.fromkeys(_YES, True), **dict.fromkeys(_NO, False)}
    if called in _TRAIN | _TEST and all(word in yes_no for word in words):
        test = np.array([yes_no[word] for word in words]) == (called in _TEST)
    else:
        bad = next((i for i, word in enumerate(words) if word not in _TRAIN | _VALID | _TEST), None)
        if bad is not None:
            raise DataFormatError(
                f"{where(bad)}: the split says {clipped(cells[bad])}, which must be train or test."
            )
        test = np.array([word in _TEST for word in words], dtype=bool)
    notes = ("rows marked as validation count as training",) if any(w in _VALID for w in words) else ()
    return np.where(test, TEST, TRAIN), notes
