"""How sure an answer is: calibrated probabilities, and "none of these", around any classifier of residuum."""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from residuum.dictionary import Dictionary, FloatArray
from residuum.estimators.answers import Answering, Answers, Float64Array, reject_label
from residuum.estimators.calibration import aligned, fit_temperature, held_out_folds, probabilities
from residuum.estimators.classifiers import SoftNRC
from residuum.estimators.explanation import Explanation
from residuum.estimators.labels import check_classes, plain_labels
from residuum.estimators.weights import without_weights
from residuum.plain_numbers import check_numbers
from residuum.system.progress import tell_progress
from residuum.system.threads import all_or_nothing, by_one_model


def _wants_probability(classifier: Any) -> bool:
    return bool(classifier.probability)


class ConfidentClassifier(MetaEstimatorMixin, Answering, ClassifierMixin, BaseEstimator):
    """``p_k = exp(-d_k/t) / sum_j exp(-d_j/t)``, and "none of these" where confidence is low.

    ``d_k = min(r_k - min_j r_j, cap)`` measures the class residuals r (for NSC their logarithms) from the
    winner's. The temperature t and the cap are fitted to training samples that are held out in turn, so that
    no probability rests on a sample that codes itself.

    Parameters
    ----------
    estimator : classifier or None, default=None
        A classifier of residuum, also one that chooses its own parameters; None is ``SoftNRC()``.
    probability : bool, default=True
        Whether `fit` also calibrates `predict_proba`.
    reject_threshold : float or None, default=None
        `predict` answers ``reject_label_`` where ``confidence(X)`` is below this; None never does.
    reject_by : {"margin", "concentration"}, default="margin"
        What `confidence` is: the residual of the runner-up minus that of the winner, or the sparsity
        concentration index of the code, from 0 (all classes take the same part) to 1 (one class carries all).

    Attributes
    ----------
    estimator_ : classifier
        Fitted to all samples.
    temperature_, residual_cap_ : float or None
        The calibration; None with ``probability=False``. They stay as fitted when samples are enrolled or
        forgotten later, until the next `fit`.
    classes_ : ndarray
        Labels in sorted order, without the label for "none of these".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from residuum import NRC, ConfidentClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = ConfidentClassifier(NRC(), reject_threshold=0.05).fit(X[:300], y[:300])
    >>> model.predict_proba(X[300:302]).shape
    (2, 10)
    >>> model.reject_label_
    -1
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "estimator": [BaseEstimator, None],
        "probability": ["boolean"],
        "reject_threshold": [Interval(Real, 0, None, closed="left"), None],
        "reject_by": [StrOptions({"margin", "concentration"})],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        probability: bool = True,
        reject_threshold: float | None = None,
        reject_by: str = "margin",
    ) -> None:
        self.estimator = estimator
        self.probability = probability
        self.reject_threshold = reject_threshold
        self.reject_by = reject_by

    # Folds with weights are not the folds of repeated samples, so weights would not mean what they mean in
    # the classifier.
    _no_weights = "it calibrates probabilities on held-out samples, each of which counts once"
    _instead_of_weights = "give its estimator a class_weight"

    @without_weights
    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Fit the classifier to all samples, then calibrate on samples held out in turn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self
        """
        if self.reject_by == "concentration" and (self.reject_threshold or 0) > 1:
            raise ValueError(
                "The 'reject_threshold' parameter of ConfidentClassifier must be at most 1 with "
                f"reject_by='concentration', or every query is rejected. Got {self.reject_threshold!r}."
            )
        X, y = check_numbers(X, "X", type(self).__name__), plain_labels(y, type(self).__name__)
        samples, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        fitted = clone(self._inner()).fit(X, y)
        calibration: tuple[float | None, float | None] = (None, None)
        if self.probability:
            calibration = _calibrated(getattr(fitted, "best_estimator_", fitted), samples, y)
        self.estimator_ = fitted
        self.temperature_, self.residual_cap_ = calibration
        return self

    def _inner(self) -> Any:
        return SoftNRC() if self.estimator is None else self.estimator

    @property
    def _classifier(self) -> Any:
        """The fitted classifier that codes, behind a search where there is one."""
        check_is_fitted(self)
        return getattr(self.estimator_, "best_estimator_", self.estimator_)

    @property
    def classes_(self) -> np.ndarray:
        """Labels in sorted order."""
        return self._classifier.classes_

    @property
    def dictionary_(self) -> Dictionary:
        """The unit-norm training samples."""
        return self._classifier.dictionary_

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples that were ever enrolled."""
        return self._classifier.n_samples_seen_

    @property
    def reject_label_(self) -> Any:
        """What `predict` answers for "none of these".

        The text "none of these" for text labels; for numbers the first of -1, -2, ... that is not a class.
        """
        return reject_label(self.classes_)

    @by_one_model
    def answer(self, X: Any) -> Answers:
        """Everything that is said about the queries, with probabilities and rejection, from one pass.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        answers : Answers
        """
        return self._judged(self._classifier.answer(X, confidence=self.reject_by))

    def _judged(self, answers: Answers) -> Answers:
        """The answers of the classifier with rejection and probabilities."""
        if self.reject_threshold is not None:
            answers = replace(answers, rejected=answers.confidence < self.reject_threshold)
        if self.probability and self.temperature_ is not None and self.residual_cap_ is not None:
            comparable = _comparable(self._classifier, answers.residuals)
            p = probabilities(comparable, self.temperature_, self.residual_cap_)
            answers = replace(answers, probabilities=p)
        return answers

    @available_if(_wants_probability)
    def predict_proba(self, X: Any) -> Float64Array:
        """Calibrated probabilities of the classes; rejection does not change them.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        probabilities : ndarray of shape (n_queries, n_classes)
            In the order of ``classes_``; all equal for an all-zero query.
        """
        answers = self.answer(X)
        if answers.probabilities is None:
            raise ValueError(
                "This ConfidentClassifier was fitted with probability=False, so its probabilities are not "
                "calibrated. Call fit again with probability=True."
            )
        return answers.probabilities

    def confidence(self, X: Any) -> Float64Array:
        """How sure each answer is, the number that ``reject_threshold`` is compared with.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        confidence : ndarray of shape (n_queries,)
            Larger is surer; inf for the margin with a single class.
        """
        return self.answer(X).confidence

    @by_one_model
    def explain(self, query: Any, *, max_atoms: int | None = None) -> Explanation:
        """Why one query got its label, with its probabilities and whether it is rejected.

        Parameters
        ----------
        query : array-like of shape (n_features,) or (1, n_features)
            One query.
        max_atoms : int or None, default=None
            Keep only this many atoms; None keeps all that are used.

        Returns
        -------
        explanation : Explanation
        """
        explanation, answers = self._classifier._explained(query, max_atoms, self.reject_by)
        return explanation.judged(
            self._judged(answers), reject_by=self.reject_by, reject_threshold=self.reject_threshold
        )

    @without_weights
    @all_or_nothing
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Enrol more samples; the calibration stays that of the last `fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Labels.
        classes : array-like or None, default=None
            As for the classifier.

        Returns
        -------
        self
        """
        if not hasattr(self, "estimator_"):
            check_classes(y, classes)
            return self.fit(X, y)
        self._classifier.partial_fit(X, y, classes)
        return self

    def forget(self, *, samples: Any = None, labels: Any = None) -> Self:
        """Remove samples or classes; the calibration stays that of the last `fit`.

        Parameters
        ----------
        samples, labels
            As for the classifier.

        Returns
        -------
        self
        """
        self._classifier.forget(samples=samples, labels=labels)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._inner().__sklearn_tags__().classifier_tags.poor_score
        return tags


