"""Text tables (.csv, .tsv): one clear answer, or one clear error that names the line and the column.

Rows are parsed one at a time into one growing buffer of numbers, so a file costs little more memory than its
numbers. Delimiter, header, decimal mark and label column are guessed from the first rows, and what was
guessed is noted.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from residuum.errors import DataFormatError, DataNotFoundError, UsageError
from residuum.inputs.data import OwnData, TextFormat
from residuum.inputs.layout import (
    MISSING,
    Layout,
    Row,
    ends_in_nothing,
    guess_columns,
    guess_delimiter,
    guess_layout,
)
from residuum.inputs.roles import Asked, Columns, Roles, as_labels, as_split, clipped, shown

MAX_FIELD = 2**20

_SAMPLE_ROWS = 200
_SAMPLE_CELLS = 200_000


def read_text(path: Path, asked: Asked, text: TextFormat) -> OwnData:
    """Read a text table.

    Parameters
    ----------
    path : Path
        The file.
    asked : Asked
        Which columns are what.
    text : TextFormat
        How it is written, as far as the user said.
    """
    with _opened(path, text.encoding) as stream:
        delimiter = text.delimiter or guess_delimiter(path, _limited(path, stream))
        stream.seek(0)
        rows = _rows(path, stream, delimiter)
        sample = _sample(rows)
        layout = guess_layout(path, sample, delimiter, text)
        body = sample[1:] if layout.header is not None else sample
        columns = guess_columns(path, layout, body)
        if ends_in_nothing(layout, body):
            asked = replace(asked, drop=(*asked.drop, columns.n - 1))
        roles = columns.roles(asked)
        return _parse(path, chain(body, rows), layout, columns, roles, text.missing)


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[TextIO]:
    """The file as text; whatever is wrong with its bytes becomes an error that names the line."""
    try:
        with path.open("rb") as raw:
            start = raw.read(4)
    except FileNotFoundError:
        raise DataNotFoundError(f"{path} does not exist.") from None
    if start[:4] == b"PK\x03\x04":
        raise DataFormatError(f"{path} is a zip or a spreadsheet, not text. Save it as CSV first.")
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    try:
        stream = path.open(encoding=encoding, newline="")
    except LookupError:
        raise UsageError(f"--encoding {encoding!r} is not known to Python.") from None
    with stream:
        try:
            yield stream
        except UnicodeError:
            raise DataFormatError(_undecodable(path, encoding)) from None


def _undecodable(path: Path, encoding: str) -> str:
    with path.open("rb") as raw:
        for number, line in enumerate(raw, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as error:
                if encoding == "utf-16":
                    break
                return (
                    f"{path}, line {number}, byte {error.start + 1}: 0x{line[error.start]:02x} is not "
                    f"{encoding.removesuffix('-sig')}. Save the file as UTF-8, or say what it is, such as "
                    "--encoding latin-1."
                )
    return f"{path}: the bytes are not {encoding}. Save the file as UTF-8."


def _limited(path: Path, stream: TextIO) -> Iterator[str]:
    """Lines, none with NUL bytes."""
    for number, line in enumerate(stream, 1):
        if "\x00" in line:
            column = line.index("\x00") + 1
            raise DataFormatError(
                f"{path}, line {number}, character {column}: a NUL byte. This is not a text table, or it is "
                "damaged."
            )
        yield line


def _rows(path: Path, stream: TextIO, delimiter: str) -> Iterator[Row]:
    """(line, cells) of every row that is not blank."""
    before = csv.field_size_limit(MAX_FIELD)
    try:
        reader = csv.reader(_limited(path, stream), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise DataFormatError(_csv_problem(path, line, error)) from None
            if any(cell and not cell.isspace() for cell in row):
                yield line, row
    finally:
        csv.field_size_limit(before)


def _csv_problem(path: Path, line: int, error: csv.Error) -> str:
    text = str(error)
    if "unexpected end of data" in text or "field limit" in text:
        return f"{path}, line {line}: a quotation mark is opened and not closed."
    if "expected after" in text:
        return f"{path}, line {line}: text follows a closing quotation mark; a quote in a cell is doubled."
    return f"{path}, line {line}: not a row of a table: {text}."


def _sample(rows: Iterator[Row]) -> list[Row]:
    sample: list[Row] = []
    cells = 0
    for row in rows:
        sample.append(row)
        cells += len(row[1])
        if len(sample) > _SAMPLE_ROWS or (len(sample) > 2 and cells > _SAMPLE_CELLS):
            break
    return sample


class _Cells:
    """Some cells of a row, always as a tuple."""

    def __init__(self, positions: Sequence[int]) -> None:
        self._get = itemgetter(*positions, positions[0])  # one more, so that a single one gives a tuple too

    def __call__(self, row: list[str]) -> tuple[str, ...]:
        return self._get(row)[:-1]


def _parse(
    path: Path, rows: Iterator[Row], layout: Layout, columns: Columns, roles: Roles, missing: str
) -> OwnData:
    """All rows as numbers, and the cells of the columns with a role."""
    table = _Table(path, layout, columns, roles, drop=missing == "drop")
    for line, row in rows:
        table.add(line, row)
    return table.finish()


class _Table:
    """Rows as they come in."""

    def __init__(self, path: Path, layout: Layout, columns: Columns, roles: Roles, *, drop: bool) -> None:
        self.path, self.layout, self.columns, self.roles, self.drop = path, layout, columns, roles, drop
        self.width = columns.n
        self.take = _Cells(roles.features)
        self.values = array("d")
        self.lines: list[int] = []
        self.kept: list[int] = []  # number of the row, from 0
        self.cells: dict[str, list[str]] = {role: [] for role in ("label", "split", "group", "name")}
        self.n_rows = 0
        self.n_dropped = 0

    def add(self, line: int, row: list[str]) -> None:
        """Parse one row."""
        if len(row) != self.width:
            raise DataFormatError(
                f"{self.path}, line {line}: {len(row)} cells where {self.width} columns are expected; "
                + (
                    f"column {self.width + 1} is too many."
                    if len(row) > self.width
                    else f"{self.columns.called(len(row))} is missing."
                )
            )
        values = self._numbers(line, row)
        self.n_rows += 1
        if values is None:
            self.n_dropped += 1
            return
        self.values.extend(values)
        self.lines.append(line)
        self.kept.append(self.n_rows - 1)
        for role, cells in self.cells.items():
            position = getattr(self.roles, role)
            if position is not None:
                cells.append(row[position].strip())

    def _numbers(self, line: int, row: list[str]) -> array[float] | None:
        """The features of a row, or None where it is left out."""
        chosen = self.take(row)
        try:
            if self.layout.comma:
                values = array("d", map(self.layout.number, chosen))
            else:
                values = array("d", map(float, chosen))
        except ValueError:
            self._refuse(line, row)
            return None
        if not np.isfinite(np.frombuffer(values, dtype=np.float64)).all() or "_" in "".join(chosen):
            self._refuse(line, row)
            return None
        return values

    def _refuse(self, line: int, row: list[str]) -> None:
        """Name the first cell that is no number, unless rows with missing cells are to be left out."""
        for i in self.roles.features:
            cell = row[i].strip()
            where = f"{self.path}, line {line}, {self.columns.called(i)}"
            if cell.lower() in MISSING:
                if self.drop:
                    continue
                said = "is empty" if not cell else f"says {clipped(cell)}"
                raise DataFormatError(
                    f"{where}: the value {said}. Fill it in, leave such rows out with --missing drop, or the "
                    "column with --drop."
                )
            if not self.layout.is_number(cell):
                mark = "the decimal mark is a comma in this file, and " if self.layout.comma else ""
                raise DataFormatError(f"{where}: {mark}{clipped(cell)} is not a number.")
            if not np.isfinite(self.layout.number(cell)):
                raise DataFormatError(f"{where}: {clipped(cell)} is not a finite number.")

    def place(self, role: str) -> Any:
        """A function that names the place of a cell of a role."""
        position = getattr(self.roles, role)
        return lambda i: f"{self.path}, line {self.lines[i]}, {self.columns.called(position)}"

    def finish(self) -> OwnData:
        """The rows as OwnData."""
        roles, notes = self.roles, [*self.layout.notes, *self.roles.notes]
        if not self.lines:
            raise DataFormatError(f"{self.path}: every row has a missing value, so none is left.")
        if self.n_dropped:
            notes.append(f"{self.n_dropped} of {self.n_rows} rows with missing values are left out")
        features = np.frombuffer(self.values, dtype=np.float64).reshape(len(self.lines), len(roles.features))
        header = self.layout.header
        split = None
        if roles.split is not None:
            name = header[roles.split] if header is not None else ""
            split, more = as_split(self.cells["split"], name, self.place("split"))
            notes.extend(more)
        names = self.cells["name"] if roles.name is not None else [str(i) for i in self.kept]
        columns = None if header is None else tuple(header[i] for i in roles.features)
        notes.extend(_row_numbers(features, columns))
        return OwnData(
            source=str(self.path),
            kind="table",
            features=features,
            labels=self._labels(),
            names=np.array(names, dtype=np.str_),
            columns=columns,
            label=None if roles.label is None else (header[roles.label] if header else str(roles.label)),
            split=split,
            groups=self._groups(),
            notes=tuple(notes),
        )

    def _labels(self) -> Any:
        if self.roles.label is None:
            return None
        cells = self.cells["label"]
        empty = [i for i, cell in enumerate(cells) if not cell]
        if len(empty) == len(cells):
            return None  # a column kept free for the answers
        if empty:
            raise DataFormatError(f"{self.place('label')(empty[0])}: the label is missing.")
        return as_labels(cells, self.place("label"))

    def _groups(self) -> Any:
        if self.roles.group is None:
            return None
        cells = self.cells["group"]
        empty = next((i for i, cell in enumerate(cells) if not cell), None)
        if empty is not None:
            raise DataFormatError(f"{self.place('group')(empty)}: the group is missing.")
        return np.array(cells, dtype=np.str_)


def _row_numbers(features: Any, columns: tuple[str, ...] | None) -> list[str]:
    """A word of warning about columns that count the rows: they tell the order, not the class."""
    if len(features) < 5:
        return []
    counting = [j for j in range(features.shape[1]) if (np.diff(features[:5, j]) == 1).all()]
    counting = [j for j in counting if (np.diff(features[:, j]) == 1).all()]
    called = [columns[j] if columns else f"column {j + 1}" for j in counting]
    return [f"{shown(called)} counts the rows; leave it out with --drop"] if called else []
