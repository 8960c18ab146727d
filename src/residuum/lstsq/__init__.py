"""Certified least squares under constraints, non-negative least squares and lasso for many right-hand sides.

nnls           minimise_x  ||b - Ax||^2 + l2 ||x||^2 + l1 ||x||_1     s.t. x >= 0
lasso          minimise_x  ||b - Ax||^2 + l2 ||x||^2 + l1 ||x||_1
least_squares  minimise_x  ||b - Ax||^2 + l2 ||Lx||^2 + l1 ||x||_1    s.t. bounds, a sum, weighted rows
least_squares_from_gram    the same from A'A and A'B alone
tikhonov_path              the same for many l2, one of which `choose_weight` chooses
"""

from .arguments import Tikhonov
from .constrained import least_squares
from .from_gram import least_squares_from_gram
from .nonnegative import lasso, nnls
from .solution import LeastSquaresSolution
from .tikhonov import TikhonovPath, WeightChoice, choose_weight, tikhonov_path

__all__ = ["LeastSquaresSolution", "Tikhonov", "TikhonovPath", "WeightChoice", "choose_weight", "lasso"]
__all__ += ["least_squares", "least_squares_from_gram", "nnls", "tikhonov_path"]
