"""Tables of text: from a file (.csv, .tsv) to rows of cells, and from rows of cells to samples.

A workbook brings its rows of cells itself. Rows are parsed one at a time into one growing buffer of numbers,
so a file costs little more memory than its numbers. Delimiter, header, decimal mark, label column and columns
of text are guessed from the first rows. Every guess is noted, so that the user can read and overrule it.
Whatever cannot be read is one error that names the line and the column.
"""

from __future__ import annotations

import csv
import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.columns import ROLE_NAMES, ColumnOptions, Columns, Roles, TableFormat, table_data
from residuum.inputs.own_data import OwnData, quoted
from residuum.system.files import FileContent, opened_text, without_nul
from residuum.system.progress import tell_progress

# Of equally good guesses the first wins: the mark that is rarer within texts and numbers.
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a", "<na>", "missing"}

_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_SAMPLE_ROWS = 200
_SAMPLE_CELLS = 200_000
_MAX_FIELD = 2**20  # characters of a cell; more is a quotation mark that was not closed
_TOLD_ROWS = 500  # between two movements of the progress bar
# What is wrong, by words in the error of the csv module.
_NOT_CLOSED = "a quotation mark is opened and not closed"
_CSV_PROBLEMS = {
    "unexpected end of data": _NOT_CLOSED,
    "field limit": _NOT_CLOSED,
    "expected after": "text follows a closing quotation mark; a quote in a cell is doubled",
}

Row = tuple[int, list[str]]  # the line or row it begins on, and its cells


@dataclass(frozen=True)
class Source:
    """The rows of a file that are not blank, what a row is called there, and the delimiter if it has one.

    `where` is what messages call it.
    """

    where: str
    unit: str
    rows: Iterator[Row]
    delimiter: str | None = None
    notes: tuple[str, ...] = ()


