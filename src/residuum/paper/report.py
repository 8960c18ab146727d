"""Reports of reproduced tables and figures: Markdown, LaTeX, one HTML page, and the page of results."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from residuum.experiments.runner import CELLS
from residuum.experiments.runner import read_cell
from residuum.paper.accuracy import (
    accuracy_table,
    honest_table,
    parameter_table,
    parts_of,
    quoted_table,
)
from residuum.paper.entries import PaperTable
from residuum.paper.outcomes import LEVEL, Outcome, read_folders
from residuum.paper.protocols import PROTOCOLS
from residuum.paper.tables import EXPERIMENTS
from residuum.paper.verdict import verdict
from residuum.reports.numbers import significant
from residuum.reports.page import render
from residuum.reports.plots import accuracy_figure, coefficient_figure, convergence_figure
from residuum.reports.table import Table, latex, markdown
from residuum.system.files import write_text
from residuum.system.json_text import plain

if TYPE_CHECKING:
    from markupsafe import Markup


@dataclass(frozen=True)
class Contents:
    """What run folders hold."""

    outcomes: list[Outcome]
    extras: dict[str, dict[str, Any]]


def read_contents(folders: Iterable[Path]) -> Contents:
    """Cells, speed tables and figures; what a later folder holds replaces that of an earlier one."""
    folders = list(folders)
    outcomes = read_folders(folders)
    extras = {}
    for name in (name for name, experiment in EXPERIMENTS.items() if experiment.kind != "accuracy"):
        for folder in folders:
            found = read_cell(folder / CELLS / f"{name}.json")
            if found is not None:
                extras[name] = found
    return Contents(outcomes, extras)


def speed_table(extra: dict[str, Any]) -> Table:
    """Milliseconds per query and ratios to CRC, ours beside the paper's."""
    paper, cells, setting = EXPERIMENTS[extra["name"]].paper, extra["cells"], extra["setting"]
    batch = {name: min(cell["seconds"]) for name, cell in cells.items()}
    single = {name: min(cell["single_seconds"]) for name, cell in cells.items()}
    labels = np.array(extra["labels"])
    rows = tuple(
        (
            name,
            f"{paper[name]:.2f}" if name in paper else "",
            f"{paper[name] / paper['CRC']:.2f}" if name in paper else "",
            significant(1e3 * batch[name]),
            f"{batch[name] / batch['CRC']:.2f}",
            significant(1e3 * single[name]),
            f"{single[name] / single['CRC']:.2f}",
            f"{100 * np.mean(np.array(cell['predictions']) == labels):.1f}",
        )
        for name, cell in cells.items()
    )
    heads = ("", "paper s", "paper ratio", "ms, batch", "ratio", "ms, one by one", "ratio", "accuracy %")
    notes = [
        f"{setting['n_train']} training samples, {setting['n_features']} features, {setting['queries']} "
        "queries; ratio: CRC = 1. All methods in one run on one machine, the fastest of three rounds. Batch: "
        "all queries in one call. One by one: median of single calls, mostly the fixed cost of a call.",
        f"{extra['machine']['cpu']}, {extra['machine']['cores']} cores.",
    ]
    if extra["recipe"]["quick"]:
        notes.insert(0, "QUICK RUN: fewer queries than the paper.")
    return Table(
        f"{extra['name'].capitalize()}: {EXPERIMENTS[extra['name']].title}", heads, rows, notes=tuple(notes)
    )


def tables_of(contents: Contents, names: Iterable[str], protocols: Iterable[str]) -> list[Table]:
    """The tables asked for, in the order of the paper; what is quoted comes last."""
    wanted = set(names)
    found = [
        accuracy_table(part)
        for outcome in _chosen_outcomes(contents, wanted, set(protocols))
        for part in parts_of(outcome)
    ]
    found += [speed_table(e) for n, e in contents.extras.items() if n in wanted and "cells" in e]
    return found + [quoted_table(table) for table in _quoted(wanted)]


