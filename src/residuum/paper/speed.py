"""Table 5: milliseconds per query of every method in one run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from residuum.experiments.linear import compared
from residuum.experiments.runner import Cell, Job, Say
from residuum.paper.entries import SpeedTable
from residuum.paper.protocols import parameters_of
from residuum.paper.tables import EXPERIMENTS
from residuum.paper.trials import ArrayTrials, TrialData
from residuum.system.json_text import plain
from residuum.system.machine import machine_facts

REPEATS = 3
SINGLES = 20

# Time does not depend much on parameters; these are the ones that classify this setting well.
TIMED: dict[str, dict[str, Any]] = {
    "softmax": {"C": 10.0},
    "NSC": {"l2": 1.0},
    "SVM": {"C": 1.0},
    "SRC": {"l1": 0.1},
    "CRC": {},
    "CROC": {},
    "ProCRC": {},
    "NRC": {"rho": 1.0},
    "NRC, exact": {"solver": "exact"},
    "SoftNRC": {"l2": 0.1, "tol": 1e-6},
}


def speed_job(
    table: SpeedTable,
    *,
    quick: bool = False,
    seed: int = 0,
    data_home: str | None = None,
    cache_dir: Path | None = None,
) -> Job:
    """A table of times is one cell."""
    recipe = plain({"seed": seed, "quick": quick, "row": table.row, "methods": TIMED})
    row = EXPERIMENTS[table.setting].row(table.row)
    queries = table.quick.queries if quick else table.queries
    load = partial(ArrayTrials, (row,), seed=seed, queries=queries, data_home=data_home, cache_dir=cache_dir)

    def work(cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
        say(f"{table.name}: features")
        yield {"name": table.name, **_timed(load().features(row, 0), table.name, say)}

    return Job([Cell(table.name, table.name, recipe)], work)


def _timed(data: TrialData, title: str, say: Say) -> dict[str, Any]:
    """Time every method on the same queries, all at once and one by one; the fastest of the rounds counts.

    One method after the other, several times round, so that a busy moment of the machine does not fall on one
    method alone.
    """
    begun = time.perf_counter()
    models, cells = {}, {}
    for name, values in TIMED.items():
        model = compared()[name.partition(",")[0]](**values)
        started = time.perf_counter()
        models[name] = model.fit(data.train, data.train_labels)
        cells[name] = {"fit_seconds": time.perf_counter() - started, "seconds": [], "single_seconds": []}
        model.predict(data.test[:8])  # compile and warm up
    for repeat in range(REPEATS):
        for name, model in models.items():
            say(f"{title}: {name}, round {repeat + 1} of {REPEATS}")
            _time_once(model, data, cells[name])
    for name, model in models.items():
        cells[name]["predictions"] = model.predict(data.test)
        cells[name]["parameters"] = parameters_of(model)
    return {
        "setting": {"n_train": len(data.train), "n_features": data.train.shape[1], "queries": len(data.test)},
        "labels": data.test_labels,
        "cells": cells,
        "seconds": time.perf_counter() - begun,
        "machine": machine_facts(),
    }


def _time_once(model: Any, data: TrialData, cell: dict[str, Any]) -> None:
    started = time.perf_counter()
    model.predict(data.test)
    cell["seconds"].append((time.perf_counter() - started) / len(data.test))
    times = []
    for query in data.test[:SINGLES]:
        started = time.perf_counter()
        model.predict(query[None])
        times.append(time.perf_counter() - started)
    cell["single_seconds"].append(float(np.median(times)))
