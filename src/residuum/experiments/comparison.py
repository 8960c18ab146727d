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
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import UsageError
from residuum.experiments.baselines import BASELINES, GRIDS, BaselineSearch, compared, parameters_of
from residuum.experiments.compared_data import Data, Split, features_for
from residuum.experiments.errors import confusion, worst_errors
from residuum.experiments.illustration import illustrate
from residuum.experiments.runner import CELLS, Cell, Job, OnStep, Say, read_cell, run_job
from residuum.experiments.summary import lead, summarise
from residuum.models.recipe import Features, feature_search, group_folds, maker_of
from residuum.selection import PipelineCV
from residuum.system.files import write_text
from residuum.system.json_text import to_json

FORMAT = "residuum comparison 3"
RESULTS = "results.json"

# Parameters that are not the defaults, tuned by cross-validation in the training samples of the digits, at 50
# per class and seed 0 (benchmarks/compare_parameters.py); the table names them. NSC needs it most: with as
# many samples per class as features, the small default ridge lets every class reproduce every query. Those of
# baselines are for samples of norm 1; on other features baselines have the defaults of scikit-learn.
TUNED: dict[str, dict[str, float]] = {
    "SVM": {"C": 10},
    "softmax": {"C": 100},
    "kNN": {"n_neighbors": 1},
    "NSC": {"l2": 0.1},
}


def tuned(method: str, scale: str | None) -> dict[str, float]:
    """Fixed parameters of a method, other than the defaults, for samples that are scaled so."""
    return {} if method in BASELINES and scale != "unit" else TUNED.get(method, {})


def make_estimator(method: str, *, select: str = "fixed", seed: int = 0, scale: str | None = "unit") -> Any:
    """A method with fixed parameters, or with ``select="cv"`` the search that chooses them."""
    values = tuned(method, scale) if select == "fixed" else {}
    if method not in BASELINES:
        return maker_of(method, select)(**values)

    def make(**chosen: Any) -> Any:
        estimator = BASELINES[method](**chosen)
        return estimator.set_params(**{n: seed for n in ("random_state",) if n in estimator.get_params()})

    return make(**values) if select == "fixed" else BaselineSearch(make, GRIDS[method])


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
        raise UsageError(f"--methods must be some of {', '.join(compared())}. Got {got}.")
    chosen = {name.lower() for name in wanted}
    return tuple(name for name in compared() if name.lower() in chosen)


def check_selection(settings: Settings, data: Data) -> None:
    """Refuse to choose by cross-validation where a fold would have nothing to hold out."""
    for parts in data.trials if settings.select == "cv" else ():
        if data.groups is not None:
            group_folds(data.groups[parts.train])
        elif np.unique(data.labels[parts.train], return_counts=True)[1].min() < 2:
            raise UsageError(
                "--select cv needs two training samples of each class, to hold one out. Got a class with 1: "
                "raise --train-per-class, or leave --select out."
            )


def measure(method: str, data: Data, parts: Split, *, seed: int, select: str = "fixed") -> dict[str, Any]:
    """Fit, predict, and ask for the certificate in a separate solve that is not timed.

    Returns the raw content of a cell: a label per query, times, and the certificate where there is one.
    `violation`, `gap` and `support` hold one number per query; they are None for methods without codes.
    `errors` are the worst ones, explained.
    """
    features = features_for(method, data)
    estimator = make_estimator(method, select=select, seed=seed, scale=features[0].scale)
    labels = data.labels[parts.train]
    samples, queries = data.samples[parts.train], data.samples[parts.test]
    options: dict[str, Any] = {}
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
        classifier, coded = _chosen(estimator, queries)
        certificate = _certificate(classifier, coded)
        errors = worst_errors(classifier, coded, predictions, data.labels[parts.test], parts)
    texts = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, UserWarning))
    return {
        "method": method,
        "predictions": predictions.tolist(),
        "seconds": finished - begun,
        "fit_seconds": fitted - begun,
        "predict_seconds": finished - fitted,
        **certificate,
        "warnings": list(texts),
        "chosen": _chosen_parameters(estimator, features),
        "errors": errors,
    }


def _chosen(estimator: Any, queries: Any) -> tuple[Any, Any]:
    """The classifier itself, and the queries as it takes them."""
    if not isinstance(estimator, PipelineCV):
        return estimator, queries
    chosen = estimator.best_estimator_
    return chosen[-1], chosen[:-1].transform(queries)


def _chosen_parameters(estimator: Any, features: tuple[Features, ...]) -> dict[str, Any] | None:
    """What a search chose, features in words; None where nothing was searched."""
    found = getattr(estimator, "best_params_", None)
    if not isinstance(estimator, PipelineCV):
        return found
    chosen = dict(estimator.best_params_)
    position = chosen.pop("features")
    return chosen if len(features) == 1 else {"features": str(features[position]), **chosen}


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


def _search(
    search: Any, data: Data, parts: Split, features: tuple[Features, ...]
) -> tuple[Any, dict[str, Any]]:
    """A search whose folds keep groups together and learn their features, and options for its fit."""
    samples, labels = data.samples[parts.train], data.labels[parts.train]
    groups = None if data.groups is None else data.groups[parts.train]
    if groups is not None:
        search.cv = group_folds(groups)
    if not isinstance(search, BaselineSearch):
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


def parameters(settings: Settings, data: Data) -> dict[str, dict[str, Any]]:
    """Every parameter of every method, by value."""
    made = {
        method: make_estimator(
            method, select=settings.select, seed=settings.seed, scale=features_for(method, data)[0].scale
        )
        for method in settings.methods
    }
    return {method: parameters_of(estimator) for method, estimator in made.items()}


def features_of(settings: Settings, data: Data) -> dict[str, Any]:
    """What the methods are given: the numbers of the data, and what is made of them for each method."""
    return {
        "numbers": data.numbers,
        "count": data.samples.shape[1],
        "candidates": {m: [str(some) for some in features_for(m, data)] for m in settings.methods},
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
            "features": features_of(settings, data),
            "arguments": data.arguments,
        },
        "settings": asdict(settings),
        "parameters": parameters(settings, data),
        "tuned": {m: found for m in settings.methods if (found := tuned(m, features_for(m, data)[0].scale))},
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
    results["summary"] = summarise(results)
    results["lead"] = lead(results, set(BASELINES))
    return {**results, **_errors(results)}


def _errors(results: dict[str, Any]) -> dict[str, Any]:
    """The confusions of the best method, and the worst errors of the best one that explains its answers."""
    order = sorted(results["summary"], key=lambda row: -row["accuracy_mean"])
    best = results["lead"]["best"]
    explained = next((row["method"] for row in order if row["method"] not in BASELINES), None)
    truths = [trial["labels"] for trial in results["trials"]]
    cells = {name: [c for c in results["cells"] if c["method"] == name] for name in (best, explained)}
    counted = confusion(results["data"]["classes"], truths, [c["predictions"] for c in cells[best]])
    worst = cells[explained][0]["errors"] if explained else []
    return {
        "confusion": {"method": best, **counted},
        "worst_errors": {"method": explained, "trial": 0, "errors": worst},
    }
