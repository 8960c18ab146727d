"""Tables: what the user says about them, which column is what (label, split, groups, names, features)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.own_data import Array, OwnData, checked, quoted, quoted_list

LABEL_NAMES = ("label", "labels", "class", "classes", "target", "y")
NAME_NAMES = ("name", "names", "id", "file", "filename", "file_name", "path", "image", "sample", "sample_id")
ROLE_NAMES = {*LABEL_NAMES, *NAME_NAMES, "split", "group", "groups", "fold", "species", "subject"}


@dataclass(frozen=True)
class ExpectedColumns:
    """What a saved model knows about the data it was fitted to, so that new data are read in the same way.

    Attributes
    ----------
    columns : tuple of str or None
        Names of the features; None where the training data had none.
    n_features : int
        Number of features of the raw input.
    label : str or None
        Name or number of the label column; it may be absent from new data.
    """

    columns: tuple[str, ...] | None
    n_features: int
    label: str | None


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written; None means that it is guessed.

    Attributes
    ----------
    header : bool or None
        Whether the first line holds the names of the columns.
    delimiter : str or None
        One of , ; tab and |.
    decimal : {".", ","} or None
        The decimal mark.
    encoding : str
        Encoding of the file; a byte-order mark overrules it.
    missing : {"error", "drop"}
        What to do with a row that lacks a number: stop and name it, or leave the row out.
    """

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    missing: str = "error"


@dataclass(frozen=True)
class ColumnOptions:
    """What the user said about the columns, by name or position, and what a model expects of them."""

    label: str | int | None = None
    split: str | int | None = None
    group: str | int | None = None
    drop: tuple[str | int, ...] = ()
    labels: Path | None = None  # the file of the labels
    expected: ExpectedColumns | None = None


@dataclass(frozen=True)
class Roles:
    """Positions of the columns that are "label", "split", "groups" or "name", and of the features."""

    positions: dict[str, int]
    features: list[int]
    notes: list[str]


