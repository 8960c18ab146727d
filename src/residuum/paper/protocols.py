"""How parameters are chosen, never two ways in one column of a table.

published
    As the paper describes it: NRC with T = 5, rho by 5-fold cross-validation on the training samples and the
    plain residual; the rivals' parameters by the same cross-validation, each with the rule of its own paper.
authors
    As the authors' scripts did it: every parameter and rule they searched, the best **on the test samples**
    of each trial. Optimistic by construction, and labelled so; for comparing with the printed numbers only.
best
    Our ``*CV`` estimators, parameters and rules by 5-fold cross-validation on the training samples; SoftNRC
    as an extra column.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold

from residuum.experiments.baselines import BASELINES, BaselineSearch, compared, parameters_of
from residuum.models.recipe import maker_of
from residuum.paper.entries import Grid, PaperTable
from residuum.paper.trials import TrialData, evenly_spread

Array = npt.NDArray[Any]

PUBLISHED: dict[str, Grid] = {
    "NSC": {},
    "SVM": {},
    "SRC": {},
    "CRC": {"rules": ("scaled_residual",)},
    "CROC": {},
    "ProCRC": {},
    "NRC": {"max_iters": (5,), "rules": ("residual",), "exact": False},
}
AUTHORS: dict[str, Grid] = {
    "NSC": {
        "l2s": (10.0, 1.0, 0.1, 0.01, 0.001, 0.0001, 1e-05, 1e-06),
        "rules": ("residual", "relative_residual"),
    },
    "SVM": {},
    "SRC": {"l1s": (1.0, 0.1, 0.01, 0.003)},
    "CRC": {"rules": ("scaled_residual", "residual")},
    "CROC": {"l2s": (1.0, 0.1, 0.01, 0.001, 0.0001, 1e-05, 1e-06)},
    # Their code has no 1/K: the same gamma is K times ours.
    "ProCRC": {"gammas": (1.0, 0.1, 0.01), "l2s": (1.0, 0.01, 0.001, 0.0001)},
    "NRC": {"max_iters": (5,), "rules": ("residual", "reconstruction", "scaled_residual"), "exact": False},
}


@dataclass(frozen=True)
class Protocol:
    """One way of choosing parameters."""

    title: str  # the line over a table
    on_test: bool  # whether the test samples choose
    grids: Mapping[str, Grid]  # method -> parameters of its search, in the order of the columns


PROTOCOLS: dict[str, Protocol] = {
    "published": Protocol(
        "as published: NRC with T = 5 and the plain residual, parameters by 5-fold cross-validation on the "
        "training samples",
        False,
        PUBLISHED,
    ),
    "authors": Protocol(
        "as the authors' scripts: parameters and rule chosen ON THE TEST SAMPLES, hence optimistic",
        True,
        AUTHORS,
    ),
    "best": Protocol(
        "our *CV estimators: parameters and rule by 5-fold cross-validation on the training samples",
        False,
        {method: {} for method in (*PUBLISHED, "SoftNRC")},
    ),
}


def methods_of(table: PaperTable, protocol: str) -> tuple[str, ...]:
    """Columns of a table under a protocol, in order."""
    return (*table.extra_methods, *PROTOCOLS[protocol].grids)


def grid(table: PaperTable, protocol: str, method: str, n_train: int) -> Grid:
    """Parameters of the search: those of the protocol, and where the table has its own, those."""
    common = PROTOCOLS[protocol].grids.get(method, {})
    if protocol == "authors" and method == "CRC":
        common = {"l2s": (0.001 * n_train / 700,), **common}
    return {**common, **table.grids.get(protocol, {}).get(method, {})}


def make_search(method: str, grid: Grid, cv: Any = None) -> Any:
    """The search of a method over a grid, with scikit-learn's `cv`."""
    if method in BASELINES:
        costs = sorted(grid.get("Cs", (0.1, 1.0, 10.0, 100.0)))
        return BaselineSearch(BASELINES[method], {"C": costs}, cv)
    return maker_of(method, "cv")(**grid, cv=cv)


@dataclass(frozen=True)
class MethodResult:
    """What one method said about one trial, and with which parameters."""

    predictions: list[Any]  # a label for each test sample
    parameters: dict[str, Any]  # of the chosen estimator, rule and solver budget among them
    candidates: int  # size of the grid
    selection_score: float  # mean accuracy in cross-validation, or for "authors" on the test samples
    warnings: list[str]  # what the libraries complained about


def run_method(
    method: str, grid: Grid, data: TrialData, *, on_test: bool, validation: int | None
) -> MethodResult:
    """Choose the parameters and classify the test samples."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if on_test:
            search = make_search(method, grid)
            candidates, labels = search.predict_grid(data.train, data.train_labels, data.test)
            accuracies = (labels == data.test_labels).mean(axis=1)
            best = int(accuracies.argmax())  # the first, simplest one wins a tie
            predictions, score = labels[best], accuracies[best]
            estimator = compared()[method](**candidates[best])
        else:
            search = make_search(method, grid, folds(data.train_labels, validation))
            search.fit(data.train, data.train_labels)
            predictions, score = search.predict(data.test), search.best_score_
            estimator, candidates = search.best_estimator_, search.cv_results_["params"]
    texts = dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, UserWarning | ConvergenceWarning)
    )
    return MethodResult(
        predictions.tolist(), parameters_of(estimator), len(candidates), float(score), list(texts)
    )


def folds(labels: Array, validation: int | None) -> list[tuple[Array, Array]]:
    """Five stratified folds, fewer where a class has fewer samples; `validation` limits what is validated.

    Every fold trains on all the samples outside it; only its test part is thinned, evenly over the classes.
    """
    count = max(2, min(5, int(np.unique(labels, return_counts=True)[1].min())))
    parts = list(StratifiedKFold(count).split(labels, labels))
    if validation is None:
        return parts
    each = max(1, validation // count)
    ordered = [(train, test[np.argsort(labels[test], kind="stable")]) for train, test in parts]
    return [(train, evenly_spread(test, each)) for train, test in ordered]
