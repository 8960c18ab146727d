"""What the representation classifiers are compared with: SVM, softmax, k-nearest neighbours and boosting.

Their parameters are chosen by the same cross-validation as those of the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from residuum.estimators import METHODS

Array = npt.NDArray[Any]

ROUNDS = 100
# Bound on rounds * trees of a round * features * (samples + 1000); about 6 s of one core.
WORK = 2e9


class NearestNeighbours(KNeighborsClassifier):
    """k-nearest neighbours; where there are fewer than k training samples, all of them are neighbours."""

    def fit(self, X: Array, y: Array) -> NearestNeighbours:
        """Keep the samples."""
        self.n_neighbors: int = min(self.n_neighbors, len(X))
        return super().fit(X, y)


class BoundedBoosting(HistGradientBoostingClassifier):
    """Gradient boosting with small trees, in as many rounds up to 100 as `WORK` allows.

    A round makes one tree for every class (one tree for two classes), and the time of a tree grows with the
    features. With fewer rounds the learning rate is raised in proportion, to 0.3 at most, and a warning says
    so. One thread works: the threads of trees as small as these wait for each other longer than they work.
    """

    def __init__(
        self, *, max_leaf_nodes: int = 8, min_samples_leaf: int = 20, random_state: int | None = None
    ) -> None:
        super().__init__(
            max_iter=ROUNDS,
            max_leaf_nodes=max_leaf_nodes,
            min_samples_leaf=min_samples_leaf,
            max_bins=32,
            l2_regularization=1.0,  # without it, leaves of rare classes overshoot at larger learning rates
            early_stopping=False,
            random_state=random_state,
        )

    def fit(self, X: Array, y: Array) -> BoundedBoosting:
        """Make the trees; where there are few samples, smaller leaves are allowed than asked for."""
        self.min_samples_leaf: int = min(self.min_samples_leaf, max(1, len(X) // 5))
        n_classes = len(np.unique(y))
        trees = 1 if n_classes == 2 else n_classes
        rounds = int(WORK / (trees * X.shape[1] * (len(X) + 1000)))
        if rounds < ROUNDS:
            self.max_iter = max(1, rounds)
            self.learning_rate = min(0.3, 0.1 * ROUNDS / self.max_iter)
            warnings.warn(
                f"Gradient boosting was cut short to bound its time: {n_classes} classes and {X.shape[1]} "
                f"features leave it fewer than {ROUNDS} rounds of trees. More might do better.",
                stacklevel=2,
            )
        with threadpool_limits(1, user_api="openmp"):
            return super().fit(X, y)

    def predict(self, X: Array) -> Array:
        """Labels of samples."""
        with threadpool_limits(1, user_api="openmp"):
            return super().predict(X)


# Name -> what makes the estimator from its parameters. The squared hinge of the SVM is one against all.
BASELINES: dict[str, Callable[..., Any]] = {
    "SVM": partial(LinearSVC, max_iter=10_000, random_state=0),
    "softmax": partial(LogisticRegression, max_iter=10_000),
    "kNN": NearestNeighbours,
    "boosting": partial(BoundedBoosting, random_state=0),
}

_COSTS = [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0]
# What cross-validation chooses from; of candidates that score alike the first one wins, so the simplest ones
# come first.
GRIDS: dict[str, Mapping[str, Sequence[Any]]] = {
    "SVM": {"C": _COSTS},
    "softmax": {"C": _COSTS},
    "kNN": {"n_neighbors": [15, 9, 5, 3, 1], "weights": ["uniform", "distance"]},
    "boosting": {"max_leaf_nodes": [4, 16], "min_samples_leaf": [20, 5]},
}


def compared() -> dict[str, Callable[..., Any]]:
    """Everything that is compared, by name: the baselines, then the methods."""
    return {**BASELINES, **METHODS}


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Name and parameters of an estimator."""
    return {"estimator": type(estimator).__name__, **estimator.get_params()}


class BaselineSearch:
    """A search over a grid with the methods of the ``*CV`` estimators that experiments use.

    `make` turns parameters into an estimator; `grid` has the values of each; `cv` is that of scikit-learn.
    The first candidate wins a tie.
    """

    def __init__(self, make: Callable[..., Any], grid: Mapping[str, Sequence[Any]], cv: Any = None) -> None:
        self._make, self._grid, self.cv = make, dict(grid), cv
        self._candidates: list[dict[str, Any]] = list(ParameterGrid(self._grid))

    def get_params(self) -> dict[str, Any]:
        """The grid."""
        return self._grid

    def fit(self, X: Array, y: Array, *, groups: Any = None, fold_features: Any = None) -> BaselineSearch:
        """Choose the parameters by cross-validation and fit to all samples."""
        smallest = int(np.unique(y, return_counts=True)[1].min())
        folds = check_cv(min(5, smallest) if self.cv is None else self.cv, y, classifier=True)
        scores = []
        for train, test in folds.split(X, y, groups):
            learned, held_out = fold_features(train, test) if fold_features else (X[train], X[test])
            scores.append(
                [
                    self._make(**some).fit(learned, y[train]).score(held_out, y[test])
                    for some in self._candidates
                ]
            )
        means = np.mean(scores, axis=0)
        best = int(means.argmax())
        self.best_params_, self.best_score_ = self._candidates[best], float(means[best])
        self.cv_results_ = {"params": self._candidates}
        self.best_estimator_ = self._make(**self.best_params_).fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        """Labels by the chosen model."""
        return self.best_estimator_.predict(X)

    def predict_grid(self, X: Array, y: Array, X_test: Array) -> tuple[list[dict[str, Any]], Array]:
        """Labels of the queries under every candidate."""
        labels = [self._make(**some).fit(X, y).predict(X_test) for some in self._candidates]
        return self._candidates, np.array(labels)