class Columns:
    """The columns of the file `where`, with their names where it has a header.

    `text` holds an example cell of every column that is not numbers, and None for columns of numbers.
    """

    def __init__(self, where: str, names: Sequence[str] | None, text: Sequence[str | None]) -> None:
        self.where, self.names, self.text = where, names, text
        self.n = len(text)
        first: dict[str, int] = {}
        for i, name in enumerate(names or ()):
            if name and first.setdefault(name, i) != i:
                raise DataFormatError(
                    f"{where}, column {i + 1}: the name {quoted(name)} is that of column {first[name] + 1} "
                    "too. Rename one of them."
                )

    def called(self, position: int) -> str:
        """What messages call a column; they count from 1 as spreadsheets do."""
        name = "" if self.names is None else f" ({self.names[position]!r})"
        return f"column {position + 1}{name}"

    def position(self, wanted: str | int, option: str) -> int:
        """Position of a column given by name, or by number from 0, negative ones from the end."""
        if isinstance(wanted, str) and self.names is not None and wanted in self.names:
            return list(self.names).index(wanted)  # spectra have numbers for names: the name goes first
        try:
            return range(self.n)[int(wanted)]
        except (ValueError, IndexError):
            have = "columns without names" if self.names is None else f"columns: {quoted_list(self.names)}"
            raise UsageError(
                f"{option} {wanted!r} is not a column of {self.where}, which has {self.n} {have}. "
                f"Give a name, or a position from 0 to {self.n - 1} (or -1 for the last)."
            ) from None

    def roles(self, options: ColumnOptions) -> Roles:
        """Decide about every column: as the user said, as the model expects, or by a guess that is noted."""
        positions: dict[str, int] = {}
        for role, wanted in (("label", options.label), ("split", options.split), ("groups", options.group)):
            if wanted is None:
                continue
            position = self.position(wanted, f"--{role}")
            if position in positions.values():
                raise UsageError(f"--{role} and another option are both {self.called(position)}.")
            positions[role] = position
        dropped = {self.position(column, "--drop") for column in options.drop}
        expected, notes = options.expected, list[str]()
        if expected is None:
            self._find_names(positions, dropped, notes)
            features = self._free(positions, dropped)
            if "label" not in positions:
                positions["label"] = self._guess_label(features, notes)
                features.remove(positions["label"])
        elif expected.columns is None or self.names is None:
            features = self._by_position(positions, dropped, expected)
            if expected.columns is not None:
                notes.append("there is no header: columns are taken in the order of the training data")
        else:
            features = self._by_name(positions, dropped, expected.columns, expected.label)
            self._find_names(positions, {*dropped, *features}, notes)
            unknown = [self.names[i] for i in self._free(positions, {*dropped, *features})]
            if unknown:
                notes.append(f"columns that the model does not know are ignored: {quoted_list(unknown)}")
            if features != sorted(features):
                notes.append("the columns are in another order than in training: they are taken by name")
        self._check_features(features)
        return Roles(positions, features, notes)

    def _free(self, positions: dict[str, int], others: set[int]) -> list[int]:
        return [i for i in range(self.n) if i not in others and i not in positions.values()]

    def _find_names(self, positions: dict[str, int], others: set[int], notes: list[str]) -> None:
        """Give the role "name" to a column that looks like the names or the numbers of the samples."""
        free = set(self._free(positions, others))
        for i, name in enumerate(self.names or ()):
            if i == 0 in free and self.n > 1 and name.strip().lower() in ("", "unnamed: 0"):
                notes.append("the first column has no name and is taken for the number of the row")
            elif i in free and self.text[i] is not None and name.strip().lower() in NAME_NAMES:
                notes.append(f"{self.called(i)} is taken for the names of the samples")
            else:
                continue
            positions["name"] = i
            return

    def _guess_label(self, free: list[int], notes: list[str]) -> int:
        if not free:
            raise DataFormatError(f"{self.where}: no column is left for the label.")
        known = [i for i in free if self.names is not None and self.names[i].strip().lower() in LABEL_NAMES]
        texts = [i for i in free if self.text[i] is not None]
        if len(known) > 1 or (not known and len(texts) > 1):
            listed = ", ".join(self.called(i) for i in (known or texts)[:5])
            raise UsageError(
                f"{self.where}: {listed} may all be the label. Name it with --label and leave other text out "
                "with --drop."
            )
        label = (known or texts or free)[-1]
        why = "its name" if known else "the only one that is not numbers" if texts else "the last one"
        notes.append(f"label: {self.called(label)}, guessed as {why}; --label says otherwise")
        return label

    def _by_position(
        self, positions: dict[str, int], dropped: set[int], expected: ExpectedColumns
    ) -> list[int]:
        """As many columns of features as the model takes; the label column may be there or not."""
        free = self._free(positions, dropped)
        if "label" not in positions and expected.label is not None and len(free) != expected.n_features:
            with suppress(UsageError):  # new data need no labels
                positions["label"] = self.position(expected.label, "--label")
            free = self._free(positions, dropped)
        if len(free) != expected.n_features:
            raise DataFormatError(
                f"{self.where} has {len(free)} columns of features, the model takes {expected.n_features}. "
                "Leave columns out with --drop, or name the label with --label."
            )
        return free

    def _by_name(
        self, positions: dict[str, int], dropped: set[int], wanted: Sequence[str], label: str | None
    ) -> list[int]:
        """The columns that the model takes, in its order; the label column may be there or not."""
        where = {name: i for i, name in enumerate(self.names or ()) if i not in dropped}
        missing = [name for name in wanted if name not in where]
        if missing:
            raise DataFormatError(
                f"{self.where} lacks {len(missing)} of the {len(wanted)} columns that the model takes: "
                f"{quoted_list(missing)}."
            )
        if label in where and label not in wanted:
            positions.setdefault("label", where[label])
        return [where[name] for name in wanted]

    def _check_features(self, features: list[int]) -> None:
        texts = [i for i in features if self.text[i] is not None]
        if texts:
            more = f" and {len(texts) - 1} more" if len(texts) > 1 else ""
            raise DataFormatError(
                f"{self.where}: {self.called(texts[0])}{more} holds text ({quoted(self.text[texts[0]])}), "
                "and features must be numbers. Leave it out with --drop, or name it as --label."
            )
        if not features:
            raise DataFormatError(f"{self.where}: no column of features is left beside the label.")


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
