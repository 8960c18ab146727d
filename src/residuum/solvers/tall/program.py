"""The quadratic program behind constrained least squares: scaled columns, matrices, how convex they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from residuum.problem import Float64Array

from .layout import LANES, NO_SUM, U

SINGULAR = 1e-11  # least eigenvalue, relative to the mean one, below which a ridge is put on the diagonal
RIDGE = 1e-12  # that ridge, relative to the largest diagonal entry
MODERATE = 400  # exponents of two of columns that can be scaled


@dataclass(frozen=True)
class BoundedLeastSquares:
    """``min ||b - Ax||_w^2 + l2 ||Lx||^2 + l1 sum(x)``, lower <= x <= upper, and perhaps a sum of x.

    All arrays are float64 and finite, but for infinite bounds. Where only A'A is known, A has no rows.
    """

    A: Float64Array  # (n_rows, n)
    lower: Float64Array  # (n,)
    upper: Float64Array
    kind: int = NO_SUM
    total: float = 0.0
    l1: float = 0.0
    l2: float = 0.0
    L: Float64Array | None = None  # (any, n); the identity if None
    weights: Float64Array | None = None  # (n_rows,)
    known: Float64Array | None = None  # (n, n): A'WA, where it is known
    concave: float = -1.0  # without A, how far below zero an eigenvalue of the scaled Q can be

    def penalties(self, points: Float64Array) -> Float64Array:
        """``l2 ||Lx||^2 + l1 sum(x)`` for each row x of `points`."""
        weighted = points @ self.penalty.T
        square = self.l2 * np.einsum("ij,ij->i", weighted, weighted) if self.l2 else np.zeros(len(points))
        return square + self.l1 * points.sum(axis=1) if self.l1 else square

    @property
    def is_non_negative(self) -> bool:
        """Whether this is non-negative least squares, perhaps with a ridge, and nothing else."""
        plain = self.kind == NO_SUM and self.L is None and self.weights is None
        return plain and bool((self.lower == 0).all() and (self.upper == np.inf).all())

    @cached_property
    def penalty(self) -> Float64Array:
        """Rows whose product with x is penalised by l2; none without l2."""
        n = self.A.shape[1]
        if self.l2 == 0:
            return np.empty((0, n))
        return np.eye(n) if self.L is None else self.L

    @cached_property
    def exponents(self) -> npt.NDArray[np.int32]:
        """Of two: columns of A and L divided by these powers have norms between 1/2 and 1."""
        if self.known is not None:
            square = np.diagonal(self.known) + self.l2 * np.sum(self.penalty**2, axis=0)
            return np.where(square > 0, np.frexp(np.sqrt(square.clip(0.0)))[1], 0).astype(np.int32)
        rows = np.vstack([self.A, self.penalty])
        largest = np.frexp(np.abs(rows).max(axis=0, initial=0.0))[1]
        weight = np.ones(len(self.A)) if self.weights is None else self.weights
        weight = np.concatenate([weight, np.full(len(self.penalty), self.l2)])
        with np.errstate(under="ignore"):
            square = weight @ np.ldexp(rows, -largest) ** 2
        return np.where(square > 0, largest + np.frexp(np.sqrt(square))[1], 0).astype(np.int32)

    @property
    def is_moderate(self) -> bool:
        """Whether no column is so long or short that products with it may overflow or vanish."""
        return bool((np.abs(self.exponents) < MODERATE).all())

    @cached_property
    def columns(self) -> Float64Array:
        """The columns of A, scaled."""
        return np.ldexp(self.A, -self.exponents)

    @cached_property
    def depth(self) -> float:
        """Roundings that an entry of the gradient goes through."""
        return float(len(self.A) + len(self.penalty) + self.A.shape[1] + 16)

    @cached_property
    def penalty_gram(self) -> Float64Array:
        """``l2 L'L`` of the scaled columns."""
        scaled = np.ldexp(self.penalty, -self.exponents)
        return self.l2 * (scaled.T @ scaled)

    def vectors(self) -> Float64Array:
        """What the kernels know of the variables: the first rows of their V."""
        e, ones = self.exponents, np.ones(self.A.shape[1])
        with np.errstate(over="ignore", under="ignore"):
            lower, upper = np.ldexp(self.lower, e), np.ldexp(self.upper, e)
        w = np.ldexp(ones, -e)
        return np.vstack([lower, upper, self._farthest(lower, upper, w), w, ones, 0.5 * self.l1 * w])

    def _farthest(self, lower: Float64Array, upper: Float64Array, w: Float64Array) -> Float64Array:
        """Upper bounds, also those that the sum and the other lower bounds imply."""
        if self.kind == NO_SUM:
            return upper
        finite = np.isfinite(lower)
        least = np.where(finite, w * np.where(finite, lower, 0.0), 0.0)
        others = (~finite).sum() - ~finite  # how many of the other variables have no lower bound
        size = abs(self.total) + np.abs(least).sum()
        implied = (self.total - (least.sum() - least) + 1e-12 * size) / w
        return np.minimum(upper, np.where(others == 0, implied, np.inf))

    def numbers(self, tol: float) -> Float64Array:
        """What the kernels know of the problem: the first entries of their S."""
        bounds = np.concatenate([self.lower, self.upper])
        shifted = float((np.isfinite(bounds) & (bounds != 0)).any())
        return np.array([0.0, 0.0, self.depth, self.total, float(self.kind), 0.0, tol, shifted, self.concave])

    def gram(self) -> Float64Array:
        """``Q = A'WA + l2 L'L`` of the scaled columns, shape (n, n)."""
        if self.known is not None:
            return np.ldexp(self.known, -self.exponents[:, None] - self.exponents) + self.penalty_gram
        columns = self.columns
        if self.weights is None:
            return columns.T @ columns + self.penalty_gram
        weighted = np.sqrt(self.weights)[:, None] * columns
        return weighted.T @ weighted + self.penalty_gram

    def grams(self, weights: Float64Array) -> Float64Array:
        """One Q for each column of weights, shape (k, n, n)."""
        n = self.A.shape[1]
        upper = np.triu_indices(n)
        half = weights.T @ self._pairs  # (k, n (n + 1) / 2)
        Q = np.empty((len(half), n, n))
        Q[:, upper[0], upper[1]] = half
        Q[:, upper[1], upper[0]] = half
        return Q + self.penalty_gram

    @cached_property
    def _pairs(self) -> Float64Array:
        """Products of all pairs of columns, shape (n_rows, n (n + 1) / 2)."""
        first, second = np.triu_indices(self.A.shape[1])
        return self.columns[:, first] * self.columns[:, second]


