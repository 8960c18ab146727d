"""Certified non-negative least squares and lasso for many right-hand sides.

nnls   minimise_c  ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1    s.t. c >= 0
lasso  minimise_c  ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, validate_params
from sklearn.utils.validation import check_array

from residuum.plain_numbers import check_numbers
from residuum.solvers import Solution
from residuum.solvers.active_set import solve_active_set

__all__ = ["lasso", "nnls"]

_POSITIVE = [Interval(Real, 0, None, closed="neither")]
_NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]


def _shaped(value: Any, name: str, owner: str, shape: tuple[int, int]) -> Any:
    if value is None:
        return None
    array = check_array(value, accept_sparse="csr", ensure_2d=False, ensure_min_samples=0, input_name=name)
    array = np.atleast_2d(array) if array.ndim == 1 else array
    if array.shape != shape:
        raise ValueError(
            f"The {name!r} parameter of {owner} must have shape {shape}. Got {array.shape} instead."
        )
    return array


def _solve(owner: str, A: Any, B: Any, gram: Any, x0: Any, dense: bool, **options: Any) -> Solution:
    """Validate, solve, warn."""
    floats = [np.float64, np.float32]
    A, B = check_numbers(A, "A", owner), check_numbers(B, "B", owner)
    A = check_array(A, dtype=floats, input_name="A")
    B = check_array(B, dtype=floats, ensure_2d=False, ensure_min_features=0, input_name="B")
    n_features, n_atoms = A.shape
    if len(B) != n_features:
        raise ValueError(
            f"The 'B' parameter of {owner} must have as many rows as A ({n_features}). "
            f"Got {len(B)} instead; right-hand sides are columns, as in numpy.linalg.lstsq."
        )
    queries = np.atleast_2d(B.T)
    gram = _shaped(gram, "gram", owner, (n_atoms, n_atoms))
    x0 = _shaped(x0, "x0", owner, (len(queries), n_atoms))
    solution = solve_active_set(A.T, queries, gram=gram, x0=x0, **options)
    if not solution.converged.all():
        left = int((~solution.converged).sum())
        warnings.warn(
            f"{owner}: {left} of {len(queries)} right-hand sides did not reach tol={options['tol']:g} "
            f"(largest violation {solution.violation.max():.1e}, largest gap {solution.gap.max():.1e}); "
            "their best feasible codes are returned. "
            "Raise tol, add a little l2, or remove nearly dependent columns of A.",
            ConvergenceWarning,
            stacklevel=4,
        )
    if B.ndim == 1:
        return replace(solution, codes=solution.codes.toarray()[0])
    return replace(solution, codes=solution.codes.toarray()) if dense else solution


@validate_params(
    {"l1": _NON_NEGATIVE, "l2": _NON_NEGATIVE, "tol": _POSITIVE}, prefer_skip_nested_validation=True
)
def nnls(
    A: Any,
    B: Any,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    gram: Any = None,
    x0: Any = None,
    tol: float = 1e-10,
    dense: bool = False,
    n_jobs: int | None = None,
) -> Solution:
    """Minimise ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1 subject to c >= 0, for each column b of B.

    Parameters
    ----------
    A : array of shape (n_features, n_atoms)
        Float32 or float64; its columns may be of any scale.
    B : array of shape (n_features,) or (n_features, n_rhs)
        Right-hand sides as columns, as in ``numpy.linalg.lstsq``.
    l1, l2 : float
        Non-negative weights.
    gram : array of shape (n_atoms, n_atoms), optional
        ``A.T @ A`` if it is at hand. It is compared with A where that is cheap; no certificate depends on it.
    x0 : array or sparse array of shape (n_rhs, n_atoms), optional
        Warm start: codes near the solution.
    tol : float
        A right-hand side has converged if its violation of the optimality conditions, for columns and
        right-hand sides scaled to unit norm, and its gap are both at most `tol`. Where rounding the code
        alone makes a larger violation, up to 4 eps times its l1 norm in that scale, the gap alone decides.
    dense : bool
        Return dense codes also for 2-D B.
    n_jobs : int, optional
        Threads; None follows ``joblib.parallel_config``, then NUMBA_NUM_THREADS and OMP_NUM_THREADS.

    Returns
    -------
    Solution
        ``codes`` has one row per right-hand side: a ``scipy.sparse.csr_array``, or dense if asked; for 1-D B
        it is a dense vector. ``violation``, ``gap`` and ``converged`` certify each of them: the objective
        lies at most ``gap * ||b||^2`` above its minimum, for A, b and the code exactly as they are. Columns
        that are nearly opposite can make it impossible to prove anything; then the gap is the objective
        itself. Codes beyond the range of float64 are shortened until they are finite, and have not converged.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.least_squares import nnls
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> solution = nnls(A, np.array([1.0, -2.0, 1.0]))
    >>> solution.codes.round(6)
    array([1., 0.])
    >>> bool(solution.converged.all())
    True
    """
    return _solve("nnls", A, B, gram, x0, dense, l1=l1, l2=l2, tol=tol, n_jobs=n_jobs)


@validate_params({"l1": _POSITIVE, "l2": _NON_NEGATIVE, "tol": _POSITIVE}, prefer_skip_nested_validation=True)
def lasso(
    A: Any,
    B: Any,
    l1: float,
    *,
    l2: float = 0.0,
    gram: Any = None,
    x0: Any = None,
    tol: float = 1e-10,
    dense: bool = False,
    n_jobs: int | None = None,
) -> Solution:
    """Minimise ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1 over c of any sign, for each column b of B.

    Equals scikit-learn's ``Lasso(alpha=l1 / (2 * n_features), fit_intercept=False)`` when l2 = 0.

    Parameters
    ----------
    A : array of shape (n_features, n_atoms)
        Float32 or float64; its columns may be of any scale.
    B : array of shape (n_features,) or (n_features, n_rhs)
        Right-hand sides as columns, as in ``numpy.linalg.lstsq``.
    l1 : float
        Positive weight of the l1 norm.
    l2 : float
        Non-negative weight of the squared l2 norm: elastic net.
    gram, x0, tol, dense, n_jobs
        As for :func:`nnls`.

    Returns
    -------
    Solution
        As for :func:`nnls`.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.least_squares import lasso
    >>> lasso(np.eye(3), np.array([3.0, -2.0, 0.4]), 1.0).codes
    array([ 2.5, -1.5,  0. ])
    """
    return _solve("lasso", A, B, gram, x0, dense, l1=l1, l2=l2, signed=True, tol=tol, n_jobs=n_jobs)
