"""The comparison: every method on the same random splits, every raw answer kept.

A cell is one method on one trial. A trial is one random split: ``train_per_class`` samples of each class to
fit, all others as queries; data may bring their own trials instead. Accuracy, times and certificates in
tables are derived from the cells.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline

from residuum.errors import UsageError
from residuum.experiments.compared_data import Data, Split, random_split
from residuum.experiments.illustration import illustrate
from residuum.experiments.linear import BASELINES, compared
from residuum.experiments.run_folder import CELLS, RESULTS
from residuum.experiments.runner import Cell, Job, OnStep, Say, read_cell, run_job
from residuum.experiments.summary import summarise
from residuum.models.recipe import Recipe, feature_steps, fold_features, group_folds, maker_of
from residuum.system.files import write_text
from residuum.system.json_text import to_json

FORMAT = "residuum comparison 2"

# Parameters that are not the defaults, tuned by cross-validation in the training samples of the digits, at 50
# per class and seed 0 (benchmarks/compare_parameters.py); the table names them. NSC needs it most: with as
# many samples per class as features, the small default ridge lets every class reproduce every query.
TUNED: dict[str, dict[str, float]] = {"SVM": {"C": 10}, "softmax": {"C": 100}, "NSC": {"l2": 0.1}}

COSTS = [0.1, 1.0, 10.0, 100.0, 1000.0]


def make_estimator(method: str, *, select: str = "fixed", seed: int = 0) -> Any:
    """A method with fixed parameters, or with ``select="cv"`` the search that chooses them."""
    values = TUNED.get(method, {})
    if method not in BASELINES:
        return maker_of(method, select)(**(values if select == "fixed" else {}))
    estimator = BASELINES[method](**values, max_iter=10_000, seed=seed)
    return GridSearchCV(estimator, {f"{estimator.steps[-1][0]}__C": COSTS}) if select == "cv" else estimator


@dataclass(frozen=True)
class Settings:
    """What decides the result of a comparison; see `checked`."""

    methods: tuple[str, ...]
    trials: int
    train_per_class: int | None  # None where the data bring their trials
    seed: int
    n_jobs: int | None = None
    select: str = "fixed"

    def checked(self, data: Data) -> Settings:
        """These settings, or an error that names what is wrong."""
        check_trials(self.trials, self.seed)
        if self.train_per_class is None:
            return self
        _, counts = np.unique(data.labels, return_counts=True)
        most = int(counts.min()) - 1
        if self.select == "cv" and self.train_per_class < 2:
            raise UsageError(
                "train_per_class must be at least 2 for selection by cross-validation. "
                f"Got {self.train_per_class}."
            )
        if not 1 <= self.train_per_class <= most:
            raise UsageError(
                f"train_per_class must be from 1 to {most}: the smallest class of {data.name} has "
                f"{most + 1} samples and one must stay a query. Got {self.train_per_class}."
            )
        return self


def check_trials(trials: int, seed: int) -> None:
    """Refuse numbers of trials and seeds that make no sense."""
    if not 1 <= trials <= 1000:
        raise UsageError(f"trials must be from 1 to 1000. Got {trials}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must be from 0 to {2**32 - 1}. Got {seed}.")


def choose_methods(names: str | None) -> tuple[str, ...]:
    """Methods from a comma-separated list in any case, in the order of `compared`; None is all."""
    if names is None:
        return tuple(compared())
    known = {name.lower(): name for name in compared()}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown or not wanted:
        got = ", ".join(unknown) or "an empty list"
        raise UsageError(f"methods must be some of {', '.join(compared())}. Got {got}.")
    chosen = {known[name.lower()] for name in wanted}
    return tuple(name for name in compared() if name in chosen)


def measure(method: str, data: Data, parts: Split, *, seed: int, select: str = "fixed") -> dict[str, Any]:
    """Fit, predict, and ask for the certificate in a separate solve that is not timed.

    Returns the raw content of a cell: a label per query, times, and the certificate where there is one.
    `violation`, `gap` and `support` hold one number per query; they are None for methods without codes.
    """
    estimator = make_estimator(method, select=select, seed=seed)
    labels = data.labels[parts.train]
    options: dict[str, Any] = {}
    if select == "cv":
        estimator, options = _searching(estimator, data, parts)
    if select == "cv" and method in BASELINES:  # learns its features in each fold
        samples, queries = data.samples[parts.train], data.samples[parts.test]
    else:
        samples, queries = _features(data, parts)
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
        "chosen": _chosen(estimator),
    }


def _certificate(estimator: Any, queries: Any) -> dict[str, Any]:
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


def _searching(estimator: Any, data: Data, parts: Split) -> tuple[Any, dict[str, Any]]:
    """The search with folds and features of its own training samples, and what else its fit is given."""
    samples, labels = data.samples[parts.train], data.labels[parts.train]
    groups = None if data.groups is None else data.groups[parts.train]
    recipe = Recipe(scale=data.scale, pca=data.pca)
    folds = None if groups is None else group_folds(groups)
    if not isinstance(estimator, GridSearchCV):
        options = {"groups": groups, "fold_features": fold_features(samples, recipe)}
        return estimator.set_params(cv=folds), options
    if folds is None:
        smallest = int(np.unique(labels, return_counts=True)[1].min())
        if smallest < 2:
            raise UsageError("Selection by cross-validation needs two training samples of each class. Got 1.")
        folds = StratifiedKFold(min(5, smallest))
    learned = Pipeline([*feature_steps(recipe, samples.shape), ("model", estimator.estimator)])
    grid = {f"model__{name}": values for name, values in estimator.param_grid.items()}
    return GridSearchCV(learned, grid, cv=folds), {"groups": groups}


def _chosen(estimator: Any) -> dict[str, Any] | None:
    found = getattr(estimator, "best_params_", None)
    return found and {name.removeprefix("model__"): value for name, value in found.items()}


def _features(data: Data, parts: Split) -> tuple[Any, Any]:
    """Training samples and queries, scaled and projected as the data ask for."""
    samples, queries = data.samples[parts.train], data.samples[parts.test]
    for _, step in feature_steps(Recipe(scale=data.scale, pca=data.pca), samples.shape):
        samples, queries = step.fit_transform(samples), step.transform(queries)
    return samples, queries


def _illustration(data: Data, parts: Split) -> dict[str, Any]:
    """The first query of the first trial, with the features that were classified."""
    query = int(parts.test[0])
    if data.scale is None and data.pca is None:
        found = illustrate(data.samples, data.labels, parts.train, query)
        return {**found, "image_shape": list(data.image_shape)} if data.image_shape else found
    samples, queries = _features(data, Split(parts.train, parts.test[:1]))
    labels = np.concatenate([data.labels[parts.train], data.labels[[query]]])
    found = illustrate(np.vstack([samples, queries]), labels, np.arange(len(samples)), len(samples))
    return {**found, "query": query}


def parameters(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every parameter of every method, by value."""
    found = {}
    for method in settings.methods:
        estimator = make_estimator(method, select=settings.select, seed=settings.seed)
        if isinstance(estimator, GridSearchCV):
            found[method] = {"estimator": "GridSearchCV", **estimator.param_grid}
            continue
        estimator = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        found[method] = {"estimator": type(estimator).__name__, **estimator.get_params()}
    return found


