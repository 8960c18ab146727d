"""Constrained least squares for many right-hand sides, block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residuum.problem import Float64Array
from residuum.system.threads import run_chunks, thread_count

from .program import BoundedLeastSquares, Matrices, prepare
from .proof import Difficult, Point

BLOCK = 960  # right-hand sides handled together by one thread
PADDED = 48  # blocks are padded to a multiple: BLAS then treats every right-hand side alike
CANCELS = 1e-7  # share of ||b||^2 below which the residual is computed from A and b
REACHABLE = 1e-12  # smaller tolerances are met by rounding, or not
MODERATE = (1e-200, 1e200)  # ||b||^2 that is used as it is


@dataclass
class Answers:
    """Points and certificates of some right-hand sides."""

    points: Float64Array  # (n_rhs, n)
    violation: Float64Array
    gap: Float64Array
    rounding: Float64Array
    n_iter: Any
    residual_norm: Float64Array

    @classmethod
    def empty(cls, n_rhs: int, n: int, points: Any = None) -> Answers:
        """Room for the answers."""
        points = np.empty((n_rhs, n)) if points is None else points
        violation, gap, rounding, norms = np.empty((4, n_rhs))
        return cls(points, violation, gap, rounding, np.empty(n_rhs, np.int64), norms)

    def converged(self, tol: float) -> Any:
        """Which of them met the tolerance."""
        return (self.violation <= np.maximum(tol, self.rounding)) & (self.gap <= tol)

    def put(self, place: Any, other: Answers) -> None:
        """Write the answers of some right-hand sides to their place."""
        for name, array in vars(self).items():
            array[place] = getattr(other, name)


class TallSolver:
    """Solves one `BoundedLeastSquares` for blocks of right-hand sides; matrices are prepared once."""

    def __init__(self, problem: BoundedLeastSquares, *, tol: float, n_jobs: int | None = None) -> None:
        self.problem, self.tol, self.n_jobs = problem, tol, n_jobs

    def prepare(self) -> Matrices:
        """The matrices of right-hand sides without weights of their own."""
        if not hasattr(self, "_matrices"):
            self._matrices = prepare(self.problem, self.problem.gram()[None])
        return self._matrices

    @property
    def is_regular(self) -> bool:
        """Whether the columns are independent enough for a program to be solved as it is."""
        return self.problem.is_moderate and not self.prepare().eps.any()

    def solve(self, B: Any, answers: Answers, weights: Any = None) -> None:
        """Solve for every column of B, weighted by those of `weights` if given, and fill `answers`."""
        problem = self.problem
        vectors, numbers = problem.vectors(), problem.numbers(max(self.tol, REACHABLE))
        if weights is None:
            self.prepare()

        def work(start: int, stop: int) -> None:
            block = np.asarray(B[:, start:stop], dtype=np.float64)
            own = None if weights is None else np.asarray(weights[:, start:stop], dtype=np.float64)
            part = Answers(**{name: array[start:stop] for name, array in vars(answers).items()})
            self._solve_block(block, own, vectors, numbers, part)

        n = problem.A.shape[1]
        size = BLOCK if weights is None else max(PADDED, min(BLOCK, 4_000_000 // (n * n)))
        run_chunks(work, B.shape[1], size, thread_count(self.n_jobs))

    def _solve_block(self, block: Any, own: Any, vectors: Any, numbers: Any, part: Answers) -> None:
        from . import kernels  # loads numba, which importing residuum must not

        problem, count = self.problem, block.shape[1]
        weight = own if own is not None else problem.weights
        if weight is not None:
            block = np.where(weight.reshape(len(block), -1) > 0, block, 0.0)
        with np.errstate(over="ignore", under="ignore"):
            scaled = block if weight is None else weight.reshape(len(block), -1) * block
            energy = np.einsum("ij,ij->j", block, scaled)
        if not np.isfinite(energy).all() and not np.isfinite(block).all():
            raise ValueError(
                "The 'B' parameter must hold finite numbers wherever weights are not zero. Got NaN or "
                "infinity. Pass weights=np.isfinite(B) to leave such entries out."
            )
        if own is None:
            matrices, which = self.prepare(), np.zeros(count, np.int64)
        else:
            first, which = _patterns(own)
            matrices = prepare(problem, problem.grams(own[:, first]))
        certificate, points = np.empty((count, 7)), np.empty((count, problem.A.shape[1]))
        linear = _padded_product(scaled, problem.columns)[:count]
        beta = np.sqrt(energy) * (1 + problem.depth * 1.2e-16)
        kernels.solve_block(vectors, numbers, *matrices, which, linear, beta, points, certificate)
        self._finish(matrices, which, points, (linear, beta, certificate), own, block)
        np.ldexp(points, -problem.exponents, out=part.points)
        part.violation[:], part.gap[:] = certificate[:, 0], certificate[:, 1]
        part.rounding[:], part.n_iter[:] = certificate[:, 3], certificate[:, 4]
        with np.errstate(invalid="ignore"):
            square = np.maximum(energy + certificate[:, 2], 0.0)
        direct = np.arange(count) if problem.is_penalised else np.flatnonzero(square <= CANCELS * energy)
        if len(direct):
            residual = block[:, direct] - problem.A @ part.points[direct].T
            if weight is not None:
                residual *= np.sqrt(weight.reshape(len(block), -1)[:, direct if own is not None else [0]])
            square[direct] = np.einsum("ij,ij->j", residual, residual)
        np.sqrt(square, out=part.residual_norm)
        low, high = MODERATE
        for r in np.flatnonzero(~((energy > low) & (energy < high))):
            if not block[:, r].any():
                continue
            self._solve_extreme(block[:, r], None if own is None else own[:, r], int(r), part)

    def _finish(self, matrices: Matrices, which: Any, points: Any, found: Any, own: Any, block: Any) -> None:
        """Prove, or solve carefully and then prove, what the kernels could not."""
        problem, (linear, beta, certificate) = self.problem, found
        allowed = np.maximum(self.tol, certificate[:, 3])
        left = ((certificate[:, 1] > self.tol) | (certificate[:, 0] > allowed)) & np.isfinite(beta)
        cases: dict[int, Difficult] = {}
        for r in np.flatnonzero(left & (certificate[:, 6] > 0)):
            k = which[r]
            if k not in cases:
                weights = problem.weights if own is None else own[:, r]
                cases[k] = Difficult(problem, matrices, k, weights)
            start = Point(points[r], linear[r] - cases[k].prover.shift, beta[r], certificate[r, 5])
            points[r], certificate[r] = cases[k].finish(start, certificate[r], block[:, r], self.tol)

    def _solve_extreme(self, b: Float64Array, own: Any, r: int, part: Answers) -> None:
        """One right-hand side whose square overflows or vanishes: everything is scaled by a power of two."""
        power = int(np.frexp(np.abs(b).max())[1])
        problem = self.problem
        smaller = replace(
            problem,
            lower=np.ldexp(problem.lower, -power),
            upper=np.ldexp(problem.upper, -power),
            total=math.ldexp(problem.total, -power),
            l1=math.ldexp(problem.l1, -power),
            weights=problem.weights if own is None else own,
        )
        one = Answers.empty(1, len(problem.lower))
        TallSolver(smaller, tol=self.tol).solve(np.ldexp(b, -power)[:, None], one)
        with np.errstate(over="ignore", under="ignore"):
            certified, one.points = one.points, np.ldexp(one.points, power)
            one.residual_norm = np.ldexp(one.residual_norm, power)
            if not (np.ldexp(one.points, -power) == certified).all():  # some vanished or became infinite
                one.gap[:] = np.inf
                one.points = np.nan_to_num(one.points)
        part.put(slice(r, r + 1), one)


def _padded_product(block: Float64Array, columns: Float64Array) -> Float64Array:
    """``block' columns`` for a block padded to a multiple of PADDED, in C order."""
    count = block.shape[1]
    if count % PADDED or block.strides[1] != block.itemsize:
        padded = np.zeros((len(block), -(-count // PADDED) * PADDED))
        padded[:, :count] = block
        block = padded
    return np.ascontiguousarray((columns.T @ block).T)


def _patterns(weights: Float64Array) -> tuple[Any, Any]:
    """One column for each different column of weights, and which of them each column is."""
    probe = np.random.default_rng(0).random(len(weights))
    _, first, which = np.unique(probe @ weights, return_index=True, return_inverse=True)
    if (weights == weights[:, first[which]]).all():
        return first, which.astype(np.int64)
    return np.arange(weights.shape[1]), np.arange(weights.shape[1])
