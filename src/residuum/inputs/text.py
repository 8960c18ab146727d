"""Text tables (.csv, .tsv): samples, or one error that names the line and the column.

Rows are parsed one at a time into one growing buffer of numbers, so a file costs little more memory than its
numbers. Delimiter, header, decimal mark and label column are guessed from the first rows. Every guess is
noted, so that the user can read and overrule it.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.columns import ROLE_NAMES, ColumnOptions, Columns, Roles, TextFormat, table_data
from residuum.inputs.own_data import OwnData, quoted

# Of equally good guesses the first wins: the mark that is rarer within texts and numbers.
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a", "<na>", "missing"}
MAX_FIELD = 2**20

_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_SAMPLE_ROWS = 200
_SAMPLE_CELLS = 200_000
# What is wrong, by words in the error of the csv module.
_NOT_CLOSED = "a quotation mark is opened and not closed"
_CSV_PROBLEMS = {
    "unexpected end of data": _NOT_CLOSED,
    "field limit": _NOT_CLOSED,
    "expected after": "text follows a closing quotation mark; a quote in a cell is doubled",
}

Row = tuple[int, list[str]]  # the line it begins on, and its cells


@dataclass(frozen=True)
class _Layout:
    """The columns of a file, whether its decimal mark is a comma, and what was guessed."""

    columns: Columns
    comma: bool
    notes: list[str]


def read_text(path: Path, options: ColumnOptions, text: TextFormat) -> OwnData:
    """Read a text table; what the user did not say about its columns and its layout is guessed."""
    with _opened(path, text.encoding) as stream:
        delimiter = text.delimiter or _guess_delimiter(path, _without_nul(path, stream))
        stream.seek(0)
        rows = _rows(path, stream, delimiter)
        sample = list(islice(rows, 1))
        sample += islice(rows, min(_SAMPLE_ROWS, 2 + _SAMPLE_CELLS // len(sample[0][1]) if sample else 0))
        layout = _guess_layout(path, sample, delimiter, text)
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


def _numbers(path: Path, line: int, row: list[str], layout: _Layout, roles: Roles) -> Iterable[float]:
    """The features of a row, nan where one is missing; all at once where that succeeds, else one by one."""
    cells = [row[i] for i in roles.features]
    if not layout.comma and "_" not in "".join(cells):
        with suppress(ValueError):
            values = array("d", map(float, cells))
            if np.isfinite(np.frombuffer(values, dtype=np.float64)).all():
                return values
    found = [_number(cell, layout.comma) for cell in cells]
    for value, cell, position in zip(found, cells, roles.features, strict=True):
        if not math.isfinite(value) and cell.strip().lower() not in MISSING:
            mark = "the decimal mark is a comma in this file, and " if layout.comma else ""
            kind = "a finite number" if math.isinf(value) else "a number"
            where = f"{path}, line {line}, {layout.columns.called(position)}"
            raise DataFormatError(f"{where}: {mark}{quoted(cell.strip())} is not {kind}.")
    return found


def _number(cell: str, comma: bool = False) -> float:
    """The number in a cell, nan where there is none; `comma` is the decimal mark if asked for."""
    if comma:
        cell = "" if "." in cell else cell.replace(",", ".", 1)
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _is_number(cell: str, comma: bool = False) -> bool:
    return not math.isnan(_number(cell, comma))


def _known(cells: Sequence[str]) -> list[str]:
    """The cells that do not stand for a missing value."""
    return [cell for cell in cells if cell.strip().lower() not in MISSING]


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
        numbers = max(sum(_is_number(cell, comma) for row in rows for cell in row) for comma in marks)
        return lengths.count(width) / len(lengths) * (numbers + 1) if width > 1 else 0

    best = max(DELIMITERS, key=score)
    if not score(best):
        raise DataFormatError(
            f"{path}, line 1: one column only; none of comma, semicolon, tab and bar divides the lines. "
            "A table needs a label and features."
        )
    return best


def _guess_layout(path: Path, sample: list[Row], delimiter: str, text: TextFormat) -> _Layout:
    """Decimal mark, header and kinds of columns; a header is taken out of `sample`, the first rows."""
    if not sample:
        raise DataFormatError(f"{path} is empty: line 1 should hold the names of the columns, or a sample.")
    notes: list[str] = []
    if text.delimiter is None and delimiter != ",":
        notes.append(f"delimiter: {DELIMITERS[delimiter]}")
    comma = _decimal_comma(path, sample, delimiter, text.decimal)
    if comma and text.decimal is None:
        notes.append("decimal mark: comma")
    _check_first_line(path, sample)
    is_header = text.header if text.header is not None else _looks_like_header(sample, comma)
    if text.header is None:
        guess = "a header" if is_header else "a sample: there is no header"
        notes.append(f"the first line is {guess} (guessed; --header or --no-header says otherwise)")
    names = None
    if is_header:
        line, cells = sample.pop(0)
        names = [cell.strip() for cell in cells]
        names[0] = names[0].lstrip("#").strip()  # as numpy.savetxt writes a header
        if not sample:
            raise DataFormatError(f"{path} holds a header (line {line}) and no rows.")
    width = len(names or sample[0][1])
    examples = [_example_of_text(sample, i, comma) for i in range(width)]
    return _Layout(Columns(str(path), names, examples), comma, notes)


def _check_first_line(path: Path, sample: list[Row]) -> None:
    """A title, a comment or Excel's "sep=;" above the table is not a line of it."""
    (line, first), widths = sample[0], {len(row) for _, row in sample[1:]}
    if len(sample) > 2 and len(widths) == 1 and len(first) not in widths:
        raise DataFormatError(
            f"{path}, line {line}: {len(first)} cell{'s' * (len(first) > 1)}, but {max(widths)} in every "
            "line below. The first line must name every column, or be a sample: remove or complete it."
        )