def run(
    settings: Settings,
    data: Data,
    folder: Path,
    machine: dict[str, Any],
    *,
    on_step: OnStep = lambda text, done, total, left: None,
) -> dict[str, Any]:
    """Measure every cell that the folder does not hold yet, write results.json, and return its content.

    Parameters
    ----------
    settings, data
        What to compare on what.
    folder : Path
        Run folder from `open_folder`; each finished cell is kept there at once.
    machine : dict
        From `machine_facts`, stored with the results.
    on_step : callable
        Called with (what, cells done, cells in all, seconds left or None).
    """
    finished = _finished(folder / RESULTS)
    if finished is not None:
        return finished
    trials = _trials(settings, data)
    cells = [
        Cell(
            name=f"trial-{trial:03d}-{method}",
            title=f"{method}, trial {trial + 1}",
            recipe={"method": method, "trial": trial},
            group=(trial,),
            like=(method,),
        )
        for trial in range(len(trials))
        for method in settings.methods
    ]
    run_job(Job(cells, _Measuring(settings, data, trials)), folder, on_step=on_step)
    contents = [read_cell(cell.path(folder)) for cell in cells]
    text = to_json(_assemble(settings, data, trials, contents, machine))
    write_text(folder / RESULTS, text)
    shutil.rmtree(folder / CELLS)  # results.json now holds every cell
    return json.loads(text)


class _Measuring:
    """Measures the cells of a trial; every method is run once before, on a few queries.

    No timing pays for compiling or loading libraries then. Fixed parameters are enough: selection runs the
    same code.
    """

    def __init__(self, settings: Settings, data: Data, trials: list[Split]) -> None:
        self._settings, self._data, self._trials = settings, data, trials
        self._warm: set[str] = set()

    def __call__(self, cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
        seed, select = self._settings.seed, self._settings.select
        for method, trial in ((cell.recipe["method"], cell.recipe["trial"]) for cell in cells):
            parts = self._trials[trial]
            if method not in self._warm:
                measure(method, self._data, Split(parts.train, parts.test[:4]), seed=seed)
                self._warm.add(method)
            yield {"trial": trial, **measure(method, self._data, parts, seed=seed, select=select)}


def _trials(settings: Settings, data: Data) -> list[Split]:
    if data.trials is not None:
        return list(data.trials)
    assert settings.train_per_class is not None
    return [
        random_split(data.labels, train_per_class=settings.train_per_class, seed=settings.seed, trial=trial)
        for trial in range(settings.trials)
    ]


def _assemble(
    settings: Settings, data: Data, trials: list[Split], cells: list[Any], machine: dict[str, Any]
) -> dict[str, Any]:
    """The content of results.json: everything raw, and the summary derived from it."""
    results: dict[str, Any] = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "name": data.name,
            "n_samples": len(data.labels),
            "n_features": data.samples.shape[1],
            "classes": np.unique(data.labels).tolist(),
            "scale": data.scale,
            "pca": data.pca,
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
                "train": parts.train.tolist(),
                "test": parts.test.tolist(),
                "labels": data.labels[parts.test].tolist(),
            }
            for trial, parts in enumerate(trials)
        ],
        "cells": cells,
        "illustration": _illustration(data, trials[0]),
    }
    results["summary"] = summarise(results)
    return results


def _finished(path: Path) -> dict[str, Any] | None:
    """The results of an earlier run that was complete, unless they are damaged."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return results if isinstance(results, dict) and results.get("format") == FORMAT else None
