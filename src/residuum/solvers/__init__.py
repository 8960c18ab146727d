"""Solvers: how a coding problem is minimised.

A solver is built once from a problem and a dictionary, factors what it needs, and then codes any number of
queries: ``solver.solve(queries, certify=True) -> Solution``.
"""

from residuum.solvers.admm import ADMM, Trace
from residuum.solvers.base import Solution
from residuum.solvers.closed_form import ClosedForm

SOLVERS = {"closed_form": ClosedForm, "admm": ADMM}

__all__ = ["ADMM", "SOLVERS", "ClosedForm", "Solution", "Trace"]
