"""The methods that are compared in episodes: ours, and what embeddings are usually classified with.

Each takes training samples of norm 1, their classes 0, 1, ... and queries of norm 1, and returns one score
per query and class; the largest wins. The costs of ridge regression and logistic regression are those that
did best in episodes of other seeds (docs/embeddings.md); ours have their default parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import cdist
from sklearn.linear_model import LogisticRegression, RidgeClassifier

from residuum.errors import UsageError
from residuum.estimators import METHODS, NRC

Array = npt.NDArray[Any]
SIMPLESHOT = "SimpleShot"


@dataclass(frozen=True)
class Scores:
    """Scores of shape (n_queries, n_classes), and how many queries missed the tolerance of their solver."""

    values: Array
    unconverged: int = 0


Method = Callable[[Array, Array, Array], Scores]


def _residuals(make: Callable[[], Any]) -> Method:
    """Minus the class residuals of a representation classifier."""

    def scores(samples: Array, classes: Array, queries: Array) -> Scores:
        answers = make().fit(samples, classes).answer(queries)
        return Scores(-answers.residuals, int(np.count_nonzero(~answers.converged)))

    return scores


def nearest_centroid(samples: Array, classes: Array, queries: Array) -> Scores:
    """Minus the distance to the mean of each class."""
    means = np.array([samples[classes == k].mean(axis=0) for k in range(classes.max() + 1)])
    return Scores(-cdist(queries, means))


def nearest_neighbour(samples: Array, classes: Array, queries: Array) -> Scores:
    """Minus the distance to the nearest sample of each class."""
    distances = cdist(queries, samples)
    nearest = [distances[:, classes == k].min(axis=1) for k in range(classes.max() + 1)]
    return Scores(-np.column_stack(nearest))


def ridge(samples: Array, classes: Array, queries: Array) -> Scores:
    """Regression onto 1 for the class and -1 for the others, with a ridge."""
    found = RidgeClassifier(alpha=0.03).fit(samples, classes).decision_function(queries)
    return Scores(found if found.ndim == 2 else np.column_stack([-found, found]))


def logistic(samples: Array, classes: Array, queries: Array) -> Scores:
    """Probabilities of multinomial logistic regression."""
    model = LogisticRegression(C=100.0, max_iter=1000).fit(samples, classes)
    return Scores(model.predict_proba(queries), len(queries) * int(max(model.n_iter_) >= model.max_iter))


OURS: dict[str, Method] = {name: _residuals(kind) for name, kind in METHODS.items()}
OURS["NRC exact"] = _residuals(partial(NRC, solver="exact"))
OTHERS: dict[str, Method] = {
    "nearest centroid": nearest_centroid,
    "1-NN": nearest_neighbour,
    "ridge": ridge,
    "logistic": logistic,
    SIMPLESHOT: nearest_centroid,  # on samples less the mean of other classes, which `episodes` subtracts
}
CONTENDERS = {**OURS, **OTHERS}


def choose_methods(names: str | None) -> tuple[str, ...]:
    """Methods from a comma-separated list in any case, in the order of CONTENDERS; None is all."""
    if names is None:
        return tuple(CONTENDERS)
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = {name.lower(): name for name in CONTENDERS}
    unknown = [name for name in wanted if name.lower() not in known]
    if unknown or not wanted:
        got = ", ".join(unknown) or "an empty list"
        raise UsageError(f"--methods must be some of {', '.join(CONTENDERS)}. Got {got}.")
    chosen = {known[name.lower()] for name in wanted}
    return tuple(name for name in CONTENDERS if name in chosen)
