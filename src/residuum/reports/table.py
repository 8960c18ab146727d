"""Result tables: one type, shown on a terminal or as Markdown.

As HTML, a table is shown by the macro `table` of ``templates/parts.html``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    body = [line(row) for row in _rows_with_bold(table, "**{}**")]
    lines = [f"{'#' * level} {table.title}", "", line(table.columns), line(rule), *body]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


def _rows_with_bold(table: Table, bold: str) -> list[list[str]]:
    """The rows, with the best cells written into the pattern `bold`."""
    return [
        [bold.format(text) if (i, j) in table.best else text for j, text in enumerate(row)]
        for i, row in enumerate(table.rows)
    ]


def _translated(table: Table, translate: Callable[[str], str]) -> Table:
    """The same table with every text translated."""
    return Table(
        translate(table.title),
        tuple(map(translate, table.columns)),
        tuple(tuple(map(translate, row)) for row in table.rows),
        table.best,
        tuple(map(translate, table.notes)),
    )


def print_table(table: Table, stream: TextIO) -> None:
    """Show the table; where it is wider than the terminal, one block per row, so no number is cut."""
    from rich.console import Console

    encoding = getattr(stream, "encoding", None) or "utf-8"
    table = _translated(table, lambda text: _encodable(text, encoding))
    console = Console(file=stream, highlight=False, markup=False, emoji=False)
    width = _natural_width(console, table)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, markup=False, emoji=False, width=width)
    console.print(table.title, style="bold", soft_wrap=not console.is_terminal)
    if width <= console.width:
        console.print(_grid(table))
    else:
        _print_blocks(console, table)
    for note in table.notes:
        console.print(note, soft_wrap=not console.is_terminal)


def _grid(table: Table) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for j, name in enumerate(table.columns):
        grid.add_column(Text(name), justify="left" if j == 0 else "right", no_wrap=True)
    for i, row in enumerate(table.rows):
        grid.add_row(*(Text(t, style="bold" if (i, j) in table.best else "") for j, t in enumerate(row)))
    return grid


def _natural_width(console: Any, table: Table) -> int:
    from rich.measure import Measurement

    return Measurement.get(console, console.options.update(max_width=10_000), _grid(table)).maximum


def _print_blocks(console: Any, table: Table) -> None:
    from rich.text import Text

    for i, row in enumerate(table.rows):
        console.print(Text(row[0], style="bold"))
        for j, text in enumerate(row[1:], start=1):
            if text:
                line = Text(f"  {table.columns[j]}: ")
                if len(line) + len(text) > console.width:
                    line = line.append("\n    ")
                line.append(text, style="bold" if (i, j) in table.best else "")
                console.print(line, soft_wrap=True)


def _encodable(text: str, encoding: str) -> str:
    """The same text in characters that the encoding has, where plain ones can replace those it lacks."""
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return text.replace("±", "+/-").replace("×", "x").replace("−", "-")
    return text
