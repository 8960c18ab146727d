"""Constrained least squares for many right-hand sides, block by block."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from residuum.problem import Float64Array
from residuum.system.threads import run_chunks, thread_count

from .layout import LANES, N_ROWS, aligned
from .matrices import Matrices, prepare
from .program import BoundedLeastSquares
from .proof import Difficult

BLOCK = 1920  # right-hand sides handled together by one thread
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

    def part(self, place: slice) -> Answers:
        """The answers of some right-hand sides, which can be written to."""
        return Answers(**{name: array[place] for name, array in vars(self).items()})


class Block(NamedTuple):
    """Some right-hand sides, zero where an entry is left out, with their weights and weighted squares."""

    rhs: Float64Array  # (n_rows, count)
    weight: Float64Array | None  # (n_rows, 1 or count)
    weighted: Float64Array  # (n_rows, count)
    energy: Float64Array  # (count,)


class TallSolver:
    """Solves one `BoundedLeastSquares` for blocks of right-hand sides; matrices are prepared once."""

    def __init__(self, problem: BoundedLeastSquares, *, tol: float, n_jobs: int | None = None) -> None:
        self.problem, self.tol, self.n_jobs = problem, tol, n_jobs

    @cached_property
    def _given(self) -> tuple[Float64Array, Float64Array]:
        """What the kernels know of the variables and of the problem."""
        return self.problem.vectors(), self.problem.numbers(max(self.tol, REACHABLE))

    def prepare(self) -> Matrices:
        """The matrices of right-hand sides without weights of their own."""
        if not hasattr(self, "_matrices"):
            self._matrices = prepare(self.problem, self.problem.gram()[None])
        return self._matrices

    @property
    def is_regular(self) -> bool:
        """Whether the kernels can certify: by a least eigenvalue, or by an inner direction."""
        if not self.problem.is_moderate:
            return False
        matrices = self.prepare()
        return bool(((matrices.eps == 0) | (matrices.length > 0)).all())

    def solve(self, B: Any, answers: Answers, weights: Any = None) -> None:
        """Solve for every column of B, weighted by those of `weights` if given, and fill `answers`."""
        if weights is None:
            self.prepare()

        def work(start: int, stop: int) -> None:
            block = np.asarray(B[:, start:stop], dtype=np.float64)
            own = None if weights is None else np.asarray(weights[:, start:stop], dtype=np.float64)
            self._solve_block(block, own, answers.part(slice(start, stop)))

        most = BLOCK if weights is None else self._most_matrices
        run_chunks(work, B.shape[1], *_shares(B.shape[1], most, self.n_jobs))

    def solve_products(self, C: Any, norms: Float64Array, squares: Any, answers: Answers) -> None:
        """Solve where only A'A and C = A'B are known; `norms` are at most those of B, squares may be None."""
        problem = self.problem
        self.prepare()

        def work(start: int, stop: int) -> None:
            place = slice(start, stop)
            linear = np.ascontiguousarray(np.ldexp(C[:, place].T, -problem.exponents))
            part, count = answers.part(place), stop - start
            found = self._run(self.prepare(), np.zeros(count, np.int64), linear, norms[place])
            energy = np.full(count, np.nan) if squares is None else squares[place]
            np.sqrt(self._write(*found, energy, part), out=part.residual_norm)

        run_chunks(work, C.shape[1], *_shares(C.shape[1], BLOCK, self.n_jobs))

    @property
    def _most_matrices(self) -> int:
        """Right-hand sides with weights of their own that are handled together."""
        return max(PADDED, min(BLOCK, 4_000_000 // self.problem.A.shape[1] ** 2))

    def _block(self, block: Float64Array, own: Any) -> Block:
        weight = own if own is not None else self.problem.weights
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if weight is None:
                return Block(block, None, block, np.einsum("ij,ij->j", block, block))
            weight = weight.reshape(len(block), -1)
            block = np.where(weight > 0, block, 0.0)
            weighted = weight * block
            return Block(block, weight, weighted, np.einsum("ij,ij->j", block, weighted))

    def _solve_block(self, rhs: Float64Array, own: Any, part: Answers) -> None:
        block = self._block(rhs, own)
        if not np.isfinite(block.energy).all() and not np.isfinite(block.rhs).all():
            self._solve_incomplete(block, own, part)
            return
        if own is None:
            matrices, which = self.prepare(), np.zeros(rhs.shape[1], np.int64)
        else:
            first, which = _patterns(own)
            matrices = prepare(self.problem, self.problem.grams(own[:, first]))
        linear = _padded_product(block.weighted, self.problem.columns)[: rhs.shape[1]]
        self._solve_prepared(block, own, (matrices, which, linear), part)

    def _solve_incomplete(self, block: Block, own: Any, part: Answers) -> None:
        """NaN is a missing entry. Right-hand sides that miss the same entries share a matrix."""
        if np.isinf(block.rhs).any():
            raise ValueError(
                "The 'B' parameter must hold finite numbers, or NaN for missing entries. Got infinity. Set "
                "such entries to NaN to leave them out."
            )
        missing = np.isnan(block.rhs)
        complete, others = np.flatnonzero(~missing.any(axis=0)), np.flatnonzero(missing.any(axis=0))
        weight = np.broadcast_to(1.0 if block.weight is None else block.weight, missing.shape)
        groups = [others[k : k + self._most_matrices] for k in range(0, len(others), self._most_matrices)]
        for some in [complete, *groups]:
            if some is complete:
                weights = None if own is None else own[:, some]
            else:
                weights = np.where(missing[:, some], 0.0, weight[:, some])
            answers = Answers.empty(len(some), self.problem.A.shape[1])
            if len(some):
                self._solve_block(block.rhs[:, some], weights, answers)
            part.put(some, answers)

    def _solve_prepared(self, block: Block, own: Any, program: Any, part: Answers) -> None:
        """Solve programs (matrices, which of them, linear terms); fill the answers."""
        problem, (matrices, which, linear) = self.problem, program
        beta = np.sqrt(block.energy) * (1 + problem.depth * 1.2e-16)
        points, certificate = self._run(matrices, which, linear, beta)
        self._finish(matrices, which, points, (beta, certificate), own, block.rhs)
        square = self._write(points, certificate, block.energy, part)
        direct = np.flatnonzero(square <= CANCELS * block.energy)
        if len(direct):
            residual = block.rhs[:, direct] - problem.A @ part.points[direct].T
            if block.weight is not None:
                residual *= np.sqrt(block.weight[:, direct if own is not None else [0]])
            square[direct] = np.einsum("ij,ij->j", residual, residual)
        np.sqrt(square, out=part.residual_norm)
        low, high = MODERATE
        for r in np.flatnonzero(~((block.energy > low) & (block.energy < high))):
            if block.rhs[:, r].any():
                self._solve_extreme(block.rhs[:, r], None if own is None else own[:, r], int(r), part)

    def _run(self, matrices: Matrices, which: Any, linear: Any, beta: Any) -> tuple[Any, Any]:
        """Points in scaled variables and certificates, in the columns of `kernels.solve_block`."""
        from . import kernels  # loads numba, which importing residuum must not

        points, certificate = np.empty(linear.shape), np.empty((len(linear), 7))
        n = linear.shape[1]
        room = aligned((N_ROWS + n, -(-n // LANES) * LANES))
        scratch = room[:N_ROWS], room[N_ROWS:]
        kernels.solve_block(*self._given, matrices, which, linear, beta, scratch, points, certificate)
        return points, certificate

    def _write(self, points: Any, certificate: Any, energy: Any, part: Answers) -> Float64Array:
        """Fill all answers but the norms of residuals, whose squares are returned as rounding leaves them."""
        np.ldexp(points, -self.problem.exponents, out=part.points)
        part.violation[:], part.gap[:] = certificate[:, 0], certificate[:, 1]
        part.rounding[:], part.n_iter[:] = certificate[:, 3], certificate[:, 4]
        with np.errstate(invalid="ignore", over="ignore"):
            square = energy + certificate[:, 2] - self.problem.penalties(part.points)
        return np.maximum(square, 0.0)

    def _finish(self, matrices: Matrices, which: Any, points: Any, found: Any, own: Any, block: Any) -> None:
        """Prove, or solve carefully and then prove, what the kernels could not."""
        problem, (beta, certificate) = self.problem, found
        allowed = np.maximum(self.tol, certificate[:, 3])
        left = ((certificate[:, 1] > self.tol) | (certificate[:, 0] > allowed)) & np.isfinite(beta)
        cases: dict[int, Difficult] = {}
        for r in np.flatnonzero(left & (certificate[:, 6] > 0)):
            k = which[r]
            if k not in cases:
                weights = problem.weights if own is None else own[:, r]
                cases[k] = Difficult(problem, matrices, k, weights)
            points[r], certificate[r] = cases[k].finish(points[r], certificate[r], block[:, r], self.tol)

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


def solve_path(solvers: list[TallSolver], B: Any, answers: list[Answers]) -> None:
    """Solve problems that differ in l2 alone: the products of A with itself and with B are made once.

    Powers of two turn the products of one scaling of the columns into those of another without rounding.
    """
    first = solvers[0]
    for solver in solvers:
        solver.prepare()

    def work(start: int, stop: int) -> None:
        rhs, place = np.asarray(B[:, start:stop], dtype=np.float64), slice(start, stop)
        block, which = first._block(rhs, None), np.zeros(rhs.shape[1], np.int64)
        linear = _padded_product(block.weighted, first.problem.columns)[: rhs.shape[1]]
        for solver, found in zip(solvers, answers, strict=True):
            own = np.ldexp(linear, first.problem.exponents - solver.problem.exponents)
            solver._solve_prepared(block, None, (solver.prepare(), which, own), found.part(place))

    run_chunks(work, B.shape[1], *_shares(B.shape[1], BLOCK, first.n_jobs))


def _shares(count: int, most: int, n_jobs: int | None) -> tuple[int, int]:
    """Right-hand sides that are handled together, so that no thread is without work, and threads."""
    threads = thread_count(n_jobs)
    return max(PADDED, min(most, -(-count // (threads * PADDED)) * PADDED)), threads


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
