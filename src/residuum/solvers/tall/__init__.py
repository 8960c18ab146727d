"""Constrained least squares with few variables, for many right-hand sides: one small quadratic program each.

    minimise_x  ||b - Ax||^2 + l2 ||Lx||^2 + l1 sum(x)    lower <= x <= upper, and perhaps sum(x) = s or <= s

With rows weighted by W, and columns scaled by powers of two, which rounds nothing, to norms near one, this is

    minimise_x  x'Qx - 2h'x,    Q = A'WA + l2 L'L,    h = A'Wb - l1/2.

Q is built once, h for all right-hand sides by one product. The kernels then solve each program by itself, so
that no answer depends on the others (`kernels`, `exchanges`, `free_set`, `lanes`):

1.  Start from the minimiser without bounds, by the inverse of Q: what lies beyond a bound is put there.
2.  Block principal pivoting: minimise over the free variables by a Cholesky factor; all that leave their
    bounds are fixed there, all whose multiplier has the wrong sign are freed. A sum adds one equation and
    its multiplier nu. A sum that may be smaller counts only if it is exceeded without it.
3.  Blocks can cycle, and do so where Q is ill-conditioned. With a ridge of 1e-5 on its diagonal they rarely
    do. From the point that is found then, single variables are exchanged so that the objective falls.
4.  Certify, and refine where the certificate is not good enough.

The certificate holds for A and b exactly as they are. With the gradient p = h - Qx, another feasible point
y = x + d is better by

    f(x) - f(y) = 2 p'd - d'Qd  <=  sum_j 2 (p_j - nu w_j) d_j - mu d_j^2  +  2 nu w'd,

where mu is at most the least eigenvalue of Q. Each term has its maximum where d_j is (p_j - nu w_j) / mu or
at a bound; w'd is what is missing in the sum of x. So a gradient of 1e-15 proves a gap of 1e-30 / mu. The
rounding error of p_j is at most ``u depth ||a_j|| (||b|| + sum_k ||a_k|| |x_k|)``, which is added to it, and
mu comes from an approximate inverse of Q with its error (`program.prepare`). So no residual is needed.

Where Q is singular or nearly so, mu is zero and only the bounds limit d; a sum with lower bounds implies
upper ones. If the columns lie on one side of the origin, as those of spectra do, an inner direction proves
the gap (`matrices`). A ridge of 1e-12 is put on the diagonal then and taken away by proximal points. What the
kernels cannot certify is solved on the columns themselves (`careful`) and certified with more digits
(`proof`).

Where only Q and h are given, without A, they are taken as exact. Q may then have eigenvalues a little below
zero, by delta at most, which a Cholesky factor of Q + delta I proves; delta d_j^2 is added to each term. The
objective less ||b||^2 has no known least value there, so that it proves nothing.
"""

from .layout import NO_SUM, SUM_AT_MOST, SUM_TO
from .matrices import deepest_eigenvalue, least_eigenvalue
from .program import BoundedLeastSquares
from .solver import Answers, TallSolver, solve_path

__all__ = ["NO_SUM", "SUM_AT_MOST", "SUM_TO", "Answers", "BoundedLeastSquares", "TallSolver"]
__all__ += ["deepest_eigenvalue", "least_eigenvalue", "solve_path"]
