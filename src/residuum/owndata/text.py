"""Text tables (.csv, .tsv): one clear answer, or one clear error that names the line and the column.

Rows are parsed one at a time into one growing buffer of numbers, so a file costs little more memory than its
numbers. Delimiter, header, decimal mark and label column are guessed from the first rows, and what was
guessed is noted.
"""

from __future__ import annotations

import csv
import re
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from residuum.errors import DataFormatError, DataNotFoundError, UsageError
from residuum.owndata.data import OwnData, TextFormat
from residuum.owndata.roles import ROLE_NAMES, Asked, Columns, Roles, as_labels, as_split, clipped, shown

DELIMITERS = ("\t", ";", "|", ",")  # equally good guesses: the rarer in texts and numbers goes first
DELIMITER_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a", "<na>", "missing"}
MAX_FIELD = 2**20

_SAMPLE_ROWS = 200
_SAMPLE_CELLS = 200_000
_SAMPLE_CHARACTERS = 300_000
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


@dataclass
class _Format:
    """What was asked for or guessed about a file."""

    delimiter: str
    comma: bool = False
    header: list[str] | None = None
    header_line: int = 1
    notes: list[str] = field(default_factory=list)

    def number(self, cell: str) -> float:
        """The number in a cell; ValueError where there is none."""
        cell = cell.strip()
        if self.comma:
            if "." in cell:
                raise ValueError
            cell = cell.replace(",", ".", 1)
        if "_" in cell:
            raise ValueError
        return float(cell)

    def is_number(self, cell: str) -> bool:
        try:
            value = self.number(cell)
        except ValueError:
            return False
        return value == value  # nan is a missing value


Row = tuple[int, list[str]]  # the line it begins on, and its cells


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
        delimiter = text.delimiter or _guess_delimiter(path, stream)
        rows = _rows(path, stream, delimiter)
        sample = _sample(rows)
        layout = _layout(path, sample, delimiter, text)
        body = sample[1:] if layout.header is not None else sample
        columns = _columns(path, layout, body)
        if _ends_in_nothing(layout, body):
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


def _guess_delimiter(path: Path, stream: TextIO) -> str:
    """The delimiter under which the first lines make the most numbers in rows of one length."""
    lines: list[str] = []
    for line in islice(_limited(path, stream), 50):
        lines += [line] if line.strip() else []
        if len(lines) > 2 and sum(map(len, lines)) > _SAMPLE_CHARACTERS:
            break
    stream.seek(0)
    if not lines:
        return "\t" if path.suffix.lower() == ".tsv" else ","
    best, best_score = "", (0.0, 0)
    for delimiter in DELIMITERS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        lengths = [len(row) for row in rows]
        width = max(set(lengths), key=lengths.count)
        if width < 2:
            continue
        formats = [_Format(delimiter), _Format(delimiter, comma=True)] if delimiter != "," else [_Format(",")]
        numbers = max(sum(f.is_number(cell) for row in rows for cell in row) for f in formats)
        score = (lengths.count(width) / len(lengths) * (numbers + 1), width)
        if score[0] > best_score[0]:
            best, best_score = delimiter, score
    if not best:
        raise DataFormatError(
            f"{path}, line 1: one column only; none of comma, semicolon, tab and bar divides the lines. "
            "A table needs a label and features."
        )
    return best


def _limited(path: Path, stream: TextIO) -> Iterator[str]:
    """Lines, none of them absurdly long, none with NUL bytes."""
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


def _layout(path: Path, sample: list[Row], delimiter: str, text: TextFormat) -> _Format:
    """Decimal mark and header, guessed from the first rows."""
    if not sample:
        raise DataFormatError(f"{path} is empty: line 1 should hold the names of the columns, or a sample.")
    layout = _Format(delimiter)
    if text.delimiter is None and delimiter != ",":
        layout.notes.append(f"delimiter: {DELIMITER_NAMES[delimiter]}")
    layout.comma = _decimal_comma(path, sample, delimiter, text.decimal)
    if layout.comma and text.decimal is None:
        layout.notes.append("decimal mark: comma")
    _check_first_line(path, sample)
    line, first = sample[0]
    is_header = text.header if text.header is not None else _looks_like_header(layout, sample)
    if is_header:
        names = [cell.strip() for cell in first]
        names[0] = names[0].lstrip("#").strip()  # as numpy.savetxt writes a header
        layout.header, layout.header_line = names, line
        _check_header(path, layout)
        if len(sample) == 1:
            raise DataFormatError(f"{path} holds a header (line {line}) and no rows.")
    if text.header is None:
        said = f"the first line is {'a header' if is_header else 'a sample: there is no header'}"
        layout.notes.append(f"{said} (guessed; --header or --no-header says otherwise)")
    return layout


