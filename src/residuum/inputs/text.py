"""Text tables (.csv, .tsv): samples, or one error that names the line and the column.

Rows are parsed one at a time into one growing buffer of numbers, so a file costs little more memory than its
numbers. Delimiter, header, decimal mark and label column are guessed from the first rows, and what was
guessed is noted.
"""

from __future__ import annotations

import csv
import math
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.assembling import table_data
from residuum.inputs.columns import ColumnOptions, Columns, Roles, quoted
from residuum.inputs.own_data import OwnData, TextFormat
from residuum.inputs.text_layout import MISSING, Layout, Row, guess_delimiter, guess_layout, number

MAX_FIELD = 2**20

_SAMPLE_ROWS = 200
_SAMPLE_CELLS = 200_000
# What is wrong, by words in the error of the csv module.
_NOT_CLOSED = "a quotation mark is opened and not closed"
_CSV_PROBLEMS = {
    "unexpected end of data": _NOT_CLOSED,
    "field limit": _NOT_CLOSED,
    "expected after": "text follows a closing quotation mark; a quote in a cell is doubled",
}


def read_text(path: Path, options: ColumnOptions, text: TextFormat) -> OwnData:
    """Read a text table; what the user did not say about its columns and its layout is guessed."""
    with _opened(path, text.encoding) as stream:
        delimiter = text.delimiter or guess_delimiter(path, _without_nul(path, stream))
        stream.seek(0)
        rows = _rows(path, stream, delimiter)
        sample = list(islice(rows, 1))
        sample += islice(rows, min(_SAMPLE_ROWS, 2 + _SAMPLE_CELLS // len(sample[0][1]) if sample else 0))
        layout = guess_layout(path, sample, delimiter, text)
        columns = layout.columns
        unnamed = columns.names is None or not columns.names[-1]
        if unnamed and all(len(row) > 2 and not row[-1].strip() for _, row in sample):
            options = replace(options, drop=(*options.drop, -1))  # every line ends with a delimiter
        roles = columns.roles(options)
        values, lines = array("d"), list[int]()
        cells: dict[str, list[str]] = {role: [] for role in roles.positions}
        for line, row in chain(sample, rows):
            _check_width(path, line, row, columns)
            values.extend(_numbers(path, line, row, layout, roles))
            lines.append(line)
            for role, position in roles.positions.items():
                cells[role].append(row[position].strip())
    return table_data(
        columns,
        roles,
        np.frombuffer(values, dtype=np.float64).reshape(-1, len(roles.features)),
        cells,
        row_place=lambda i: f"{path}, line {lines[i]}",
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
    where, content = str(path), path.read_bytes()
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = error.start - content.rfind(b"\n", 0, error.start)
        where = f"{path}, line {line}, byte {byte}: 0x{content[error.start]:02x}"
    return (
        f"{where} is not {encoding.removesuffix('-sig')}. Save the file as UTF-8, or say what it is, such as "
        "--encoding latin-1."
    )


def _without_nul(path: Path, stream: TextIO) -> Iterator[str]:
    """The lines of a file; a NUL byte in one of them is an error."""
    for i, line in enumerate(stream, 1):
        if "\x00" in line:
            raise DataFormatError(
                f"{path}, line {i}, character {line.index(chr(0)) + 1}: a NUL byte. This is no text table, "
                "or it is damaged."
            )
        yield line


def _rows(path: Path, stream: TextIO, delimiter: str) -> Iterator[Row]:
    """(line, cells) of every row that is not blank."""
    before = csv.field_size_limit(MAX_FIELD)
    reader = csv.reader(_without_nul(path, stream), delimiter=delimiter, strict=True)
    line = 1
    try:
        for row in reader:
            if any(cell and not cell.isspace() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        problems = (problem for words, problem in _CSV_PROBLEMS.items() if words in str(error))
        raise DataFormatError(f"{path}, line {line}: {next(problems, error)}.") from None
    finally:
        csv.field_size_limit(before)


def _check_width(path: Path, line: int, row: list[str], columns: Columns) -> None:
    if len(row) != columns.n:
        long = len(row) > columns.n
        problem = f"column {columns.n + 1} is too many" if long else f"{columns.called(len(row))} is missing"
        raise DataFormatError(
            f"{path}, line {line}: {len(row)} cells where {columns.n} columns are expected; {problem}."
        )


def _numbers(path: Path, line: int, row: list[str], layout: Layout, roles: Roles) -> Iterable[float]:
    """The features of a row, nan where one is missing; all at once where that succeeds, else one by one."""
    cells = [row[i] for i in roles.features]
    if not layout.comma and "_" not in "".join(cells):
        with suppress(ValueError):
            values = array("d", map(float, cells))
            if np.isfinite(np.frombuffer(values, dtype=np.float64)).all():
                return values
    found = [number(cell, layout.comma) for cell in cells]
    for value, cell, position in zip(found, cells, roles.features, strict=True):
        if not math.isfinite(value) and cell.strip().lower() not in MISSING:
            mark = "the decimal mark is a comma in this file, and " if layout.comma else ""
            kind = "a finite number" if math.isinf(value) else "a number"
            where = f"{path}, line {line}, {layout.columns.called(position)}"
            raise DataFormatError(f"{where}: {mark}{quoted(cell.strip())} is not {kind}.")
    return found
