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
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from residuum.errors import UsageError
from residuum.estimators.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC
from residuum.experiments.illustration import illustrate
from residuum.experiments.run_folder import CELLS, RESULTS
from residuum.experiments.summary import summarise
from residuum.models.recipe import Recipe, feature_steps, fold_features, fold_steps, group_folds
from residuum.selection import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV
from residuum.system.files import write_text
from residuum.system.json_text import to_json

FORMAT = "residuum comparison 1"

# Method -> estimator for a seed. Representation classifiers bring samples to unit norm themselves.
# NSC's l2 and the two C were tuned by cross-validation in the training samples, at 50 per class and seed 0
# (benchmarks/compare_parameters.py); the other methods have their defaults, and the table says so.
METHODS: dict[str, Callable[[int], ClassifierMixin]] = {
    # With as many samples per class as features, the small default ridge lets every class reproduce every
    # query, and nothing is left to compare.
    "NSC": lambda seed: NSC(l2=0.1),
    "SVM": lambda seed: make_pipeline(Normalizer(), LinearSVC(C=10, max_iter=10_000, random_state=seed)),
    "softmax": lambda seed: make_pipeline(Normalizer(), LogisticRegression(C=100, max_iter=10_000)),
    "SRC": lambda seed: SRC(),
    "CRC": lambda seed: CRC(),
    "CROC": lambda seed: CROC(),
    "ProCRC": lambda seed: ProCRC(),
    "NRC": lambda seed: NRC(),
    "SoftNRC": lambda seed: SoftNRC(),
}

COSTS = [0.1, 1.0, 10.0, 100.0, 1000.0]

# The same methods with their parameters chosen by 5-fold cross-validation within the training samples.
SELECTED: dict[str, Callable[[int], ClassifierMixin]] = {
    "NSC": lambda seed: NSCCV(),
    "SVM": lambda seed: GridSearchCV(METHODS["SVM"](seed), {"linearsvc__C": COSTS}),
    "softmax": lambda seed: GridSearchCV(METHODS["softmax"](seed), {"logisticregression__C": COSTS}),
    "SRC": lambda seed: SRCCV(),
    "CRC": lambda seed: CRCCV(),
    "CROC": lambda seed: CROCCV(),
    "ProCRC": lambda seed: ProCRCCV(),
    "NRC": lambda seed: NRCCV(),
    "SoftNRC": lambda seed: SoftNRCCV(),
}
SELECT = {"fixed": METHODS, "cv": SELECTED}


@dataclass(frozen=True)
class Split:
    """Indices of one trial."""

    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """Samples with labels; `image_shape` where a sample is a picture."""

    name: str
    samples: npt.NDArray[Any]  # (n_samples, n_features)
    labels: npt.NDArray[Any]  # (n_samples,)
    image_shape: tuple[int, int] | None = None
    trials: tuple[Split, ...] | None = None  # where the splits are given
    scale: str | None = None  # a key of SCALES, fitted to the training samples of each trial
    pca: int | None = None  # the same for principal directions
    groups: npt.NDArray[Any] | None = None  # samples of one group stay together when parameters are chosen
    arguments: str = ""  # how the command line names these data


