"""Text tables (.csv, .tsv): samples, or one error that names the line and the column.

Rows are parsed one at a time into one growing buffer of numbers, so a file costs little more memory than its
numbers. Delimiter, header, decimal mark and label column are guessed from the first rows, and what was
guessed is noted.
"""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TextIO

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.assembling import advice_on_missing, table_data
from residuum.inputs.columns import ColumnOptions, Columns, Roles, quoted
from residuum.inputs.own_data import OwnData, TextFormat
from residuum.inputs.text_layout import (
    MISSING,
    Layout,
    Row,
    guess_columns,
    guess_delimiter,
    guess_layout,
    has_empty_last_column,
)

MAX_FIELD = 2**20

_SAMPLE_ROWS = 200
_SAMPLE_CELLS = 200_000


def read_text(path: Path, options: ColumnOptions, text: TextFormat) -> OwnData:
    """Read a text table; what the user did not say about its columns and its layout is guessed."""
    with _opened(path, text.encoding) as stream:
        delimiter = text.delimiter or guess_delimiter(path, _without_nul(path, stream))
        stream.seek(0)
        rows = _rows(path, stream, delimiter)
        sample = _sample(rows)
        layout = guess_layout(path, sample, delimiter, text)
        body = sample[1:] if layout.header is not None else sample
        columns = guess_columns(path, layout, body)
        if has_empty_last_column(layout, body):
            options = replace(options, drop=(*options.drop, columns.n - 1))
        roles = columns.roles(options)
        parser = _RowParser(path, layout, columns, roles, drop=text.missing == "drop")
        for line, row in chain(body, rows):
            parser.add(line, row)
    features = np.frombuffer(parser.values, dtype=np.float64).reshape(-1, len(roles.features))
    return table_data(
        columns,
        roles,
        features,
        parser.cells,
        row_place=lambda i: f"{path}, line {parser.lines[i]}",
        missing=text.missing,
        notes=layout.notes,
    )


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[TextIO]:
    """The file as text; whatever is wrong with its bytes becomes an error that names the line."""
    with path.open("rb") as raw:
        start = raw.read(4)
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
            raise DataFormatError(_encoding_problem(path, encoding)) from None


def _encoding_problem(path: Path, encoding: str) -> str:
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


def _without_nul(path: Path, stream: TextIO) -> Iterator[str]:
    """The lines of a file; a NUL byte in one of them is an error."""
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
        reader = csv.reader(_without_nul(path, stream), delimiter=delimiter, strict=True)
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


class _RowParser:
    """The numbers and the cells of the rows, in the order they come in."""

    def __init__(self, path: Path, layout: Layout, columns: Columns, roles: Roles, *, drop: bool) -> None:
        self.path, self.layout, self.columns, self.roles, self.drop = path, layout, columns, roles, drop
        self.values = array("d")
        self.lines: list[int] = []
        positions = ((role, roles.position_of(role)) for role in ("label", "split", "groups", "name"))
        self.positions = {role: position for role, position in positions if position is not None}
        self.cells: dict[str, list[str]] = {role: [] for role in self.positions}

    def add(self, line: int, row: list[str]) -> None:
        """Parse one row."""
        width = self.columns.n
        if len(row) != width:
            problem = (
                f"column {width + 1} is too many"
                if len(row) > width
                else f"{self.columns.called(len(row))} is missing"
            )
            raise DataFormatError(
                f"{self.path}, line {line}: {len(row)} cells where {width} columns are expected; {problem}."
            )
        self.values.extend(self._numbers(line, row))
        self.lines.append(line)
        for role, position in self.positions.items():
            self.cells[role].append(row[position].strip())

    def _numbers(self, line: int, row: list[str]) -> array[float]:
        """The features of a row; all cells at once where that succeeds, else one by one."""
        cells = [row[i] for i in self.roles.features]
        try:
            values = array("d", map(self.layout.number if self.layout.comma else float, cells))
        except ValueError:
            values = array("d", [np.nan])
        if np.isfinite(np.frombuffer(values, dtype=np.float64)).all() and "_" not in "".join(cells):
            return values
        return array("d", (self._number(line, row, i) for i in self.roles.features))

    def _number(self, line: int, row: list[str], position: int) -> float:
        """The number in a cell, nan where rows with missing numbers are left out; else an error."""
        cell = row[position].strip()
        where = f"{self.path}, line {line}, {self.columns.called(position)}"
        if cell.lower() in MISSING:
            if self.drop:
                return np.nan
            problem = "is empty" if not cell else f"says {quoted(cell)}"
            raise DataFormatError(f"{where}: the value {problem}. {advice_on_missing('table')}")
        if not self.layout.is_number(cell):
            mark = "the decimal mark is a comma in this file, and " if self.layout.comma else ""
            raise DataFormatError(f"{where}: {mark}{quoted(cell)} is not a number.")
        if not np.isfinite(self.layout.number(cell)):
            raise DataFormatError(f"{where}: {quoted(cell)} is not a finite number.")
        return self.layout.number(cell)
