"""Result tables: one type, shown on a terminal, as Markdown or as HTML."""

from __future__ import annotations

import html
import statistics
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


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float | None]:
    """Mean and sample standard deviation; a single value has no deviation."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def percent(mean: float, deviation: float | None) -> str:
    """``97.4 ± 0.3`` from fractions of one."""
    return f"{100 * mean:.1f}" + ("" if deviation is None else f" ± {100 * deviation:.1f}")


def significant(value: float) -> str:
    """Three significant digits without an exponent, for times."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def scientific(value: float | None) -> str:
    """``4.3e-05``; empty where there is none."""
    return "" if value is None else "0" if value == 0 else f"{value:.1e}"


def markdown(table: Table, level: int = 1) -> str:
    """GitHub-flavoured Markdown under a heading of the given level."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = ["---"] + ["---:"] * (len(table.columns) - 1)
    body = [
        line([f"**{text}**" if (i, j) in table.best else text for j, text in enumerate(row)])
        for i, row in enumerate(table.rows)
    ]
    lines = [f"{'#' * level} {table.title}", "", line(table.columns), line(rule), *body]
    for note in table.notes:
        lines += ["", note]
    return "\n".join(lines) + "\n"


_TEX = {"\\": r"\textbackslash{}", "±": r"$\pm$", "×": r"$\times$", "−": "$-$", "<": "$<$", ">": "$>$"}
_TEX |= {character: f"\\{character}" for character in "&%$#_{}"}


def latex(table: Table) -> str:
    """A LaTeX ``table`` with the booktabs rules."""

    def tex(text: str) -> str:
        return "".join(_TEX.get(character, character) for character in text)

    def line(cells: Sequence[str]) -> str:
        return " & ".join(cells) + r" \\"

    body = [
        line(
            [rf"\textbf{{{tex(text)}}}" if (i, j) in table.best else tex(text) for j, text in enumerate(row)]
        )
        for i, row in enumerate(table.rows)
    ]
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{tex(table.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}", r"\toprule"]
    lines += [line([tex(name) for name in table.columns]), r"\midrule", *body, r"\bottomrule"]
    lines += [
        r"\end{tabular}",
        *(rf"\par\smallskip\footnotesize {tex(n)}" for n in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def html_table(table: Table) -> str:
    """A ``<table>`` with a caption and row headings."""
    heads = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in table.columns)
    body = []
    for i, row in enumerate(table.rows):
        cells = [f'<th scope="row">{html.escape(row[0])}</th>']
        for j, text in enumerate(row[1:], start=1):
            text = html.escape(text)
            cells.append(f"<td><strong>{text}</strong></td>" if (i, j) in table.best else f"<td>{text}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    caption = f"<caption>{html.escape(table.title)}</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def print_table(table: Table, stream: TextIO) -> None:
    """Show the table; where it is wider than the terminal, one block per row, so no number is cut."""
    from rich.console import Console

    table = _encodable(table, getattr(stream, "encoding", None) or "utf-8")
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


def _encodable(table: Table, encoding: str) -> Table:
    """The same table in the characters that the stream can show."""

    def mend(text: str) -> str:
        try:
            text.encode(encoding)
        except (UnicodeEncodeError, LookupError):
            for character, plain in {"±": "+/-", "×": "x"}.items():
                text = text.replace(character, plain)
        return text

    return Table(
        mend(table.title),
        tuple(map(mend, table.columns)),
        tuple(tuple(map(mend, row)) for row in table.rows),
        table.best,
        tuple(map(mend, table.notes)),
    )
