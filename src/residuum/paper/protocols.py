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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline

from residuum.errors import UsageError
from residuum.experiments.linear import BASELINES, LinearSearch, compared
from residuum.models.recipe import maker_of
from residuum.paper.entries import PaperTable
from residuum.paper.trials import TrialData

Array = npt.NDArray[Any]
Grid = dict[str, Any]

ALL_RULES = ("residual", "reconstruction", "scaled_residual")
C_GRID = (0.1, 1.0, 10.0, 100.0)


def make_search(method: str, grid: Mapping[str, Any], cv: Any = None) -> Any:
    """The search of a method over a grid, with scikit-learn's `cv`."""
    if method in BASELINES:
        return LinearSearch(BASELINES[method], **{"Cs": C_GRID, **grid}, cv=cv)
    return maker_of(method, "cv")(**grid, cv=cv)


def powers(first: int, last: int) -> tuple[float, ...]:
    """Powers of ten from ``10^first`` down to ``10^last``."""
    return tuple(float(f"1e{k}") for k in range(first, last - 1, -1))


def _authors(n_train: int) -> dict[str, Grid]:
    return {
        "NSC": {"l2s": powers(1, -6), "rules": ("residual", "relative_residual")},
        "SVM": {},
        "SRC": {"l1s": (1.0, 0.1, 0.01, 0.003)},
        "CRC": {"l2s": (0.001 * n_train / 700,), "rules": ("scaled_residual", "residual")},
        "CROC": {"l2s": powers(0, -6)},
        # Their code has no 1/K: the same gamma is K times ours.
        "ProCRC": {"gammas": (1.0, 0.1, 0.01), "l2s": (1.0, 0.01, 0.001, 0.0001)},
        "NRC": {"max_iters": (5,), "rules": ALL_RULES, "exact": False},
    }


def _published(n_train: int) -> dict[str, Grid]:
    return {
        "NSC": {},
        "SVM": {},
        "SRC": {},
        "CRC": {"rules": ("scaled_residual",)},
        "CROC": {},
        "ProCRC": {},
        "NRC": {"max_iters": (5,), "rules": ("residual",), "exact": False},
    }


def _best(n_train: int) -> dict[str, Grid]:
    return {method: {} for method in (*_published(n_train), "SoftNRC")}


@dataclass(frozen=True)
class Protocol:
    """One way of choosing parameters.

    Attributes
    ----------
    name, title : str
        Title is the line over a table.
    on_test : bool
        Whether the test samples choose.
    grids : callable
        Number of training samples -> method -> parameters of its search.
    """

    name: str
    title: str
    on_test: bool
    grids: Callable[[int], Mapping[str, Grid]]

    @property
    def methods(self) -> tuple[str, ...]:
        """Columns, in order."""
        return tuple(self.grids(700))


PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            "published",
            "as published: NRC with T = 5 and the plain residual, parameters by 5-fold cross-validation on "
            "the training samples",
            False,
            _published,
        ),
        Protocol(
            "authors",
            "as the authors' scripts: parameters and rule chosen ON THE TEST SAMPLES, hence optimistic",
            True,
            _authors,
        ),
        Protocol(
            "best",
            "our *CV estimators: parameters and rule by 5-fold cross-validation on the training samples",
            False,
            _best,
        ),
    )
}


def choose_protocols(name: str) -> tuple[str, ...]:
    """Names of the protocols asked for."""
    if name == "all":
        return tuple(PROTOCOLS)
    if name not in PROTOCOLS:
        raise UsageError(f"protocol must be one of {', '.join(PROTOCOLS)}, all. Got {name!r}.")
    return (name,)


def methods_of(table: PaperTable, protocol: str) -> tuple[str, ...]:
    """Columns of a table under a protocol, in order."""
    return (*table.extra_methods, *PROTOCOLS[protocol].methods)


def grid(table: PaperTable, protocol: str, method: str, n_train: int) -> Grid:
    """Parameters of the search: those of the protocol, and where the table has its own, those."""
    common = PROTOCOLS[protocol].grids(n_train).get(method, {})
    return {**common, **table.grids.get(protocol, {}).get(method, {})}


@dataclass(frozen=True)
class MethodResult:
    """What one method said about one trial, and with which parameters.

    Attributes
    ----------
    predictions : list
        A label for each test sample.
    parameters : dict
        All parameters of the chosen estimator, rule and solver budget among them.
    candidates : int
        Size of the grid.
    selection_score : float
        Mean accuracy in cross-validation, or for ``authors`` the accuracy on the test samples.
    warnings : list of str
        What the libraries complained about.
    """

    predictions: list[Any]
    parameters: dict[str, Any]
    candidates: int
    selection_score: float
    warnings: list[str]


def run_method(
    method: str, grid: Mapping[str, Any], data: TrialData, *, on_test: bool, validation: int | None
) -> MethodResult:
    """Choose the parameters and classify the test samples."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if on_test:
            chosen = _best_on_test(method, grid, data)
        else:
            search = make_search(method, grid, folds(data.train_labels, validation))
            search.fit(data.train, data.train_labels)
            predictions = search.predict(data.test)
            count = len(search.cv_results_["params"])
            chosen = (predictions, parameters_of(search.best_estimator_), count, float(search.best_score_))
    texts = dict.fromkeys(
        str(w.message) for w in caught if issubclass(w.category, UserWarning | ConvergenceWarning)
    )
    return MethodResult(chosen[0].tolist(), *chosen[1:], warnings=list(texts))


def _best_on_test(
    method: str, grid: Mapping[str, Any], data: TrialData
) -> tuple[Array, dict[str, Any], int, float]:
    candidates, labels = make_search(method, grid).predict_grid(data.train, data.train_labels, data.test)
    accuracies = (labels == data.test_labels).mean(axis=1)
    best = int(accuracies.argmax())  # the first, simplest one wins a tie
    estimator = compared()[method](**candidates[best])
    return labels[best], parameters_of(estimator), len(candidates), float(accuracies[best])


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Name and parameters of a classifier, or of the last step of a pipeline."""
    estimator = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return {"estimator": type(estimator).__name__, **estimator.get_params()}


def folds(labels: Array, validation: int | None) -> list[tuple[Array, Array]]:
    """Five stratified folds, fewer where a class has fewer samples; `validation` limits what is validated.

    Every fold trains on all the samples outside it; only its test part is thinned, evenly over the classes.
    """
    count = max(2, min(5, int(np.unique(labels, return_counts=True)[1].min())))
    parts = list(StratifiedKFold(count).split(labels, labels))
    if validation is None:
        return parts
    each = max(1, validation // count)
    thinned = []
    for train, test in parts:
        ordered = test[np.argsort(labels[test], kind="stable")]
        if len(ordered) > each:
            ordered = ordered[np.linspace(0, len(ordered) - 1, each).round().astype(np.int64)]
        thinned.append((train, ordered))
    return thinned