class Matrices(NamedTuple):
    """Matrices Q for the kernels, rows padded with zeros to a multiple of LANES."""

    Q: Float64Array  # (k, n, wide), with `eps` on the diagonal
    inverse: Float64Array
    mu: Float64Array  # (k,): at most the least eigenvalue of Q - eps, for the exact columns
    eps: Float64Array  # (k,)
    alpha: Float64Array  # (k, n): norms of the columns


def prepare(problem: BoundedLeastSquares, Q: Float64Array) -> Matrices:
    """Matrices Q of shape (k, n, n) with all that solves share.

    With X near the inverse of Q and E = I - XQ, the least eigenvalue is at least (1 - ||E||) / ||X||, less
    what rounding may have changed in Q.
    """
    n = Q.shape[1]
    diagonal = np.einsum("kii->ki", Q)
    alpha = np.sqrt(diagonal) * (1 + 1e-12)
    idle = (problem.lower <= 0) & (problem.upper >= 0) & (problem.kind == NO_SUM)
    Q = Q + np.where((diagonal == 0) & idle, 1.0, 0.0)[:, :, None] * np.eye(
        n
    )  # an unused variable stays zero
    trace = np.einsum("kii->k", Q)
    inverse, mu = _inverted(Q)
    mu = (mu - U * problem.depth * trace).clip(0.0)
    eps = np.where(mu > SINGULAR * trace / n, 0.0, RIDGE * diagonal.max(axis=1, initial=0.0))
    eps = np.where((trace == 0) & (eps == 0), 1.0, eps)
    if (some := np.flatnonzero(eps)).size:
        Q[some] += eps[some, None, None] * np.eye(n)
        inverse[some] = _inverted(Q[some])[0]
    pad = ((0, 0), (0, 0), (0, -n % LANES))
    return Matrices(np.pad(Q, pad), np.pad(inverse, pad), mu, eps, alpha)


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
