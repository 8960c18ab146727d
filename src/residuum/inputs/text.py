"""Text tables (.csv, .tsv): their encoding, their delimiter, and their rows of cells.

What the cells mean is found out in `residuum.inputs.cells`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TextIO

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.cells import DELIMITERS, Row, Source, is_number, sample_blocks
from residuum.inputs.columns import ColumnOptions, TableFormat
from residuum.inputs.own_data import OwnData
from residuum.system.progress import tell_progress

MAX_FIELD = 2**20

_TOLD_ROWS = 500  # between two movements of the progress bar
# What is wrong, by words in the error of the csv module.
_NOT_CLOSED = "a quotation mark is opened and not closed"
_CSV_PROBLEMS = {
    "unexpected end of data": _NOT_CLOSED,
    "field limit": _NOT_CLOSED,
    "expected after": "text follows a closing quotation mark; a quote in a cell is doubled",
}


def read_text(path: Path, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read a text table; what the user did not say about its columns and its layout is guessed."""

    @contextmanager
    def opened() -> Iterator[Source]:
        with _opened(path, form.encoding) as stream:
            delimiter = form.delimiter or _guess_delimiter(path, _without_nul(path, stream))
            stream.seek(0)
            yield Source(str(path), "line", _rows(path, stream, delimiter), delimiter)

    return sample_blocks(opened, options, form)


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[TextIO]:
    """The file as text; whatever is wrong with its bytes becomes an error that names the line."""
    with path.open("rb") as raw:
        start = raw.read(4)
    if start[:4] == b"PK\x03\x04":
        raise DataFormatError(
            f"{path} is a zip or a spreadsheet, not text. Name a workbook .xlsx, or save it as CSV."
        )
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
    line, size = 1, path.stat().st_size
    try:
        for row in reader:
            if reader.line_num % _TOLD_ROWS == 0:
                tell_progress(f"reading {path.name}", stream.buffer.tell(), size, of_bytes=True)
            if any(cell and not cell.isspace() for cell in row):
                yield line, row
            line = reader.line_num + 1
    except csv.Error as error:
        problems = (problem for words, problem in _CSV_PROBLEMS.items() if words in str(error))
        raise DataFormatError(f"{path}, line {line}: {next(problems, error)}.") from None
    finally:
        csv.field_size_limit(before)


def _guess_delimiter(path: Path, text: Iterator[str]) -> str:
    """The delimiter under which the first lines make the most numbers in rows of one length."""
    lines = list(islice((line for line in text if line.strip()), 20))
    if not lines:
        return ","

    def score(delimiter: str) -> float:
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            return 0
        lengths = [len(row) for row in rows]
        width = max(set(lengths), key=lengths.count)
        marks = {False, delimiter != ","}
        numbers = max(sum(is_number(cell, comma) for row in rows for cell in row) for comma in marks)
        return lengths.count(width) / len(lengths) * (numbers + 1) if width > 1 else 0

    best = max(DELIMITERS, key=score)
    if not score(best):
        raise DataFormatError(
            f"{path}, line 1: one column only; none of comma, semicolon, tab and bar divides the lines. "
            "A table needs a label and features."
        )
    return best
