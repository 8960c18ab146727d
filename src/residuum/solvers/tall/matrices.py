"""What all right-hand sides of one matrix Q share: its inverse, how convex it is, and an inner direction.

Where Q is singular or nearly so, no least eigenvalue limits how far a better point may be. But the columns of
the variables without an upper bound often lie on one side, as those of all non-negative matrices do: there is
a z with ``Qz`` positive for each of them, an inner direction of the cone of all gradients that prove a point
optimal. Of the directions ``v = Az`` the shortest with ``a_j'v >= ||a_j||`` is taken, the residual of a
non-negative least-squares problem (Lawson and Hanson 1974, least distance programming).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from residuum.problem import Float64Array

from .layout import LANES, NO_SUM, U, aligned
from .program import BoundedLeastSquares

ILL_CONDITIONED = 3e-7  # least eigenvalue, relative to the mean one, below which blocks of exchanges cycle
LARGE = 1e-5  # ridge with which they do not, relative to the largest diagonal entry
SINGULAR = 1e-11  # least eigenvalue, relative to the mean one, below which proximal points are taken
SMALL = 1e-12  # their ridge, relative to the largest diagonal entry


class Matrices(NamedTuple):
    """Matrices Q for the kernels, rows padded with zeros to a multiple of LANES."""

    Q: Float64Array  # (k, n, wide)
    inverse: Float64Array  # (k, n, wide), of Q + first
    mu: Float64Array  # (k,): at most the least eigenvalue of Q, for the exact columns
    eps: Float64Array  # (k,): ridge of proximal points, or 0
    first: Float64Array  # (k,): ridge of the first solve, or 0
    alpha: Float64Array  # (k, n): norms of the columns
    slope: Float64Array  # (k, n): Qz of an inner direction z
    length: Float64Array  # (k,): at least z'Qz, or 0 without z
    slack: Float64Array  # (k,): error of the slope of a column of unit norm


def prepare(problem: BoundedLeastSquares, Q: Float64Array) -> Matrices:
    """Matrices Q of shape (k, n, n) with all that solves share.

    With X near the inverse of Q and E = I - XQ, the least eigenvalue is at least (1 - ||E||) / ||X||, less
    what rounding may have changed in Q.
    """
    n, identity = Q.shape[1], np.eye(Q.shape[1])
    diagonal = np.einsum("kii->ki", Q)
    alpha, most = np.sqrt(diagonal) * (1 + 1e-12), diagonal.max(axis=1, initial=0.0)
    idle = (problem.lower <= 0) & (problem.upper >= 0) & (problem.kind == NO_SUM)
    unused = np.where((diagonal == 0) & idle, 1.0, 0.0)  # an unused variable stays zero
    Q = Q + unused[:, :, None] * identity
    trace = np.einsum("kii->k", Q)
    inverse, mu = _inverted(Q)
    mu = (mu - U * problem.depth * trace).clip(0.0)
    eps = np.where(mu > SINGULAR * trace / n, 0.0, SMALL * most)
    eps = np.where((trace == 0) & (eps == 0), 1.0, eps)
    first = np.where(mu > ILL_CONDITIONED * trace / n, 0.0, np.maximum(LARGE * most, eps))
    if (some := np.flatnonzero(first)).size:
        inverse[some] = _inverted(Q[some] + first[some, None, None] * identity)[0]
    slope, (length, slack) = np.zeros(alpha.shape), np.zeros((2, len(Q)))
    for k in np.flatnonzero(eps):
        slope[k], length[k], slack[k] = inner_direction(problem, Q[k], alpha[k])
    return Matrices(_padded(Q), _padded(inverse), mu, eps, first, alpha, slope, length, slack)


def inner_direction(
    problem: BoundedLeastSquares, Q: Float64Array, alpha: Float64Array
) -> tuple[Float64Array, float, float]:
    """``Qz``, a bound above z'Qz and the error of Qz for columns of unit norm; zeros without such a z."""
    lower, _, farthest = problem.vectors()[:3]
    rises, falls = (alpha > 0) & (farthest == np.inf), (alpha > 0) & (lower == -np.inf)
    none = np.zeros(len(Q)), 0.0, 0.0
    if problem.concave > 0 or (rises & falls).any() or not (rises | falls).any():
        return none
    places = np.flatnonzero(rises | falls)
    unit = np.where(rises, 1.0, -1.0)[places] / alpha[places]
    values, axes = np.linalg.eigh(Q)
    columns = (np.sqrt(values.clip(0.0)) * axes).T[:, places] * unit  # their products are those of Q
    try:
        found = nnls(np.vstack([columns, np.ones(len(places))]), np.eye(len(Q) + 1)[-1])[0]
    except RuntimeError:  # too many iterations
        return none
    left, z = 1.0 - float(found.sum()), np.zeros(len(Q))
    if left <= 0:
        return none
    z[places] = unit * found / left
    slope, size = Q @ z, float(alpha @ np.abs(z))
    slack = 2 * U * problem.depth * size
    if not (np.isfinite(size) and (unit * slope[places] > 2 * slack).all()):
        return none
    return slope, float(z @ slope) * (1 + 1e-12) + slack * size, slack


def _padded(matrices: Float64Array) -> Float64Array:
    """The same with rows padded to a multiple of LANES."""
    k, n = matrices.shape[:2]
    room = aligned((k, n, -(-n // LANES) * LANES))
    room[:, :, :n] = matrices
    return room


def deepest_eigenvalue(Q: Float64Array, depth: float, most: float) -> float:
    """A bound on how far below zero the least eigenvalue of Q can be; inf if that may be more than `most`.

    If a Cholesky factor of Q + delta I can be computed, no eigenvalue lies further below -delta than what
    rounding can hide, which is (n + 2) u times the trace (Rump 2006).
    """
    n, trace = len(Q), float(np.trace(Q))
    if not Q.any():
        return 0.0
    delta = U * (depth + 4 * n) * trace
    while 0 < delta <= min(most, trace):
        try:
            np.linalg.cholesky(Q + delta * np.eye(n))
        except np.linalg.LinAlgError:
            delta *= 4
            continue
        return delta + U * (depth + n + 2) * (trace + n * delta)
    return np.inf


def least_eigenvalue(Q: Float64Array, depth: float) -> Float64Array:
    """Bounds below the least eigenvalues of the matrices that Q, of shape (k, n, n), was rounded from."""
    return (_inverted(Q)[1] - U * depth * np.einsum("kii->k", Q)).clip(0.0)


def _inverted(Q: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Inverses, zero where there is none, and lower bounds on the least eigenvalues."""
    n = Q.shape[-1]
    try:
        inverse = np.linalg.inv(Q)
    except np.linalg.LinAlgError:
        if len(Q) == 1:
            return np.zeros_like(Q), np.zeros(1)
        parts = [_inverted(one[None]) for one in Q]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.linalg.norm(inverse, axis=(1, 2)) * (1 + 1e-12)
        wrong = np.linalg.norm(inverse @ Q - np.eye(n), axis=(1, 2))
        wrong += U * (2 * n + 4) * length * np.linalg.norm(Q, axis=(1, 2))
        mu = np.where(wrong < 0.5, (1 - wrong) / length, 0.0)
    return np.asarray(inverse, dtype=np.float64), mu