def _check_first_line(path: Path, sample: list[Row]) -> None:
    """A title, a comment or Excel's "sep=;" above the table is not a line of it."""
    (line, first), widths = sample[0], {len(row) for _, row in sample[1:]}
    if len(sample) > 2 and len(widths) == 1 and len(first) not in widths:
        raise DataFormatError(
            f"{path}, line {line}: {len(first)} cell{'s' * (len(first) > 1)}, but {max(widths)} in every "
            "line below. The first line must name every column, or be a sample: remove or complete it."
        )


def _decimal_comma(path: Path, sample: list[Row], delimiter: str, decimal: str | None) -> bool:
    if delimiter == "," or decimal == ".":
        if delimiter == "," and decimal == ",":
            raise UsageError(f"{path}: comma cannot be both the delimiter and the decimal mark.")
        return False
    if decimal == ",":
        return True
    with_comma = [
        (line, i, cell.strip())
        for line, row in sample
        for i, cell in enumerate(row)
        if _COMMA_NUMBER.fullmatch(cell.strip())
    ]
    plain = _Format(delimiter)
    points = any("." in cell and plain.is_number(cell) for _, row in sample for cell in row)
    if not with_comma or points:
        return False
    if all(_THOUSANDS.fullmatch(cell) for _, _, cell in with_comma):
        line, i, cell = with_comma[0]
        raise DataFormatError(
            f"{path}, line {line}, column {i + 1}: {cell!r} may be a fraction or thousands. Say --decimal , "
            "or remove the commas."
        )
    return True


def _looks_like_header(layout: _Format, sample: list[Row]) -> bool:
    first, body = sample[0][1], [row for _, row in sample[1:]]
    numeric = [layout.is_number(cell) for cell in first]
    if not body:
        return not any(numeric)
    for i, cell in enumerate(first):
        below = [row[i] for row in body if i < len(row) and row[i].strip().lower() not in MISSING]
        if numeric[i] or cell.strip().lower() in MISSING or not below:
            continue
        if sum(map(layout.is_number, below)) > len(below) / 2:
            return True  # a word above numbers
        if cell.strip().lower() in ROLE_NAMES and cell not in below:
            return True
    return _is_scale(layout, first) and not all(_is_scale(layout, row) for row in body[:10])


def _is_scale(layout: _Format, row: Sequence[str]) -> bool:
    """Whether the numbers rise or fall all along, as wavelengths do that head the columns of spectra."""
    values = [layout.number(cell) for cell in row if layout.is_number(cell)]
    steps = np.diff(values)
    return len(values) >= 8 and bool((steps > 0).all() or (steps < 0).all())


def _check_header(path: Path, layout: _Format) -> None:
    assert layout.header is not None
    places: dict[str, int] = {}
    for i, name in enumerate(layout.header):
        if name in places and name:
            raise DataFormatError(
                f"{path}, line {layout.header_line}, column {i + 1}: the name {clipped(name)} is that of "
                f"column {places[name] + 1} too. Rename one of them."
            )
        places[name] = i


def _ends_in_nothing(layout: _Format, body: list[Row]) -> bool:
    """Whether every line closes with a delimiter, so that the last column has no name and no values."""
    named = layout.header is not None and layout.header[-1] != ""
    return not named and all(len(row) > 2 and not row[-1].strip() for _, row in body)


def _columns(path: Path, layout: _Format, body: list[Row]) -> Columns:
    n = len(layout.header) if layout.header is not None else len(body[0][1])
    example: list[str | None] = [None] * n
    for i in range(n):
        cells = [row[i].strip() for _, row in body if i < len(row)]
        words = [cell for cell in cells if cell.lower() not in MISSING and not layout.is_number(cell)]
        known = [cell for cell in cells if cell.lower() not in MISSING]
        # One odd cell in a column of numbers is a mistake in that cell, to be named as such.
        if len(words) > len(known) / 2:
            example[i] = words[0]
    return Columns(str(path), layout.header, example)


class _Cells:
    """Some cells of a row, always as a tuple."""

    def __init__(self, positions: Sequence[int]) -> None:
        self._get = itemgetter(*positions, positions[0])  # one more, so that a single one gives a tuple too

    def __call__(self, row: list[str]) -> tuple[str, ...]:
        return self._get(row)[:-1]


def _parse(
    path: Path, rows: Iterator[Row], layout: _Format, columns: Columns, roles: Roles, missing: str
) -> OwnData:
    """All rows as numbers, and the cells of the columns with a role."""
    table = _Table(path, layout, columns, roles, drop=missing == "drop")
    for line, row in rows:
        table.add(line, row)
    return table.finish()


class _Table:
    """Rows as they come in."""

    def __init__(self, path: Path, layout: _Format, columns: Columns, roles: Roles, *, drop: bool) -> None:
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
