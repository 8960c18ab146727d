"""Table 5, milliseconds per query of every method in one run, and Figures 1 and 2."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from residuum.estimators.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC
from residuum.experiments.illustration import illustrate
from residuum.experiments.linear import softmax, svm
from residuum.paper.preparation import Preparation, Prepared
from residuum.paper.run import OnStep
from residuum.paper.tables import EXPERIMENTS, PaperFigure, SpeedTable
from residuum.system.files import write_text
from residuum.system.json_text import plain, to_json

FORMAT = "residuum extra 1"
EXTRAS = "extras"
REPEATS = 3
SINGLES = 20

# Time does not depend much on parameters; these are the ones that classify this setting well.
SPEED: dict[str, Callable[[], Any]] = {
    "softmax": lambda: softmax(10.0),
    "NSC": lambda: NSC(l2=1.0),
    "SVM": lambda: svm(1.0),
    "SRC": lambda: SRC(l1=0.1),
    "CRC": lambda: CRC(),
    "CROC": lambda: CROC(),
    "ProCRC": lambda: ProCRC(),
    "NRC": lambda: NRC(rho=1.0),
    "NRC, exact": lambda: NRC(solver="exact"),
    "SoftNRC": lambda: SoftNRC(l2=0.1, tol=1e-6),
}


def extra_path(folder: Path, name: str) -> Path:
    """The file of a speed table or a figure."""
    return folder / EXTRAS / f"{name}.json"


def read_extra(folder: Path, name: str) -> dict[str, Any] | None:
    """A finished speed table or figure; None where there is none that can be read."""
    try:
        extra = json.loads(extra_path(folder, name).read_text(encoding="utf-8"))
        return extra if extra["format"] == FORMAT else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(folder: Path, name: str, content: dict[str, Any]) -> dict[str, Any]:
    path = extra_path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    content = plain({"format": FORMAT, "name": name, "created": created, **content})
    write_text(path, to_json(content))
    return content


def run_speed(
    table: SpeedTable,
    folder: Path,
    machine: dict[str, Any],
    *,
    quick: bool = False,
    resume: bool = True,
    seed: int = 0,
    data_home: str | None = None,
    cache_dir: Path | None = None,
    on_step: OnStep = lambda text, done, total, left: None,
) -> dict[str, Any]:
    """Time every method on the same queries, all at once and one by one; the fastest of the rounds counts.

    One method after the other, several times round, so that a busy moment of the machine does not fall on one
    method alone.
    """
    recipe = plain({"seed": seed, "quick": quick, "row": table.row, "methods": list(SPEED)})
    kept = read_extra(folder, table.name) if resume else None
    if kept is not None and kept["recipe"] == recipe:
        return kept
    on_step(f"{table.name}: features", 0, REPEATS * len(SPEED), None)
    queries = table.quick.queries if quick else table.queries
    setting = EXPERIMENTS[table.setting]
    preparation = Preparation(
        setting, (table.row,), seed=seed, queries=queries, data_home=data_home, cache_dir=cache_dir
    )
    data = preparation.features(table.row, 0)
    models, cells = {}, {}
    for name, make in SPEED.items():
        started = time.perf_counter()
        models[name] = make().fit(data.train, data.train_labels)
        cells[name] = {"fit_seconds": time.perf_counter() - started, "seconds": [], "single_seconds": []}
        models[name].predict(data.test[:8])  # compile and warm up
    started = time.perf_counter()
    for repeat in range(REPEATS):
        for number, (name, model) in enumerate(models.items()):
            done = repeat * len(models) + number
            left = (time.perf_counter() - started) * (REPEATS * len(models) - done) / done if done else None
            on_step(f"{table.name}: {name}, round {repeat + 1}", done, REPEATS * len(models), left)
            _time_once(model, data, cells[name])
    for name, model in models.items():
        cells[name]["predictions"] = model.predict(data.test)
        model = model[-1] if hasattr(model, "steps") else model
        cells[name]["parameters"] = {"estimator": type(model).__name__, **model.get_params()}
    content = {
        "recipe": recipe,
        "setting": {"n_train": len(data.train), "n_features": data.train.shape[1], "queries": len(data.test)},
        "labels": data.test_labels,
        "cells": cells,
        "machine": machine,
    }
    return _write(folder, table.name, content)


def _time_once(model: Any, data: Prepared, cell: dict[str, Any]) -> None:
    started = time.perf_counter()
    model.predict(data.test)
    cell["seconds"].append((time.perf_counter() - started) / len(data.test))
    times = []
    for query in data.test[:SINGLES]:
        started = time.perf_counter()
        model.predict(query[None])
        times.append(time.perf_counter() - started)
    cell["single_seconds"].append(float(np.median(times)))


def run_figure(
    figure: PaperFigure,
    folder: Path,
    machine: dict[str, Any],
    *,
    quick: bool = False,
    resume: bool = True,
    seed: int = 0,
    data_home: str | None = None,
    cache_dir: Path | None = None,
    on_step: OnStep = lambda text, done, total, left: None,
) -> dict[str, Any]:
    """The codes or curves of one query, as plain JSON."""
    row = figure.quick_row if quick else figure.row
    recipe = plain({"seed": seed, "quick": quick, "row": row})
    kept = read_extra(folder, figure.name) if resume else None
    if kept is not None and kept["recipe"] == recipe:
        return kept
    on_step(figure.name, 0, 1, None)
    setting = EXPERIMENTS[figure.setting]
    queries = None if figure.classes else 10
    preparation = Preparation(
        setting, (row,), seed=seed, queries=queries, data_home=data_home, cache_dir=cache_dir
    )
    data = preparation.features(row, 0)
    train = _few(data.train_labels, figure.classes, figure.per_class)
    # The first test sample of the first class, as in the paper, where the query is from class 1.
    query = int(np.flatnonzero(data.test_labels == data.train_labels[train[0]])[0])
    samples = np.vstack([data.train[train], data.test[query][None]])
    labels = np.append(data.train_labels[train], data.test_labels[query])
    illustration = illustrate(samples, labels, np.arange(len(train)), len(train))
    illustration.pop("sample")
    content = {"recipe": recipe, "shows": figure.shows, "illustration": illustration, "machine": machine}
    return _write(folder, figure.name, content)


def _few(labels: np.ndarray, classes: int | None, per_class: int | None) -> np.ndarray:
    kept = np.unique(labels)[:classes]
    return np.concatenate([np.flatnonzero(labels == label)[:per_class] for label in kept])
