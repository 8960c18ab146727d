"""Figures 1 and 2: the codes of one query, and how ADMM converges."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from residuum.experiments.illustration import illustrate
from residuum.experiments.runner import Cell, Job, Say
from residuum.paper.entries import Figure
from residuum.paper.tables import EXPERIMENTS
from residuum.paper.trials import ArrayTrials
from residuum.system.json_text import plain
from residuum.system.machine import machine_facts


def figure_job(
    figure: Figure,
    *,
    quick: bool = False,
    seed: int = 0,
    data_home: str | None = None,
    cache_dir: Path | None = None,
) -> Job:
    """A figure is one cell: the codes or curves of one query."""
    row = EXPERIMENTS[figure.setting].row(figure.quick_row if quick else figure.row)
    recipe = plain({"seed": seed, "quick": quick, "row": row.name})
    queries = None if figure.classes else 10

    def work(cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
        started = time.perf_counter()
        trials = ArrayTrials((row,), seed=seed, queries=queries, data_home=data_home, cache_dir=cache_dir)
        data = trials.features(row, 0)
        train = _few(data.train_labels, figure.classes, figure.per_class)
        # The first test sample of the first class, as in the paper, where the query is from class 1.
        query = int(np.flatnonzero(data.test_labels == data.train_labels[train[0]])[0])
        samples = np.vstack([data.train[train], data.test[query][None]])
        labels = np.append(data.train_labels[train], data.test_labels[query])
        illustration = illustrate(samples, labels, np.arange(len(train)), len(train))
        illustration.pop("sample")
        yield {
            "name": figure.name,
            "shows": figure.shows,
            "illustration": illustration,
            "seconds": time.perf_counter() - started,
            "machine": machine_facts(),
        }

    return Job([Cell(figure.name, figure.name, recipe)], work)


def _few(labels: np.ndarray, classes: int | None, per_class: int | None) -> np.ndarray:
    kept = np.unique(labels)[:classes]
    return np.concatenate([np.flatnonzero(labels == label)[:per_class] for label in kept])
