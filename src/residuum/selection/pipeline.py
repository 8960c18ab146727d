"""Features and parameters chosen together, with features that are learned in every fold anew."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples, check_array, check_is_fitted, validate_data

from residuum.estimators.answers import Answering, Answers, answer
from residuum.estimators.base import one_row
from residuum.estimators.explanation import Explanation
from residuum.estimators.labels import plain_labels
from residuum.estimators.weights import without_weights
from residuum.plain_numbers import check_numbers
from residuum.selection.base import GridSelector, keep_results
from residuum.selection.estimators import SoftNRCCV
from residuum.system.threads import all_or_nothing

PASSTHROUGH = "passthrough"


class PipelineCV(Answering, MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """``argmax over features and grid of the mean score over the folds``; ties go to the earlier features.

    The scores are those of GridSearchCV over a Pipeline of features and classifier: features that learn from
    samples are fitted to the training part of each fold alone. The candidates of the grid share what they
    have in common, so that one more kind of features costs about one decomposition per fold.

    Parameters
    ----------
    search : a search such as SoftNRCCV or None, default=None
        Names the classifier, its grid, the folds and the score; None is ``SoftNRCCV()``.
    features : list of transformers, default=("passthrough",)
        Candidates, the simplest first. Each is a transformer, a Pipeline of transformers, or "passthrough".

    Attributes
    ----------
    best_params_ : dict
        Parameters of the chosen classifier, and under "features" the position of the chosen features.
    best_score_ : float
        Mean score of the choice over the folds.
    cv_results_ : dict
        Scores of all candidates, with the keys of GridSearchCV.
    best_estimator_ : Pipeline
        The chosen features and classifier, fitted to all the data.
    classes_ : ndarray
        Labels in sorted order.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from residuum import CRCCV, KernelMap, PipelineCV
    >>> kernels = [make_pipeline(StandardScaler(), KernelMap(sharpness=s)) for s in (0.05, 0.2, 1.0)]
    >>> search = PipelineCV(CRCCV(), features=["passthrough", *kernels])
    >>> search.fit(*load_iris(return_X_y=True)).best_params_["features"] > 0
    True
    """

    def __init__(self, search: Any = None, *, features: Any = (PASSTHROUGH,)) -> None:
        self.search = search
        self.features = features

    _no_weights = GridSelector._no_weights
    _instead_of_weights = GridSelector._instead_of_weights

    @without_weights
    @all_or_nothing
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> PipelineCV:
        """Choose by cross-validation on the training data, then fit the choice to all of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples, as the features take them.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), default=None
            Groups for a group-aware splitter given as `cv` of the search.

        Returns
        -------
        self
        """
        search, features = self._parts()
        X, y = check_numbers(X, "X", "PipelineCV"), plain_labels(y, "PipelineCV")
        X, y = self._checked(X, y)
        check_classification_targets(y)
        splits = search._splits(X, y, groups)
        grid = search._candidates(len(y))
        makers = [partial(_fold_features, step, X, y) for step in features]
        scores = search._cross_validate(y, splits, grid, makers, [nullcontext()] * len(splits))
        keep_results(self, [{"features": i, **c} for i in range(len(features)) for c in grid], scores)
        parameters = dict(self.best_params_)
        step = clone(features[parameters.pop("features")], safe=False)
        steps = step.steps if isinstance(step, Pipeline) else [("features", step)]
        self.best_estimator_ = Pipeline([*steps, ("classify", search.classifier(**parameters))]).fit(X, y)
        self.classes_ = self.best_estimator_.classes_
        return self

    def _parts(self) -> tuple[GridSelector, list[Any]]:
        search = SoftNRCCV() if self.search is None else clone(self.search, safe=False)
        if not isinstance(search, GridSelector):
            raise TypeError(
                "The 'search' parameter of PipelineCV must be a search such as SoftNRCCV(). Got "
                f"{self.search!r} instead."
            )
        search._validate_params()
        features = list(self.features)
        wrong = [step for step in features if step != PASSTHROUGH and not hasattr(step, "transform")]
        if not features or wrong:
            raise TypeError(
                "The 'features' parameter of PipelineCV must be a non-empty list of transformers, or "
                f"'passthrough'. Got {(wrong or [self.features])[0]!r} instead."
            )
        return search, features

    def _checked(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Samples and labels; tables keep their columns, for features that know them by name."""
        if PASSTHROUGH in list(self.features):
            return validate_data(self, X, y, dtype=[np.float64, np.float32])
        validate_data(self, X, skip_check_array=True)
        labels = np.asarray(check_array(y, ensure_2d=False, dtype=None, input_name="y")).ravel()
        if _num_samples(X) != len(labels):
            raise ValueError(f"X has {_num_samples(X)} samples, y has {len(labels)}.")
        return X, labels

    def answer(self, X: Any) -> Answers:
        """Everything that the chosen pipeline says about the queries."""
        check_is_fitted(self)
        return answer(self.best_estimator_, X)

    def explain(self, query: Any, *, max_atoms: int | None = None) -> Explanation:
        """Why the chosen classifier gave one query its label, in terms of the chosen features."""
        check_is_fitted(self)
        chosen = self.best_estimator_
        return chosen[-1].explain(chosen[:-1].transform(one_row(self, query)), max_atoms=max_atoms)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        search = self.search if isinstance(self.search, GridSelector) else SoftNRCCV()
        tags.classifier_tags = search.__sklearn_tags__().classifier_tags
        return tags


def _fold_features(step: Any, X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Any:
    """Features of the two parts of a fold, by a transformer that is fitted to its training part alone."""
    parts = _safe_indexing(X, train), _safe_indexing(X, test)
    if step != PASSTHROUGH:
        fitted = clone(step)
        parts = fitted.fit_transform(parts[0], y[train]), fitted.transform(parts[1])
    return tuple(check_array(part, dtype=[np.float64, np.float32]) for part in parts)
