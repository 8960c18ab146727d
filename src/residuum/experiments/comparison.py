"""The comparison: every method on the same trials, every raw answer kept.

A cell is one method on one trial, which is one split into training samples and queries. Accuracy, times and
certificates in tables are derived from the cells.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import UsageError
from residuum.experiments.compared_data import Data, Split
from residuum.experiments.illustration import illustrate
from residuum.experiments.linear import BASELINES, LinearSearch, compared, parameters_of
from residuum.experiments.report import summarise
from residuum.experiments.runner import CELLS, Cell, Job, OnStep, Say, read_cell, run_job
from residuum.models.recipe import Features, feature_search, group_folds, maker_of
from residuum.selection import PipelineCV
from residuum.system.files import write_text
from residuum.system.json_text import to_json

FORMAT = "residuum comparison 2"
RESULTS = "results.json"

# Parameters that are not the defaults, tuned by cross-validation in the training samples of the digits, at 50
# per class and seed 0 (benchmarks/compare_parameters.py); the table names them. NSC needs it most: with as
# many samples per class as features, the small default ridge lets every class reproduce every query.
TUNED: dict[str, dict[str, float]] = {"SVM": {"C": 10}, "softmax": {"C": 100}, "NSC": {"l2": 0.1}}

COSTS = [0.1, 1.0, 10.0, 100.0, 1000.0]


def make_estimator(method: str, *, select: str = "fixed", seed: int = 0) -> Any:
    """A method with fixed parameters, or with ``select="cv"`` the search that chooses them."""
    values = TUNED.get(method, {}) if select == "fixed" else {}
    if method not in BASELINES:
        return maker_of(method, select)(**values)
    make = partial(BASELINES[method], max_iter=10_000, seed=seed)
    return make(**values) if select == "fixed" else LinearSearch(make, COSTS)


@dataclass(frozen=True)
class Settings:
    """What decides the result of a comparison, together with the data."""

    methods: tuple[str, ...]
    trials: int
    train_per_class: int | None  # None where the data decide
    seed: int
    n_jobs: int | None = None
    select: str = "fixed"


def choose_methods(names: str | None) -> tuple[str, ...]:
    """Methods from a comma-separated list in any case, in the order of `compared`; None is all."""
    if names is None:
        return tuple(compared())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {name.lower() for name in compared()}
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown or not wanted:
        got = ", ".join(unknown) or "an empty list"
        raise UsageError(f"methods must be some of {', '.join(compared())}. Got {got}.")
    chosen = {name.lower() for name in wanted}
    return tuple(name for name in compared() if name.lower() in chosen)


def measure(method: str, data: Data, parts: Split, *, seed: int, select: str = "fixed") -> dict[str, Any]:
    """Fit, predict, and ask for the certificate in a separate solve that is not timed.

    Returns the raw content of a cell: a label per query, times, and the certificate where there is one.
    `violation`, `gap` and `support` hold one number per query; they are None for methods without codes.
    """
    estimator = make_estimator(method, select=select, seed=seed)
    labels = data.labels[parts.train]
    samples, queries = data.samples[parts.train], data.samples[parts.test]
    options: dict[str, Any] = {}
    features = _features_for(method, data)
    if select == "cv":
        estimator, options = _search(estimator, data, parts, features)
    if not isinstance(estimator, PipelineCV):
        samples, queries = _prepared(features[0], samples, queries)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        estimator.fit(samples, labels, **options)
        fitted = time.perf_counter()
        predictions = estimator.predict(queries)
        finished = time.perf_counter()
        certificate = _certificate(estimator, queries)
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return {
        "method": method,
        "predictions": predictions.tolist(),
        "seconds": finished - begun,
        "fit_seconds": fitted - begun,
        "predict_seconds": finished - fitted,
        **certificate,
        "warnings": list(texts),
        "chosen": getattr(estimator, "best_params_", None),
    }


def _certificate(estimator: Any, queries: Any) -> dict[str, Any]:
    if isinstance(estimator, PipelineCV):
        *_, (_, classifier) = estimator.best_estimator_.steps
        estimator, queries = classifier, estimator.best_estimator_[:-1].transform(queries)
    if not hasattr(estimator, "solve"):
        return {"violation": None, "gap": None, "support": None, "unconverged": 0}
    solution = estimator.solve(queries)
    return {
        "violation": _rounded(solution.violation),
        "gap": _rounded(solution.gap),
        "support": np.asarray((solution.codes != 0).sum(axis=1)).ravel().tolist(),
        "unconverged": int(np.count_nonzero(~solution.converged)),
    }


def _rounded(values: npt.NDArray[np.float64]) -> list[float]:
    """Certificates to three digits: their size matters, and the file stays small."""
    return [float(f"{value:.3g}") for value in values]


def _features_for(method: str, data: Data) -> tuple[Features, ...]:
    """Candidates for the features of a method; the baselines keep the lengths of samples without a kernel."""
    return data.features if method not in BASELINES else (replace(data.features[-1], kernel=None),)


def _search(
    search: Any, data: Data, parts: Split, features: tuple[Features, ...]
) -> tuple[Any, dict[str, Any]]:
    """A search whose folds keep groups together and learn their features, and options for its fit."""
    samples, labels = data.samples[parts.train], data.labels[parts.train]
    groups = None if data.groups is None else data.groups[parts.train]
    if groups is not None:
        search.cv = group_folds(groups)
    elif np.unique(labels, return_counts=True)[1].min() < 2:
        raise UsageError("Selection by cross-validation needs two training samples of each class. Got 1.")
    if not isinstance(search, LinearSearch):
        return feature_search(search, features, samples, labels), {"groups": groups}

    def fold_features(train: Any, test: Any) -> tuple[Any, Any]:
        return _prepared(features[0], samples[train], samples[test])

    return search, {"groups": groups, "fold_features": fold_features}


def _prepared(features: Features, samples: Any, queries: Any) -> tuple[Any, Any]:
    """Training samples and queries by steps that are fitted to the training samples alone."""
    for _, step in features.steps(samples.shape):
        samples, queries = step.fit_transform(samples), step.transform(queries)
    return samples, queries


def _illustration(data: Data, parts: Split) -> dict[str, Any]:
    """The first query of the first trial, with the features that were classified."""
    query = int(parts.test[0])
    features = data.features[-1]
    samples, queries = _prepared(features, data.samples[parts.train], data.samples[parts.test[:1]])
    found = illustrate(samples, data.labels[parts.train], queries[0], data.labels[query])
    if data.image_shape is not None and features == Features():
        found |= {"sample": data.samples[query], "image_shape": data.image_shape}
    return {"query": query, **found}


def parameters(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every parameter of every method, by value."""
    return {
        method: parameters_of(make_estimator(method, select=settings.select, seed=settings.seed))
        for method in settings.methods
    }


