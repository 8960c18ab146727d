"""``min_c ||y - Xc||^2 + l2*||c||^2 + l1*||c||_1``, c >= 0 or of any sign, solved exactly by working sets."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.solvers._change import Change
from residuum.solvers._preparing import Preparing
from residuum.solvers._room import Places, checked_places, sorted_codes, spare
from residuum.solvers._state import State, check_arrays
from residuum.solvers.base import Solution


class ActiveSet(Preparing):
    """Non-negative least squares, lasso and elastic net with either, to a certificate.

    Takes problems with shared = 1, classwise = 0 and neg_weight 0 (codes of any sign, l1 > 0) or inf
    (non-negative codes).

    Parameters
    ----------
    problem, dictionary
        What is minimised, and over which atoms.
    tol : float
        Largest KKT violation of a query that counts as converged.
    n_jobs : int or None
        Threads; None follows joblib's configuration and the environment.
    """

    has_threads = True

    @property
    def entries_per_query(self) -> int:
        return 1 + self.dictionary.n_atoms // 128

    def __init__(
        self, problem: CodingProblem, dictionary: Dictionary, *, tol: float = 1e-10, n_jobs: int | None = None
    ) -> None:
        nonnegative = math.isinf(problem.neg_weight)
        if problem.shared != 1 or problem.classwise or not (nonnegative or problem.neg_weight == 0):
            raise ValueError(
                "The exact solver needs shared=1, classwise=0 and neg_weight 0 or inf. "
                f"Got {problem} instead. Use the solver 'admm' or 'newton'."
            )
        self.problem, self.dictionary = problem, dictionary
        self.tol, self.n_jobs = tol, n_jobs
        self._carried = False

    @cached_property
    def _prepared(self) -> Any:
        # Imported here, as the engine loads its compiled kernels.
        from residuum.solvers.active_set import prepare_atoms, prepare_changed_atoms

        pending = self._pending
        if pending is None:
            return prepare_atoms(self.dictionary.atoms, room=spare(self.dictionary.n_atoms))
        return prepare_changed_atoms(*pending)

    def adopt(self, old: ActiveSet, change: Change) -> None:
        """Remember what the solver before a change of the dictionary had prepared, if it had."""
        super().adopt(old, change)
        self._carried = self._pending is not None

    def state(self) -> State:
        """What differs from a fresh preparation: the order and, by rounding, entries of the Gram matrix."""
        if not self._carried:
            return {}
        prepared, n_atoms = self._ready(), self.dictionary.n_atoms
        places = np.arange(n_atoms) if prepared.places is None else prepared.places
        gram = prepared.gram32[:n_atoms, :n_atoms].ravel()
        fresh = self._fresh(places).gram32.ravel()
        entries = np.flatnonzero(fresh != gram)
        return {"entries": entries, "values": gram[entries], "inner": prepared.inner, "places": places}

    def restore(self, state: State) -> None:
        """Become the solver whose `state` was stored."""
        n_atoms, count = self.dictionary.n_atoms, np.shape(state["entries"])
        direction = (self.dictionary.n_features if len(state["inner"]) else 0,)
        expected = {"inner": ("f", direction), "places": ("i", (n_atoms,))}
        check_arrays(state, {**expected, "entries": ("i", count), "values": ("f", count)})
        places = checked_places(state.get("places", np.arange(n_atoms)), n_atoms)
        prepared = replace(self._fresh(places), inner=np.array(state["inner"]), places=places)
        prepared.gram32.ravel()[state["entries"]] = state["values"]
        self.__dict__["_prepared"] = prepared
        self._carried = True

    def _fresh(self, places: Places) -> Any:
        """A preparation without room of atoms that arrived in this order."""
        from residuum.solvers.active_set import prepare_atoms

        return prepare_atoms(self.dictionary.picked(places))

    def solve(self, queries: FloatArray, *, certify: bool = True, start: Any = None) -> Solution:
        """Code every query, from the codes `start` if given; the certificate comes for free."""
        from residuum.solvers.active_set import solve_active_set

        prepared = self._ready()
        places = prepared.places
        solution = solve_active_set(
            prepared,
            queries,
            l1=self.problem.l1,
            l2=self.problem.l2,
            signed=not math.isinf(self.problem.neg_weight),
            x0=start if start is None or places is None else sp.csr_array(start)[:, places],
            tol=self.tol,
            n_jobs=self.n_jobs,
        )
        return replace(solution, codes=sorted_codes(solution.codes, places))
