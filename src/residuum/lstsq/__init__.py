"""Certified least squares under constraints, non-negative least squares and lasso for many right-hand sides.

nnls           minimise_x  ||b - Ax||^2 + l2 ||x||^2 + l1 ||x||_1    s.t. x >= 0
lasso          minimise_x  ||b - Ax||^2 + l2 ||x||^2 + l1 ||x||_1
least_squares  minimise_x  ||b - Ax||^2 + l2 ||Lx||^2                s.t. bounds, perhaps a sum, rows weighted
"""

from .constrained import least_squares
from .nonnegative import lasso, nnls
from .solution import LeastSquaresSolution

__all__ = ["LeastSquaresSolution", "lasso", "least_squares", "nnls"]
