"""Certified non-negative least squares and lasso for many right-hand sides.

nnls   minimise_c  ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1    s.t. c >= 0
lasso  minimise_c  ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1
"""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from residuum.solvers.active_set import solve_active_set
from residuum.solvers.base import FloatArray, Solution

__all__ = ["lasso", "nnls"]


def _matrix(value: Any, name: str, owner: str, dims: tuple[int, ...]) -> FloatArray:
    """The value as a finite array of one of the given dimensions: float32 if it is, else float64."""
    if sp.issparse(value):
        raise TypeError(
            f"The '{name}' parameter of {owner} must be a dense array. "
            f"Got a sparse {type(value).__name__} instead; pass {name}.toarray()."
        )
    array = np.asarray(value)
    allowed = " or ".join(f"{d}-D" for d in dims)
    if array.dtype.kind not in "biufO" or array.ndim not in dims:
        raise ValueError(
            f"The '{name}' parameter of {owner} must be a {allowed} array of real numbers. "
            f"Got a {array.ndim}-D array of {array.dtype} instead."
        )
    try:
        array = array.astype(
            np.float32 if array.dtype in (np.float16, np.float32) else np.float64, copy=False
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"The '{name}' parameter of {owner} must hold real numbers: {error}.") from error
    if not np.isfinite(array).all():
        raise ValueError(
            f"The '{name}' parameter of {owner} must be finite. Got NaN or infinity; "
            "remove or impute those values."
        )
    return array


def _number(value: Any, name: str, owner: str, positive: bool = False) -> float:
    """The value as a finite number that is not negative, or that is positive."""
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and np.isfinite(float(value))
    if not good or value < 0 or (positive and value == 0):
        kind = "a positive number" if positive else "a non-negative number"
        raise ValueError(f"The '{name}' parameter of {owner} must be {kind}. Got {value!r} instead.")
    return float(value)


def _start(x0: Any, owner: str, shape: tuple[int, int]) -> Any:
    """The warm start as a matrix with one row per right-hand side."""
    if x0 is None:
        return None
    start = x0 if sp.issparse(x0) else np.atleast_2d(_matrix(x0, "x0", owner, (1, 2)))
    if start.shape != shape:
        raise ValueError(
            f"The 'x0' parameter of {owner} must have shape {shape}, one row of codes per right-hand side. "
            f"Got {start.shape} instead."
        )
    return start


def _solve(owner: str, A: Any, B: Any, gram: Any, x0: Any, dense: bool, **options: Any) -> Solution:
    """Check the arguments, solve, and warn of right-hand sides that did not converge."""
    A = _matrix(A, "A", owner, (2,))
    B = _matrix(B, "B", owner, (1, 2))
    n_features, n_atoms = A.shape
    if n_features == 0 or n_atoms == 0:
        raise ValueError(
            f"The 'A' parameter of {owner} must have at least one row and one column. Got {A.shape}."
        )
    if B.shape[0] != n_features:
        raise ValueError(
            f"The 'B' parameter of {owner} must have as many rows as A ({n_features}). "
            f"Got {B.shape[0]} instead; right-hand sides are columns, as in numpy.linalg.lstsq."
        )
    if gram is not None:
        gram = _matrix(gram, "gram", owner, (2,))
        if gram.shape != (n_atoms, n_atoms):
            raise ValueError(
                f"The 'gram' parameter of {owner} must be A.T @ A of shape {(n_atoms, n_atoms)}. "
                f"Got {gram.shape} instead."
            )
    queries = np.atleast_2d(B.T)
    options["tol"] = _number(options["tol"], "tol", owner, positive=True)
    x0 = _start(x0, owner, (len(queries), n_atoms))
    solution = solve_active_set(A.T, queries, gram=gram, x0=x0, **options)
    if not solution.converged.all():
        left = int((~solution.converged).sum())
        warnings.warn(
            f"{owner}: {left} of {len(queries)} right-hand sides did not reach tol={options['tol']:g} "
            f"(largest violation {solution.violation.max():.1e}); their best feasible codes are returned. "
            "Raise tol, add a little l2, or remove nearly dependent columns of A.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if B.ndim == 1:
        return replace(solution, codes=solution.codes.toarray()[0])
    return replace(solution, codes=solution.codes.toarray()) if dense else solution


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
        ``A.T @ A`` if it is at hand.
    x0 : array or sparse array of shape (n_rhs, n_atoms), optional
        Warm start: codes near the solution.
    tol : float
        Largest violation of the optimality conditions, for columns and right-hand sides scaled to unit norm.
    dense : bool
        Return dense codes also for 2-D B.
    n_jobs : int, optional
        Threads; None follows ``joblib.parallel_config``, then NUMBA_NUM_THREADS and OMP_NUM_THREADS.

    Returns
    -------
    Solution
        ``codes`` has one row per right-hand side: a ``scipy.sparse.csr_array``, or dense if asked; for 1-D B
        it is a dense vector. ``violation``, ``gap`` and ``converged`` certify each of them.

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
    l1, l2 = _number(l1, "l1", "nnls"), _number(l2, "l2", "nnls")
    return _solve("nnls", A, B, gram, x0, dense, l1=l1, l2=l2, tol=tol, n_jobs=n_jobs)


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
    l1, l2 = _number(l1, "l1", "lasso", positive=True), _number(l2, "l2", "lasso")
    return _solve("lasso", A, B, gram, x0, dense, l1=l1, l2=l2, signed=True, tol=tol, n_jobs=n_jobs)