def _quoted(names: Iterable[str]) -> list[PaperTable]:
    tables = (EXPERIMENTS[name] for name in EXPERIMENTS if name in names)
    return [table for table in tables if table.kind == "accuracy" and table.quoted]


def _chosen_outcomes(contents: Contents, names: set[str], protocols: set[str]) -> list[Outcome]:
    """Outcomes of the tables asked for; a table that quotes asks for its rows of another one."""
    chosen = []
    for outcome in (outcome for outcome in contents.outcomes if outcome.protocol in protocols):
        if outcome.table.name in names:
            chosen.append(outcome)
            continue
        borrowed = {r.name for t in _quoted(names) if t.run_as == outcome.table.name for r in t.rows}
        rows = [row for row in outcome.rows if row in borrowed]
        chosen += [outcome.only(rows)] if rows else []
    return chosen


def numbers(contents: Contents, names: Iterable[str], protocols: Iterable[str]) -> dict[str, Any]:
    """The same as plain JSON, without the raw predictions."""
    wanted = set(names)
    tables = [
        {
            "table": o.table.name,
            "protocol": o.protocol,
            "quick": o.quick,
            "test": o.test_name,
            "cells": [
                {
                    "row": row,
                    "subset": o.table.row(row).subset,
                    "method": method,
                    "paper": o.table.paper_value(method, row),
                    "ours": o.mean(row, method),
                    "deviation": o.deviation(row, method),
                    "trials": len(o.accuracies(row, method)),
                    "p_against_nrc": o.p_value(row, method),
                }
                for row in o.rows
                for method in o.methods
                if (row, method) in o.hits
            ],
        }
        for o in _chosen_outcomes(contents, wanted, set(protocols))
    ]
    speeds = [
        {"table": name, "seconds_per_query": {m: min(c["seconds"]) for m, c in extra["cells"].items()}}
        for name, extra in contents.extras.items()
        if name in wanted and "cells" in extra
    ]
    quoted = [{"table": q.name, "quoted_from_the_paper": q.quoted} for q in _quoted(wanted)]
    return plain({"tables": tables, "speed": speeds, "quoted": quoted})


def _json_number(value: float) -> float | None:
    return None if math.isnan(value) else value


def write_reports(folder: Path) -> Contents:
    """report.md, report.tex and report.html of everything the folder holds."""
    contents = read_contents([folder])
    names = {*EXPERIMENTS} - {table.name for table in _quoted(EXPERIMENTS)}
    tables = tables_of(contents, names, list(PROTOCOLS)) + _quotations(contents)
    write_text(folder / "report.md", results_page(contents))
    write_text(folder / "report.tex", "% needs the package booktabs\n" + "\n".join(map(latex, tables)))
    write_text(folder / "report.html", html_page(contents))
    return contents


def _quotations(contents: Contents) -> list[Table]:
    """Quoted tables of the data sets that were run."""
    run = {o.table.row(row).dataset for o in contents.outcomes for row in o.rows}
    return [quoted_table(table) for table in _quoted(EXPERIMENTS) if run & set(table.quoted)]


def results_page(contents: Contents) -> str:
    """Markdown with the answer first, then every table and how it was obtained."""
    lines = ["# Results: sparse, collaborative or non-negative?", ""]
    lines += ["The paper's tables and figures, run again. Every number below is computed from the raw", ""]
    lines[-2] += (
        " predictions in run folders by `residuum results FOLDER...`; `residuum reproduce all` makes them."
    )
    lines += ["## The answer", ""]
    lines += [f"- {text}" for text in verdict(contents.outcomes)]
    honest = honest_table(contents.outcomes)
    if honest:
        lines += ["", markdown(honest, level=2).rstrip()]
    for outcome in (part for whole in contents.outcomes for part in parts_of(whole)):
        lines += ["", markdown(accuracy_table(outcome), level=2).rstrip(), ""]
        lines += ["<details><summary>Chosen parameters</summary>", ""]
        lines += [markdown(parameter_table(outcome), level=3).rstrip(), "", "</details>"]
    for table in _quotations(contents):
        lines += ["", markdown(table, level=2).rstrip()]
    for extra in contents.extras.values():
        if "cells" in extra:
            lines += ["", markdown(speed_table(extra), level=2).rstrip()]
        else:
            lines += ["", f"## {extra['name'].capitalize()}: {EXPERIMENTS[extra['name']].title}", ""]
            lines += [_figure_words(extra)]
    return "\n".join(lines) + "\n"


