"""``min_c ||y - Xc||^2 + l2*||c||^2 + neg_weight*||min(c, 0)||^2`` for any neg_weight from 0 to inf."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.problem import CodingProblem, Solution
from residuum.solvers.active_set import ActiveSet
from residuum.solvers.closed_form import ClosedForm
from residuum.system.threads import run_chunks, thread_count

_SINGLE_TOL = 1e-6  # codes in float32 cannot promise a smaller gap
_ROWS = 256  # more queries at a time make the products no faster
_WORK_ENTRIES = 2**22  # codes at a time in all threads; each takes about 24 bytes while it is computed


class Newton:
    """Semismooth Newton steps on the residual, for l2 > 0 and 0 < neg_weight < inf.

    Parameters
    ----------
    problem, dictionary
        What is minimised, and over which atoms.
    tol : float
        Relative duality gap that every query has to reach; where atoms and queries are float32 it is at least
        1e-6. At 1e-9 or below codes are polished to rounding.
    max_iter : int
        Limit on the Newton steps of a query.
    n_jobs : int or None
        Threads; None follows joblib's configuration.
    """

    has_threads = True

    def __init__(
        self,
        problem: CodingProblem,
        dictionary: Dictionary,
        *,
        tol: float = 1e-10,
        max_iter: int = 100,
        n_jobs: int | None = None,
    ) -> None:
        plain = problem.shared == 1 and not problem.classwise and not problem.l1
        if not plain or not problem.l2 > 0 or not 0 < problem.neg_weight < math.inf:
            raise ValueError(
                "The Newton solver needs shared=1, classwise=0, l1=0, l2 > 0 and 0 < neg_weight < inf. "
                f"Got {problem} instead. Use the solver 'closed_form', 'admm' or 'exact'."
            )
        self.problem, self.dictionary = problem, dictionary
        self.tol, self.max_iter, self.n_jobs = tol, max_iter, n_jobs

    @property
    def entries_per_query(self) -> int:
        """Codes are dense, but the work on them is divided again below."""
        return 1 + self.dictionary.n_atoms // 4

    @cached_property
    def _prepared(self) -> Any:
        # Imported here, as it loads compiled kernels.
        from residuum.solvers.newton.blocks import prepare

        return prepare(self.problem, self.dictionary)

    def prepare(self) -> None:
        """Rotate the atoms now rather than at the first query."""
        _ = self._prepared

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        from residuum.solvers.newton.blocks import ROW_MULTIPLE, certify_codes, solve_block

        prepared = self._prepared
        n_queries, n_atoms = len(queries), self.dictionary.n_atoms
        single = self.dictionary.dtype == queries.dtype == np.float32
        tol = max(self.tol, _SINGLE_TOL) if single else self.tol
        if single and prepared.single_suffices:
            prepared = replace(prepared, precision=np.float32)
        codes = np.empty((n_queries, n_atoms), np.float32 if single else np.float64)
        n_iter = np.zeros(n_queries, np.int64)
        violation, gap = np.zeros(n_queries), np.zeros(n_queries)

        def work(start: int, stop: int) -> None:
            rows = slice(start, stop)
            unit, scale, norm = unit_rows(np.asarray(queries[rows], np.float64))
            block, size = prepared.to_basis(unit), scale * norm
            found = solve_block(prepared, block, codes[rows], tol / 2 if single else tol, self.max_iter)
            if single:
                found.gap, found.violation = certify_codes(prepared, block, codes[rows])
            codes[rows] *= size[:, None].astype(codes.dtype)
            n_iter[rows], gap[rows], violation[rows] = found.n_iter, found.gap, found.violation * size

        n_threads = thread_count(self.n_jobs)
        rows = min(_ROWS, -(-n_queries // n_threads), _WORK_ENTRIES // (n_threads * n_atoms))
        # Products are made of so many rows at a time.
        rows -= rows % ROW_MULTIPLE if rows > ROW_MULTIPLE else 0
        run_chunks(work, n_queries, max(1, rows), n_threads)
        return Solution(codes, n_iter, violation, gap, gap <= tol)


class _NonNegative(ActiveSet):
    """The exact engine for neg_weight = inf, whose queries have converged if their gap is at most tol."""

    def __init__(
        self, problem: CodingProblem, dictionary: Dictionary, *, gap: float, n_jobs: int | None
    ) -> None:
        super().__init__(problem, dictionary, n_jobs=n_jobs)
        self._gap = gap

    def solve(self, queries: FloatArray, *, certify: bool = True, start: Any = None) -> Solution:
        """Code every query."""
        solution = super().solve(queries, certify=certify, start=start)
        return replace(solution, converged=solution.gap <= self._gap)


def soft_solver(
    problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
) -> ClosedForm | ActiveSet | Newton:
    """The quickest solver for a problem on the line from collaborative to non-negative codes.

    Queries have converged if their relative duality gap is at most tol; the closed form always has.
    """
    if problem.neg_weight == 0:
        return ClosedForm(problem, dictionary)
    if math.isinf(problem.neg_weight):
        single = dictionary.dtype == np.float32
        return _NonNegative(problem, dictionary, gap=max(tol, _SINGLE_TOL) if single else tol, n_jobs=n_jobs)
    return Newton(problem, dictionary, tol=tol, n_jobs=n_jobs)