def read_text(path: Path | FileContent, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read a text table; what the user did not say about its columns and its layout is guessed."""

    @contextmanager
    def opened() -> Iterator[Source]:
        with opened_text(path, form.encoding) as stream:
            delimiter = form.delimiter or _guess_delimiter(path, without_nul(path, stream))
            stream.seek(0)
            yield Source(str(path), "line", _rows(path, stream, delimiter), delimiter)

    return sample_blocks(opened, options, form)


def _rows(path: Path | FileContent, stream: TextIO, delimiter: str) -> Iterator[Row]:
    """(line, cells) of every row that is not blank."""
    before = csv.field_size_limit(_MAX_FIELD)
    reader = csv.reader(without_nul(path, stream), delimiter=delimiter, strict=True)
    line, size = 1, path.size if isinstance(path, FileContent) else path.stat().st_size
    try:
        for row in reader:
            if reader.line_num % _TOLD_ROWS == 0:
                tell_progress(f"reading {path.name}", stream.buffer.tell(), size, of_bytes=True)
            if any(cell and not cell.isspace() for cell in row):
                yield line, row
            line = reader.line_num + 1
        if line > _TOLD_ROWS:
            tell_progress(f"reading {path.name}", size, size, of_bytes=True)
    except csv.Error as error:
        problems = (problem for words, problem in _CSV_PROBLEMS.items() if words in str(error))
        raise DataFormatError(f"{path}, line {line}: {next(problems, error)}.") from None
    finally:
        csv.field_size_limit(before)


def _guess_delimiter(path: Path | FileContent, text: Iterator[str]) -> str:
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
            "A table has at least two."
        )
    return best


@dataclass(frozen=True)
class _Layout:
    """The columns of a file, whether its decimal mark is a comma, what a row is called, what was guessed."""

    columns: Columns
    comma: bool
    unit: str
    notes: list[str]

    def place(self, line: int) -> str:
        return f"{self.columns.where}, {self.unit} {line}"


class _LateTextError(Exception):
    """A column that was empty so far turns out to hold text."""

    def __init__(self, position: int) -> None:
        self.position = position


def sample_blocks(
    opened: Callable[[], AbstractContextManager[Source]], options: ColumnOptions, form: TableFormat
) -> Iterator[OwnData]:
    """The samples of a table, all at once or by blocks of ``options.block_rows`` rows.

    `opened` opens the file from its beginning. It is opened once more where a column is empty in the rows
    from which its kind is guessed, and further down it holds text.
    """
    while True:
        try:
            with opened() as source:
                yield from _blocks(source, options, form)
            return
        except _LateTextError as late:
            form = replace(form, as_text=(*form.as_text, late.position))


def _blocks(source: Source, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    sample = list(islice(source.rows, 1))
    sample += islice(source.rows, min(_SAMPLE_ROWS, 2 + _SAMPLE_CELLS // len(sample[0][1]) if sample else 0))
    layout = _guess_layout(source, sample, form)
    columns = layout.columns
    unnamed = columns.names is None or not columns.names[-1]
    if unnamed and all(len(row) > 2 and not row[-1].strip() for _, row in sample):
        options = replace(options, drop=(*options.drop, -1))  # every line ends with a delimiter
    roles = columns.roles(options, form)
    late = form.encode and options.expected is None  # text may turn up in a column that was empty so far
    first, block = 0, _Block(layout, roles, late=late)
    for line, row in chain(sample, source.rows):
        block.add(line, row)
        if len(block.lines) == options.block_rows:
            yield block.data(form.missing, first)
            first, block = first + len(block.lines), _Block(layout, roles, late=late)
    if len(block.lines) or not first:
        yield block.data(form.missing, first)


class _Block:
    """Rows that were parsed: numbers in one buffer, the cells of each text column in a list."""

    def __init__(self, layout: _Layout, roles: Roles, *, late: bool) -> None:
        self.layout, self.roles, self.late = layout, roles, late
        self.lines = array("q")
        self._numbers = array("d")
        self._numeric = [i for j, i in enumerate(roles.features) if j not in set(roles.texts)]
        self._texts: dict[int, list[str | None]] = {roles.features[j]: [] for j in roles.texts}
        self._cells: dict[str, list[str]] = {role: [] for role in roles.positions}
        self._known: dict[str, str] = {}  # equal texts are kept once

    def add(self, line: int, row: list[str]) -> None:
        """Parse a row, or say what is wrong with it."""
        _check_width(self.layout, line, row)
        self._numbers.extend(self._numbers_of(line, row))
        for i, texts in self._texts.items():
            cell = row[i].strip()
            texts.append(None if cell.lower() in MISSING else self._known.setdefault(cell, cell))
        for role, position in self.roles.positions.items():
            cell = row[position].strip()
            self._cells[role].append(cell if role == "name" else self._known.setdefault(cell, cell))
        self.lines.append(line)

    def data(self, missing: str, first: int) -> OwnData:
        """The samples; `first` is the number of the first row."""
        lines, layout, roles = self.lines, self.layout, self.roles
        features: Any = np.frombuffer(self._numbers, dtype=np.float64).reshape(len(lines), -1)
        if self._texts:
            numbers = features
            features = np.empty((len(lines), len(roles.features)), dtype=object)
            order = {position: j for j, position in enumerate(roles.features)}
            for column, i in zip(numbers.T, self._numeric, strict=True):
                cells = column.astype(object)
                cells[np.isnan(column)] = None
                features[:, order[i]] = cells
            for i, texts in self._texts.items():
                features[:, order[i]] = texts
        return table_data(
            layout.columns,
            roles,
            features,
            self._cells,
            row_place=lambda i: layout.place(lines[i]),
            missing=missing,
            notes=layout.notes,
            first=first,
        )

    def _numbers_of(self, line: int, row: list[str]) -> Iterable[float]:
        """The numbers of a row, nan where one is missing; all at once if that succeeds, else one by one."""
        cells, comma = [row[i] for i in self._numeric], self.layout.comma
        if not comma and "_" not in "".join(cells):
            with suppress(ValueError):
                values = array("d", map(float, cells))
                if np.isfinite(np.frombuffer(values, dtype=np.float64)).all():
                    return values
        found = [_number(cell, comma) for cell in cells]
        for value, cell, position in zip(found, cells, self._numeric, strict=True):
            if not math.isfinite(value) and cell.strip().lower() not in MISSING:
                if self.late and not math.isinf(value) and self._is_empty(position):
                    raise _LateTextError(position)
                mark = "the decimal mark is a comma in this file, and " if comma else ""
                kind = "a finite number" if math.isinf(value) else "a number"
                where = f"{self.layout.place(line)}, {self.layout.columns.called(position)}"
                raise DataFormatError(
                    f"{where}: {mark}{quoted(cell.strip())} is not {kind}. Correct the cell, or empty it "
                    "if the value is missing."
                )
        return found

    def _is_empty(self, position: int) -> bool:
        width = len(self._numeric)
        so_far = np.frombuffer(self._numbers, dtype=np.float64)[self._numeric.index(position) :: width]
        return bool(np.isnan(so_far).all())


def _check_width(layout: _Layout, line: int, row: list[str]) -> None:
    columns = layout.columns
    if len(row) != columns.n:
        long = len(row) > columns.n
        problem = f"column {columns.n + 1} is too many" if long else f"{columns.called(len(row))} is missing"
        raise DataFormatError(
            f"{layout.place(line)}: {len(row)} cells where {columns.n} columns are expected; {problem}."
        )


def _number(cell: str, comma: bool = False) -> float:
    """The number in a cell, nan where there is none; `comma` is the decimal mark if asked for."""
    if comma:
        cell = "" if "." in cell else cell.replace(",", ".", 1)
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def is_number(cell: str, comma: bool = False) -> bool:
    return not math.isnan(_number(cell, comma))


def _known(cells: Sequence[str]) -> list[str]:
    """The cells that do not stand for a missing value."""
    return [cell for cell in cells if cell.strip().lower() not in MISSING]


def _guess_layout(source: Source, sample: list[Row], form: TableFormat) -> _Layout:
    """Decimal mark, header and kinds of columns; a header is taken out of `sample`, the first rows."""
    path, unit, delimiter = source.where, source.unit, source.delimiter
    if not sample:
        raise DataFormatError(f"{path} is empty: {unit} 1 should hold the names of the columns, or a sample.")
    notes = list(source.notes)
    if form.delimiter is None and delimiter not in (",", None):
        notes.append(f"delimiter: {DELIMITERS[delimiter]}")
    comma = delimiter is not None and _decimal_comma(path, sample, delimiter, form.decimal)
    if comma and form.decimal is None:
        notes.append("decimal mark: comma")
    _check_first_line(source, sample)
    is_header = form.header if form.header is not None else _looks_like_header(sample, comma)
    if form.header is None:
        guess = "a header" if is_header else "a sample: there is no header"
        notes.append(f"the first {unit} is {guess} (guessed; --header or --no-header decides)")
    names = None
    if is_header:
        line, cells = sample.pop(0)
        names = [cell.strip() for cell in cells]
        names[0] = names[0].lstrip("#").strip()  # as numpy.savetxt writes a header
        if not sample:
            raise DataFormatError(f"{path} holds a header ({unit} {line}) and no rows.")
    width = len(names or sample[0][1])
    examples = [_example_of_text(sample, i, comma) for i in range(width)]
    return _Layout(Columns(path, names, examples), comma, unit, notes)


def _check_first_line(source: Source, sample: list[Row]) -> None:
    """A title, a comment or Excel's "sep=;" above the table is not a line of it."""
    (line, first), widths = sample[0], {len(row) for _, row in sample[1:]}
    if len(sample) > 2 and len(widths) == 1 and len(first) not in widths:
        raise DataFormatError(
            f"{source.where}, {source.unit} {line}: {len(first)} cell{'s' * (len(first) > 1)}, but "
            f"{max(widths)} in every {source.unit} below. The first {source.unit} must name every column, or "
            "be a sample: remove or complete it."
        )


def _decimal_comma(path: str, sample: list[Row], delimiter: str, decimal: str | None) -> bool:
    if delimiter == decimal == ",":
        raise UsageError(f"{path}: comma cannot be both the delimiter and the decimal mark.")
    if delimiter == "," or decimal is not None:
        return decimal == ","
    cells = [(line, i, cell.strip()) for line, row in sample for i, cell in enumerate(row)]
    if any("." in cell and is_number(cell) for _, _, cell in cells):
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
        return not any(is_number(cell, comma) for cell in first)
    for i, cell in enumerate(first):
        below = _known([row[i] for row in body if i < len(row)])
        if not _known([cell]) or is_number(cell, comma) or not below:
            continue
        if sum(is_number(other, comma) for other in below) > len(below) / 2:
            return True  # a word above numbers
        if cell.strip().lower() in ROLE_NAMES and cell not in below:
            return True
    return _is_scale(first, comma) and not all(_is_scale(row, comma) for row in body[:10])


def _is_scale(row: Sequence[str], comma: bool) -> bool:
    """Whether the numbers rise or fall all along, as the wavelengths above spectra do."""
    steps = np.diff([_number(cell, comma) for cell in row if is_number(cell, comma)])
    return len(steps) >= 7 and bool((steps > 0).all() or (steps < 0).all())


def _example_of_text(body: list[Row], column: int, comma: bool) -> str | None:
    """The first word of a column that is mostly words; None for a column of numbers.

    One odd cell in a column of numbers is a mistake in that cell, to be named as such.
    """
    known = _known([row[column].strip() for _, row in body if column < len(row)])
    words = [cell for cell in known if not is_number(cell, comma)]
    return words[0] if len(words) > len(known) / 2 else None
