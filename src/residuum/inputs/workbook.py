"""Workbooks (.xlsx), read by openpyxl: the rows of one sheet, as text."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.columns import ColumnOptions, TableFormat
from residuum.inputs.own_data import OwnData, quoted_list
from residuum.inputs.text import Row, Source, sample_blocks
from residuum.system.files import naming_damage
from residuum.system.packages import package
from residuum.system.progress import tell_progress

_INSTALL = "pip install 'residuum[tables]', or save the table as CSV."
_TOLD_ROWS = 500  # between two movements of the progress bar
_MAX_RATIO = 200  # of the bytes of a member to those in the file
_FREE_BYTES = 64 * 2**20  # a member of this size is read whatever its ratio


def read_workbook(path: Path, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read one sheet; its rows are counted from 1, as the program that shows it does."""
    openpyxl = package("openpyxl", _INSTALL)
    _refuse_bombs(path)

    @contextmanager
    def opened() -> Iterator[Source]:
        with naming_damage(path, "a workbook"):
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            sheet, notes = _sheet(path, book, form.sheet)
            where = f"{path}, sheet {sheet.title!r}" if len(book.worksheets) > 1 else str(path)
            yield Source(where, "row", _rows(path, sheet), notes=notes)
        finally:
            book.close()

    return sample_blocks(opened, options, form)


def _refuse_bombs(path: Path) -> None:
    """A workbook is a zip; one that expands without measure is made to fill the memory."""
    with naming_damage(path, "a workbook"), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.file_size > max(_FREE_BYTES, _MAX_RATIO * info.compress_size):
                raise DataFormatError(
                    f"{path}: {info.filename} expands from {info.compress_size} bytes to {info.file_size}, "
                    f"more than {_MAX_RATIO} times, which is taken for an attack. Save the table as CSV."
                )


def _sheet(path: Path, book: Any, wanted: str | None) -> tuple[Any, tuple[str, ...]]:
    """The sheet of this name, or the first one that is shown, with a note where there are others."""
    sheets = {sheet.title: sheet for sheet in book.worksheets}
    if wanted is not None:
        if wanted not in sheets:
            raise UsageError(
                f"--sheet {wanted!r} is not a sheet of {path}, which has {quoted_list([*sheets])}."
            )
        return sheets[wanted], ()
    shown = [title for title, sheet in sheets.items() if sheet.sheet_state == "visible"] or list(sheets)
    if not shown:
        raise DataFormatError(f"{path} has no sheet with cells.")
    others = [title for title in sheets if title != shown[0]]
    note = f"sheet {shown[0]!r} is read, the first; --sheet reads another: {quoted_list(others)}"
    return sheets[shown[0]], (note,) if others else ()


def _rows(path: Path, sheet: Any) -> Iterator[Row]:
    """(row, cells) of every row that is not blank; cells missing at its end are added."""
    sheet.reset_dimensions()  # what a file says of its own size may be wrong
    rows, width = sheet.iter_rows(values_only=True), 0
    number = 0
    while True:
        with naming_damage(path, "a workbook"):
            values = next(rows, None)
        if values is None:
            tell_progress(f"reading {path.name}", number, number)
            return
        number += 1
        if number % _TOLD_ROWS == 0:
            tell_progress(f"reading {path.name}", number)
        cells = [_text(value) for value in values]
        while cells and not cells[-1].strip():
            cells.pop()
        if cells:
            width = width or len(cells)
            yield number, cells + [""] * (width - len(cells))


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
