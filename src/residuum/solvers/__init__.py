"""Solvers: how a coding problem is minimised.

A solver is built once from a problem and a dictionary, factors what it needs, and then codes any number of
queries: ``solver.solve(queries, certify=True) -> Solution``.
"""

from residuum.solvers.active_set import ActiveSet
from residuum.solvers.admm import ADMM, Trace
from residuum.solvers.base import Solution
from residuum.solvers.closed_form import ClosedForm
from residuum.solvers.newton import Newton, soft_solver

SOLVERS = {"closed_form": ClosedForm, "admm": ADMM, "exact": ActiveSet, "newton": Newton}

__all__ = ["ADMM", "SOLVERS", "ActiveSet", "ClosedForm", "Newton", "Solution", "Trace", "soft_solver"]
