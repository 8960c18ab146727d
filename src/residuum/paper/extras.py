"""What is no table of accuracies: Table 5, the time per query, and Figures 1 and 2. Each is one cell."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from residuum.experiments.baselines import compared, parameters_of
from residuum.experiments.illustration import illustrate
from residuum.experiments.runner import Cell, Job, Say
from residuum.paper.tables import EXPERIMENTS
from residuum.paper.trials import ArrayTrials, TrialData
from residuum.reports.numbers import significant
from residuum.reports.table import Table
from residuum.system.json_text import plain
from residuum.system.machine import machine_facts

ROUNDS = 3
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


def extra_job(
    entry: Any,
    *,
    quick: bool = False,
    seed: int = 0,
    data_home: str | None = None,
    cache_dir: Path | None = None,
) -> Job:
    """The one cell of a SpeedTable or a Figure."""
    is_table = entry.kind == "speed"
    compute: Any = _timed if is_table else _illustrated
    row = EXPERIMENTS[entry.setting].row(entry.row if is_table or not quick else entry.quick_row)
    queries = None if not is_table and entry.classes else 10
    if is_table:
        queries = entry.quick_queries if quick else entry.queries

    def work(cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
        started = time.perf_counter()
        trials = ArrayTrials((row,), seed=seed, queries=queries, data_home=data_home, cache_dir=cache_dir)
        content = compute(entry, trials.features(row, 0), say)
        seconds = time.perf_counter() - started
        yield {"name": entry.name, **content, "seconds": seconds, "machine": machine_facts()}

    recipe = plain({"seed": seed, "quick": quick, "row": row.name, "methods": TIMED})
    return Job([Cell(entry.name, entry.name, recipe)], work)


def _timed(table: Any, data: TrialData, say: Say) -> dict[str, Any]:
    """Time every method on the same queries, all at once and one by one; the fastest of the rounds counts.

    One method after the other, several times round, so that a busy moment of the machine does not fall on one
    method alone.
    """
    models = {}
    cells: dict[str, dict[str, Any]] = {}
    for name, values in TIMED.items():
        model = models[name] = compared()[name.partition(",")[0]](**values)
        fitting = _seconds(model.fit, data.train, data.train_labels)
        model.predict(data.test[:8])  # compile and warm up
        cells[name] = {"fit_seconds": fitting, "seconds": [], "single_seconds": []}
        cells[name] |= {"predictions": model.predict(data.test), "parameters": parameters_of(model)}
    for number in range(ROUNDS):
        for name, model in models.items():
            say(f"{table.name}: {name}, round {number + 1} of {ROUNDS}")
            cells[name]["seconds"].append(_seconds(model.predict, data.test) / len(data.test))
            singles = [_seconds(model.predict, query[None]) for query in data.test[:SINGLES]]
            cells[name]["single_seconds"].append(float(np.median(singles)))
    setting = {"n_train": len(data.train), "n_features": data.train.shape[1], "queries": len(data.test)}
    return {"setting": setting, "labels": data.test_labels, "cells": cells}


def _seconds(call: Any, *arguments: Any) -> float:
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


def speed_table(extra: dict[str, Any]) -> Table:
    """Milliseconds per query and ratios to CRC, ours beside the paper's."""
    entry, cells, setting = EXPERIMENTS[extra["name"]], extra["cells"], extra["setting"]
    paper, labels = entry.paper, np.array(extra["labels"])
    batch = {name: min(cell["seconds"]) for name, cell in cells.items()}
    single = {name: min(cell["single_seconds"]) for name, cell in cells.items()}
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
    notes = (
        *["QUICK RUN: fewer queries than the paper."] * extra["recipe"]["quick"],
        f"{setting['n_train']} training samples, {setting['n_features']} features, {setting['queries']} "
        "queries; ratio: CRC = 1. All methods in one run on one machine, the fastest of three rounds. Batch: "
        "all queries in one call. One by one: median of single calls, mostly the fixed cost of a call.",
        f"{extra['machine']['cpu']}, {extra['machine']['cores']} cores.",
    )
    return Table(f"{entry.name.capitalize()}: {entry.title}", heads, rows, notes=notes)


def _illustrated(figure: Any, data: TrialData, say: Say) -> dict[str, Any]:
    """The codes and curves of one query, the first test sample of the first class, as in the paper."""
    kept = np.unique(data.train_labels)[: figure.classes]
    members = [np.flatnonzero(data.train_labels == label)[: figure.per_class] for label in kept]
    train = np.concatenate(members)
    query = int(np.flatnonzero(data.test_labels == kept[0])[0])
    shown = illustrate(data.train[train], data.train_labels[train], data.test[query], kept[0])
    return {"shows": figure.shows, "illustration": shown}


def figure_words(extra: dict[str, Any]) -> str:
    """What a figure shows, in numbers."""
    shown = extra["illustration"]
    if extra["shows"] == "curves":
        curves, stop = shown["curves"], shown["published_steps"]
        ends = ", ".join(f"max |{name}| {curve[-1]:.1e}" for name, curve in curves.items())
        after = ", ".join(f"{curve[stop - 1]:.1e}" for curve in curves.values())
        return (
            f"After {len(next(iter(curves.values())))} steps of ADMM, rho = {shown['rho']:g}: {ends}"
            f"; after the {stop} steps of the published NRC: {after}."
        )
    own = np.array(shown["atom_labels"]) == shown["label"]
    texts = []
    for name, code in shown["codes"].items():
        values = np.array(code)
        share = np.abs(values[own]).sum() / max(np.abs(values).sum(), 1e-300)
        texts.append(
            f"{name} uses {np.count_nonzero(values)} of {len(values)} samples, "
            f"{np.count_nonzero(values < 0)} of them negatively, and {100 * share:.0f} % of the size of its "
            "code is on the right class"
        )
    return "; ".join(texts) + "."
