"""Solvers: how a coding problem is minimised.

A solver is built once from a problem and a dictionary, factors what it needs, and then codes any number of
queries: ``solver.solve(queries, certify=True) -> Solution``.
"""

from typing import Protocol

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem, Solution
from residuum.solvers.active_set import ActiveSet
from residuum.solvers.admm import ADMM
from residuum.solvers.closed_form import ClosedForm
from residuum.solvers.newton import Newton, soft_solver
from residuum.solvers.simplex import Simplex

__all__ = ["ADMM", "ActiveSet", "ClosedForm", "Newton", "Simplex", "Solution", "Solver", "soft_solver"]


class Solver(Protocol):
    """How one problem is minimised over one dictionary.

    A solver may also have ``follow(old, change)``, called before anything is prepared: it then takes over
    what the solver `old` had prepared for ``change.before``. A solver without it is prepared again. And it
    may have ``class_parts(queries)``, where it knows what each class contributes without the codes: these
    `residuum.rules.ClassParts`, and which queries met their tolerance.
    """

    problem: CodingProblem
    dictionary: Dictionary
    # Whether the solver divides the queries among threads itself.
    has_threads: bool

    @property
    def entries_per_query(self) -> int:
        """Numbers that are held for each query while it is answered; decides how many go into a block."""
        ...

    def prepare(self) -> None:
        """Factor what takes long; without it, the first query does."""
        ...

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query."""
        ...
