"""Linear regression with non-negative coefficients, for many targets at once."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from residuum.lstsq import nnls
from residuum.plain_numbers import check_numbers


class NonNegativeRegression(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Minimise sum_i w_i (y_i - x_i'c - d)^2 over coefficients c >= 0 and the intercept d, for each target.

    The coefficients of scikit-learn's ``LinearRegression(positive=True)``, which solves for one target after
    the other; here all targets are solved in one call of :func:`residuum.nnls`, each with a certificate.

    Parameters
    ----------
    fit_intercept : bool
        Whether there is an intercept, which may be negative; otherwise it is zero.
    tol : float
        Accuracy of the optimum, as for :func:`residuum.nnls`.
    n_jobs : int, optional
        Threads, as for :func:`residuum.nnls`.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
    intercept_ : float or array of shape (n_targets,)
    gap_ : array of shape (n_targets,)
        The objective of each target is at most ``gap_`` times its value for c = 0 above its minimum.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from residuum import NonNegativeRegression
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
    >>> Y = np.column_stack([2 * X[:, 0] + 1, X[:, 0] - X[:, 1]])
    >>> model = NonNegativeRegression().fit(X, Y)
    >>> model.coef_.round(6)
    array([[2., 0.],
           [1., 0.]])
    >>> model.intercept_.round(6)
    array([ 1.  , -0.75])
    """

    _parameter_constraints = {
        "fit_intercept": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
    }

    def __init__(self, *, fit_intercept: bool = True, tol: float = 1e-10, n_jobs: int | None = None) -> None:
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> NonNegativeRegression:
        """Fit the coefficients of every target.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
        y : array of shape (n_samples,) or (n_samples, n_targets)
        sample_weight : array of shape (n_samples,), optional
            Weights of the squared residuals, not negative and not all zero.

        Returns
        -------
        NonNegativeRegression
            Itself.
        """
        owner = type(self).__name__
        X, y = check_numbers(X, "X", owner), check_numbers(y, "y", owner)
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, multi_output=True)
        targets = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        # The best intercept for any coefficients makes the mean residual zero, so that means drop out.
        means = np.zeros(X.shape[1]), np.zeros(targets.shape[1])
        if self.fit_intercept:
            means = np.average(X, axis=0, weights=weight), np.average(targets, axis=0, weights=weight)
        root = np.sqrt(weight / weight.max())[:, None]
        solution = nnls(
            root * (X - means[0]), root * (targets - means[1]), tol=self.tol, dense=True, n_jobs=self.n_jobs
        )
        coef, intercept = solution.x.T, means[1] - means[0] @ solution.x
        single = y.ndim == 1
        self.gap_ = solution.gap
        self.coef_ = coef[0] if single else coef
        self.intercept_: Any = float(intercept[0]) if single else intercept
        return self

    def predict(self, X: Any) -> Any:
        """Targets of the rows of X.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
        """
        check_is_fitted(self)
        X = check_numbers(X, "X", type(self).__name__)
        return validate_data(self, X, dtype=np.float64, reset=False) @ self.coef_.T + self.intercept_
