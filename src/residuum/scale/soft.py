"""SoftNRC over shards, on the side of the features.

With w = l2 + neg_weight, 1/alpha = 1/l2 - 1/w and the positive part ``p = max(X'r, 0) / alpha``, the residual
r of the code is the zero of

    F(r) = M^{-1} r + X p - y,    M^{-1} = I + XX'/w,

the gradient of a strongly convex function (`residuum.solvers.newton.blocks` has the derivation). XX' is
summed over the shards once. One pass gives Xp, D numbers for each query and shard, and is one evaluation of
F. F = 0 is solved by L-BFGS, preconditioned by a matrix between features. At its end the code

    c = p + X'r_p / w,    r_p = M (y - Xp),

has the residual r_p up to rounding. A last pass computes c, the sums of each class and the terms of the
duality gap in float64: nothing else leaves a shard unless codes are asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from residuum.dictionary import FloatArray
from residuum.problem import CodingProblem, Solution
from residuum.rules import ClassParts
from residuum.scale.dictionary import LARGEST, ShardedDictionary, blocks_of, padded, placed, product
from residuum.scale.parts import SummedParts
from residuum.scale.shards import Shard
from residuum.solvers import Newton

_SINGLE_TOL = 1e-6  # as for float32 atoms in memory
_MEMORY = 12  # steps that L-BFGS remembers
_LEAST_SLOPE = 0.1  # a step whose slope at its end exceeds this share of that at its start is shortened
_U = 1.2e-16


class End(NamedTuple):
    """What the last pass needs."""

    point: FloatArray  # r, as in the pass before
    residual: FloatArray  # r_p
    alpha: float
    problem: CodingProblem


class ShardedSoft:
    """The Newton solver's problem over shards, by L-BFGS.

    Parameters
    ----------
    solver : Newton
        The problem, the dictionary in shards, tolerance and limit on iterations.
    batch : int
        Queries of a pass.
    """

    has_threads = True

    def __init__(self, solver: Newton, batch: int) -> None:
        self.problem: CodingProblem = solver.problem
        self.dictionary: Any = solver.dictionary
        self._shards: ShardedDictionary = cast(Any, solver.dictionary)
        self.tol, self.max_iter = max(solver.tol, _SINGLE_TOL), 2 * solver.max_iter
        l2, self.w = self.problem.l2, self.problem.l2 + self.problem.neg_weight
        self.alpha = l2 + l2 * (l2 / self.problem.neg_weight)
        self.entries_per_query = max(1, 2**20 // batch)

    def prepare(self) -> None:
        """Sum XX' over the shards and find its eigenvectors, in which M is diagonal."""
        eigenvalues, self._basis = np.linalg.eigh(self.dictionary.normal)
        self._eigenvalues = np.maximum(eigenvalues, 0)
        self._metric = 1 / (1 + self._eigenvalues / self.w)  # diagonal of M

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and which queries met their tolerance."""
        parts, solution, _ = self._solved(queries)
        return parts, solution.converged

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        _, solution, end = self._solved(queries)
        codes = np.empty((len(queries), self.dictionary.n_atoms))
        for shard, found in self._shards.map(_codes, end):
            for run in shard.runs:
                codes[:, placed(run)] = found[:, run.first : run.stop]
        return replace(solution, codes=codes)

    def _solved(self, queries: FloatArray) -> tuple[SummedParts, Solution, End]:
        """Parts and certificates of all queries, and the points that their codes come from."""
        if not hasattr(self, "_basis"):
            self.prepare()
        given = np.asarray(queries, dtype=np.float64)
        y, n = self._turned(given, self._basis), len(given)  # in the eigenvectors from here on
        points, residuals = np.zeros_like(y), np.zeros_like(y)
        n_iter, gap, violation = np.zeros(n, np.int64), np.zeros(n), np.zeros(n)
        still, goal = np.arange(n), np.full(n, self.tol / 4)
        state = _LBFGS(y / (1 + self._eigenvalues * (1 / self.w + 0.5 / self.alpha)))
        sums: dict[Any, Any] = {}
        for step in range(1, self.max_iter + 1):
            at = self._turned(state.trial, self._basis.T)
            reach = self._turned(self._shards.sums(_positive_part, at)["reach"], self._basis) / self.alpha
            defect = state.trial / self._metric + reach - y[still]
            evaluated = state.trial
            state.take(defect, self._preconditioner(evaluated, reach))
            n_iter[still] = step
            ending = (self._estimates(defect) <= goal[still]) | (step == self.max_iter)
            if not ending.any():
                continue
            rows = still[ending]
            points[rows] = at[ending]
            residuals[rows] = self._turned(self._metric * (y[rows] - reach[ending]), self._basis.T)
            found = self._shards.sums(_last, End(points[rows], residuals[rows], self.alpha, self.problem))
            gap[rows], violation[rows] = self._gap(given[rows], residuals[rows], found), found["largest"]
            good = (gap[rows] <= self.tol) | (step == self.max_iter)
            goal[rows] /= 100
            _store(sums, found, rows, good, n)
            ending[ending] = good
            state.keep(~ending)
            still = still[~ending]
            if not len(still):
                break
        solution = Solution(np.empty((n, 0)), n_iter, violation, gap, gap <= self.tol)
        end = End(points, residuals, self.alpha, self.problem)
        return SummedParts(self._shards, np.asarray(queries), sums), solution, end

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

    def _gap(self, y: FloatArray, residual: FloatArray, found: dict[Any, Any]) -> FloatArray:
        """`CodingProblem.gap` with the dual point r_p, from sums over the shards."""
        whole = np.sum(
            [found["class", k] for k in range(self.dictionary.n_classes) if ("class", k) in found], axis=0
        )
        energy = np.sum(y**2, axis=1)
        rho = _U * (self.dictionary.n_atoms + 16) * (np.sqrt(energy) + found["size"])
        apart = np.sqrt(np.sum((y - whole - residual) ** 2, axis=1)) + rho
        apart += 8 * _U * np.sqrt(np.sum(residual**2, axis=1))
        bound = (apart**2 + found["terms"]) * (1 + 1e-12)
        return np.divide(bound, energy, out=np.zeros_like(bound), where=energy > 0)


def _store(parts: dict[Any, Any], found: dict[Any, Any], rows: Any, good: Any, n: int) -> None:
    """Keep the sums of the queries that are done in their rows."""
    for name, array in found.items():
        if isinstance(name, tuple):
            target = parts.setdefault(name, np.zeros((n, *array.shape[1:])))
            target[rows[good]] = array[good]


class _LBFGS:
    """L-BFGS for many vectors at once, each with its own history; steps are judged by their slopes."""

    def __init__(self, start: FloatArray) -> None:
        self.trial = start  # where F is evaluated next
        nothing: FloatArray = np.zeros(0)
        self.point = self.gradient = self.direction = self.slope = nothing
        self.length: FloatArray = np.ones(len(start))
        self.begun = False
        self.pairs: list[list[FloatArray]] = []  # [step, change of the gradient, 1 / their product]

    def take(self, gradient: FloatArray, preconditioner: FloatArray) -> None:
        """Move to the trial points that are good enough, and set the next ones."""
        if not self.begun:
            self.begun, accepted = True, np.ones(len(gradient), dtype=bool)
            self.point, self.gradient = self.trial.copy(), gradient.copy()
        else:
            slope = np.einsum("qd,qd->q", gradient, self.direction)
            accepted = slope <= -_LEAST_SLOPE * self.slope
            self._remember(self.trial - self.point, gradient - self.gradient, accepted)
            self.point = np.where(accepted[:, None], self.trial, self.point)
            self.gradient = np.where(accepted[:, None], gradient, self.gradient)
            # Along the direction the slope is nearly linear, so this is about where it vanishes.
            self.length = np.where(accepted, 1.0, self.length * self.slope / (self.slope - slope))
        direction = -self._times_inverse(self.gradient, preconditioner)
        if self.direction.size:
            direction = np.where(accepted[:, None], direction, self.direction)
        self.direction = direction
        self.slope = np.einsum("qd,qd->q", self.gradient, direction)
        self.trial = self.point + self.length[:, None] * direction

    def _remember(self, step: FloatArray, change: FloatArray, accepted: Any) -> None:
        product = np.einsum("qd,qd->q", step, change)
        useful = accepted & (product > 0)
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=useful)
        self.pairs = [*self.pairs[-_MEMORY + 1 :], [step, change, inverse]]

    def _times_inverse(self, gradient: FloatArray, preconditioner: FloatArray) -> FloatArray:
        """The two loops of L-BFGS; a pair that is of no use to a query has an inverse of 0 there."""
        vector, weights = gradient.copy(), []
        for step, change, inverse in reversed(self.pairs):
            weights.append(inverse * np.einsum("qd,qd->q", step, vector))
            vector -= weights[-1][:, None] * change
        vector *= preconditioner
        if self.pairs:  # scaled to the curvature of the last step
            _, change, inverse = self.pairs[-1]
            bent = inverse * np.einsum("qd,qd->q", change, preconditioner * change)
            vector /= np.where(bent > 0, bent, 1.0)[:, None]
        for (step, change, inverse), weight in zip(self.pairs, reversed(weights), strict=True):
            vector += (weight - inverse * np.einsum("qd,qd->q", change, vector))[:, None] * step
        return vector

    def keep(self, chosen: Any) -> None:
        """Drop all other queries."""
        for name in ("trial", "point", "gradient", "direction", "slope", "length"):
            setattr(self, name, getattr(self, name)[chosen])
        self.pairs = [[array[chosen] for array in pair] for pair in self.pairs]


def _positive_part(shard: Shard, points: FloatArray) -> dict[str, FloatArray]:
    """``alpha Xp``, the sum of max(x_j'r, 0) x_j over the shard.

    Prices are float64: rounding r to float32 would move all prices together, by as much as XX' is large.
    """
    atoms, count = shard.atoms(), len(points)
    rows = padded(points, np.float64)
    reach = np.zeros(rows.shape)
    for run in shard.runs:
        for some in blocks_of(run):
            prices = product(rows, atoms[some].astype(np.float64).T)
            reach += product(np.maximum(prices, 0).astype(np.float32), atoms[some])
    return {"reach": reach[:count]}


def _block_codes(atoms: FloatArray, end: End, rows: FloatArray, wide: FloatArray) -> tuple[FloatArray, ...]:
    """Codes of some atoms, their prices and the atoms in float64; p is that of the pass before."""
    double = atoms.astype(np.float64)
    positive = np.maximum(product(rows, double.T), 0).astype(np.float32) / end.alpha
    prices = product(wide, double.T)
    return positive + prices / (end.problem.l2 + end.problem.neg_weight), prices, double


def _last(shard: Shard, end: End) -> dict[Any, FloatArray]:
    """Sums of the classes, and the terms of the certificate."""
    atoms, count, problem = shard.atoms(), len(end.point), end.problem
    rows, wide = padded(end.point, np.float64), padded(end.residual, np.float64)
    tau = _U * (shard.n_features + 8) * np.sqrt(np.einsum("qd,qd->q", wide, wide))[:, None]
    total: dict[Any, FloatArray] = {name: np.zeros(len(rows)) for name in ("size", "terms", LARGEST)}
    no_l1 = np.zeros((1, 1))
    for run in shard.runs:
        reach, energy = np.zeros(wide.shape), np.zeros(len(rows))
        for some in blocks_of(run):
            codes, prices, double = _block_codes(atoms[some], end, rows, wide)
            reach += product(codes, double)
            energy += np.einsum("qj,qj->q", codes, codes)
            total["size"] += np.abs(codes).sum(axis=1)
            total["terms"] += problem.dual_terms(codes, prices - tau, prices + tau, no_l1)
            half = problem.l2 * codes + problem.neg_weight * np.minimum(codes, 0) - prices
            np.maximum(total[LARGEST], np.abs(half).max(axis=1), out=total[LARGEST])
        total["class", run.label], total["energy", run.label] = reach, energy
    return {name: array[:count] for name, array in total.items()}


def _codes(shard: Shard, end: End) -> FloatArray:
    atoms = shard.atoms()
    rows, wide = padded(end.point, np.float64), padded(end.residual, np.float64)
    found = np.empty((len(end.point), len(atoms)))
    for run in shard.runs:
        for some in blocks_of(run):
            found[:, some] = _block_codes(atoms[some], end, rows, wide)[0][: len(found)]
    return found