def _decimal_comma(path: Path, sample: list[Row], delimiter: str, decimal: str | None) -> bool:
    if delimiter == decimal == ",":
        raise UsageError(f"{path}: comma cannot be both the delimiter and the decimal mark.")
    if delimiter == "," or decimal is not None:
        return decimal == ","
    cells = [(line, i, cell.strip()) for line, row in sample for i, cell in enumerate(row)]
    if any("." in cell and _is_number(cell) for _, _, cell in cells):
        return False
    fractions = [found for found in cells if _COMMA_NUMBER.fullmatch(found[2])]
    if fractions and all(_THOUSANDS.fullmatch(cell) for _, _, cell in fractions):
        line, i, cell = fractions[0]
        raise DataFormatError(
            f"{path}, line {line}, column {i + 1}: {cell!r} may be a fraction or thousands. Say --decimal , "
            "or remove the commas."
        )
    return bool(fractions)


def _looks_like_header(sample: list[Row], comma: bool) -> bool:
    first, body = sample[0][1], [row for _, row in sample[1:]]
    if not body:
        return not any(_is_number(cell, comma) for cell in first)
    for i, cell in enumerate(first):
        below = _known([row[i] for row in body if i < len(row)])
        if not _known([cell]) or _is_number(cell, comma) or not below:
            continue
        if sum(_is_number(other, comma) for other in below) > len(below) / 2:
            return True  # a word above numbers
        if cell.strip().lower() in ROLE_NAMES and cell not in below:
            return True
    return _is_scale(first, comma) and not all(_is_scale(row, comma) for row in body[:10])


def _is_scale(row: Sequence[str], comma: bool) -> bool:
    """Whether the numbers rise or fall all along, as the wavelengths above spectra do."""
    steps = np.diff([_number(cell, comma) for cell in row if _is_number(cell, comma)])
    return len(steps) >= 7 and bool((steps > 0).all() or (steps < 0).all())


def _example_of_text(body: list[Row], column: int, comma: bool) -> str | None:
    """The first word of a column that is mostly words; None for a column of numbers.

    One odd cell in a column of numbers is a mistake in that cell, to be named as such.
    """
    known = _known([row[column].strip() for _, row in body if column < len(row)])
    words = [cell for cell in known if not _is_number(cell, comma)]
    return words[0] if len(words) > len(known) / 2 else None
