"""Which column of a table is what: label, split, groups, names, features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.own_data import ExpectedColumns

LABEL_NAMES = ("label", "labels", "class", "classes", "target", "y")
NAME_NAMES = ("name", "names", "id", "file", "filename", "file_name", "path", "image", "sample", "sample_id")
INDEX_NAMES = ("", "unnamed: 0")
ROLE_NAMES = {*LABEL_NAMES, *NAME_NAMES, "split", "group", "groups", "fold", "species", "subject"}


@dataclass(frozen=True)
class ColumnOptions:
    """What the user said about the columns, by name or position, and what a model expects of them."""

    label: str | int | None = None
    split: str | int | None = None
    group: str | int | None = None
    drop: tuple[str | int, ...] = ()
    expected: ExpectedColumns | None = None


@dataclass(frozen=True)
class Roles:
    """Positions of the columns; None where no column has the role."""

    label: int | None
    split: int | None
    groups: int | None
    name: int | None
    features: tuple[int, ...]
    notes: tuple[str, ...]

    def position_of(self, role: str) -> int | None:
        """Position of the column with a role."""
        return {"label": self.label, "split": self.split, "groups": self.groups, "name": self.name}[role]


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

    def called(self, position: int | None) -> str:
        """What messages call a column; they count from 1 as spreadsheets do."""
        assert position is not None
        name = "" if self.names is None else f" ({self.names[position]!r})"
        return f"column {position + 1}{name}"

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
        have = "columns without names" if self.names is None else f"columns: {quoted_list(self.names)}"
        raise UsageError(
            f"{option} {wanted!r} is not a column of {self.where}, which has {self.n} {have}. "
            f"Give a name, or a position from 0 to {self.n - 1} (or -1 for the last)."
        )

    def roles(self, options: ColumnOptions) -> Roles:
        """Decide about every column: as the user said, as the model expects, or by a guess that is noted."""
        asked = {"--label": options.label, "--split": options.split, "--groups": options.group}
        found = {key: None if value is None else self.position(value, key) for key, value in asked.items()}
        self._check_distinct(found)
        label, split, groups = found.values()
        dropped = {self.position(column, "--drop") for column in options.drop}
        taken = {position for position in (label, split, groups) if position is not None} | dropped
        expected = options.expected
        name, notes = None, list[str]()
        if expected is None or expected.n_features is None:
            name = self._name_column(taken, notes)
            free = [i for i in range(self.n) if i not in taken | {name}]
            label = self._guess_label(free, notes) if label is None else label
            features = tuple(i for i in free if i != label)
        elif expected.columns is None or self.names is None:
            label, features = self._by_position(label, taken, expected)
            if expected.columns is not None:
                notes.append("there is no header: columns are taken in the order of the training data")
        else:
            label, features = self._by_name(label, dropped, expected)
            taken |= {*features} | ({label} if label is not None else set())
            name = self._name_column(taken, notes)
            unknown = [self.names[i] for i in range(self.n) if i not in taken | {name}]
            if unknown:
                notes.append(f"columns that the model does not know are ignored: {quoted_list(unknown)}")
            if list(features) != sorted(features):
                notes.append("the columns are in another order than in training: they are taken by name")
        self._check_features(features)
        return Roles(label, split, groups, name, features, tuple(notes))

    def _check_distinct(self, found: dict[str, int | None]) -> None:
        seen: dict[int, str] = {}
        for option, position in found.items():
            if position is None:
                continue
            if position in seen:
                raise UsageError(f"{seen[position]} and {option} are both {self.called(position)}.")
            seen[position] = option

    def _name_column(self, taken: set[int], notes: list[str]) -> int | None:
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
        if not free:
            raise DataFormatError(f"{self.where}: no column is left for the label.")
        known = [i for i in free if self.names is not None and self.names[i].strip().lower() in LABEL_NAMES]
        texts = [i for i in free if self.text[i] is not None]
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

    def _by_position(
        self, label: int | None, taken: set[int], expected: ExpectedColumns
    ) -> tuple[int | None, tuple[int, ...]]:
        """The label, if it is there, and as many columns of features as the model takes."""
        free = [i for i in range(self.n) if i not in taken]
        if label is None and expected.label is not None and len(free) != expected.n_features:
            try:
                label = self.position(expected.label, "--label")
            except UsageError:
                label = None  # new data need no labels
            free = [i for i in free if i != label]
        if len(free) != expected.n_features:
            raise DataFormatError(
                f"{self.where} has {len(free)} columns of features, the model takes {expected.n_features}. "
                "Leave columns out with --drop, or name the label with --label."
            )
        return label, tuple(free)

    def _by_name(
        self, label: int | None, dropped: set[int], expected: ExpectedColumns
    ) -> tuple[int | None, tuple[int, ...]]:
        """The label, if it is there, and the columns that the model takes, in its order."""
        assert self.names is not None
        assert expected.columns is not None
        where = {name: i for i, name in enumerate(self.names) if i not in dropped}
        missing = [name for name in expected.columns if name not in where]
        if missing:
            raise DataFormatError(
                f"{self.where} lacks {len(missing)} of the {len(expected.columns)} columns that the model "
                f"takes: {quoted_list(missing)}."
            )
        features = tuple(where[name] for name in expected.columns)
        position = where.get(str(expected.label))
        if label is None and position not in features:
            label = position
        return label, features

    def _check_features(self, features: tuple[int, ...]) -> None:
        texts = [i for i in features if self.text[i] is not None]
        if texts:
            more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
            raise DataFormatError(
                f"{self.where}: {self.called(texts[0])}{more} holds text ({quoted(self.text[texts[0]])}), "
                "and features must be numbers. Leave it out with --drop, or name it as --label."
            )
        if not features:
            raise DataFormatError(f"{self.where}: no column of features is left beside the label.")


def quoted_list(names: Sequence[str], most: int = 10) -> str:
    """The first names of a list for a message, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(quoted(name) for name in names[:most]) + more


def quoted(text: Any, most: int = 40) -> str:
    """A cell for a message: in quotation marks, in one line, at most `most` characters long."""
    text = str(text)
    return repr(text if len(text) <= most else text[: most - 3] + "...")
