"""docs/results.md, whole: what `residuum results` prints of the run that docs/data/results_*.json keep."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.paper.outcomes import Outcome
from residuum.paper.protocols import PROTOCOLS, methods_of
from residuum.paper.report import Contents, results_page
from residuum.paper.tables import EXPERIMENTS
from stored_figures.runs import DATA, stored


def results() -> str:
    extras, outcomes = {}, []
    for name, experiment in EXPERIMENTS.items():
        if experiment.kind != "accuracy":
            if (DATA / f"results_{name}.json").exists():
                extras[name] = _extra(stored(f"results_{name}"))
            continue
        for protocol in PROTOCOLS:
            if (DATA / f"results_{name}_{protocol}.json").exists():
                outcomes.append(_outcome(stored(f"results_{name}_{protocol}")))
    return results_page(Contents(outcomes, extras)).rstrip()


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
