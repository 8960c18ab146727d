"""The contract of the solvers, and what every one of them returns: codes with a certificate per query."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.rules import ClassParts, CodedParts

CERTIFICATE_FIELDS = ("n_iter", "violation", "gap", "converged")


@dataclass(frozen=True)
class Solution:
    """Codes with a certificate per query.

    Attributes
    ----------
    codes : ndarray or scipy.sparse.csr_array of shape (n_queries, n_atoms)
        One row per query.
    n_iter : ndarray of int, shape (n_queries,)
        Iterations spent on each query.
    violation : ndarray of float64, shape (n_queries,)
        Largest violation of the optimality conditions over the atoms; for non-negative codes
        ``max|min(c, X'(Xc - y))|``.
    gap : ndarray of float64, shape (n_queries,)
        Duality gap divided by ``||y||^2``: an upper bound on how far the objective is from its minimum.
    converged : ndarray of bool, shape (n_queries,)
        Whether the query met the tolerance that was asked for.
    """

    codes: Any
    n_iter: npt.NDArray[np.int64]
    violation: npt.NDArray[np.float64]
    gap: npt.NDArray[np.float64]
    converged: npt.NDArray[np.bool_]


class Solver(Protocol):
    """How one problem is minimised over one dictionary.

    A solver may also have ``follow(old, change)``, called before anything is prepared: it then takes over
    what the solver `old` had prepared for ``change.before``. A solver without it is prepared again.
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


def class_parts(solver: Any, queries: FloatArray) -> tuple[ClassParts, npt.NDArray[np.bool_]]:
    """What each class contributes to every query, and which queries met their tolerance.

    A solver that knows the parts without the codes has a `class_parts` of its own.
    """
    if hasattr(solver, "class_parts"):
        return solver.class_parts(queries)
    solution = solver.solve(queries, certify=False)
    return coded_parts(solver, queries, solution.codes, solution.gap), solution.converged


def coded_parts(
    solver: Any, queries: FloatArray, codes: Any, gap: npt.NDArray[np.float64] | None = None
) -> CodedParts:
    """What each class contributes to queries that the solver has coded, with the errors of the codes.

    Sparse codes are solved on their support in float64. A step of ADMM multiplies by a matrix of at most n_k
    rows and the norm ``1/(2 sqrt(ridge))``, which moves c_k by about ``eps sqrt(n_k) / (2 sqrt(ridge))``. A
    Newton code in float32 with the duality gap g is within ``sqrt(g / l2)`` of the optimum. The closed form
    tells its errors itself.
    """
    if hasattr(solver, "code_errors"):
        return CodedParts(solver.dictionary, queries, codes, **solver.code_errors(queries, codes))
    rho = getattr(solver, "rho", 0.0)
    ridge = solver.problem.l2 + rho / 2
    if sp.issparse(codes) or not ridge:
        return CodedParts(solver.dictionary, queries, codes)
    steps = solver.max_iter if rho else 1
    error: Any = np.finfo(codes.dtype).eps * np.sqrt(steps * solver.dictionary.sizes / (4 * ridge))
    if codes.dtype == np.float32 and gap is not None and np.isfinite(gap).all():
        error = error + np.sqrt(np.maximum(gap, 0) / ridge)[:, None]
    return CodedParts(solver.dictionary, queries, codes, code_error=error)


def in_float64(solver: Any) -> Any:
    """The same solver over the same atoms in float64; it is made when it is first asked for, and kept."""
    found = vars(solver).get("_in_float64")
    if found is None:
        found = copy(solver)
        for kind in type(solver).__mro__:
            for name, value in vars(kind).items():
                if isinstance(value, cached_property):
                    vars(found).pop(name, None)
        found.dictionary = solver.dictionary.in_float64
        found.prepare()
        vars(solver)["_in_float64"] = found
    return found


def certified(
    solver: Solver, queries: FloatArray, codes: FloatArray, *, n_iter: Any, converged: Any, certify: bool
) -> Solution:
    """A Solution whose violation and gap are measured in float64, or NaN when not asked for."""
    if certify:
        violation = solver.problem.violation(solver.dictionary, queries, codes)
        gap = solver.problem.gap(solver.dictionary, queries, codes)
    else:
        violation = gap = np.full(len(queries), np.nan)
    return Solution(codes, n_iter, violation, gap, converged)


def stack(solutions: list[Solution]) -> Solution:
    """The solutions of consecutive blocks of queries as one."""
    if len(solutions) == 1:
        return solutions[0]
    join = sp.vstack if sp.issparse(solutions[0].codes) else np.concatenate
    columns = [np.concatenate([getattr(s, f) for s in solutions]) for f in CERTIFICATE_FIELDS]
    return Solution(join([s.codes for s in solutions]), *columns)


def dense(codes: Any) -> FloatArray:
    """Codes as an ndarray."""
    return codes.toarray() if sp.issparse(codes) else codes
