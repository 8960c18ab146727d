"""Runs of `residuum reproduce`: docs/results.md as `residuum results` prints it, and parts of other pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.paper.outcomes import Outcome
from residuum.paper.protocols import PROTOCOLS, methods_of
from residuum.paper.report import Contents, results_page
from residuum.paper.tables import EXPERIMENTS
from residuum.paper.verdict import verdict
from stored_figures.runs import paragraph, stored

TABLES, EXTRAS = ("table2", "table3", "table4"), ("table5", "figure1", "figure2")  # of docs/results.md


def results() -> str:
    extras = {name: _extra(stored(f"results_{name}")) for name in EXTRAS}
    return results_page(Contents(_outcomes(), extras)).rstrip()


def results_in_short() -> str:
    """Who wins where, for docs/paper.md."""
    said = [text for text in verdict(_outcomes()) if "NRC against each rival" not in text]
    return "\n".join(f"- {paragraph(text)}".replace("\n", "\n  ") for text in said)


def _outcomes() -> list[Outcome]:
    """Every table under every protocol, in the order of the paper."""
    return [_outcome(stored(f"results_{name}_{protocol}")) for name in TABLES for protocol in PROTOCOLS]


def _outcome(run: dict[str, Any]) -> Outcome:
    table = EXPERIMENTS[run["table"]]
    notes = {row: tuple(texts) for row, *texts in run["notes"]}
    hits = {
        (cell["row"], cell["method"]): {
            trial: _hits(*of_trial) for trial, of_trial in enumerate(zip(cell["wrong"], cell["tested"]))
        }
        for cell in run["cells"]
    }
    parameters = {(cell["row"], cell["method"]): cell["parameters"] for cell in run["cells"]}
    run_methods = {method for _, method in hits}
    methods = tuple(method for method in methods_of(table, run["protocol"]) if method in run_methods)
    rows = tuple(row.name for row in table.rows if row.name in notes)
    return Outcome(table, run["protocol"], rows, methods, hits, run["quick"], parameters, notes)


def _hits(wrong: str, tested: int) -> np.ndarray:
    hits = np.ones(tested, dtype=bool)
    hits[[int(place) for place in wrong.split()]] = False
    return hits


def _extra(run: dict[str, Any]) -> dict[str, Any]:
    """As a run folder has it; what counts of labels and predictions is where they differ."""
    if "cells" not in run:
        return run
    tested = run["setting"]["queries"]
    for cell in run["cells"].values():
        cell["predictions"] = _hits(cell["wrong"], tested)
    return run | {"labels": np.ones(tested, dtype=bool)}
