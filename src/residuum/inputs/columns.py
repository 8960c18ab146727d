"""Tables: what the user says about them, which column is what (label, split, groups, names, features)."""

from __future__ import annotations

import re
import shlex
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

_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{2}|\d{4})"
    rf"|\d{{1,2}}[-. ]+{_MONTH}[-,. ]+\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})([T ,]+\d{{1,2}}:.*)?"
    r"|\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]m)?",
    re.IGNORECASE,
)


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
    texts : tuple of int
        Positions of the features that are text.
    without : tuple of int
        Positions among the columns of features that training left out; used where columns have no names.
    """

    columns: tuple[str, ...] | None
    n_features: int
    label: str | None
    texts: tuple[int, ...] = ()
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class TableFormat:
    """How a table is written and what its cells stand for; None means that it is guessed.

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
    missing : {"error", "drop", "impute"}
        What to do where a value is missing: stop and name the cell, leave the row out, or keep the gap for
        the model to fill in.
    sheet : str or None
        The sheet of a workbook; None is the first.
    encode : bool
        Whether columns of text may be features. They are then read as objects.
    as_text : tuple of str or int
        Columns that are text whatever they look like, such as codes made of digits.
    keep : tuple of str or int
        Columns that are features whatever they look like, ids for example.
    """

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    missing: str = "error"
    sheet: str | None = None
    encode: bool = False
    as_text: tuple[str | int, ...] = ()
    keep: tuple[str | int, ...] = ()


@dataclass(frozen=True)
class ColumnOptions:
    """What the user said about the columns, by name or position, and what a model expects of them."""

    label: str | int | None = None
    split: str | int | None = None
    group: str | int | None = None
    drop: tuple[str | int, ...] = ()
    labels: Path | None = None  # the file of the labels
    expected: ExpectedColumns | None = None
    block_rows: int | None = None  # how many rows to read at a time; None is all of them


@dataclass(frozen=True)
class Roles:
    """Positions of the columns that are "label", "split", "groups" or "name", and of the features.

    `texts` and `kept` are positions among the features: those of text, and those that the user wants to keep.
    """

    positions: dict[str, int]
    features: list[int]
    notes: list[str]
    texts: list[int]
    kept: list[int]


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

    def roles(self, options: ColumnOptions, form: TableFormat) -> Roles:
        """Decide about every column: as the user said, as the model expects, or by a guess that is noted."""
        kept = {self.position(column, "--keep") for column in form.keep}
        as_text = {self.position(column, "--text") for column in form.as_text}
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
            self._find_names(positions, dropped | kept | as_text, notes)
            features = self._free(positions, dropped)
            if "label" not in positions:
                free = [i for i in features if i not in kept | as_text]
                positions["label"] = self._guess_label(free, notes)
                features.remove(positions["label"])
            texts = self._text_features(features, as_text, encode=form.encode)
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
        if expected is not None:
            texts = [features[j] for j in expected.texts]
            self._check_kinds(features, texts)
        if not features:
            raise DataFormatError(f"{self.where}: no column of features is left beside the label.")
        place = {position: j for j, position in enumerate(features)}
        return Roles(
            positions, features, notes, [place[i] for i in texts], [place[i] for i in kept if i in place]
        )

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
            raise UsageError(f"{self.where}: {listed} may all be the label. Name it with --label.")
        label = (known or texts or free)[-1]
        why = "by its name" if known else "as the only one without numbers" if texts else "as the last one"
        notes.append(f"label: {self.called(label)}, guessed {why}; --label changes that")
        return label

    def _by_position(
        self, positions: dict[str, int], dropped: set[int], expected: ExpectedColumns
    ) -> list[int]:
        """As many columns of features as the model takes; the label column may be there or not."""
        free = self._free(positions, dropped)
        sizes = {expected.n_features, expected.n_features + len(expected.without)}
        if "label" not in positions and expected.label is not None and len(free) not in sizes:
            with suppress(UsageError):  # new data need no labels
                positions["label"] = self.position(expected.label, "--label")
            free = self._free(positions, dropped)
        if len(free) == expected.n_features + len(expected.without):
            free = [i for j, i in enumerate(free) if j not in expected.without]
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

    def _text_features(self, features: list[int], as_text: set[int], *, encode: bool) -> list[int]:
        """Features that are text, if text may be one; dates may not, since no two rows share one."""
        found = [i for i in features if self.text[i] is not None or i in as_text]
        guessed = [i for i in found if i not in as_text]
        dates = [i for i in guessed if _DATE.fullmatch(str(self.text[i]).strip())]
        for texts, what in ((dates, "a date"), ([] if encode else found, "text")):
            if texts:
                more = f" (and {len(texts) - 1} more of the kind)" if len(texts) > 1 else ""
                example = f": {quoted(self.text[texts[0]])}" if self.text[texts[0]] is not None else ""
                name = str(texts[0]) if self.names is None else shlex.quote(self.names[texts[0]])
                advice = (
                    "Turn it into numbers first, such as the days since a first date, or month and weekday"
                    if texts is dates
                    else "Encode such columns with --encode auto"
                )
                raise DataFormatError(
                    f"{self.where}: {self.called(texts[0])}{more} holds {what}{example}, and features must "
                    f"be numbers. {advice}, leave it out with --drop {name}, or name it as --label."
                )
        return found

    def _check_kinds(self, features: list[int], texts: list[int]) -> None:
        """Refuse text where a model takes numbers."""
        wrong = [i for i in features if self.text[i] is not None and i not in texts]
        if wrong:
            raise DataFormatError(
                f"{self.where}: {self.called(wrong[0])} holds text ({quoted(self.text[wrong[0]])}), and the "
                "model takes numbers there."
            )


def table_data(
    columns: Columns,
    roles: Roles,
    features: Array,
    cells: Mapping[str, Sequence[str]],
    *,
    row_place: Callable[[int], str],
    missing: str,
    notes: Sequence[str] = (),
    first: int = 0,
) -> OwnData:
    """The samples of a table: its features (nan or None: missing) and cells of the columns by role.

    ``row_place(i)`` names row i in errors, by its line or its number; `first` is the number of the first row.
    """
    header, label = columns.names, roles.positions.get("label")
    texts = {role: np.array(column, dtype=np.str_) for role, column in cells.items()}
    last = first + len(features)

    def place(row: int, column: int | str) -> str:
        position = roles.features[column] if isinstance(column, int) else roles.positions[column]
        return f"{row_place(row)}, {columns.called(position)}"

    data = OwnData(
        source=columns.where,
        kind="table",
        features=features,
        labels=texts.get("label"),
        names=texts.get("name", np.arange(first, last).astype(f"<U{len(str(last))}")),
        columns=None if header is None else tuple(header[i] for i in roles.features),
        label=None if label is None else (header[label] if header else str(label)),
        split=texts.get("split"),
        groups=texts.get("groups"),
        notes=(*notes, *roles.notes),
        texts=tuple(roles.texts),
        called=tuple(str(i) if header is None or not header[i] else header[i] for i in roles.features),
        kept=tuple(roles.kept),
    )
    return checked(data, place, missing=missing)
