"""The exact solver, by working sets, for many queries at once.

    minimise_c  ||y - Xc||^2 + l2 ||c||^2 + l1 ||c||_1    subject to c >= 0 (any sign when signed)

The columns of X are the atoms. Atoms and queries are scaled to unit norm first, so badly scaled columns cost
nothing. In that scale, which is also that of ``violation``, the problem is

    minimise_c  ||y - Xc||^2 + sum_j ridge_j c_j^2 + 2 sum_j shift_j |c_j|

and with the residual r = y - Xc atom j is optimal when

    x_j'r - ridge_j c_j  = shift_j sign(c_j)    on the support,
    x_j'r               <= shift_j              off it (in modulus when signed).

Each query goes through rounds until no atom can lower its objective (`rounds`):

1.  Price all atoms, that is compute x_j'r, in float32 (`pricing`): as X'y - Gc where the Gram matrix G of
    the atoms was built, else by one product of all residuals with the atoms.
2.  Choose the atoms whose price exceeds its shift most. With the support they are the working set.
3.  Solve the problem on the working set exactly (`kernels`). Coordinate descent guesses the support. Block
    principal pivoting confirms it: with a Cholesky factor it finds the minimiser on the passive set, the
    atoms whose codes are free; all atoms of wrong sign leave it, all that violate optimality join it. Blocks
    can cycle. Then single pivots take over, whose objective falls at every step (`single`).
4.  When no price is above what float32 can tell, refine the code in float64 and certify it: an atom is
    cleared by its float32 price only when that lies below the bound of its rounding error, and every other
    atom is priced again in float64. If one of them violates optimality, it joins the working set; else the
    query is done, with its largest violation and a bound on its distance from the minimum (`certify`).

A query begins coarse: its working sets are solved with the float32 Gram matrix. It goes on fine, in float64,
when its refined code was not yet optimal, when it is stuck, or after many rounds; then a working set must
lower the objective. A query that even so gets no further, or whose gap stays above the tolerance, has a
support too ill-conditioned for a Gram matrix: it is finished by Lawson and Hanson's method on an orthogonal
factor (`careful`) and certified with more effort (`proof`).

A problem with class-wise terms is this problem for longer atoms, which are never stored (`copies`).

Codes that are not unique: of atoms that are equal up to a positive factor (up to sign when signed) only one
may carry weight when l2 = 0: with l1 = 0 the first, with l1 > 0 the one of largest norm. An atom in the span
of the support only enters in exchange for another, so a support holds at most ``n_features`` atoms then.

Importing this package does not load numba: `engine` imports the compiled modules when it first solves.
"""

from residuum.solvers.active_set.atoms import PreparedAtoms, prepare_atoms
from residuum.solvers.active_set.engine import solve_active_set
from residuum.solvers.active_set.solver import ActiveSet

__all__ = ["ActiveSet", "PreparedAtoms", "prepare_atoms", "solve_active_set"]
