"""The certificate of a sparse code for the whole dictionary: its largest violation, and its gap.

The bounds are those of `residuum.solvers.active_set.certify`, from the same inequality: for a code c with the
residual r = y - Xc and any r' with x_j'r' <= shift for all j (in modulus when signed)

    f(c) - min f  <=  ||r - r'||^2 + 2 sum_j |c_j| (shift - sign(c_j) x_j'r'),

where a ridge counts as further features. Of the atoms outside the support all that is needed is the largest
excess x_j'r - shift, and with a ridge the sum of the squares of the positive ones: both come from the shards.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular

from residuum.dictionary import FloatArray
from residuum.problem import CodingProblem
from residuum.scale.pricing import MOST_MOVED

U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order
MORE = 1.0 + 1e-12  # covers the rounding of the bounds themselves


def certify(
    query: Any,
    problem: CodingProblem,
    inner: FloatArray,
    *,
    largest: float,
    moved: float,
    penalty: float,
    tol: float,
) -> None:
    """Store violation, gap and whether a query has converged.

    Parameters
    ----------
    query : Query
        Unit query, support, code and residual.
    problem : CodingProblem
        What is minimised.
    inner : ndarray of shape (n_features,) or (0,)
        A direction with a product of at least 1 with every atom, if one is known.
    largest : float
        Largest excess of an atom outside the support, for a residual that may be `moved` away.
    moved : float
        Distance between that residual and the one of the code.
    penalty : float
        Bound on the sum of the squares of positive excesses, for residuals up to 1e-12 away.
    tol : float
        Largest violation and gap of a query that has converged.
    """
    atoms, code, r, y = query.atoms.astype(np.float64), query.code, query.residual, query.y
    size, sign, d, m = np.abs(code), np.where(code < 0, -1.0, 1.0), len(r), len(code)
    shift, ridge = 0.5 * problem.l1, problem.l2
    norm_y, rr = float(np.linalg.norm(y)), float(r @ r)
    if not norm_y > 0:
        query.violation, query.gap, query.converged = 0.0, 0.0, True
        return
    t = atoms @ r - shift * sign - ridge * code
    reach = float(size.sum())
    rho = U * ((m + 8) * (1.0 + reach) + 8.0 * np.sqrt(ridge * float(size @ size)))
    tau = U * (d + 8) * np.sqrt(rr) + 1e-300
    own = tau + 8.0 * U * (shift + ridge * size)
    slack = float(size @ (np.abs(t) + own))
    norm = np.sqrt(rr + ridge * float(size @ size)) * (1.0 + d * U)
    beyond = largest + moved + 8 * U * shift
    over = max(0.0, beyond + tau, float((t * sign + own).max(initial=0.0)))
    bounds = [((norm + rho) ** 2 + 2 * shift * reach) * MORE]
    if len(inner):
        length = float(np.linalg.norm(inner)) * MORE
        along = max(float(inner @ (y - r)), 0.0) + length * (rho + 2 * (d + 8) * U)
        bounds.append((rho + over * length) ** 2 + 2 * (over * along + slack))
    if shift > 0:
        lost = over / (shift + over) + 20 * U
        bounds.append((rho + lost * norm) ** 2 + 2 * (lost * shift * reach + slack))
    if ridge > 0 and moved <= MOST_MOVED:
        bounds.append(rho**2 + (float(np.sum((np.abs(t) + own) ** 2)) + penalty) / ridge)
    bounds.append(_by_projecting(atoms, ridge, t, own, rho, beyond + tau))
    query.gap = min(bounds) * (MORE + 4 * d * U) / norm_y**2
    query.violation = max(float(np.abs(t).max(initial=0.0)), largest, 0.0)
    allowed = max(tol, 4 * np.finfo(np.float64).eps * reach)
    query.converged = bool(query.violation <= allowed and query.gap <= tol)


def _by_projecting(
    atoms: FloatArray, ridge: float, t: FloatArray, own: FloatArray, rho: float, nearest: float
) -> float:
    """With the nearest r' for which all equations of the support hold; it exists and is not computed.

    It is d = ||L^{-1} t|| away, with the Gram matrix LL' of the support, and feasible if all other atoms are
    as far from their constraints.
    """
    m, d = atoms.shape
    if nearest > 0:
        return np.inf
    if not m:
        return rho**2
    try:
        lower = cholesky(atoms @ atoms.T + ridge * np.eye(m), lower=True)
    except LinAlgError:
        return np.inf
    inverse = float(np.linalg.norm(solve_triangular(lower, np.eye(m), lower=True)))
    spoilt = m * (d + m + 10) * U * inverse**2
    if not spoilt < 0.5:
        return np.inf
    step = float(np.linalg.norm(solve_triangular(lower, t, lower=True)))
    far = (1.02 * step + 1.02 * inverse * float(np.linalg.norm(own))) / np.sqrt(1 - spoilt)
    return (rho + far) ** 2 if nearest + far <= 0 else np.inf
