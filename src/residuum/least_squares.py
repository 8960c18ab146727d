"""Certified least squares under constraints, non-negative least squares and lasso for many right-hand sides.

nnls           minimise_x  ||b - Ax||^2 + l2 ||x||^2 + l1 ||x||_1    s.t. x >= 0
lasso          minimise_x  ||b - Ax||^2 + l2 ||x||^2 + l1 ||x||_1
least_squares  minimise_x  ||b - Ax||^2 + l2 ||Lx||^2                s.t. bounds, perhaps a sum, rows weighted
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from sklearn.utils.validation import check_array

from residuum.plain_numbers import check_numbers
from residuum.problem import Float64Array
from residuum.solvers import Solution
from residuum.solvers.active_set import solve_active_set
from residuum.solvers.tall import (
    NO_SUM,
    SUM_AT_MOST,
    SUM_TO,
    Answers,
    BoundedLeastSquares,
    TallSolver,
)

__all__ = ["LeastSquaresSolution", "lasso", "least_squares", "nnls"]

_POSITIVE = [Interval(Real, 0, None, closed="neither")]
_NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]
_FLOATS = [np.float64, np.float32]
_MOST_COLUMNS = 128  # of A that takes the tall path unasked
_BLOCK = 4096  # right-hand sides whose residuals are computed together


@dataclass(frozen=True)
class LeastSquaresSolution(Solution):
    """A `Solution` with the variables first, as SciPy has them, and the norms of the residuals."""

    _norms: Any = field(default=None, repr=False)  # the norms, or A and B to compute them from

    @property
    def x(self) -> Float64Array:
        """The solutions as columns, dense: shape (n_atoms, n_rhs), or (n_atoms,) for 1-D B."""
        codes: Any = self.codes
        return (codes.toarray() if sp.issparse(codes) else codes).T

    @cached_property
    def residual_norm(self) -> Float64Array:
        """``||b - Ax||`` of each right-hand side (with the weights of the rows), shape (n_rhs,)."""
        if not isinstance(self._norms, tuple):
            return np.asarray(self._norms)
        A, queries = self._norms
        codes = np.atleast_2d(self.codes) if isinstance(self.codes, np.ndarray) else self.codes
        norms = np.empty(len(queries))
        for start in range(0, len(queries), _BLOCK):
            part = slice(start, start + _BLOCK)
            norms[part] = np.linalg.norm(queries[part] - codes[part] @ A.T, axis=1)
        return norms


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


def _check_rows(owner: str, A: Any, B: Any) -> None:
    if len(B) != len(A):
        raise ValueError(
            f"The 'B' parameter of {owner} must have as many rows as A ({len(A)}). "
            f"Got {len(B)} instead; right-hand sides are columns, as in numpy.linalg.lstsq."
        )


def _warn(owner: str, solution: Solution, tol: float, stacklevel: int) -> None:
    if solution.converged.all():
        return
    left = int((~solution.converged).sum())
    warnings.warn(
        f"{owner}: {left} of {len(solution.converged)} right-hand sides did not reach tol={tol:g} "
        f"(largest violation {solution.violation.max():.1e}, largest gap {solution.gap.max():.1e}); "
        "their best feasible codes are returned. "
        "Raise tol, add a little l2, or remove nearly dependent columns of A.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )


def _solve(
    owner: str, A: Any, B: Any, gram: Any, x0: Any, dense: bool, path: str, **options: Any
) -> LeastSquaresSolution:
    """Validate, solve, warn."""
    A, B = check_numbers(A, "A", owner), check_numbers(B, "B", owner)
    A = check_array(A, dtype=_FLOATS, input_name="A")
    B = check_array(B, dtype=_FLOATS, ensure_2d=False, ensure_min_features=0, input_name="B")
    _check_rows(owner, A, B)
    n_atoms = A.shape[1]
    queries = np.atleast_2d(B.T)
    gram = _shaped(gram, "gram", owner, (n_atoms, n_atoms))
    x0 = _shaped(x0, "x0", owner, (len(queries), n_atoms))
    solution = None
    if path == "tall" or (path == "auto" and n_atoms <= _MOST_COLUMNS and gram is None):
        solution = _tall_nnls(A, queries.T, path == "tall", **options)
    if solution is None:
        found = solve_active_set(A.T, queries, gram=gram, x0=x0, **options)
        solution = LeastSquaresSolution(**vars(found), _norms=(A, queries))
    _warn(owner, solution, options["tol"], 4)
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
    return _solution(answers, _finished(solver, B, answers))


def _finished(solver: TallSolver, B: Any, answers: Answers) -> Any:
    """Solve non-negative least squares that the tall path could not certify by the other path; what converged."""
    problem, tol = solver.problem, solver.tol
    converged = answers.converged(tol)
    left = np.flatnonzero(~converged)
    if left.size and problem.is_non_negative:
        again = solve_active_set(
            problem.A.T, B.T[left], l1=problem.l1, l2=problem.l2, tol=tol, n_jobs=solver.n_jobs
        )
        better = again.converged | (again.gap < answers.gap[left])
        place = left[better]
        answers.points[place] = points = again.codes[better].toarray()
        answers.violation[place], answers.gap[place] = again.violation[better], again.gap[better]
        answers.n_iter[place], converged[place] = again.n_iter[better], again.converged[better]
        answers.residual_norm[place] = np.linalg.norm(B[:, place] - problem.A @ points.T, axis=0)
    return converged


def _solution(answers: Answers, converged: Any) -> LeastSquaresSolution:
    return LeastSquaresSolution(
        answers.points,
        answers.n_iter,
        answers.violation,
        answers.gap,
        converged,
        _norms=answers.residual_norm,
    )


@validate_params(
    {
        "l1": _NON_NEGATIVE,
        "l2": _NON_NEGATIVE,
        "tol": _POSITIVE,
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
        dependent. What the tall path cannot certify is solved by the other one.
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
    >>> from residuum.least_squares import nnls
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> solution = nnls(A, np.array([1.0, -2.0, 1.0]))
    >>> solution.codes.round(6)
    array([1., 0.])
    >>> bool(solution.converged.all())
    True
    """
    return _solve("nnls", A, B, gram, x0, dense, path, l1=l1, l2=l2, tol=tol, n_jobs=n_jobs)


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
    >>> from residuum.least_squares import lasso
    >>> lasso(np.eye(3), np.array([3.0, -2.0, 0.4]), 1.0).codes
    array([ 2.5, -1.5,  0. ])
    """
    options = {"l1": l1, "l2": l2, "tol": tol, "n_jobs": n_jobs}
    return _solve("lasso", A, B, gram, x0, dense, "wide", signed=True, **options)


@validate_params({"l2": _NON_NEGATIVE, "tol": _POSITIVE}, prefer_skip_nested_validation=True)
def least_squares(
    A: Any,
    B: Any,
    *,
    bounds: tuple[Any, Any] = (0.0, np.inf),
    sum_to: float | None = None,
    sum_at_most: float | None = None,
    l2: float = 0.0,
    regularizer: Any = None,
    weights: Any = None,
    tol: float = 1e-10,
    out: Any = None,
    n_jobs: int | None = None,
) -> LeastSquaresSolution:
    """Minimise ||b - Ax||^2 + l2 ||Lx||^2 subject to lower <= x <= upper, for each column b of B.

    Non-negative least squares by default; with ``sum_to=1`` fully constrained unmixing; with ``regularizer=L``
    Tikhonov regularisation. Made for many right-hand sides and up to a few hundred columns.

    Parameters
    ----------
    A : array of shape (n_features, n_atoms)
        Float32 or float64; its columns may be of any scale.
    B : array of shape (n_features,) or (n_features, n_rhs), or iterator of such blocks
        Right-hand sides as columns. A memory map is read block by block. An iterator yields blocks of
        columns, which are solved one after the other, so that only one of them needs to be in memory.
    bounds : (lower, upper)
        Numbers, or arrays of shape (n_atoms,), as in ``scipy.optimize.lsq_linear``; ``-inf`` and ``inf`` are
        allowed: ``bounds=(-np.inf, np.inf)`` leaves all variables free.
    sum_to, sum_at_most : float, optional
        What the variables of each right-hand side must sum to, exactly or at most. Only one can be given.
    l2 : float
        Weight of the penalty ``||Lx||^2``.
    regularizer : array of shape (any, n_atoms), optional
        L; the identity if None.
    weights : array of shape (n_features,) or (n_features, n_rhs), optional
        Weights of the squared residuals, not negative. Entries of B whose weight is zero are left out, even
        if they are NaN: ``weights=np.isfinite(B)``.
    tol : float
        A right-hand side has converged if its violation, for columns and right-hand sides scaled to unit
        norm, and its gap are both at most `tol`; see `nnls`.
    out : float64 array of shape (n_atoms, n_rhs), optional
        Where the solutions are written, for example a memory map; ``solution.x`` is then this array.
    n_jobs : int, optional
        Threads; None follows ``joblib.parallel_config``, then NUMBA_NUM_THREADS and OMP_NUM_THREADS.

    Returns
    -------
    LeastSquaresSolution
        ``x`` has the shape of SciPy's solutions, right-hand sides as columns; ``codes`` is its transpose.
        ``residual_norm`` is ``||b - Ax||``, weighted if there are weights. ``violation``, ``gap`` and
        ``converged`` certify each right-hand side: bounds hold exactly, the sum to the violation, and the
        objective lies at most ``gap * scale^2`` above its minimum. The scale is ``||b||`` plus what the
        constraints force upon x: ``sum_j ||a_j|| |x_j|`` for the x_j within the bounds that are nearest to
        zero, or ``|sum_to| min_j ||a_j||`` if that is more; so it is ``||b||`` where x = 0 is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.least_squares import least_squares
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> least_squares(A, np.array([1.0, 0.0, 1.0]), sum_to=1.0).x
    array([1., 0.])
    """
    owner = "least_squares"
    A = check_array(check_numbers(A, "A", owner), dtype=np.float64, input_name="A")
    n = A.shape[1]
    lower, upper = _checked_bounds(bounds, n)
    kind, total = _checked_sum(sum_to, sum_at_most, lower, upper)
    L = None if regularizer is None else check_array(regularizer, dtype=np.float64, input_name="regularizer")
    if L is not None and L.shape[1] != n:
        raise ValueError(
            f"The 'regularizer' parameter of {owner} must have as many columns as A ({n}). "
            f"Got shape {L.shape} instead."
        )
    weights = _checked_weights(weights, len(A))
    shared = weights if weights is not None and weights.ndim == 1 else None
    own = weights if weights is not None and weights.ndim == 2 else None
    problem = BoundedLeastSquares(A, lower, upper, kind, total, l2=float(l2), L=L, weights=shared)
    solver = TallSolver(problem, tol=tol, n_jobs=n_jobs)
    if isinstance(B, Iterator):
        if own is not None:
            raise ValueError(
                f"The 'weights' parameter of {owner} must have shape ({len(A)},) when B is an iterator. "
                f"Got shape {own.shape} instead; call {owner} for each block with its own weights."
            )
        answers, converged = _by_blocks(solver, B, out)
        one = False
    else:
        B = _checked_block(B, len(A))
        one, B = B.ndim == 1, B.reshape(len(B), -1)
        if own is not None and own.shape != B.shape:
            raise ValueError(
                f"The 'weights' parameter of {owner} must have shape ({len(A)},) or that of B, {B.shape}. "
                f"Got {own.shape} instead."
            )
        answers = Answers.empty(B.shape[1], n, _checked_out(out, n, B.shape[1]))
        solver.solve(B, answers, own)
        converged = answers.converged(tol) if own is not None else _finished(solver, B, answers)
    solution = _solution(answers, converged)
    _warn(owner, solution, tol, 2)
    return LeastSquaresSolution(**{**vars(solution), "codes": solution.codes[0]}) if one else solution


def _checked_block(B: Any, n_features: int) -> Any:
    block = check_array(
        check_numbers(B, "B", "least_squares"),
        dtype=_FLOATS,
        ensure_2d=False,
        ensure_min_features=0,
        ensure_all_finite=False,
        input_name="B",
    )
    _check_rows("least_squares", range(n_features), block)
    return block


def _by_blocks(solver: TallSolver, blocks: Iterator[Any], out: Any) -> tuple[Answers, Any]:
    """The answers to blocks of right-hand sides, one after the other, and which of them converged."""
    n_features, n = solver.problem.A.shape
    room = _checked_out(out, n, None)
    parts, converged, done = [], [np.zeros(0, bool)], 0
    for block in blocks:
        B = _checked_block(block, n_features).reshape(n_features, -1)
        own = None if room is None else room[done : done + B.shape[1]]
        done += B.shape[1]
        if room is not None and done > len(room):
            raise ValueError(
                f"The 'out' parameter of least_squares must have one column for each right-hand side. "
                f"Got {len(room)}, but the blocks have at least {done}."
            )
        part = Answers.empty(B.shape[1], n, own)
        solver.solve(B, part)
        converged.append(_finished(solver, B, part))
        parts.append(part)
    whole = Answers.empty(done, n, None if room is None else room[:done])
    start = 0
    for part in parts:
        stop = start + len(part.gap)
        whole.put(slice(start, stop), part)
        start = stop
    return whole, np.concatenate(converged)


def _checked_out(out: Any, n: int, n_rhs: int | None) -> Any:
    """Where the points go, right-hand sides first."""
    if out is None:
        return None
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.ndim != 2 or len(out) != n:
        raise ValueError(
            f"The 'out' parameter of least_squares must be a float64 array of shape ({n}, n_rhs). Got "
            f"{type(out).__name__} of {getattr(out, 'dtype', 'no')} and shape {getattr(out, 'shape', None)}."
        )
    if n_rhs is not None and out.shape[1] != n_rhs:
        raise ValueError(
            f"The 'out' parameter of least_squares must have one column for each of {n_rhs} right-hand sides. "
            f"Got {out.shape[1]} columns."
        )
    return out.T


def _checked_bounds(bounds: Any, n: int) -> tuple[Float64Array, Float64Array]:
    told = f"The 'bounds' parameter of least_squares must be (lower, upper), each a number or {n} numbers"
    try:
        lower, upper = (np.broadcast_to(np.asarray(side, dtype=np.float64), (n,)).copy() for side in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"{told}. Got {bounds!r} instead.") from None
    if np.isnan(lower).any() or np.isnan(upper).any() or not (lower <= upper).all():
        bad = int(np.flatnonzero(~(lower <= upper))[0])
        raise ValueError(
            f"{told}, with lower <= upper. Got [{lower[bad]:g}, {upper[bad]:g}] for variable {bad}."
        )
    if (lower == np.inf).any() or (upper == -np.inf).any():
        raise ValueError(f"{told}, with lower < inf and upper > -inf. Got {bounds!r} instead.")
    return lower, upper


def _checked_sum(sum_to: Any, sum_at_most: Any, lower: Float64Array, upper: Float64Array) -> tuple[int, float]:
    if sum_to is None and sum_at_most is None:
        return NO_SUM, 0.0
    name = "sum_at_most" if sum_to is None else "sum_to"
    total = sum_at_most if sum_to is None else sum_to
    if sum_to is not None and sum_at_most is not None:
        raise ValueError("Only one of 'sum_to' and 'sum_at_most' of least_squares can be given. Got both.")
    if isinstance(total, bool) or not isinstance(total, Real) or not np.isfinite(float(total)):
        raise ValueError(f"The {name!r} parameter of least_squares must be a finite number. Got {total!r}.")
    least, most = float(lower.sum()), float(upper.sum()) if sum_at_most is None else np.inf
    if not least <= total <= most:
        raise ValueError(
            f"The {name!r} parameter of least_squares must be a sum that variables within their bounds can "
            f"have, from {least:g} to {most:g}. Got {total:g}. Widen the bounds."
        )
    return (SUM_AT_MOST if sum_to is None else SUM_TO), float(total)


def _checked_weights(weights: Any, n_features: int) -> Any:
    if weights is None:
        return None
    weights = check_array(weights, dtype=np.float64, ensure_2d=False, input_name="weights")
    if len(weights) != n_features or weights.ndim > 2:
        raise ValueError(
            f"The 'weights' parameter of least_squares must have as many rows as A ({n_features}). "
            f"Got shape {weights.shape} instead."
        )
    if (weights < 0).any():
        raise ValueError(
            "The 'weights' parameter of least_squares must not be negative. "
            f"Got {weights.min():g}; weights multiply squared residuals."
        )
    return weights
