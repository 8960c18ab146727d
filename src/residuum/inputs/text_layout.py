"""How a text table is written: delimiter, decimal mark, header and kinds of columns, guessed from its start.

Every guess is noted, so that the user can read and overrule it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.columns import ROLE_NAMES, Columns, quoted
from residuum.inputs.own_data import TextFormat

# Of equally good guesses the first wins: the mark that is rarer within texts and numbers.
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a", "<na>", "missing"}

_SAMPLE_CHARACTERS = 300_000
_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


@dataclass
class Layout:
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


def guess_delimiter(path: Path, text: Iterator[str]) -> str:
    """The delimiter under which the first lines make the most numbers in rows of one length."""
    lines: list[str] = []
    for line in islice(text, 50):
        lines += [line] if line.strip() else []
        if len(lines) > 2 and sum(map(len, lines)) > _SAMPLE_CHARACTERS:
            break
    if not lines:
        return "\t" if path.suffix.lower() == ".tsv" else ","
    best, best_score = "", 0.0
    for delimiter in DELIMITERS:
        try:
            rows = [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except csv.Error:
            continue
        lengths = [len(row) for row in rows]
        width = max(set(lengths), key=lengths.count)
        if width < 2:
            continue
        formats = [Layout(delimiter), Layout(delimiter, comma=True)] if delimiter != "," else [Layout(",")]
        numbers = max(sum(f.is_number(cell) for row in rows for cell in row) for f in formats)
        score = lengths.count(width) / len(lengths) * (numbers + 1)
        if score > best_score:
            best, best_score = delimiter, score
    if not best:
        raise DataFormatError(
            f"{path}, line 1: one column only; none of comma, semicolon, tab and bar divides the lines. "
            "A table needs a label and features."
        )
    return best


def guess_layout(path: Path, sample: list[Row], delimiter: str, text: TextFormat) -> Layout:
    """Decimal mark and header, guessed from the first rows."""
    if not sample:
        raise DataFormatError(f"{path} is empty: line 1 should hold the names of the columns, or a sample.")
    layout = Layout(delimiter)
    if text.delimiter is None and delimiter != ",":
        layout.notes.append(f"delimiter: {DELIMITERS[delimiter]}")
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
        guess = "a header" if is_header else "a sample: there is no header"
        layout.notes.append(f"the first line is {guess} (guessed; --header or --no-header says otherwise)")
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
    plain = Layout(delimiter)
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


def _looks_like_header(layout: Layout, sample: list[Row]) -> bool:
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


def _is_scale(layout: Layout, row: Sequence[str]) -> bool:
    """Whether the numbers rise or fall all along, as the wavelengths above spectra do."""
    values = [layout.number(cell) for cell in row if layout.is_number(cell)]
    steps = np.diff(values)
    return len(values) >= 8 and bool((steps > 0).all() or (steps < 0).all())


def _check_header(path: Path, layout: Layout) -> None:
    assert layout.header is not None
    places: dict[str, int] = {}
    for i, name in enumerate(layout.header):
        if name in places and name:
            raise DataFormatError(
                f"{path}, line {layout.header_line}, column {i + 1}: the name {quoted(name)} is that of "
                f"column {places[name] + 1} too. Rename one of them."
            )
        places[name] = i


def has_empty_last_column(layout: Layout, body: list[Row]) -> bool:
    """Whether every line ends with a delimiter, so that the last column has no name and no values."""
    named = layout.header is not None and layout.header[-1] != ""
    return not named and all(len(row) > 2 and not row[-1].strip() for _, row in body)


def guess_columns(path: Path, layout: Layout, body: list[Row]) -> Columns:
    """The columns with their names; one whose cells are mostly words is a column of text."""
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
