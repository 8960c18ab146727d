"""Linear SVM and softmax with their C chosen like the parameters of the representation classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import LinearSVC

from residuum.estimators import METHODS

Array = npt.NDArray[Any]


def svm(C: float, *, max_iter: int = 5000, seed: int = 0) -> Pipeline:
    """Linear SVM (squared hinge, one against all) on unit-norm samples."""
    return make_pipeline(Normalizer(), LinearSVC(C=C, max_iter=max_iter, random_state=seed))


def softmax(C: float, *, max_iter: int = 1000, seed: int = 0) -> Pipeline:
    """Multinomial logistic regression on unit-norm samples; its solver draws nothing at random."""
    return make_pipeline(Normalizer(), LogisticRegression(C=C, max_iter=max_iter))


# The methods that the representation classifiers are compared with: name -> estimator for a C.
BASELINES: dict[str, Callable[..., Pipeline]] = {"SVM": svm, "softmax": softmax}


def compared() -> dict[str, Callable[..., Any]]:
    """Everything that is compared, by name: the baselines, then the methods."""
    return {**BASELINES, **METHODS}


class LinearSearch:
    """A grid over C with the two faces of the ``*CV`` estimators: `fit` chooses, `predict_grid` does not.

    Parameters
    ----------
    make : callable
        C -> estimator.
    Cs : sequence of float
        Values of C; the smallest, most regularised one wins a tie.
    cv : int or list of splits
        As in scikit-learn.
    """

    def __init__(self, make: Callable[..., Pipeline], Cs: Sequence[float], cv: Any = 5) -> None:
        self._make, self._Cs, self._cv = make, sorted(Cs), cv

    def fit(self, X: Array, y: Array) -> LinearSearch:
        """Choose C by cross-validation and fit to all samples."""
        estimator = self._make(self._Cs[0])
        name = f"{estimator.steps[-1][0]}__C"
        search = GridSearchCV(estimator, {name: self._Cs}, cv=self._cv).fit(X, y)
        self.best_params_ = {"C": search.best_params_[name]}
        self.best_score_ = float(search.best_score_)
        self.best_estimator_ = search.best_estimator_
        self.cv_results_ = {"params": self._Cs}
        return self

    def predict(self, X: Array) -> Array:
        """Labels by the chosen model."""
        return self.best_estimator_.predict(X)

    def predict_grid(self, X: Array, y: Array, X_test: Array) -> tuple[list[dict[str, Any]], Array]:
        """Labels of the queries under every C."""
        labels = [self._make(C).fit(X, y).predict(X_test) for C in self._Cs]
        return [{"C": C} for C in self._Cs], np.array(labels)
