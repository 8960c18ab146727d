"""Non-negative least squares and lasso: the tall path for few columns, the exact engine for all others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import StrOptions, validate_params

from residuum.problem import Float64Array
from residuum.solvers.active_set import solve_active_set
from residuum.solvers.tall import Answers, BoundedLeastSquares, TallSolver

from .arguments import NON_NEGATIVE, POSITIVE, check_rows, checked_array, shaped
from .solution import LeastSquaresSolution, as_solution, finished, warn_unless_converged

_MOST_COLUMNS = 128  # of A that takes the tall path unasked


@validate_params(
    {
        "l1": NON_NEGATIVE,
        "l2": NON_NEGATIVE,
        "tol": POSITIVE,
        "path": [StrOptions({"auto", "tall", "wide"})],
    },
    prefer_skip_nested_validation=True,
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
    path: str = "auto",
    n_jobs: int | None = None,
) -> LeastSquaresSolution:
    """Minimise ||b - Ac||^2 + l2 ||c||^2 + l1 ||c||_1 subject to c >= 0, for each column b of B.

    ``nnls(A, B, dense=True).x`` replaces a loop of ``scipy.optimize.nnls(A, b)[0]`` over the columns b of B.

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
        The tall path does not need it.
    x0 : array or sparse array of shape (n_rhs, n_atoms), optional
        Warm start: codes near the solution. The tall path does not need it.
    tol : float
        A right-hand side has converged if its violation of the optimality conditions, for columns and
        right-hand sides scaled to unit norm, and its gap are both at most `tol`. Where rounding the code
        alone makes a larger violation, up to 4 eps times its l1 norm in that scale, the gap alone decides.
    dense : bool
        Return dense codes also for 2-D B.
    path : {"auto", "tall", "wide"}
        "tall" solves a small quadratic program for each right-hand side and is fastest for few columns,
        "wide" works with growing sets of columns. "auto" takes "tall" up to 128 columns that are not nearly
        dependent, or that all have a positive product with some vector, as spectra have. What the tall path
        cannot certify is solved by the other one.
    n_jobs : int, optional
        Threads; None follows ``joblib.parallel_config``, then NUMBA_NUM_THREADS and OMP_NUM_THREADS.

    Returns
    -------
    LeastSquaresSolution
        ``codes`` has one row per right-hand side: a ``scipy.sparse.csr_array``, or dense if asked; for 1-D B
        it is a dense vector. ``x`` has the right-hand sides as columns. ``violation``, ``gap`` and
        ``converged`` certify each of them: the objective
        lies at most ``gap * ||b||^2`` above its minimum, for A, b and the code exactly as they are. Columns
        that are nearly opposite can make it impossible to prove anything; then the gap is the objective
        itself. Codes beyond the range of float64 are shortened until they are finite, and have not converged.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum import nnls
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> solution = nnls(A, np.array([1.0, -2.0, 1.0]))
    >>> solution.codes.round(6)
    array([1., 0.])
    >>> bool(solution.converged.all())
    True
    """
    return _solve("nnls", A, B, gram, x0, dense, path, l1=l1, l2=l2, tol=tol, n_jobs=n_jobs)


@validate_params({"l1": POSITIVE, "l2": NON_NEGATIVE, "tol": POSITIVE}, prefer_skip_nested_validation=True)
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
) -> LeastSquaresSolution:
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
    LeastSquaresSolution
        As for :func:`nnls`.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum import lasso
    >>> lasso(np.eye(3), np.array([3.0, -2.0, 0.4]), 1.0).codes
    array([ 2.5, -1.5,  0. ])
    """
    options = {"l1": l1, "l2": l2, "tol": tol, "n_jobs": n_jobs}
    return _solve("lasso", A, B, gram, x0, dense, "wide", signed=True, **options)


def _solve(
    owner: str, A: Any, B: Any, gram: Any, x0: Any, dense: bool, path: str, **options: Any
) -> LeastSquaresSolution:
    """Validate, solve, warn."""
    A, B = checked_array(A, "A", owner), checked_array(B, "B", owner, ndims=(1, 2))
    check_rows(owner, A, B)
    n_atoms = A.shape[1]
    queries = np.atleast_2d(B.T)
    gram = shaped(gram, "gram", owner, (n_atoms, n_atoms))
    x0 = shaped(x0, "x0", owner, (len(queries), n_atoms))
    solution = None
    if path == "tall" or (path == "auto" and n_atoms <= _MOST_COLUMNS and gram is None):
        solution = _tall_nnls(A, queries.T, path == "tall", **options)
    if solution is None:
        found = solve_active_set(A.T, queries, gram=gram, x0=x0, **options)
        solution = LeastSquaresSolution(**vars(found), _norms=(A, queries))
    warn_unless_converged(owner, solution, options["tol"], 4)
    codes = solution.codes
    if B.ndim == 1 or dense:
        codes = codes.toarray() if sp.issparse(codes) else codes
        codes = codes[0] if B.ndim == 1 else codes
    elif not sp.issparse(codes):
        codes = _sparse(codes)
    return LeastSquaresSolution(**{**vars(solution), "codes": codes})


def _sparse(codes: Float64Array) -> sp.csr_array:
    used = codes != 0
    indptr = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
    index = np.broadcast_to(np.arange(codes.shape[1], dtype=np.int32), codes.shape)[used]
    sparse = sp.csr_array((codes[used], index, indptr), shape=codes.shape)
    sparse.has_sorted_indices = True
    return sparse


def _tall_nnls(
    A: Any, B: Any, forced: bool, *, l1: float, l2: float, tol: float, n_jobs: int | None
) -> LeastSquaresSolution | None:
    """Non-negative least squares by the tall path; None where A is too ill-conditioned for it."""
    n = A.shape[1]
    problem = BoundedLeastSquares(
        A.astype(np.float64), np.zeros(n), np.full(n, np.inf), l1=float(l1), l2=float(l2)
    )
    solver = TallSolver(problem, tol=tol, n_jobs=n_jobs)
    if not forced and not solver.is_regular:
        return None
    answers = Answers.empty(B.shape[1], n)
    solver.solve(B, answers)
    return as_solution(answers, finished(solver, B, answers))
