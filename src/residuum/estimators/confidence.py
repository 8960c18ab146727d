"""How sure an answer is, and "none of these".

Confidence is ``margin = r_runner-up - r_winner`` of the class residuals r or, after Wright et al. (2009), the
sparsity concentration index ``(K * max_k ||c_k||_1 / ||c||_1 - 1) / (K - 1)`` of the code c.
"""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from residuum.dictionary import Dictionary, FloatArray
from residuum.estimators.calibration import (
    Float64Array,
    aligned,
    expected_calibration_error,
    fit_temperature,
    held_out_folds,
    margin,
    probabilities,
)
from residuum.estimators.explanation import Verdict
from residuum.solvers.base import Solution

__all__ = ["ConfidenceMixin", "concentration", "expected_calibration_error", "margin", "reject_curve"]

REJECT_TEXT = "none of these"
CONSTRAINTS: dict[str, list[Any]] = {
    "probability": ["boolean"],
    "reject_threshold": [Interval(Real, 0, None, closed="left"), None],
    "reject_by": [StrOptions({"margin", "concentration"})],
}


def _wants_probability(classifier: Any) -> bool:
    return bool(classifier.probability)


class ConfidenceMixin:
    """`predict_proba`, `confidence` and rejection for a classifier with `residuals` and `_coded`."""

    probability: bool
    reject_threshold: float | None
    reject_by: str

    # Whether all residuals shrink together as samples join: ratios stay, differences do not.
    _shrinking_residuals = False
    log_residuals_ = False  # set by a fit with probability=True; model files may be older than it

    # What the classifier brings.
    classes_: np.ndarray
    dictionary_: Dictionary
    residuals: Any
    _coded: Any

    @available_if(_wants_probability)
    def predict_proba(self, X: Any) -> Float64Array:
        """Calibrated probabilities of the classes; only with ``probability=True``.

        ``softmax(-residuals / temperature_)``, for NSC with the logarithms of the residuals, where a class
        more than ``residual_cap_`` behind the winner counts as that far behind. Both numbers were fitted to
        training samples held out in turn; they stay as fitted when samples are enrolled or forgotten later,
        until the next `fit`. Rejection does not change the probabilities.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        probabilities : ndarray of shape (n_queries, n_classes)
            In the order of ``classes_``; all equal for an all-zero query.
        """
        self._check_calibrated()
        return self._probabilities(self.residuals(X))

    def confidence(self, X: Any) -> Float64Array:
        """How sure each answer is, the number that ``reject_threshold`` is compared with.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        confidence : ndarray of shape (n_queries,)
            Larger is surer. With ``reject_by="margin"``, the residual of the runner-up minus that of the
            winner (inf with a single class). With "concentration", the sparsity concentration index, from
            0 (all classes take the same part in the code) to 1 (one class carries it all).
        """
        return np.concatenate(self._coded(X, self._sureness))

    @property
    def reject_label_(self) -> Any:
        """What `predict` answers for "none of these".

        The text "none of these" for text labels; for numbers the first of -1, -2, ... that is not a class.
        """
        check_is_fitted(self)
        return reject_label(self.classes_)

    def _sureness(self, solution: Solution, scores: FloatArray) -> Float64Array:
        if self.reject_by == "margin":
            return margin(scores)
        return concentration(self.dictionary_, solution.codes)

    def _predict_or_reject(self, X: Any) -> np.ndarray:
        def judge(solution: Solution, scores: FloatArray) -> tuple[np.ndarray, Float64Array]:
            return scores.argmin(axis=1), self._sureness(solution, scores)

        judged = self._coded(X, judge)
        winners, sure = (np.concatenate(column) for column in zip(*judged, strict=True))
        return labels_or_reject(self.classes_, winners, sure < self.reject_threshold)

    def _verdict(self, solution: Solution, scores: FloatArray) -> Verdict:
        """What is said of the single query behind the solution."""
        sure = float(self._sureness(solution, scores)[0])
        rejected = self.reject_threshold is not None and sure < self.reject_threshold
        winner = self.classes_.tolist()[scores[0].argmin()]
        known = None
        if self.probability and hasattr(self, "temperature_"):
            known = self._probabilities(scores)[0].tolist()
        return Verdict(
            method=type(self).__name__,
            rule=getattr(self, "rule", type(self).__name__.lower()),
            answer=self.reject_label_ if rejected else winner,
            rejected=rejected,
            confidence=sure,
            reject_by=self.reject_by,
            reject_threshold=self.reject_threshold,
            probabilities=known,
        )

    def _probabilities(self, residuals: FloatArray) -> Float64Array:
        return probabilities(self._comparable(residuals), self.temperature_, self.residual_cap_)

    def _comparable(self, residuals: FloatArray) -> FloatArray:
        """Residuals whose differences mean the same for few training samples as for many."""
        return np.log(np.maximum(residuals, 1e-12)) if self.log_residuals_ else residuals

    def _check_calibrated(self) -> None:
        check_is_fitted(self)
        if not hasattr(self, "temperature_"):
            raise NotFittedError(
                f"This {type(self).__name__} was fitted with probability=False, so its probabilities are "
                "not calibrated. Call fit again with probability=True."
            )

    def _fit_confidence(self, X: FloatArray, class_index: np.ndarray, n_classes: int) -> None:
        """Set ``temperature_`` and its like where asked for, and drop those of an earlier fit."""
        threshold = self.reject_threshold
        if self.reject_by == "concentration" and threshold is not None and threshold > 1:
            raise ValueError(
                f"The 'reject_threshold' parameter of {type(self).__name__} must be at most 1 with "
                f"reject_by='concentration', or every query is rejected. Got {threshold!r} instead."
            )
        for name in ("temperature_", "residual_cap_", "log_residuals_"):
            vars(self).pop(name, None)
        if not self.probability:
            return
        usable = np.flatnonzero(X.any(axis=1))  # zero samples have no direction and tie between all classes
        X, class_index = X[usable], class_index[usable]
        plain = clone(self).set_params(probability=False, reject_threshold=None)
        found, truth = [np.empty((0, n_classes))], [class_index[:0]]
        for train, held_out in held_out_folds(class_index):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # fit itself has told them of all the samples
                model = clone(plain).fit(X[train], class_index[train])
            residuals = np.full((len(held_out), n_classes), np.inf)
            residuals[:, model.classes_] = model.residuals(X[held_out])
            found.append(residuals)
            truth.append(class_index[held_out])
        if len(found) == 1 and n_classes > 1:
            raise ValueError(
                f"{type(self).__name__} cannot calibrate probabilities: every class has only 1 sample, so "
                "none can be held out. Add samples, or pass probability=False."
            )
        self.log_residuals_ = self._shrinking_residuals
        residuals = self._comparable(np.concatenate(found))
        self.temperature_, self.residual_cap_ = fit_temperature(residuals, np.concatenate(truth))


