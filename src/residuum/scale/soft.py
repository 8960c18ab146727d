"""SoftNRC over shards, on the side of the features.

With w = l2 + neg_weight, 1/alpha = 1/l2 - 1/w and the positive part ``p = max(X'r, 0) / alpha``, the residual
r of the code is the zero of

    F(r) = M^{-1} r + X p - y,    M^{-1} = I + XX'/w,

the gradient of a strongly convex function (`residuum.solvers.newton.blocks` has the derivation). XX' is
summed over the shards once. One pass gives Xp, D numbers for each query and shard, and is one evaluation of
F: a product with all atoms, and another with those whose price x_j'r is positive, few after the first pass.
F = 0 is solved by L-BFGS, preconditioned by a matrix between features. Because Xp grows with r in proportion,
the first pass also tells the best multiple of the start. At its end the code

    c = p + X'r_p / w,    r_p = M (y - Xp),

has the residual r_p up to rounding. A last pass computes c, the sums of each class and the terms of the
duality gap with bounds for its own rounding: nothing else leaves a shard unless codes are asked for.

Products are in float32 for points r that are rounded to float32 first: to round r within the product would
move all prices together, by as much as XX' is large. Queries that do not reach the tolerance so are solved
again in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from residuum.dictionary import FloatArray
from residuum.problem import CodingProblem, Solution
from residuum.rules import ClassParts
from residuum.scale.dictionary import ENTRIES_PER_QUERY, LARGEST, ShardedDictionary, padded, placed, product
from residuum.scale.lbfgs import LBFGS
from residuum.scale.parts import SummedParts
from residuum.scale.shards import Run, Shard
from residuum.scale.soft_kernels import add_positive, finish
from residuum.solvers import Newton

_SINGLE_TOL = 1e-6  # as for float32 atoms in memory
_SINGLE_STEPS = 40  # in float32, before float64
_ATOMS_AT_ONCE = 512  # they stay in the cache with their products
_U = 1.2e-16
_ROUNDOFF = {"float32": 6e-8, "float64": _U}


class End(NamedTuple):
    """What the last pass needs."""

    point: FloatArray  # r, as in the pass before
    residual: FloatArray  # r_p, in the same precision
    alpha: float
    problem: CodingProblem


@dataclass
class _Found:
    """What is known of every query."""

    point: FloatArray
    residual: FloatArray
    n_iter: Any
    violation: Any
    gap: Any
    double: Any  # which of them were solved in float64
    sums: dict[Any, FloatArray] = field(default_factory=dict)  # of the classes


class ShardedSoft:
    """The Newton solver's problem over shards, by L-BFGS.

    Parameters
    ----------
    solver : Newton
        The problem, the dictionary in shards, tolerance and limit on iterations.
    batch : int
        Of no use here: 504 queries are worked on at a time, so that no batch changes their bits.
    """

    has_threads = True
    entries_per_query = ENTRIES_PER_QUERY

    def __init__(self, solver: Newton, batch: int) -> None:
        self.problem: CodingProblem = solver.problem
        self.dictionary: Any = solver.dictionary
        self._shards: ShardedDictionary = cast(Any, solver.dictionary)
        self.tol, self.max_iter = max(solver.tol, _SINGLE_TOL), 2 * solver.max_iter
        l2, self.w = self.problem.l2, self.problem.l2 + self.problem.neg_weight
        self.alpha = l2 + l2 * (l2 / self.problem.neg_weight)

    def prepare(self) -> None:
        """Sum XX' over the shards and find its eigenvectors, in which M is diagonal."""
        eigenvalues, self._basis = np.linalg.eigh(self.dictionary.normal)
        self._eigenvalues = np.maximum(eigenvalues, 0)
        self._metric = 1 / (1 + self._eigenvalues / self.w)  # diagonal of M

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and which queries met their tolerance."""
        found = self._solved(queries)
        return SummedParts(self._shards, np.asarray(queries), found.sums), found.gap <= self.tol

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        found = self._solved(queries)
        codes = np.empty((len(queries), self.dictionary.n_atoms))
        for kind, rows in ((np.float32, ~found.double), (np.float64, found.double)):
            rows = np.flatnonzero(rows)
            if not len(rows):
                continue
            end = self._end(found.point[rows].astype(kind), found.residual[rows].astype(kind))
            for shard, some in self._shards.map(_codes, end):
                for run in shard.runs:
                    codes[rows, placed(run)] = some[:, run.first : run.stop]
        return Solution(codes, found.n_iter, found.violation, found.gap, found.gap <= self.tol)

    def _end(self, point: FloatArray, residual: FloatArray) -> End:
        return End(point, residual, self.alpha, self.problem)

    def _solved(self, queries: FloatArray) -> _Found:
        """Points that the codes come from, certificates and class sums of all queries."""
        if not hasattr(self, "_basis"):
            self.prepare()
        y, n = np.asarray(queries, dtype=np.float64), len(queries)
        zeros = np.zeros(n)
        found = _Found(
            np.zeros_like(y), np.zeros_like(y), zeros.astype(np.int64), zeros, zeros.copy(), zeros > 0
        )
        still = np.arange(n)
        for kind, most, goal in (
            (np.float32, _SINGLE_STEPS, self.tol),
            (np.float64, self.max_iter, self.tol / 100),
        ):
            if len(still):
                found.double[still] = kind is np.float64
                # What is worse than no code at all is no start.
                begin = np.where(found.gap[still][:, None] < 1, found.point[still], 0.0)
                end, n_iter = self._descended((kind, most, goal), y[still], begin)
                found.n_iter[still] += n_iter
                still = self._stored(y, still, end, found)
        return found

    def _descended(
        self, stage: tuple[Any, int, float], queries: FloatArray, begin: FloatArray
    ) -> tuple[End, Any]:
        """Points with an estimated gap of at most the goal, and the passes that they took.

        A stage is the precision, the most passes and the goal. Where `begin` is zero no point is known.
        """
        kind, most, goal = stage
        point, residual = np.empty(queries.shape, kind), np.empty(queries.shape, kind)
        n_iter, rows = np.zeros(len(queries), np.int64), np.arange(len(queries))
        y = self._turned(queries, self._basis)  # in the eigenvectors from here on
        cold = y / (1 + self._eigenvalues * (1 / self.w + 0.1 / self.alpha))
        state = LBFGS(np.where(begin.any(axis=1, keepdims=True), self._turned(begin, self._basis), cold))
        step = 0
        while len(rows):
            step += 1
            at = self._turned(state.trial, self._basis.T).astype(kind)
            trial = self._turned(at, self._basis)
            sums = self._shards.sums(_positive_part, at, step == 1)
            reach = self._turned(sums["reach"], self._basis) / self.alpha
            if step == 1:
                best = _best_multiples(y, trial, trial / self._metric + reach)
                at, trial, reach = (best * at).astype(kind), best * trial, best * reach
            defect = trial / self._metric + reach - y
            state.trial = trial
            state.take(defect, self._preconditioner(trial, reach))
            done = (self._estimates(defect) <= goal) | (step == most)
            if done.any():
                point[rows[done]], n_iter[rows[done]] = at[done], step
                residual[rows[done]] = self._turned(self._metric * (y - reach)[done], self._basis.T)
                state.keep(~done)
                rows, y = rows[~done], y[~done]
        return self._end(point, residual), n_iter

    def _stored(self, queries: FloatArray, rows: Any, end: End, found: _Found) -> Any:
        """Store what the last pass finds for some queries; those that miss the tolerance."""
        sums = self._shards.sums(_last, end)
        gap = self._gap(queries[rows], end.residual, sums)
        found.point[rows], found.residual[rows] = end.point, end.residual
        found.gap[rows], found.violation[rows] = gap, sums[LARGEST]
        for name, array in sums.items():
            if isinstance(name, tuple):
                found.sums.setdefault(name, np.zeros((len(queries), *array.shape[1:])))[rows] = array
        return rows[~(gap <= self.tol)]

    def _turned(self, rows: FloatArray, basis: FloatArray) -> FloatArray:
        return product(padded(rows, np.float64), np.ascontiguousarray(basis))[: len(rows)]

    def _preconditioner(self, points: FloatArray, reach: FloatArray) -> FloatArray:
        """A diagonal in the eigenvectors that takes X_P X_P' for a share of XX', measured at the points."""
        whole = np.einsum("qd,d,qd->q", points, self._eigenvalues, points)
        part = self.alpha * np.einsum("qd,qd->q", points, reach)
        share = np.clip(np.divide(part, whole, out=np.ones_like(part), where=whole > 0), 0.0, 1.0)[:, None]
        return 1 / (1 + self._eigenvalues * (1 / self.w + share / self.alpha))

    def _estimates(self, defects: FloatArray) -> FloatArray:
        """About the gap that the end would leave: X_P X_P' is at most XX'."""
        return defects**2 @ (self.problem.l2 / self.alpha**2 * self._eigenvalues * self._metric**2)

    def _gap(self, y: FloatArray, residual: FloatArray, sums: dict[Any, Any]) -> FloatArray:
        """`CodingProblem.gap` with the dual point r_p, from sums over the shards."""
        whole = np.sum([array for name, array in sums.items() if name[0] == "class"], axis=0)
        energy = np.sum(y**2, axis=1)
        # Sums within a block of atoms are rounded in the precision of the products, others in float64.
        unit = _ROUNDOFF[residual.dtype.name] * (_ATOMS_AT_ONCE + 8) + _U * (self.dictionary.n_atoms + 16)
        apart = np.sqrt(np.sum((y - whole - residual) ** 2, axis=1)) + unit * (np.sqrt(energy) + sums["size"])
        apart += 8 * _U * np.sqrt(np.sum(residual.astype(np.float64) ** 2, axis=1))
        bound = (apart**2 + sums["terms"]) * (1 + 1e-12)
        return np.divide(bound, energy, out=np.zeros_like(bound), where=energy > 0)


def _best_multiples(y: FloatArray, points: FloatArray, images: FloatArray) -> FloatArray:
    """The multiple of each point at which the function is smallest, given ``M^{-1} r + Xp``."""
    along = np.einsum("qd,qd->q", y, points)
    bent = np.einsum("qd,qd->q", images, points)
    return np.divide(along, bent, out=np.ones_like(along), where=bent > 0)[:, None]


def _blocks(run: Run) -> Iterator[slice]:
    """The rows of a run in a shard, a few at a time."""
    for first in range(run.first, run.stop, _ATOMS_AT_ONCE):
        yield slice(first, min(first + _ATOMS_AT_ONCE, run.stop))


def _positive_part(shard: Shard, points: FloatArray, many: bool) -> dict[str, FloatArray]:
    """``alpha Xp``, the sum of max(x_j'r, 0) x_j over the shard.

    `many` says that many prices are positive, as in the first pass: a product with all atoms is faster then.
    """
    atoms, kind = shard.atoms(), points.dtype
    rows = padded(points, kind)
    reach = np.zeros(rows.shape)
    for run in shard.runs:
        for some in _blocks(run):
            block = atoms[some].astype(kind, copy=False)
            prices = product(rows, block.T)
            if many:
                reach += product(np.maximum(prices, 0, out=prices), block)
            else:
                add_positive(prices, block, reach)
    return {"reach": reach[: len(points)]}


def _finished(shard: Shard, end: End) -> Iterator[tuple[Run, slice, FloatArray, FloatArray, FloatArray]]:
    """Run, rows, atoms, codes and figures of every block of atoms; p is that of the pass before."""
    atoms, kind, problem = shard.atoms(), end.point.dtype, end.problem
    points, residuals = padded(end.point, kind), padded(end.residual, kind)
    lengths = np.sqrt(np.einsum("qd,qd->q", residuals, residuals, dtype=np.float64))
    tau = _ROUNDOFF[kind.name] * (shard.n_features + 8) * lengths  # error of a price
    weights = end.alpha, problem.l2, problem.l2 + problem.neg_weight
    for run in shard.runs:
        for some in _blocks(run):
            block = atoms[some].astype(kind, copy=False)
            codes = product(points, block.T)
            figures = np.zeros((4, len(points)))
            finish(codes, product(residuals, block.T), tau, *weights, figures)
            yield run, some, block, codes, figures


def _last(shard: Shard, end: End) -> dict[Any, FloatArray]:
    """Sums of the classes, and the terms of the certificate."""
    count = len(end.point)
    total: dict[Any, FloatArray] = {name: np.zeros(count) for name in ("size", "terms", LARGEST)}
    for run, _, block, codes, (size, energy, terms, largest) in _finished(shard, end):
        total.setdefault(("class", run.label), np.zeros((count, shard.n_features)))
        total.setdefault(("energy", run.label), np.zeros(count))
        total["class", run.label] += product(codes, block)[:count]
        total["energy", run.label] += energy[:count]
        total["size"] += size[:count]
        total["terms"] += terms[:count]
        np.maximum(total[LARGEST], largest[:count], out=total[LARGEST])
    return total


def _codes(shard: Shard, end: End) -> FloatArray:
    found = np.empty((len(end.point), shard.n_rows))
    for _, some, _, codes, _ in _finished(shard, end):
        found[:, some] = codes[: len(found)]
    return found
