"""Least squares within bounds, with a sum, weights and Tikhonov regularisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_params
from sklearn.utils.validation import check_array

from residuum.plain_numbers import check_numbers
from residuum.solvers.tall import Answers, BoundedLeastSquares, TallSolver

from .arguments import (
    NON_NEGATIVE,
    POSITIVE,
    checked_block,
    checked_bounds,
    checked_out,
    checked_sum,
    checked_weights,
)
from .solution import LeastSquaresSolution, as_solution, finished, warn_unless_converged


@validate_params({"l2": NON_NEGATIVE, "tol": POSITIVE}, prefer_skip_nested_validation=True)
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

    Non-negative least squares by default; with ``sum_to=1`` fully constrained unmixing; with
    ``regularizer=L`` Tikhonov regularisation. Made for many right-hand sides and up to a few hundred columns.

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
    >>> from residuum import least_squares
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> least_squares(A, np.array([1.0, 0.0, 1.0]), sum_to=1.0).x
    array([1., 0.])
    """
    owner = "least_squares"
    A = check_array(check_numbers(A, "A", owner), dtype=np.float64, input_name="A")
    n = A.shape[1]
    lower, upper = checked_bounds(bounds, n)
    kind, total = checked_sum(sum_to, sum_at_most, lower, upper)
    L = None if regularizer is None else check_array(regularizer, dtype=np.float64, input_name="regularizer")
    if L is not None and L.shape[1] != n:
        raise ValueError(
            f"The 'regularizer' parameter of {owner} must have as many columns as A ({n}). "
            f"Got shape {L.shape} instead."
        )
    weights = checked_weights(weights, len(A))
    shared = weights if weights is not None and weights.ndim == 1 else None
    own = weights if weights is not None and weights.ndim == 2 else None
    problem = BoundedLeastSquares(A, lower, upper, kind, total, l2=float(l2), L=L, weights=shared)
    if not problem.is_moderate:
        raise ValueError(
            f"The 'A' parameter of {owner} must have columns with norms between 1e-120 and 1e120, or of "
            "zeros. Got others. Scale them, and the bounds of their variables the other way."
        )
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
        B = checked_block(B, len(A))
        one, B = B.ndim == 1, B.reshape(len(B), -1)
        if own is not None and own.shape != B.shape:
            raise ValueError(
                f"The 'weights' parameter of {owner} must have shape ({len(A)},) or that of B, {B.shape}. "
                f"Got {own.shape} instead."
            )
        answers = Answers.empty(B.shape[1], n, checked_out(out, n, B.shape[1]))
        solver.solve(B, answers, own)
        converged = answers.converged(tol) if own is not None else finished(solver, B, answers)
    solution = as_solution(answers, converged)
    warn_unless_converged(owner, solution, tol, 2)
    return LeastSquaresSolution(**{**vars(solution), "codes": solution.codes[0]}) if one else solution


def _by_blocks(solver: TallSolver, blocks: Iterator[Any], out: Any) -> tuple[Answers, Any]:
    """The answers to blocks of right-hand sides, one after the other, and which of them converged."""
    n_features, n = solver.problem.A.shape
    room = checked_out(out, n, None)
    parts, converged, done = [], [np.zeros(0, bool)], 0
    for block in blocks:
        B = checked_block(block, n_features).reshape(n_features, -1)
        own = None if room is None else room[done : done + B.shape[1]]
        done += B.shape[1]
        if room is not None and done > len(room):
            raise ValueError(
                f"The 'out' parameter of least_squares must have one column for each right-hand side. "
                f"Got {len(room)}, but the blocks have at least {done}."
            )
        part = Answers.empty(B.shape[1], n, own)
        solver.solve(B, part)
        converged.append(finished(solver, B, part))
        parts.append(part)
    whole = Answers.empty(done, n, None if room is None else room[:done])
    start = 0
    for part in parts:
        stop = start + len(part.gap)
        whole.put(slice(start, stop), part)
        start = stop
    return whole, np.concatenate(converged)
