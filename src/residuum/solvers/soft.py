"""``min_c ||y - Xc||^2 + l2*||c||^2 + neg_weight*||min(c, 0)||^2`` for any neg_weight from 0 to inf."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.solvers._change import Change
from residuum.solvers._preparing import Preparing
from residuum.solvers._room import checked_places, sorted_codes, spare
from residuum.solvers._state import State, check_arrays
from residuum.solvers.active_set import ActiveSet
from residuum.solvers.base import Solution
from residuum.solvers.closed_form import ClosedForm

_CARRIED = ("basis", "atoms", "eigenvalues", "moved", "signs")


class Newton(Preparing):
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

    @property
    def entries_per_query(self) -> int:
        return 1 + self.dictionary.n_atoms // 128

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
        from residuum.solvers._newton_change import prepare_changed
        from residuum.solvers.newton import prepare_newton

        pending = self._pending
        prepared = None if pending is None else prepare_changed(*pending)
        if prepared is None:
            prepared = prepare_newton(
                self.dictionary.atoms,
                self.problem.l2,
                self.problem.neg_weight,
                spectrum=self.dictionary.spectrum,
                room=spare(self.dictionary.n_atoms),
            )
        return prepared

    def adopt(self, old: Newton, change: Change) -> None:
        """Remember what the solver before a change had prepared, if it had and for the same problem."""
        if old.problem == self.problem:
            super().adopt(old, change)

    def state(self) -> State:
        """Arrays that a fresh solver would not have; empty where nothing was taken over."""
        fresh = "_prepared" not in self.__dict__ and self._pending is None
        if fresh or not len(self._ready().signs):
            return {}
        prepared, n_atoms = self._ready(), self.dictionary.n_atoms
        places = np.arange(n_atoms) if prepared.places is None else prepared.places
        carried = {name: getattr(prepared, name) for name in _CARRIED}
        return {**carried, "first_gram": prepared.gram32[:n_atoms, :n_atoms], "places": places}

    def restore(self, state: State) -> None:
        """Become the solver whose `state` was stored."""
        from residuum.solvers._newton_block import Prepared

        if "first_gram" not in state:  # of a version whose Gram matrix was another: prepared anew
            return
        # Kernels are compiled for arrays that can be written to: copies, should the state be mapped.
        arrays: dict[str, Any] = {name: np.array(array) for name, array in state.items()}
        n_atoms, n_features, n_moved = (
            self.dictionary.n_atoms,
            self.dictionary.n_features,
            len(arrays["signs"]),
        )
        expected = {
            "basis": ("f", (n_features, n_features)),
            "atoms": ("f", (n_atoms, n_features)),
            "eigenvalues": ("f", (n_features,)),
            "moved": ("f", (n_moved, n_features)),
            "signs": ("f", (n_moved,)),
            "first_gram": ("f", (n_atoms, n_atoms)),
            "places": ("i", (n_atoms,)),
        }
        check_arrays(arrays, expected)
        checked_places(arrays["places"], n_atoms)
        arrays["gram32"] = arrays.pop("first_gram")
        arrays["atoms32"] = arrays["atoms"].astype(np.float32)
        self.__dict__["_prepared"] = Prepared(self.problem.l2, self.problem.neg_weight, **arrays)

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        from residuum.solvers.newton import solve_prepared

        prepared = self._ready()
        single = self.dictionary.dtype == queries.dtype == np.float32
        solution = solve_prepared(prepared, queries, single=single, tol=self.tol, n_jobs=self.n_jobs)
        return replace(solution, codes=sorted_codes(solution.codes, prepared.places))


def soft_solver(
    problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
) -> ClosedForm | ActiveSet | Newton:
    """The quickest solver for a problem on the line from collaborative to non-negative codes."""
    if problem.neg_weight == 0:
        return ClosedForm(problem, dictionary)
    if math.isinf(problem.neg_weight):
        return ActiveSet(problem, dictionary, n_jobs=n_jobs)
    return Newton(problem, dictionary, tol=tol, n_jobs=n_jobs)
