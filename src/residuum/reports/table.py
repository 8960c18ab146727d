"""Result tables: one type, shown on a terminal or as Markdown.

As HTML, a table is shown by the macro `table` of ``templates/parts.html``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO


@dataclass(frozen=True)
class Table:
    """A table of finished texts; the first column names the row.

    Attributes
    ----------
    title : str
        One line.
    columns : tuple of str
        Headings.
    rows : tuple of tuples of str
        Cells; an empty text where a column does not apply.
    best : frozenset of (row, column)
        Cells set in bold.
    notes : tuple of str
        Lines under the table.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()
    notes: tuple[str, ...] = ()


def markdown(table: Table, level: int = 1) -> str:
    """GitHub-flavoured Markdown under a heading of the given level."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---"] + ["---:"] * (len(table.columns) - 1)
    body = [
        line([f"**{text}**" if (i, j) in table.best else text for j, text in enumerate(row)])
        for i, row in enumerate(table.rows)
    ]
    grid = "\n".join([line(table.columns), line(rule), *body])
    return "\n\n".join([f"{'#' * level} {table.title}", grid, *table.notes]) + "\n"


def print_table(table: Table, stream: TextIO) -> None:
    """Show the table; where it is wider than the terminal, one block per row, so no number is cut."""
    from rich.console import Console
    from rich.text import Text

    def text(words: str, style: str = "") -> Text:
        return Text(_encodable(words, getattr(stream, "encoding", None) or "utf-8"), style)

    cells = [
        [text(cell, "bold" if (i, j) in table.best else "") for j, cell in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    grid = _grid([text(name, "bold") for name in table.columns], cells)
    width = console.measure(grid, options=console.options.update(max_width=10_000)).maximum
    if not console.is_terminal:
        console.width = width
    console.print(text(table.title, "bold"), soft_wrap=not console.is_terminal)
    if width <= console.width:
        console.print(grid)
    else:
        for row in cells:
            _print_block(console, table.columns, row)
    for note in table.notes:
        console.print(text(note), soft_wrap=not console.is_terminal)


def _grid(columns: list[Any], rows: list[list[Any]]) -> Any:
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for j, name in enumerate(columns):
        grid.add_column(name, justify="right" if j else "left", no_wrap=True)
    for row in rows:
        grid.add_row(*row)
    return grid


def _print_block(console: Any, columns: Sequence[str], row: list[Any]) -> None:
    first, *others = row
    console.print(first, style="bold")
    for name, cell in zip(columns[1:], others, strict=True):
        if cell:
            apart = ": " if len(name) + len(cell) + 4 <= console.width else ":\n    "
            console.print(f"  {name}{apart}", cell, sep="", soft_wrap=True)


def _encodable(text: str, encoding: str) -> str:
    """The same text in characters that the encoding has, where plain ones can replace those it lacks."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.replace("±", "+/-").replace("×", "x").replace("−", "-")
    return text