def _comparable(classifier: Any, residuals: FloatArray) -> FloatArray:
    """Residuals whose differences mean the same for few training samples as for many."""
    return np.log(np.maximum(residuals, 1e-12)) if classifier._shrinking_residuals else residuals


def _calibrated(classifier: Any, X: FloatArray, y: np.ndarray) -> tuple[float, float]:
    """Temperature and cap, from residuals of samples that were held out in turn."""
    classes, class_index = np.unique(y, return_inverse=True)
    usable = np.flatnonzero(X.any(axis=1))  # zero samples have no direction and tie between all classes
    X, y, class_index = X[usable], y[usable], class_index[usable]
    found, truth = [np.empty((0, len(classes)))], [class_index[:0]]
    folds = list(held_out_folds(class_index))
    for done, (train, held_out) in enumerate(folds, 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the fit to all samples has given them already
            model = clone(classifier).fit(X[train], y[train])
        residuals = np.full((len(held_out), len(classes)), np.inf)
        residuals[:, np.searchsorted(classes, model.classes_)] = model.residuals(X[held_out])
        found.append(residuals)
        truth.append(class_index[held_out])
        tell_progress("calibrating, folds", done, len(folds))
    if len(found) == 1 and len(classes) > 1:
        raise ValueError(
            "ConfidentClassifier cannot calibrate probabilities: every class has only 1 sample, so none can "
            "be held out. Add samples, or pass probability=False."
        )
    return fit_temperature(_comparable(classifier, np.concatenate(found)), np.concatenate(truth))


def reject_curve(
    confidence: Any, correct: Any, known: Any = None
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """What each threshold costs: wrong answers that are given, and right answers that are withheld.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        ``classifier.confidence(X)``; an answer is given where it is at least the threshold.
    correct : array-like of bool, shape (n,)
        Whether the winning class (before any rejection) is the true one.
    known : array-like of bool, shape (n,), default=None
        Whether the query is of a class that has training samples; None: all are. An answer for an unknown
        query is wrong, whatever `correct` says.

    Returns
    -------
    thresholds : ndarray
        0 (nothing is rejected), every confidence that occurs, and inf (everything is rejected).
    false_accept : ndarray
        Share of the queries without a right answer, unknown or misclassified, that are answered; NaN where
        there are none.
    false_reject : ndarray
        Share of the queries with a right answer that are rejected; NaN where there are none.
    """
    known = np.ones(np.shape(confidence), dtype=bool) if known is None else known
    sure, right, known = aligned(confidence, correct, known)
    right = right & known
    thresholds = np.unique(np.concatenate([[0.0], sure[np.isfinite(sure)], [np.inf]]))

    def below(values: np.ndarray) -> Float64Array:
        if not len(values):
            return np.full(len(thresholds), np.nan)
        rejected = np.searchsorted(np.sort(values), thresholds, side="left") / len(values)
        rejected[-1] = 1.0
        return rejected

    return thresholds, 1 - below(sure[~right]), below(sure[right])
