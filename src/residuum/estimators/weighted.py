"""The scikit-learn face of the classifiers whose samples may have weights."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import _fit_context
from sklearn.utils._param_validation import StrOptions

from residuum.errors import UsageError
from residuum.estimators.base import RepresentationClassifier
from residuum.system.threads import all_or_nothing

CLASS_WEIGHT = [dict, StrOptions({"balanced"}), None]


class WeightedClassifier(RepresentationClassifier):
    """``l2 * sum_j c_j^2 / w_j`` in the place of ``l2*||c||^2``: a ridge for every sample.

    A sample of weight w counts as w samples: a whole number gives the same answers as repeating the sample,
    and 0 the same as leaving it out. `encode` and `solve` return codes ``c_j / sqrt(w_j)`` over the atoms
    ``sqrt(w_j) x_j`` of ``dictionary_``; `explain` tells the coefficients c_j of the unit-norm samples x_j.
    """

    class_weight: Any

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Store the unit-norm training samples as atoms and factor what coding needs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; all-zero rows are dropped with a warning.
        y : array-like of shape (n_samples,)
            Labels of any type that can be sorted.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights w_j: the ridge becomes ``l2 * sum_j c_j^2 / w_j``, so that a sample of weight 2 counts as
            two equal samples. Samples of weight 0 are left out; a class goes with its last sample. None is 1
            for all. They are multiplied by the weights of the classes.

        Returns
        -------
        self
        """
        self._fit(X, y, sample_weight)
        return self

    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Enrol more samples, of known or new classes; on an unfitted classifier, fit.

        The result is that of a fit to all samples enrolled so far with their weights, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, taken in the precision of the first fit; all-zero rows are dropped with a warning.
        y : array-like of shape (n_samples,)
            Labels of the same kind (text or numbers) as before.
        classes : array-like or None, default=None
            Accepted as by other classifiers and checked against y. A class exists from its first sample on.
        sample_weight : array-like of shape (n_samples,) or None, default=None
            Weights of these samples, as in `fit`.

        Returns
        -------
        self
        """
        if self.class_weight == "balanced":
            raise UsageError(
                f"The 'class_weight' parameter of {type(self).__name__} must not be 'balanced' with "
                "partial_fit: the weights of all samples would change with every call. Pass a dict, or "
                "sample_weight."
            )
        self._enrol(X, y, classes, sample_weight)
        return self