def run(
    settings: Settings,
    data: Data,
    folder: Path,
    machine: dict[str, Any],
    *,
    on_step: OnStep = lambda text, done, total: None,
) -> dict[str, Any]:
    """Measure every cell that the folder does not hold yet, write results.json, and return its content.

    Each finished cell is kept in the folder at once. `machine` comes from `machine_facts`; `on_step` is
    called with (what, cells done, cells in all).
    """
    finished = read_cell(folder / RESULTS, FORMAT)
    if finished is not None:
        return finished
    cells = [
        Cell(
            name=f"trial-{trial:03d}-{method}",
            title=f"{method}, trial {trial + 1}",
            recipe={"method": method, "trial": trial},
            group=(trial,),
        )
        for trial in range(len(data.trials))
        for method in settings.methods
    ]
    run_job(Job(cells, _measuring(settings, data)), folder, on_step=on_step)
    contents = [read_cell(cell.path(folder)) for cell in cells]
    text = to_json(_assemble(settings, data, contents, machine))
    write_text(folder / RESULTS, text)
    shutil.rmtree(folder / CELLS)  # results.json now holds every cell
    return json.loads(text)


def _measuring(settings: Settings, data: Data) -> Any:
    """Work that measures the cells of a trial; every method is run once before, on a few queries.

    No timing pays for compiling or loading libraries then. Fixed parameters are enough: selection runs the
    same code.
    """
    warm: set[str] = set()

    def work(cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
        for method, trial in ((cell.recipe["method"], cell.recipe["trial"]) for cell in cells):
            parts = data.trials[trial]
            if method not in warm:
                measure(method, data, Split(parts.train, parts.test[:4]), seed=settings.seed)
                warm.add(method)
            content = measure(method, data, parts, seed=settings.seed, select=settings.select)
            yield {"trial": trial, **content}

    return work


def _assemble(settings: Settings, data: Data, cells: list[Any], machine: dict[str, Any]) -> dict[str, Any]:
    """The content of results.json: everything raw, and the summary derived from it."""
    results: dict[str, Any] = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "name": data.name,
            "n_samples": len(data.labels),
            "n_features": data.samples.shape[1],
            "classes": np.unique(data.labels).tolist(),
            "features": [str(some) for some in data.features],
            "arguments": data.arguments,
        },
        "settings": asdict(settings),
        "parameters": parameters(settings),
        "tuned": {method: TUNED[method] for method in settings.methods if method in TUNED},
        "machine": machine,
        "trials": [
            {
                "trial": trial,
                "seed": [settings.seed, trial],
                **asdict(parts),
                "labels": data.labels[parts.test].tolist(),
            }
            for trial, parts in enumerate(data.trials)
        ],
        "cells": cells,
        "illustration": _illustration(data, data.trials[0]),
    }
    return {**results, "summary": summarise(results)}
