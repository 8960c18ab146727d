"""Reports of reproduced tables and figures: one list of sections, as Markdown and as an HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from residuum.experiments.runner import CELLS, read_cell
from residuum.paper.accuracy import accuracy_table, honest_table, parameter_table, parts_of, quoted_table
from residuum.paper.entries import PaperTable
from residuum.paper.extras import figure_words, speed_table
from residuum.paper.outcomes import Outcome, read_folders
from residuum.paper.tables import EXPERIMENTS, QUOTED_TABLES
from residuum.paper.verdict import verdict
from residuum.reports.page import render
from residuum.reports.plots import accuracy_figure, coefficient_figure, convergence_figure
from residuum.reports.table import Table, markdown
from residuum.system.files import write_text
from residuum.system.json_text import plain


@dataclass(frozen=True)
class Contents:
    """What run folders hold: outcomes, and by name the cells of the table of times and of the figures."""

    outcomes: list[Outcome]
    extras: dict[str, dict[str, Any]]

    def chosen(self, names: set[str], protocols: Iterable[str]) -> Contents:
        """What belongs to these experiments; a table that quotes asks for its rows of another one."""
        outcomes = []
        for outcome in (outcome for outcome in self.outcomes if outcome.protocol in protocols):
            borrowed = {row.name for table in _quoted(names) for row in table.rows}
            whole = outcome.table.name in names
            rows = [row for row in outcome.rows if whole or row in borrowed]
            outcomes += [outcome.only(rows)] if rows else []
        return Contents(outcomes, {name: extra for name, extra in self.extras.items() if name in names})


def read_contents(folders: Iterable[Path]) -> Contents:
    """Cells, speed tables and figures; what a later folder holds replaces that of an earlier one."""
    folders, extras = list(folders), {}
    for name in (name for name, experiment in EXPERIMENTS.items() if experiment.kind != "accuracy"):
        for folder in folders:
            found = read_cell(folder / CELLS / f"{name}.json")
            if found is not None:
                extras[name] = found
    return Contents(read_folders(folders), extras)


def _quoted(names: Iterable[str]) -> list[PaperTable]:
    return [table for table in QUOTED_TABLES if table.name in names]


def tables_of(contents: Contents, names: Iterable[str]) -> list[Table]:
    """The tables of what was chosen, in the order of the paper; what is quoted comes last."""
    found = [accuracy_table(part) for outcome in contents.outcomes for part in parts_of(outcome)]
    found += [speed_table(extra) for extra in contents.extras.values() if "cells" in extra]
    return found + [quoted_table(table) for table in _quoted(names)]


def numbers(contents: Contents, names: Iterable[str]) -> dict[str, Any]:
    """The same as plain JSON, without the raw predictions."""
    tables = [
        {
            "table": o.table.name,
            "protocol": o.protocol,
            "quick": o.quick,
            "test": o.test_name,
            "cells": [_cell_numbers(o, *place) for place in o.hits],
        }
        for o in contents.outcomes
    ]
    speeds = [
        {"table": name, "seconds_per_query": {m: min(c["seconds"]) for m, c in extra["cells"].items()}}
        for name, extra in contents.extras.items()
        if "cells" in extra
    ]
    quoted = [{"table": table.name, "quoted_from_the_paper": table.quoted} for table in _quoted(names)]
    return plain({"tables": tables, "speed": speeds, "quoted": quoted})


def _cell_numbers(outcome: Outcome, name: Any, method: str) -> dict[str, Any]:
    row, (mean, deviation) = outcome.table.row(name), outcome.spread(name, method)
    return {
        "row": name,
        "subset": row.subset,
        "method": method,
        "paper": row.paper.get(method),
        "ours": mean,
        "deviation": deviation,
        "trials": len(outcome.accuracies(name, method)),
        "p_against_nrc": outcome.p_value(name, method),
    }


@dataclass(frozen=True)
class Section:
    """A part of a report: a table, a figure with its caption, or both, and the parameters behind them."""

    title: str
    table: Table | None = None
    figure: Callable[[], Any] | None = None  # draws it
    caption: str = ""
    parameters: Table | None = None


def sections(contents: Contents) -> list[Section]:
    """Every table and figure of some run folders, and what the paper quotes for their data sets."""
    honest = honest_table(contents.outcomes)
    found = [Section(honest.title, honest)] if honest else []
    for outcome in (part for whole in contents.outcomes for part in parts_of(whole)):
        table, parameters = accuracy_table(outcome), parameter_table(outcome)
        found.append(Section(table.title, table, _curves(outcome), parameters=parameters))
    run = {o.table.row(row).dataset for o in contents.outcomes for row in o.rows}
    tables = [quoted_table(table) for table in QUOTED_TABLES if run & set(table.quoted)]
    tables += [speed_table(extra) for extra in contents.extras.values() if "cells" in extra]
    found += [Section(table.title, table) for table in tables]
    for name, extra in contents.extras.items():
        if "illustration" in extra:
            draw = coefficient_figure if extra["shows"] == "codes" else convergence_figure
            title = f"{name.capitalize()}: {EXPERIMENTS[name].title}"
            found.append(Section(title, None, partial(draw, extra["illustration"]), figure_words(extra)))
    return found


def _curves(outcome: Outcome) -> Callable[[], Any] | None:
    """Accuracy over the rows, where there are several and they are points of one axis."""
    table, rows = outcome.table, list(outcome.rows)
    if not table.axis or len(rows) < 2:
        return None
    curves = {}
    for method in outcome.methods:
        means, deviations = zip(*(outcome.spread(row, method) for row in rows), strict=True)
        printed = [table.row(row).paper.get(method) for row in rows]
        curves[method] = {"ours": means, "deviation": deviations, "paper": printed if any(printed) else None}
    return partial(accuracy_figure, f"{table.name}-{outcome.protocol}", table.axis, rows, curves)


def write_reports(folder: Path) -> Contents:
    """report.md and report.html of everything the folder holds."""
    contents = read_contents([folder])
    write_text(folder / "report.md", results_page(contents))
    page = render(
        "paper.html",
        title="Sparse, collaborative or non-negative: the paper's experiments again",
        verdict=verdict(contents.outcomes),
        sections=sections(contents),
    )
    write_text(folder / "report.html", page)
    return contents


INTRODUCTION = """# Results: sparse, collaborative or non-negative?

The paper's tables and figures, run again. Every number below is computed from the raw predictions in run
folders by `residuum results FOLDER...`; `residuum reproduce all` makes them.

## The answer
"""


def results_page(contents: Contents) -> str:
    """Markdown with the answer first, then every table and how it was obtained."""
    lines = [INTRODUCTION, *(f"- {text}" for text in verdict(contents.outcomes))]
    for section in sections(contents):
        if section.table is None:
            lines += ["", f"## {section.title}", "", section.caption]
            continue
        lines += ["", markdown(section.table, level=2).rstrip()]
        if section.parameters is not None:
            lines += ["", "<details><summary>Chosen parameters</summary>", ""]
            lines += [markdown(section.parameters, level=3).rstrip(), "", "</details>"]
    return "\n".join(lines) + "\n"
