"""``c = (shared*G + classwise*B + l2*I)^{-1} X'y``: NSC, CRC and ProCRC."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.solvers._change import Change
from residuum.solvers._state import State
from residuum.solvers._updated import UpdatedInverse, Weights
from residuum.solvers.base import Solution, certified
from residuum.solvers.quadratic import QuadraticInverse, restored_inverse


class ClosedForm:
    """``c = (shared*G + classwise*B + l2*I)^{-1} X'y`` for problems with l1 = 0, neg_weight = 0, l2 > 0.

    The linear map from query to code is computed once; coding is one matrix product.
    """

    block_entries = 2**20
    has_threads = False

    def __init__(self, problem: CodingProblem, dictionary: Dictionary) -> None:
        if not problem.is_linear or problem.l2 <= 0:
            raise ValueError(
                f"The closed form needs l1=0, neg_weight=0 and l2 > 0. Got {problem} instead. "
                "Use the solver 'admm' or 'exact'."
            )
        self.problem, self.dictionary = problem, dictionary
        self._weights = Weights(problem.shared, problem.classwise, problem.l2)

    @cached_property
    def _inverse(self) -> QuadraticInverse | UpdatedInverse:
        return QuadraticInverse(self.dictionary, **self._weights._asdict())

    def prepare(self) -> None:
        """Factor now rather than at the first query."""
        _ = self._inverse

    def adopt(self, old: ClosedForm, change: Change) -> None:
        """Take over the factors of the solver before a change of the dictionary, as far as they serve."""
        inverse = old._inverse.updated(change, self._weights)
        if inverse is not None:
            self.__dict__["_inverse"] = inverse
        self.prepare()

    def state(self) -> State:
        """Arrays that a fresh solver would not have; empty where nothing was taken over."""
        return self._inverse.state if isinstance(self._inverse, UpdatedInverse) else {}

    def restore(self, state: State) -> None:
        """Become the solver whose `state` was stored."""
        self.__dict__["_inverse"] = restored_inverse(self.dictionary, state, self._weights)

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; `certify=False` leaves violation and gap as NaN and saves two products."""
        codes = self._inverse.encode(queries)
        return certified(
            self.problem,
            self.dictionary,
            queries,
            codes,
            n_iter=np.ones(len(queries), dtype=np.int64),
            converged=np.ones(len(queries), dtype=bool),
            certify=certify,
        )
