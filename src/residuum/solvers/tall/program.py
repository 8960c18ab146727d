"""The quadratic program behind constrained least squares, with columns scaled by powers of two."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from residuum.problem import Float64Array

from .layout import NO_SUM

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
        e = self.exponents
        with np.errstate(over="ignore", under="ignore"):
            lower, upper = np.ldexp(self.lower, e), np.ldexp(self.upper, e)
        w = np.ldexp(np.ones(len(e)), -e)
        return np.vstack([lower, upper, self._farthest(lower, upper, w), w, 0.5 * self.l1 * w])

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
        return np.array([self.depth, self.total, float(self.kind), tol, shifted, self.concave])

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