def concentration(dictionary: Dictionary, codes: Any) -> Float64Array:
    """``(K * max_k ||c_k||_1 / ||c||_1 - 1) / (K - 1)``, shape (n_queries,); 0 for c = 0, 1 with one class.

    1 when all atoms used are of one class, 0 when every class has the same part.
    """
    n_classes = dictionary.n_classes
    sizes = np.zeros((codes.shape[0], n_classes))
    if sp.issparse(codes):
        rows = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
        np.add.at(sizes, (rows, dictionary.atom_class[codes.indices]), np.abs(codes.data))
    else:
        for k, block in enumerate(dictionary.blocks):
            sizes[:, k] = np.abs(codes[:, block]).sum(axis=1)
    if n_classes == 1:
        return np.ones(len(sizes))
    whole = sizes.sum(axis=1)
    largest = np.divide(sizes.max(axis=1), whole, out=np.full_like(whole, 1 / n_classes), where=whole > 0)
    return np.clip((n_classes * largest - 1) / (n_classes - 1), 0.0, 1.0)


def reject_label(classes: np.ndarray) -> Any:
    """The label of "none of these" among these classes.

    Text labels get the text "none of these"; numbers the first of -1, -2, ... that is not a class.
    """
    labels = classes.tolist()
    taken = set(labels)
    if all(isinstance(label, str | bytes) for label in labels):
        text = REJECT_TEXT
        while text in taken or text.encode() in taken:
            text += "!"
        return text.encode() if isinstance(labels[0], bytes) else text
    number = -1
    while number in taken:
        number -= 1
    return float(number) if classes.dtype.kind == "f" else number


def labels_or_reject(classes: np.ndarray, winners: np.ndarray, rejected: np.ndarray) -> np.ndarray:
    """``classes[winners]``, and `reject_label` where rejected, in a type that holds both exactly."""
    label = reject_label(classes)
    if classes.dtype.kind == "u":
        # No NumPy type holds both -1 and the upper half of uint64; objects (Python integers) do.
        wide = np.promote_types(classes.dtype, np.int8)
        holder = np.int64 if int(classes.max()) <= np.iinfo(np.int64).max else object
        dtype: Any = wide if wide.kind == "i" else holder
    elif classes.dtype.kind in "bi":
        dtype = np.promote_types(classes.dtype, np.min_scalar_type(label))
    elif classes.dtype.kind in "US":
        dtype = np.promote_types(classes.dtype, np.array(label).dtype)
    else:
        dtype = classes.dtype
    answers = classes.astype(dtype)[winners]
    answers[rejected] = label
    return answers


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
    sure, right, known = aligned(
        confidence=(confidence, np.float64), correct=(correct, np.bool_), known=(known, np.bool_)
    )
    right = right & known
    thresholds = np.unique(np.concatenate([[0.0], sure[np.isfinite(sure)], [np.inf]]))

    def below(values: np.ndarray) -> Float64Array:
        if not len(values):
            return np.full(len(thresholds), np.nan)
        rejected = np.searchsorted(np.sort(values), thresholds, side="left") / len(values)
        rejected[-1] = 1.0
        return rejected

    return thresholds, 1 - below(sure[~right]), below(sure[right])
