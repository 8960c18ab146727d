"""Least squares where only the products of A with itself and with B are known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils._param_validation import validate_params
from sklearn.utils.validation import check_array

from residuum.plain_numbers import check_numbers
from residuum.problem import Float64Array
from residuum.solvers.tall import (
    Answers,
    BoundedLeastSquares,
    TallSolver,
    deepest_eigenvalue,
    least_eigenvalue,
)

from .arguments import FLOATS, NON_NEGATIVE, POSITIVE, Limits, Tikhonov
from .solution import LeastSquaresSolution, as_solution, of_one, warn_unless_converged

OWNER = "least_squares_from_gram"
ROUNDED = 100  # roundings of its diagonal by which a Gram matrix may miss symmetry or semi-definiteness
MODERATE = (1e-100, 1e100)  # norms of right-hand sides, as far as their products tell them


@validate_params(
    {"l1": NON_NEGATIVE, "l2": [*NON_NEGATIVE, Tikhonov], "tol": POSITIVE}, prefer_skip_nested_validation=True
)
def least_squares_from_gram(
    gram: Any,
    correlations: Any,
    *,
    squared_norms: Any = None,
    bounds: tuple[Any, Any] = (0.0, np.inf),
    sum_to: float | None = None,
    sum_at_most: float | None = None,
    l1: float = 0.0,
    l2: float | Tikhonov = 0.0,
    tol: float = 1e-10,
) -> LeastSquaresSolution:
    """Minimise x'Gx - 2c'x + l2 ||Lx||^2 + l1 ||x||_1 subject to lower <= x <= upper, for each column c.

    With ``gram=A.T @ A`` and ``correlations=A.T @ B`` this is `least_squares` of A and B, up to what rounding
    the products lost: columns that depend on each other to more than 1e-8 need A itself.

    Parameters
    ----------
    gram : array of shape (n_atoms, n_atoms)
        Symmetric and positive semi-definite, up to rounding.
    correlations : array of shape (n_atoms,) or (n_atoms, n_rhs)
        Products of A with the right-hand sides, as columns.
    squared_norms : number or array of shape (n_rhs,), optional
        ``||b||^2``. Without them ``residual_norm`` is NaN, and the scale of the certificate has the norm of
        the projection of b on the nearest single column in place of ``||b||``, which is smaller.
    bounds, sum_to, sum_at_most, l1, l2, tol
        As for `least_squares`.

    Returns
    -------
    LeastSquaresSolution
        As for `least_squares`. Certificates hold for the matrix and the correlations exactly as they are. A
        singular matrix can be certified only where all variables have bounds, or a sum implies them.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum import least_squares_from_gram
    >>> least_squares_from_gram([[2.0, 1.0], [1.0, 2.0]], [2.0, -1.0]).x
    array([1., 0.])
    """
    G = _checked_gram(gram)
    C = check_array(
        check_numbers(correlations, "correlations", OWNER),
        dtype=np.float64,
        ensure_2d=False,
        ensure_min_features=0,
        input_name="correlations",
    )
    if len(C) != len(G):
        raise ValueError(
            f"The 'correlations' parameter of {OWNER} must have {len(G)} rows, as gram has. "
            f"Got {len(C)} instead."
        )
    one, C = C.ndim == 1, C.reshape(len(C), -1)
    nothing = np.empty((0, len(G)))
    problem = Limits(bounds, sum_to, sum_at_most).problem(OWNER, nothing, l1, l2, known=G, concave=0.0)
    if not (least_eigenvalue(problem.gram()[None], problem.depth) > 0).all():
        problem = replace(problem, concave=deepest_eigenvalue(problem.gram(), problem.depth, np.inf))
    norms, squares = _norms(problem, C, squared_norms)
    solver, answers = TallSolver(problem, tol=tol), Answers.empty(C.shape[1], len(G))
    solver.solve_products(C, norms, squares, answers)
    solution = as_solution(answers, answers.converged(tol))
    warn_unless_converged(OWNER, solution, tol, 2)
    return of_one(solution) if one else solution


def _checked_gram(gram: Any) -> Float64Array:
    """The Gram matrix in float64; refused unless symmetric and semi-definite up to rounding."""
    gram = check_array(check_numbers(gram, "gram", OWNER), dtype=FLOATS, input_name="gram")
    G, told = gram.astype(np.float64), f"The 'gram' parameter of {OWNER} must be"
    slack = ROUNDED * len(G) * float(np.finfo(gram.dtype).eps)
    if G.shape[0] != G.shape[1]:
        raise ValueError(f"{told} a square matrix, A.T @ A. Got shape {G.shape} instead.")
    root = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    unit = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
    apart = np.abs(unit[:, None] * (G - G.T) * unit).max(initial=0.0)
    if apart > slack:
        raise ValueError(
            f"{told} symmetric. Entries differ from their mirror images by up to {apart:.1e}, "
            "for columns of unit norm. Pass A.T @ A."
        )
    scaled = unit[:, None] * (0.5 * G + 0.5 * G.T) * unit
    if (
        (np.diagonal(G) < 0).any()
        or G[root == 0].any()
        or np.isinf(deepest_eigenvalue(scaled, len(G), slack))
    ):
        least = float(np.linalg.eigvalsh(scaled)[0])
        raise ValueError(
            f"{told} positive semi-definite, as A.T @ A is. Got a least eigenvalue of {least:.1e}, "
            f"for columns of unit norm, and a least diagonal entry of {np.diagonal(G).min():.1e}."
        )
    return 0.5 * G + 0.5 * G.T


def _norms(problem: BoundedLeastSquares, C: Float64Array, squared_norms: Any) -> tuple[Any, Any]:
    """Norms of right-hand sides, at least as far as correlations tell them, and their squares if given."""
    assert problem.known is not None
    root = np.sqrt(np.diagonal(problem.known))[:, None]
    if C[root[:, 0] == 0].any():
        raise ValueError(
            f"The 'correlations' parameter of {OWNER} must be zero where the diagonal of gram is."
        )
    norms = np.max(np.divide(np.abs(C), root, out=np.zeros_like(C), where=root > 0), axis=0, initial=0.0)
    norms *= 1 + 1e-12
    if ((norms > 0) & ~((norms > MODERATE[0]) & (norms < MODERATE[1]))).any():
        raise ValueError(
            f"The 'correlations' parameter of {OWNER} must belong to right-hand sides with norms "
            f"between {MODERATE[0]:g} and {MODERATE[1]:g}. Got others. Scale them."
        )
    if squared_norms is None:
        return norms, None
    squares = check_array(
        np.atleast_1d(squared_norms), dtype=np.float64, ensure_2d=False, input_name="squared_norms"
    )
    if squares.shape != norms.shape:
        raise ValueError(
            f"The 'squared_norms' parameter of {OWNER} must have one number for each right-hand "
            f"side, that is {len(norms)}. Got shape {squares.shape} instead."
        )
    if (squares < norms**2 * (1 - 1e-6)).any():
        bad = int(np.flatnonzero(squares < norms**2 * (1 - 1e-6))[0])
        raise ValueError(
            f"The 'squared_norms' parameter of {OWNER} must be ||b||^2, which is at least "
            f"{norms[bad] ** 2:g} for right-hand side {bad} by its correlations. Got {squares[bad]:g}."
        )
    return np.maximum(norms, np.sqrt(squares)), squares
