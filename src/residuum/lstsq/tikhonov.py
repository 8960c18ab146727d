"""The weight of Tikhonov regularisation: a path of weights for the price of one product, and a choice on it.

    x(w) = argmin ||b - Ax||^2 + w ||Lx||^2    s.t. lower <= x <= upper, and perhaps a sum

With F the variables that lie strictly within their bounds, x(w) is locally a linear function of b, and the
fit Ax has as many degrees of freedom as its derivative has trace:

    df(w) = tr A_F (A_F'A_F + w L_F'L_F)^{-1} A_F',

less what an equation on the sum takes away. Three rules choose w for each right-hand side of m entries:

    gcv          least  m ||b - Ax||^2 / (m - df)^2           Golub, Heath and Wahba 1979
    l-curve      largest curvature of (log ||b - Ax||, log ||Lx||)   Hansen 1992
    discrepancy  largest w with  ||b - Ax|| <= noise          Morozov 1966
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import StrOptions, validate_params
from sklearn.utils.validation import check_array

from residuum.plain_numbers import check_numbers
from residuum.problem import Float64Array
from residuum.solvers.tall import SUM_AT_MOST, SUM_TO, Answers, BoundedLeastSquares, TallSolver, solve_path

from .arguments import POSITIVE, Limits, Tikhonov, checked_block
from .solution import LeastSquaresSolution, as_solution, warn_unless_converged

OWNER = "tikhonov_path"
MOST_ENTRIES = 4_000_000  # of the matrices that are solved together for degrees of freedom


@dataclass(frozen=True)
class TikhonovPath:
    """Solutions for every weight of a path, the smallest weight first."""

    weights: Float64Array  # (n_weights,)
    solutions: tuple[LeastSquaresSolution, ...]
    residual_norm: Float64Array  # (n_weights, n_rhs): ||b - Ax||
    penalty_norm: Float64Array  # (n_weights, n_rhs): ||Lx||
    problem: BoundedLeastSquares  # without a weight


@dataclass(frozen=True)
class WeightChoice:
    """The weight that a rule chose for each right-hand side."""

    weight: Float64Array  # (n_rhs,)
    index: Any  # (n_rhs,): its place on the path
    score: Float64Array  # (n_weights, n_rhs): what the rule compares; the chosen weight has the least
    solution: LeastSquaresSolution


@validate_params({"tol": POSITIVE}, prefer_skip_nested_validation=True)
def tikhonov_path(
    A: Any,
    B: Any,
    weights: Any,
    *,
    regularizer: Any = None,
    bounds: tuple[Any, Any] = (0.0, np.inf),
    sum_to: float | None = None,
    sum_at_most: float | None = None,
    tol: float = 1e-10,
) -> TikhonovPath:
    """Minimise ||b - Ax||^2 + w ||Lx||^2 subject to lower <= x <= upper, for each w and each column b of B.

    A is multiplied with itself and with B once, whatever the number of weights.

    Parameters
    ----------
    A : array of shape (n_features, n_atoms)
        To weight its rows, multiply those of A and B by the roots of their weights.
    B : array of shape (n_features,) or (n_features, n_rhs)
        Right-hand sides as columns, without missing entries.
    weights : array of shape (n_weights,)
        Not negative, for example ``np.geomspace(1e-4, 10, 20)``. They are sorted.
    regularizer : array of shape (any, n_atoms), optional
        L; the identity if None.
    bounds, sum_to, sum_at_most, tol
        As for `least_squares`.

    Returns
    -------
    TikhonovPath
        ``solutions`` has a certified `LeastSquaresSolution` for each weight, as `least_squares` would return
        for ``l2=Tikhonov(weight, regularizer)``. Pass the path to `choose_weight`.
    """
    A = check_array(check_numbers(A, "A", OWNER), dtype=np.float64, input_name="A")
    B = checked_block(B, len(A), OWNER).reshape(len(A), -1)
    if not np.isfinite(B).all():
        raise ValueError(
            f"The 'B' parameter of {OWNER} must hold finite numbers. Got NaN or infinity. Call it for each "
            "group of right-hand sides that miss the same rows, without these rows."
        )
    grid = _checked_grid(weights)
    limits = Limits(bounds, sum_to, sum_at_most)
    gram = A.T @ A
    terms = [Tikhonov(float(w), regularizer) for w in grid]
    problems = [limits.problem(OWNER, A, 0.0, term, known=gram) for term in terms]
    solvers = [TallSolver(problem, tol=tol) for problem in problems]
    answers = [Answers.empty(B.shape[1], A.shape[1]) for _ in grid]
    solve_path(solvers, B, answers)
    solutions = tuple(as_solution(found, found.converged(tol)) for found in answers)
    for solution in solutions:
        warn_unless_converged(OWNER, solution, tol, 2)
    L = np.eye(A.shape[1]) if regularizer is None else np.asarray(regularizer, dtype=np.float64)
    penalty = np.array([np.linalg.norm(found.points @ L.T, axis=1) for found in answers])
    residual = np.array([found.residual_norm for found in answers])
    return TikhonovPath(grid, solutions, residual, penalty, replace(problems[0], l2=1.0))


@validate_params(
    {"path": [TikhonovPath], "by": [StrOptions({"gcv", "l-curve", "discrepancy"})]},
    prefer_skip_nested_validation=True,
)
def choose_weight(path: TikhonovPath, *, by: str = "gcv", noise: Any = None) -> WeightChoice:
    """Choose the weight w of ||b - Ax||^2 + w ||Lx||^2 on a path, for each right-hand side by itself.

    Parameters
    ----------
    path : TikhonovPath
        What `tikhonov_path` returned.
    by : {"gcv", "l-curve", "discrepancy"}
        Generalised cross-validation, with the degrees of freedom of the variables that lie strictly within
        their bounds; the point of the path where ``(log ||b - Ax||, log ||Lx||)`` bends most; or the largest
        weight with ``||b - Ax|| <= noise``, the smallest if there is none.
    noise : number or array of shape (n_rhs,)
        Norm of the noise in each right-hand side; only for "discrepancy", which needs it.

    Returns
    -------
    WeightChoice
        The weights, their places on the path, what the rule compared, and the chosen solutions. For one
        weight for all, take the least of ``choice.score.sum(axis=1)``.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum import choose_weight, tikhonov_path
    >>> A = np.vander(np.linspace(0, 1, 30), 6)
    >>> path = tikhonov_path(A, A @ np.ones(6) + 0.01, np.geomspace(1e-6, 1, 7))
    >>> choose_weight(path, by="discrepancy", noise=0.1).weight
    array([0.1])
    """
    shape = path.residual_norm.shape
    if (noise is not None) != (by == "discrepancy"):
        raise ValueError(
            f"The 'noise' parameter of choose_weight must be given for by='discrepancy', and only there. "
            f"Got by={by!r} and noise={noise!r}."
        )
    if by == "gcv":
        left = path.problem.A.shape[0] - _degrees_of_freedom(path)
        with np.errstate(divide="ignore", invalid="ignore"):
            score = np.where(left > 0, len(path.problem.A) * path.residual_norm**2 / left**2, np.inf)
    elif by == "l-curve":
        score = -_curvature(path)
    else:
        score = np.where(path.residual_norm <= _checked_noise(noise, shape[1]), -1.0, 1.0)
        score *= np.arange(1.0, shape[0] + 1)[
            :, None
        ]  # the largest weight below the noise, else the smallest
    index = score.argmin(axis=0)
    return WeightChoice(path.weights[index], index, score, _chosen(path, index))


def _chosen(path: TikhonovPath, index: Any) -> LeastSquaresSolution:
    """For each right-hand side the solution with its weight."""
    rows = np.arange(len(index))
    fields = ("codes", "n_iter", "violation", "gap", "converged", "residual_norm")
    picked = [np.stack([getattr(s, name) for s in path.solutions])[index, rows] for name in fields]
    codes, n_iter, violation, gap, converged, norms = picked
    return LeastSquaresSolution(codes, n_iter, violation, gap, converged, _norms=norms)


def _degrees_of_freedom(path: TikhonovPath) -> Float64Array:
    """Of each fit, shape (n_weights, n_rhs): solved once for each weight and set of free variables."""
    problem, n = path.problem, path.problem.A.shape[1]
    gram, penalty = problem.known, problem.penalty.T @ problem.penalty
    freedom = np.empty(path.residual_norm.shape)
    for k, solution in enumerate(path.solutions):
        free = (solution.codes > problem.lower) & (solution.codes < problem.upper)
        summed = np.full(len(free), problem.kind == SUM_TO)
        if problem.kind == SUM_AT_MOST:
            summed = solution.codes.sum(axis=1) >= problem.total * (1 - 1e-12)
        sets, which = np.unique(np.column_stack([free, summed]), axis=0, return_inverse=True)
        own = np.empty(len(sets))
        size = max(1, MOST_ENTRIES // (n * n))
        for start in range(0, len(sets), size):
            part = sets[start : start + size]
            own[start : start + size] = _traces(
                gram, gram + path.weights[k] * penalty, part[:, :n], part[:, n]
            )
        freedom[k] = own[which.ravel()]
    return freedom


def _traces(gram: Any, Q: Float64Array, free: Any, summed: Any) -> Float64Array:
    """``tr (Q_FF)^{-1} G_FF`` for each row of `free`; a sum takes out the direction ``(Q_FF)^{-1} 1``."""
    both = free[:, :, None] & free[:, None, :]
    scale = 1 / np.sqrt(np.where(np.diagonal(Q) > 0, np.diagonal(Q), 1.0))
    inverse = np.linalg.pinv(np.where(both, scale[:, None] * Q * scale, 0.0), hermitian=True, rcond=1e-13)
    inverse = scale[:, None] * inverse * scale
    along = np.einsum("kij,kj->ki", inverse, free.astype(float))
    per = np.einsum("ki,ki->k", along, free.astype(float))
    own = np.einsum("kij,ij->k", inverse, gram)
    taken = np.einsum("ki,ij,kj->k", along, gram, along)
    return own - np.where(summed & (per > 0), taken / np.where(per > 0, per, 1.0), 0.0)


def _curvature(path: TikhonovPath) -> Float64Array:
    """Of the L-curve at each weight: one over the radius of the circle through a point and its neighbours."""
    tiny = np.finfo(float).tiny
    curve = np.log(np.maximum(np.stack([path.residual_norm, path.penalty_norm]), tiny))  # (2, weights, rhs)
    bend = np.full(path.residual_norm.shape, -np.inf)
    if len(path.weights) < 3:
        raise ValueError(f"The L-curve needs at least 3 weights. Got {len(path.weights)}.")
    to, on = curve[:, 1:-1] - curve[:, :-2], curve[:, 2:] - curve[:, 1:-1]
    lengths = np.prod([np.hypot(*to), np.hypot(*on), np.hypot(*(to + on))], axis=0)
    turn = to[0] * on[1] - to[1] * on[0]
    bend[1:-1] = np.divide(2 * turn, lengths, out=np.full(turn.shape, -np.inf), where=lengths > 0)
    return bend


def _checked_grid(weights: Any) -> Float64Array:
    grid = np.sort(np.asarray(weights, dtype=np.float64).ravel())
    if not grid.size or not (np.isfinite(grid) & (grid >= 0)).all():
        raise ValueError(
            f"The 'weights' parameter of {OWNER} must be numbers that are not negative. Got {weights!r}."
        )
    return grid


def _checked_noise(noise: Any, n_rhs: int) -> Float64Array:
    size = np.asarray(noise, dtype=np.float64) if isinstance(noise, (Real, np.ndarray, list)) else np.empty(0)
    if size.shape not in ((), (n_rhs,)) or not (size > 0).all():
        raise ValueError(
            f"The 'noise' parameter of choose_weight must be a positive number, or one for each of {n_rhs} "
            f"right-hand sides. Got {noise!r}."
        )
    return size
