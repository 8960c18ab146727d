"""``c = (shared*G + classwise*B + l2*I)^{-1} X'y``: NSC, CRC and ProCRC."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.solvers._updated import UpdatedInverse, Weights
from residuum.solvers.base import Solution, certified
from residuum.solvers.quadratic import Inverting, QuadraticInverse


class ClosedForm(Inverting):
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