def bundled_digits() -> Data:
    """The 1,797 handwritten digits of 8×8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    samples, labels = load_digits(return_X_y=True)
    return Data("digits", samples, labels, (8, 8))


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
        if not 1 <= self.trials <= 1000:
            raise UsageError(f"trials must be from 1 to 1000. Got {self.trials}.")
        if not 0 <= self.seed < 2**32:
            raise UsageError(f"seed must be from 0 to {2**32 - 1}. Got {self.seed}.")
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


def choose_methods(names: str | None) -> tuple[str, ...]:
    """Methods from a comma-separated list in any case, in the order of METHODS; None is all."""
    if names is None:
        return tuple(METHODS)
    known = {name.lower(): name for name in METHODS}
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown or not wanted:
        got = ", ".join(unknown) or "an empty list"
        raise UsageError(f"methods must be some of {', '.join(METHODS)}. Got {got}.")
    chosen = {known[name.lower()] for name in wanted}
    return tuple(name for name in METHODS if name in chosen)


def split(labels: npt.NDArray[Any], *, train_per_class: int, seed: int, trial: int) -> Split:
    """A random split that depends on (seed, trial) alone, so trials can be added or run in any order."""
    generator = np.random.default_rng([seed, trial])
    train = np.concatenate(
        [
            generator.permutation(np.flatnonzero(labels == label))[:train_per_class]
            for label in np.unique(labels)
        ]
    )
    return Split(train, np.setdiff1d(np.arange(len(labels)), train))


@dataclass(frozen=True)
class Cell:
    """One method on one trial, raw: a label per query, times, and the certificate where there is one.

    `violation`, `gap` and `support` hold one number per query; they are None for methods without codes.
    """

    method: str
    trial: int
    predictions: list[Any]
    fit_seconds: float
    predict_seconds: float
    violation: list[float] | None
    gap: list[float] | None
    support: list[int] | None
    unconverged: int
    warnings: list[str]
    chosen: dict[str, Any] | None = None


def measure(method: str, data: Data, parts: Split, *, trial: int, seed: int, select: str = "fixed") -> Cell:
    """Fit, predict, and ask for the certificate in a separate solve that is not timed."""
    estimator: Any = SELECT[select][method](seed)
    labels = data.labels[parts.train]
    options: dict[str, Any] = {}
    if select == "cv":
        estimator, options = _searching(estimator, data, parts)
    if isinstance(estimator, GridSearchCV):  # learns its features in each fold
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
        violation = gap = support = None
        unconverged = 0
        if hasattr(estimator, "solve"):
            solution = estimator.solve(queries)
            violation, gap = _rounded(solution.violation), _rounded(solution.gap)
            support = np.asarray((solution.codes != 0).sum(axis=1)).ravel().tolist()
            unconverged = int(np.count_nonzero(~solution.converged))
    told = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return Cell(
        method=method,
        trial=trial,
        predictions=predictions.tolist(),
        fit_seconds=fitted - begun,
        predict_seconds=finished - fitted,
        violation=violation,
        gap=gap,
        support=support,
        unconverged=unconverged,
        warnings=list(told),
        chosen=_chosen(estimator),
    )


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
    learned = Pipeline([("features", fold_steps(recipe)), ("model", estimator.estimator)])
    grid = {f"model__{name}": values for name, values in estimator.param_grid.items()}
    return GridSearchCV(learned, grid, cv=folds), {"groups": groups}


def _chosen(estimator: Any) -> dict[str, Any] | None:
    found = getattr(estimator, "best_params_", None)
    return found and {name.removeprefix("model__"): value for name, value in found.items()}


def _features(data: Data, parts: Split) -> tuple[Any, Any]:
    """Training samples and queries, scaled and projected as the data ask for."""
    samples, queries = data.samples[parts.train], data.samples[parts.test]
    for _, step in feature_steps(Recipe(scale=data.scale, pca=data.pca), samples.shape, None):
        samples, queries = step.fit_transform(samples), step.transform(queries)
    return samples, queries


def _illustration(data: Data, parts: Split) -> dict[str, Any]:
    """The first query of the first trial, with the features that were classified."""
    query = int(parts.test[0])
    if data.scale is None and data.pca is None:
        return illustrate(data.samples, data.labels, parts.train, query)
    samples, queries = _features(data, Split(parts.train, parts.test[:1]))
    labels = np.concatenate([data.labels[parts.train], data.labels[[query]]])
    found = illustrate(np.vstack([samples, queries]), labels, np.arange(len(samples)), len(samples))
    return {**found, "query": query}


def _rounded(values: npt.NDArray[np.float64]) -> list[float]:
    """Certificates to three digits: their size matters, and the file stays small."""
    return [float(f"{value:.3g}") for value in values]


def warm_up(method: str, data: Data, parts: Split, *, seed: int) -> None:
    """Run a method once on a few queries, so that no timing pays for compiling or loading libraries.

    Fixed parameters will do: selection runs the same code.
    """
    few = Split(parts.train, parts.test[:4])
    measure(method, data, few, trial=0, seed=seed)


def parameters(settings: Settings) -> dict[str, dict[str, Any]]:
    """Every parameter of every method, by value."""
    found = {}
    for method in settings.methods:
        estimator: Any = SELECT[settings.select][method](settings.seed)
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
    on_step: Callable[[str, int, int], None] = lambda method, trial, done: None,
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
        Called with (method, trial, number of cells done) before each cell and once at the end.
    """
    finished = _finished(folder / RESULTS)
    if finished is not None:
        return finished
    (folder / CELLS).mkdir(exist_ok=True)
    trials = _trials(settings, data)
    cells: list[Cell] = []
    warm: set[str] = set()
    for trial, parts in enumerate(trials):
        for method in settings.methods:
            on_step(method, trial, len(cells))
            path = folder / CELLS / f"trial-{trial:03d}-{method}.json"
            cell = _kept(path, len(parts.test))
            if cell is None:
                if method not in warm:
                    warm_up(method, data, parts, seed=settings.seed)
                    warm.add(method)
                cell = measure(method, data, parts, trial=trial, seed=settings.seed, select=settings.select)
                write_text(path, to_json(vars(cell)))
            cells.append(cell)
    on_step("", settings.trials, len(cells))
    text = to_json(_assemble(settings, data, trials, cells, machine))
    write_text(folder / RESULTS, text)
    shutil.rmtree(folder / CELLS)  # results.json now holds every cell
    return json.loads(text)


def _trials(settings: Settings, data: Data) -> list[Split]:
    if data.trials is not None:
        return list(data.trials)
    assert settings.train_per_class is not None
    return [
        split(data.labels, train_per_class=settings.train_per_class, seed=settings.seed, trial=trial)
        for trial in range(settings.trials)
    ]


def _assemble(
    settings: Settings, data: Data, trials: list[Split], cells: list[Cell], machine: dict[str, Any]
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
        "cells": [vars(cell) for cell in cells],
        "illustration": _illustration(data, trials[0]),
    }
    if data.image_shape and data.scale is None and data.pca is None:
        results["illustration"]["image_shape"] = list(data.image_shape)
    results["summary"] = summarise(results)
    return results


def _finished(path: Path) -> dict[str, Any] | None:
    """The results of an earlier run that was complete, unless they are damaged."""
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return results if isinstance(results, dict) and results.get("format") == FORMAT else None


def _kept(path: Path, n_queries: int) -> Cell | None:
    """A cell of an earlier, interrupted run, unless it is damaged."""
    try:
        cell = Cell(**json.loads(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return cell if len(cell.predictions) == n_queries else None
