"""Least squares within bounds, with a sum, weights and Tikhonov regularisation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_params

from residuum.solvers.tall import Answers, TallSolver

from .arguments import (
    NON_NEGATIVE,
    POSITIVE,
    Limits,
    Tikhonov,
    checked_array,
    checked_block,
    checked_out,
    checked_weights,
)
from .solution import LeastSquaresSolution, as_solution, finished, of_one, warn_unless_converged

OWNER = "least_squares"


@validate_params(
    {"l1": NON_NEGATIVE, "l2": [*NON_NEGATIVE, Tikhonov], "tol": POSITIVE}, prefer_skip_nested_validation=True
)
def least_squares(
    A: Any,
    B: Any,
    *,
    bounds: tuple[Any, Any] = (0.0, np.inf),
    sum_to: float | None = None,
    sum_at_most: float | None = None,
    l1: float = 0.0,
    l2: float | Tikhonov = 0.0,
    weights: Any = None,
    tol: float = 1e-10,
    out: Any = None,
) -> LeastSquaresSolution:
    """Minimise ||b - Ax||^2 + l2 ||Lx||^2 + l1 ||x||_1 with lower <= x <= upper, for each column b of B.

    Non-negative least squares by default; with ``sum_to=1`` fully constrained unmixing; with
    ``l2=Tikhonov(weight, L)`` Tikhonov regularisation, whose weight `choose_weight` can choose. Made for many
    right-hand sides and up to a few hundred columns.

    Parameters
    ----------
    A : array of shape (n_features, n_atoms)
        Float32 or float64; its columns may be of any scale.
    B : array of shape (n_features,) or (n_features, n_rhs), or iterator of such blocks
        Right-hand sides as columns. A memory map is read block by block. An iterator yields blocks of
        columns, which are solved one after the other, so that only one of them needs to be in memory. NaN is
        a missing entry; right-hand sides that miss the same entries share their matrices.
    bounds : (lower, upper)
        Numbers, or arrays of shape (n_atoms,), as in ``scipy.optimize.lsq_linear``; ``-inf`` and ``inf`` are
        allowed: ``bounds=(-np.inf, np.inf)`` leaves all variables free.
    sum_to, sum_at_most : float, optional
        What the variables of each right-hand side must sum to, exactly or at most. Only one can be given.
    l1 : float
        Weight of the l1 norm; only for lower bounds that are not negative.
    l2 : float or Tikhonov
        Weight of the penalty ``||x||^2``, or the penalty ``weight ||Lx||^2``.
    weights : array of shape (n_features,) or (n_features, n_rhs), optional
        Weights of the squared residuals, not negative. Entries of B whose weight is zero are left out, even
        if they are infinite.
    tol : float
        A right-hand side has converged if its violation, for columns and right-hand sides scaled to unit
        norm, and its gap are both at most `tol`; see `nnls`.
    out : float64 array of shape (n_atoms, n_rhs), optional
        Where the solutions are written, for example a memory map; ``solution.x`` is then this array.

    Returns
    -------
    LeastSquaresSolution
        The number of threads follows ``joblib.parallel_config``, then NUMBA_NUM_THREADS and OMP_NUM_THREADS.
        ``x`` has the shape of SciPy's solutions, right-hand sides as columns; ``codes`` is its transpose.
        ``residual_norm`` is ``||b - Ax||``, weighted if there are weights. ``violation``, ``gap`` and
        ``converged`` certify each right-hand side: bounds hold exactly, the sum to the violation, and the
        objective lies at most ``gap * scale^2`` above its minimum. The scale is ``||b||`` plus what the
        constraints force upon x: ``sum_j ||a_j|| |x_j|`` for the x_j within the bounds that are nearest to
        zero, or ``|sum_to|`` times the norm of the shortest column that is not zero if that is more; so it is
        ``||b||`` where x = 0 is allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum import least_squares
    >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> least_squares(A, np.array([1.0, 0.0, 1.0]), sum_to=1.0).x
    array([1., 0.])
    """
    A = checked_array(A, "A", OWNER).astype(np.float64, copy=False)
    weights = checked_weights(weights, len(A))
    shared, own = (weights, None) if weights is None or weights.ndim == 1 else (None, weights)
    problem = Limits(bounds, sum_to, sum_at_most).problem(OWNER, A, l1, l2, weights=shared)
    solver = TallSolver(problem, tol=tol)
    if isinstance(B, Iterator):
        solution, one = as_solution(*_by_blocks(solver, B, own, out)), False
    else:
        B = checked_block(B, len(A), OWNER)
        one, B = B.ndim == 1, B.reshape(len(B), -1)
        solution = as_solution(*_at_once(solver, B, own, out))
    warn_unless_converged(OWNER, solution, tol, 2)
    return of_one(solution) if one else solution


def _at_once(solver: TallSolver, B: Any, own: Any, out: Any) -> tuple[Answers, Any]:
    """The answers to all right-hand sides, perhaps each with weights of its own, and which converged."""
    if own is not None and own.shape != B.shape:
        raise ValueError(
            f"The 'weights' parameter of {OWNER} must have shape ({len(B)},) or that of B, {B.shape}. "
            f"Got {own.shape} instead."
        )
    n = solver.problem.A.shape[1]
    answers = Answers.empty(B.shape[1], n, checked_out(out, n, B.shape[1]))
    solver.solve(B, answers, own)
    return answers, answers.converged(solver.tol) if own is not None else finished(solver, B, answers)


def _by_blocks(solver: TallSolver, blocks: Iterator[Any], own: Any, out: Any) -> tuple[Answers, Any]:
    """The answers to blocks of right-hand sides, one after the other, and which of them converged."""
    n_features, n = solver.problem.A.shape
    if own is not None:
        raise ValueError(
            f"The 'weights' parameter of {OWNER} must have shape ({n_features},) when B is an iterator. "
            f"Got shape {own.shape} instead; call {OWNER} for each block with its own weights."
        )
    room = checked_out(out, n, None)
    parts, converged, done = [], [np.zeros(0, bool)], 0
    for block in blocks:
        B = checked_block(block, n_features, OWNER).reshape(n_features, -1)
        place = None if room is None else room[done : done + B.shape[1]]
        done += B.shape[1]
        if room is not None and done > len(room):
            raise ValueError(
                f"The 'out' parameter of {OWNER} must have one column for each right-hand side. "
                f"Got {len(room)}, but the blocks have at least {done}."
            )
        part = Answers.empty(B.shape[1], n, place)
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
