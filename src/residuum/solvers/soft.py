"""``min_c ||y - Xc||^2 + l2*||c||^2 + neg_weight*||min(c, 0)||^2`` for any neg_weight from 0 to inf."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.solvers._change import Change
from residuum.solvers._updated import State
from residuum.solvers.base import Solution
from residuum.solvers.closed_form import ClosedForm
from residuum.solvers.exact import ActiveSet

_CARRIED = ("basis", "atoms", "eigenvalues", "gram32", "moved", "signs")


class Newton:
    """Semismooth Newton steps on the signs of the code, for l2 > 0 and 0 <= neg_weight < inf.

    Parameters
    ----------
    problem, dictionary
        What is minimised, and over which atoms.
    tol : float
        Relative duality gap that every query has to reach.
    n_jobs : int or None
        Threads; None follows joblib's configuration.
    """

    block_entries = 2**23
    has_threads = True

    def __init__(
        self, problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
    ) -> None:
        plain = problem.shared == 1 and not problem.classwise and not problem.l1
        if not plain or problem.l2 <= 0 or math.isinf(problem.neg_weight):
            raise ValueError(
                "The Newton solver needs shared=1, classwise=0, l1=0, l2 > 0 and a finite neg_weight. "
                f"Got {problem} instead. Use the solver 'admm' or 'exact'."
            )
        self.problem, self.dictionary = problem, dictionary
        self.tol, self.n_jobs = tol, n_jobs

    @cached_property
    def _prepared(self) -> Any:
        from residuum.solvers.newton import prepare_newton

        return prepare_newton(self.dictionary.atoms, self.problem.l2, self.problem.neg_weight)

    def prepare(self) -> None:
        """Nothing: what the engine needs is made when the first query comes."""

    def adopt(self, old: Newton, change: Change) -> None:
        """Carry over what the solver before a change of the dictionary had prepared, if it had."""
        if "_prepared" in old.__dict__ and old.problem == self.problem:
            from residuum.solvers._newton_change import prepare_changed

            prepared = prepare_changed(old._prepared, change)
            if prepared is not None:
                self.__dict__["_prepared"] = prepared

    def state(self) -> State:
        """Arrays that a fresh solver would not have; empty where nothing was taken over."""
        if "_prepared" not in self.__dict__ or not len(self._prepared.signs):
            return {}
        return {name: getattr(self._prepared, name) for name in _CARRIED}

    def restore(self, state: State) -> None:
        """Become the solver whose `state` was stored."""
        from residuum.solvers._newton_block import Prepared

        self.__dict__["_prepared"] = Prepared(self.problem.l2, self.problem.neg_weight, **state)

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        from residuum.solvers.newton import solve_newton

        return solve_newton(
            self.dictionary.atoms,
            queries,
            l2=self.problem.l2,
            neg_weight=self.problem.neg_weight,
            tol=self.tol,
            n_jobs=self.n_jobs,
            prepared=self._prepared,
        )


def soft_solver(
    problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
) -> ClosedForm | ActiveSet | Newton:
    """The quickest solver for a problem on the line from collaborative to non-negative codes."""
    if problem.neg_weight == 0:
        return ClosedForm(problem, dictionary)
    if math.isinf(problem.neg_weight):
        return ActiveSet(problem, dictionary, n_jobs=n_jobs)
    return Newton(problem, dictionary, tol=tol, n_jobs=n_jobs)
