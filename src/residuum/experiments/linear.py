"""Linear SVM and softmax with their C chosen like the parameters of the representation classifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
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


def parameters_of(estimator: Any) -> dict[str, Any]:
    """Name and parameters of an estimator, or of the last step of a pipeline."""
    estimator = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    return {"estimator": type(estimator).__name__, **estimator.get_params()}


class LinearSearch:
    """A grid over C with the methods of the ``*CV`` estimators that experiments use.

    `make` turns a C into an estimator; `cv` is that of scikit-learn. The smallest C wins a tie.
    """

    def __init__(self, make: Callable[[float], Pipeline], Cs: Sequence[float], cv: Any = None) -> None:
        self._make, self._Cs, self.cv = make, sorted(Cs), cv

    def get_params(self) -> dict[str, Any]:
        """The values of C."""
        return {"Cs": self._Cs}

    def fit(self, X: Array, y: Array, *, groups: Any = None, fold_features: Any = None) -> LinearSearch:
        """Choose C by cross-validation and fit to all samples."""
        smallest = int(np.unique(y, return_counts=True)[1].min())
        folds = check_cv(min(5, smallest) if self.cv is None else self.cv, y, classifier=True)
        scores = []
        for train, test in folds.split(X, y, groups):
            learned, held_out = fold_features(train, test) if fold_features else (X[train], X[test])
            scores.append([self._make(C).fit(learned, y[train]).score(held_out, y[test]) for C in self._Cs])
        means = np.mean(scores, axis=0)
        best = int(means.argmax())
        self.best_params_, self.best_score_ = {"C": self._Cs[best]}, float(means[best])
        self.cv_results_ = {"params": self._Cs}
        self.best_estimator_ = self._make(self._Cs[best]).fit(X, y)
        return self

    def predict(self, X: Array) -> Array:
        """Labels by the chosen model."""
        return self.best_estimator_.predict(X)

    def predict_grid(self, X: Array, y: Array, X_test: Array) -> tuple[list[dict[str, Any]], Array]:
        """Labels of the queries under every C."""
        labels = [self._make(C).fit(X, y).predict(X_test) for C in self._Cs]
        return [{"C": C} for C in self._Cs], np.array(labels)
