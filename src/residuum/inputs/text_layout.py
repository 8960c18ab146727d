"""How a text table is written: delimiter, decimal mark, header and kinds of columns, guessed from its start.

Every guess is noted, so that the user can read and overrule it.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.columns import ROLE_NAMES, Columns
from residuum.inputs.own_data import TextFormat

# Of equally good guesses the first wins: the mark that is rarer within texts and numbers.
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-", "#n/a", "<na>", "missing"}

_COMMA_NUMBER = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")

Row = tuple[int, list[str]]  # the line it begins on, and its cells


@dataclass(frozen=True)
class Layout:
    """The columns of a file, whether its decimal mark is a comma, and what was guessed."""

    columns: Columns
    comma: bool
    notes: list[str]


def number(cell: str, comma: bool = False) -> float:
    """The number in a cell, nan where there is none; `comma` is the decimal mark if asked for."""
    if comma:
        cell = "" if "." in cell else cell.replace(",", ".", 1)
    try:
        return math.nan if "_" in cell else float(cell)
    except ValueError:
        return math.nan


def _is_number(cell: str, comma: bool = False) -> bool:
    return not math.isnan(number(cell, comma))


def _known(cells: Sequence[str]) -> list[str]:
    """The cells that do not stand for a missing value."""
    return [cell for cell in cells if cell.strip().lower() not in MISSING]


def guess_delimiter(path: Path, text: Iterator[str]) -> str:
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


def guess_layout(path: Path, sample: list[Row], delimiter: str, text: TextFormat) -> Layout:
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
    return Layout(Columns(str(path), names, examples), comma, notes)


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
    steps = np.diff([number(cell, comma) for cell in row if _is_number(cell, comma)])
    return len(steps) >= 7 and bool((steps > 0).all() or (steps < 0).all())


def _example_of_text(body: list[Row], column: int, comma: bool) -> str | None:
    """The first word of a column that is mostly words; None for a column of numbers.

    One odd cell in a column of numbers is a mistake in that cell, to be named as such.
    """
    known = _known([row[column].strip() for _, row in body if column < len(row)])
    words = [cell for cell in known if not _is_number(cell, comma)]
    return words[0] if len(words) > len(known) / 2 else None
