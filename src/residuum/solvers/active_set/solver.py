"""``min_c ||y - Xc||^2 + l2*||c||^2 + l1*||c||_1``, c >= 0 or of any sign, solved exactly by working sets.

Likewise with ``shared*||y - Xc||^2 + classwise*sum_k ||y - X_k c_k||^2`` in the place of the first term.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from residuum.change import Change
from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem, Solution

from .atoms import PreparedAtoms, prepare_atoms, prepare_changed_atoms, prepare_copies
from .copies import Copies
from .engine import solve_active_set


class ActiveSet:
    """Non-negative least squares, lasso and elastic net with either, to a certificate.

    Takes problems with shared + classwise = 1 and neg_weight 0 (codes of any sign, l1 > 0) or inf
    (non-negative codes).

    Parameters
    ----------
    problem, dictionary
        What is minimised, and over which atoms.
    tol : float
        Largest KKT violation and largest gap of a query that counts as converged.
    n_jobs : int or None
        Threads; None follows joblib's configuration and the environment.
    """

    has_threads = True

    def __init__(
        self, problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
    ) -> None:
        nonnegative = math.isinf(problem.neg_weight)
        weights = (problem.shared, problem.classwise)
        if min(weights) < 0 or abs(sum(weights) - 1) > 1e-15 or not (nonnegative or problem.neg_weight == 0):
            raise ValueError(
                "The exact solver needs weights shared + classwise = 1 and neg_weight 0 or inf. "
                f"Got {problem} instead. The solvers ADMM and Newton take other weights."
            )
        self.problem, self.dictionary = problem, dictionary
        self.tol, self.n_jobs = tol, n_jobs

    @property
    def entries_per_query(self) -> int:
        """Little is held for a query: codes are sparse, and the engine divides the queries itself."""
        copies = self.dictionary.n_features * (len(self.dictionary.starts) if self.problem.classwise else 0)
        return 1 + self.dictionary.n_atoms // 128 + copies

    @cached_property
    def _prepared(self) -> PreparedAtoms:
        return prepare_atoms(self.dictionary.atoms, copies=self._copies)

    @property
    def _copies(self) -> Copies:
        if not self.problem.classwise:
            return Copies()
        return Copies(self.problem.shared, self.problem.classwise, self.dictionary.starts)

    def prepare(self) -> None:
        """Prepare what depends on the dictionary alone now, and not at the first query."""
        _ = self._prepared

    def follow(self, old: ActiveSet, change: Change) -> None:
        """Take over what `old` had prepared for the dictionary before a change, if it had."""
        if "_prepared" not in old.__dict__ or old.problem.classwise:
            return
        same = change.after is change.before  # another problem over the same atoms
        if not self.problem.classwise:
            self.__dict__["_prepared"] = (
                old._prepared if same else prepare_changed_atoms(old._prepared, change)
            )
        elif same:
            self.__dict__["_prepared"] = prepare_copies(old._prepared, self.dictionary.atoms, self._copies)

    def solve(self, queries: FloatArray, *, certify: bool = True, start: Any = None) -> Solution:
        """Code every query, from the codes `start` if given; the certificate comes for free."""
        return solve_active_set(
            self._prepared,
            queries,
            l1=self.problem.l1,
            l2=self.problem.l2,
            signed=not math.isinf(self.problem.neg_weight),
            x0=start,
            tol=self.tol,
            n_jobs=self.n_jobs,
        )
