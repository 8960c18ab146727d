"""What the functions return, with a warning where it is not optimal."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from residuum.problem import Float64Array, Solution
from residuum.solvers.active_set import solve_active_set
from residuum.solvers.tall import Answers, TallSolver

_BLOCK = 4096  # right-hand sides whose residuals are computed together


@dataclass(frozen=True, repr=False)
class LeastSquaresSolution(Solution):
    """A `Solution` with the variables first, as SciPy has them, and the norms of the residuals."""

    _norms: Any = field(default=None, repr=False)  # the norms, or A and B to compute them from

    @property
    def x(self) -> Float64Array:
        """The solutions as columns, dense: shape (n_atoms, n_rhs), or (n_atoms,) for 1-D B."""
        codes: Any = self.codes
        return (codes.toarray() if sp.issparse(codes) else codes).T

    @cached_property
    def residual_norm(self) -> Float64Array:
        """``||b - Ax||`` of each right-hand side (with the weights of the rows), shape (n_rhs,)."""
        if not isinstance(self._norms, tuple):
            return np.asarray(self._norms)
        A, queries = self._norms
        codes = np.atleast_2d(self.codes) if isinstance(self.codes, np.ndarray) else self.codes
        norms = np.empty(len(queries))
        for start in range(0, len(queries), _BLOCK):
            part = slice(start, start + _BLOCK)
            norms[part] = np.linalg.norm(queries[part] - codes[part] @ A.T, axis=1)
        return norms


def as_solution(answers: Answers, converged: Any) -> LeastSquaresSolution:
    return LeastSquaresSolution(
        answers.points,
        answers.n_iter,
        answers.violation,
        answers.gap,
        converged,
        _norms=answers.residual_norm,
    )


def of_one(solution: LeastSquaresSolution) -> LeastSquaresSolution:
    """The solution of a single right-hand side that was passed as a vector."""
    return LeastSquaresSolution(**{**vars(solution), "codes": solution.codes[0]})


def finished(solver: TallSolver, B: Any, answers: Answers) -> Any:
    """Which converged, after the other path solved non-negative least squares that the tall one could not."""
    problem, tol = solver.problem, solver.tol
    converged = answers.converged(tol)
    left = np.flatnonzero(~converged)
    left = left[np.isfinite(B[:, left]).all(axis=0)]
    if left.size and problem.is_non_negative:
        again = solve_active_set(
            problem.A.T, B.T[left], l1=problem.l1, l2=problem.l2, tol=tol, n_jobs=solver.n_jobs
        )
        better = again.converged | (again.gap < answers.gap[left])
        place = left[better]
        answers.points[place] = points = again.codes[better].toarray()
        answers.violation[place], answers.gap[place] = again.violation[better], again.gap[better]
        answers.n_iter[place], converged[place] = again.n_iter[better], again.converged[better]
        answers.residual_norm[place] = np.linalg.norm(B[:, place] - problem.A @ points.T, axis=0)
    return converged


def warn_unless_converged(owner: str, solution: Solution, tol: float, stacklevel: int) -> None:
    if solution.converged.all():
        return
    left = int((~solution.converged).sum())
    warnings.warn(
        f"{owner}: {left} of {len(solution.converged)} right-hand sides did not reach tol={tol:g} "
        f"(largest violation {solution.violation.max():.1e}, largest gap {solution.gap.max():.1e}); "
        "their best feasible codes are returned. "
        "Raise tol, add a little l2, or remove nearly dependent columns of A.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