def _figure_words(extra: dict[str, Any]) -> str:
    shown = extra["illustration"]
    if extra["shows"] == "curves":
        ends = ", ".join(f"max |{name}| {curve[-1]:.1e}" for name, curve in shown["curves"].items())
        after = ", ".join(f"{curve[shown['published_steps'] - 1]:.1e}" for curve in shown["curves"].values())
        return (
            f"After {len(next(iter(shown['curves'].values())))} steps of ADMM, rho = {shown['rho']:g}: {ends}"
            f"; after the {shown['published_steps']} steps of the published NRC: {after}."
        )
    atom_labels = np.array(shown["atom_labels"])
    parts = []
    for name, code in shown["codes"].items():
        values = np.array(code)
        own = np.abs(values[atom_labels == shown["label"]]).sum() / max(np.abs(values).sum(), 1e-300)
        parts.append(
            f"{name} uses {np.count_nonzero(values)} of {len(values)} samples, "
            f"{np.count_nonzero(values < 0)} of them negatively, and {100 * own:.0f} % of the size of its "
            "code is on the right class"
        )
    return "; ".join(parts) + "."


@dataclass(frozen=True)
class Section:
    """A part of the page: a table, a figure or both, and the parameters behind them."""

    title: str
    table: Table | None = None
    figure: Markup | None = None
    caption: str = ""
    parameters: Table | None = None


def html_page(contents: Contents) -> str:
    """One file that asks nothing of the network: answer, tables, plots, figures."""
    honest = honest_table(contents.outcomes)
    sections = [Section(honest.title, honest)] if honest else []
    for outcome in (part for whole in contents.outcomes for part in parts_of(whole)):
        table = accuracy_table(outcome)
        sections.append(Section(table.title, table, _curves(outcome), parameters=parameter_table(outcome)))
    sections += [Section(table.title, table) for table in _quotations(contents)]
    sections += [_extra_section(extra) for extra in contents.extras.values()]
    return render(
        "paper.html",
        title="Sparse, collaborative or non-negative: the paper's experiments again",
        verdict=verdict(contents.outcomes),
        sections=sections,
    )


def _extra_section(extra: dict[str, Any]) -> Section:
    """A table of times, or one of the paper's figures."""
    if "cells" in extra:
        table = speed_table(extra)
        return Section(table.title, table)
    draw = coefficient_figure if extra["shows"] == "codes" else convergence_figure
    title = f"{extra['name'].capitalize()}: {EXPERIMENTS[extra['name']].title}"
    return Section(title, figure=draw(extra["illustration"]), caption=_figure_words(extra))


def _curves(outcome: Outcome) -> Markup | None:
    """Accuracy over the rows, where there are several and they are points of one axis."""
    table, rows = outcome.table, list(outcome.rows)
    if not table.axis or len(rows) < 2:
        return None
    curves = {
        method: {
            "ours": [outcome.mean(row, method) for row in rows],
            "deviation": [outcome.deviation(row, method) for row in rows],
            "paper": printed if any(printed := [table.paper_value(method, row) for row in rows]) else None,
        }
        for method in outcome.methods
    }
    name = f"{table.name}-{outcome.protocol}"
    return accuracy_figure(name, table.axis, rows, curves)


__all__ = ["LEVEL", "Contents", "numbers", "read_contents", "results_page", "tables_of", "write_reports"]
