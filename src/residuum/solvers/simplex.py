"""``min_c ||y - Xc||^2 + l2*||c||^2`` over the simplex, ``c >= 0`` and ``sum(c) = 1``, solved exactly.

A code on the simplex is optimal when for some number m

    x_j'(y - Xc) - l2 c_j  <= m,    with equality where c_j > 0.

Give every atom one more entry, a height h, and the query an entry b. Non-negative least squares over these,

    F(d) = ||y - Xd||^2 + l2 ||d||^2 + (b - h s)^2,    s = sum(d),

are optimal when ``x_j'(y - Xd) - l2 d_j <= h (h s - b)``. These are the conditions above if s = 1, with
``m = h (h - b)``. So the wanted code is that of the exact engine (`active_set`) for the one b with s = 1, and
all queries share the longer atoms.

s is a continuous and piecewise linear function of b. On a support S its slope is ``h a / (1 + h^2 a)``, where
``1/a = min ||X_S w||^2 + l2 ||w||^2`` over the w that sum to one, which is at most ``1 + l2`` for atoms of
norm 1. With ``h^2 >= 16 (1 + l2)`` slopes lie between ``16/17 / h`` and ``1/h``, so that any step to s = 1 by
a slope between these leaves at most 1/16 of the error. Secants leave nothing once the support is found.

The certificate is that of the engine. Every c on the simplex has ``F(c) = f(c) + (b - h)^2``, so

    f(d) - min f  <=  F(d) - min F  +  (b - h)^2 - (b - h s)^2,

and the last two terms are ``h (s - 1) (2b - h - h s)``, where s - 1 is a few roundings.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from residuum.change import Change
from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CERTIFICATE_FIELDS, CodingProblem, Solution, stack

from .active_set import PreparedAtoms, prepare_atoms, solve_active_set

STEPS = 15  # more than it takes to divide an error of 1 by 16 until it is rounded away
ROUNDED = 1e-14  # an error of the sum that rounding may leave
U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order


class Simplex:
    """The problem of non-negative codes, perhaps with a ridge, for codes that sum to one.

    Takes problems with shared = 1, classwise = 0, l1 = 0 and neg_weight = inf.

    Parameters
    ----------
    problem, dictionary
        What is minimised apart from the sum, and over which atoms.
    tol : float
        Largest violation, of the sum or of the optimality conditions, and largest gap of a query that counts
        as converged. The gap is relative to ``||y||^2``, and absolute where y = 0.
    n_jobs : int or None
        Threads; None follows joblib's configuration and the environment.
    """

    has_threads = True

    def __init__(
        self, problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
    ) -> None:
        if (problem.shared, problem.classwise, problem.l1, problem.neg_weight) != (1, 0, 0, math.inf):
            raise ValueError(
                "Codes that sum to one need shared=1, classwise=0, l1=0 and neg_weight=inf. "
                f"Got {problem} instead."
            )
        self.problem, self.dictionary = problem, dictionary
        self.tol, self.n_jobs = tol, n_jobs

    @property
    def entries_per_query(self) -> int:
        """Little is held for a query: codes are sparse, and the engine divides the queries itself."""
        return 1 + self.dictionary.n_atoms // 128

    @cached_property
    def _height(self) -> float:
        """A power of two, which float32 holds without rounding."""
        return 2.0 ** math.ceil(
            math.log2(4 * math.hypot(self.dictionary.longest, math.sqrt(self.problem.l2)))
        )

    @cached_property
    def _prepared(self) -> PreparedAtoms:
        atoms = self.dictionary.atoms
        return prepare_atoms(np.column_stack([atoms, np.full(len(atoms), self._height, dtype=atoms.dtype)]))

    def prepare(self) -> None:
        """Prepare what depends on the dictionary alone now, and not at the first query."""
        _ = self._prepared

    def follow(self, old: Simplex, change: Change) -> None:
        """Take over what `old` had prepared, if it had, for another ridge over the same atoms."""
        if change.after is change.before and self._height == old._height and "_prepared" in old.__dict__:
            self.__dict__["_prepared"] = old._prepared

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        height = self._height
        low, high = height / (height**2 + self.dictionary.longest**2 + self.problem.l2), 1 / height
        longer = np.column_stack([queries.astype(np.float64), np.full(len(queries), height)])  # (y; b)
        # Before the first step there is no secant: infinite moves give the slope `low`.
        left, before, moves = np.arange(len(longer)), np.zeros(len(longer)), np.full(len(longer), np.inf)
        start, order, parts = None, [], []
        for step in range(1, STEPS + 1):
            found = self._nonnegative(longer, start)
            sums = np.asarray(found.codes.sum(axis=1))
            done = (np.abs(sums - 1) <= ROUNDED) | (step == STEPS)
            order.append(left[done])
            parts.append(self._certified(rows_of(found, done), longer[done], sums[done], step))
            if done.all():
                break
            slopes = np.clip((sums - before) / moves, low, high)[~done]
            left, longer, start, before = left[~done], longer[~done], found.codes[~done], sums[~done]
            moves = (1 - before) / slopes
            longer[:, -1] += moves
        return rows_of(stack(parts), np.argsort(np.concatenate(order)))

    def _nonnegative(self, longer: FloatArray, start: Any) -> Solution:
        """The minimisers of F, to a tolerance that leaves the gap and violation of f below its own."""
        tol = self.tol / (4 * self._height**2)
        return solve_active_set(
            self._prepared, longer, l2=self.problem.l2, x0=start, tol=tol, n_jobs=self.n_jobs
        )

    def _certified(self, found: Solution, longer: FloatArray, sums: FloatArray, steps: int) -> Solution:
        """The same codes with a certificate for f in the place of that for F."""
        height, energy = self._height, np.sum(longer[:, :-1] ** 2, axis=1)
        b, whole = longer[:, -1], energy + longer[:, -1] ** 2
        support = np.diff(found.codes.indptr)
        wrong = np.abs(sums - 1) + U * (support + 2) * sums  # the sum is rounded too
        moved = height * wrong * (2 * np.abs(b - height) + height * wrong)
        gap = (found.gap * whole + moved) / np.where(energy > 0, energy, 1.0) * (1 + 1e-12)
        # The engine measures violations for atoms and queries of unit norm.
        scale = math.hypot(self.dictionary.longest, height) * np.sqrt(whole)
        violation = np.maximum(found.violation * scale, wrong)
        converged = (violation <= self.tol) & (gap <= self.tol)
        return Solution(found.codes, np.full(len(sums), steps), violation, gap, converged)


def rows_of(solution: Solution, rows: Any) -> Solution:
    """The solutions of some queries."""
    columns = (getattr(solution, name)[rows] for name in CERTIFICATE_FIELDS)
    return Solution(solution.codes[rows], *columns)
