"""Soft non-negative coding by semismooth Newton steps on the residual."""

from residuum.solvers.newton.solver import Newton, soft_solver

__all__ = ["Newton", "soft_solver"]
