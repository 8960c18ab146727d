"""The certificate of a code: its largest violation, and a bound on its distance from the minimum.

For a code c with the residual r = y - Xc and any r' with x_j'r' <= shift_j for all j (in modulus when signed)

    f(c) - min f  <=  ||r - r'||^2 + 2 sum_j |c_j| (shift_j - sign(c_j) x_j'r'),

where no term is negative, so nothing cancels. A ridge counts as further features, one for each atom: x_j
becomes (x_j; sqrt(ridge_j) e_j) and r becomes (r; -sqrt(ridge_j) c_j). Then r' exists for any first part, at
a price of (x_j'r' - shift_j)_+^2 / ridge_j. Points r' come from

*   zero: the bound is the objective itself, and always holds;
*   moving r inwards along a direction u with X'u >= 1, if all atoms lie in an open half space (`_by_moving`);
*   shrinking r, with l1 > 0 (`_by_shrinking`);
*   the ridge, with r' = r (`_by_ridge`);
*   projecting r so that all atoms W of the support fulfil their equation exactly (`_by_projecting`). This
    point need not be computed. Its distance from r is d = ||L^{-1} t||, with the gradient t and the Gram
    matrix LL' on W, and it is feasible if all other atoms keep a distance of d. The bound d^2 is of second
    order.

The bounds hold for the exact problem in spite of rounding, which every term includes: with unit roundoff u,

    rho  bounds the error of r:            u (m + 8) (1 + ||c||_1)  for m atoms in the support;
    tau  bounds the error of a price:      u (depth of the sum) ||r||, and of what is subtracted from it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .kernels import correlation, dot, solve_lower, sum_depth
from .pricing import candidates
from .tables import INNER

U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order
EPS32 = 6.0e-8
NEAR = 1e-9  # atoms closer to their constraint than this are looked at one by one
NEVER = 1e300  # a bound that is not known
MORE = 1.0 + 1e-12  # covers the rounding of the bounds themselves


class Errors(NamedTuple):
    """What is known of a residual r and its code."""

    norm: float  # of r, with its further features
    rho: float
    tau: float
    primal: float  # the objective
    slack: float  # sum_j |c_j| times what t_j may be


@njit(**INNER)
def _own_error(task, a, tau):
    """Bound on the error of the gradient t of member a."""
    member = task.work.member[a]
    return tau + 8.0 * U * (member.shift + member.ridge * abs(task.work.z[a]))


@njit(**INNER)
def _measure(task, m):
    """The errors of the code in the scratch, its residual in ``r`` and its gradient in ``t``."""
    work = task.work
    rr, reach, further, penalty = dot(work.r, work.r), 0.0, 0.0, 0.0
    for a in range(m):
        z = abs(work.z[a])
        reach += z
        further += work.member[a].ridge * z * z
        penalty += 2.0 * work.member[a].shift * z
    rho = U * ((m + 8) * (1.0 + reach) + 8.0 * np.sqrt(further))
    # A price is a sum over the row of an atom, or two of them, however long the residual is.
    tau = U * (sum_depth(task.atoms.x.double.shape[1]) + 10) * np.sqrt(rr) + 1e-300
    slack = 0.0
    for a in range(m):
        slack += abs(work.z[a]) * (abs(work.t[a]) + _own_error(task, a, tau))
    norm = np.sqrt(rr + further) * (1.0 + work.r.shape[0] * U)
    return Errors(norm, rho, tau, ((norm + rho) ** 2 + penalty) * MORE, slack)


@njit(**INNER)
def _by_moving(task, e, over):
    """With r' = r - s u, where s is the largest violation ``over``."""
    inner, y, r = task.atoms.inner, task.query.y, task.work.r
    if inner.shape[0] == 0 or task.limits.signed:
        return NEVER
    length = np.sqrt(dot(inner, inner)) * MORE
    along = dot(inner, y) - dot(inner, r)  # sum_j c_j x_j'u
    along = max(along, 0.0) + length * (e.rho + 2.0 * (r.shape[0] + 8) * U)
    step = over + e.tau
    return (e.rho + step * length) ** 2 + 2.0 * (step * along + e.slack)


@njit(**INNER)
def _by_shrinking(task, e, over):
    """With r' = r / (1 + s), where s is the largest violation over the query's shift, which is the least."""
    shift = task.query.state[0].shift
    if not shift > 0.0:
        return NEVER
    lost, weighted = (over + e.tau) / (shift + over + e.tau) + 20.0 * U, 0.0
    for a in range(task.query.state[0].size):
        weighted += task.work.member[a].shift * abs(task.work.z[a])
    return (e.rho + lost * e.norm) ** 2 + 2.0 * (lost * weighted + e.slack)


@njit(**INNER)
def _by_ridge(task, e, penalty):
    """With r' = r; ``penalty`` is the price of the atoms off the support."""
    total = penalty + e.rho * e.rho
    for a in range(task.query.state[0].size):
        ridge = task.work.member[a].ridge
        if not ridge > 0.0:
            return NEVER
        total += (abs(task.work.t[a]) + _own_error(task, a, e.tau)) ** 2 / ridge
    return total


@njit(**INNER)
def _inverse_norm(work, m):
    """Frobenius norm of L^{-1} S, where S^2 is the diagonal of LL'."""
    inverse, total = np.zeros((m, m)), 0.0
    for i in range(m):
        row, own = work.chol[i], inverse[i]
        for k in range(i):
            factor, other = row[k], inverse[k]
            for j in range(k + 1):
                own[j] -= factor * other[j]
        for j in range(i):
            own[j] *= row[i]
        own[i] = row[i]
        for j in range(i + 1):
            total += own[j] * own[j] * (1.0 + work.member[work.pos[j]].ridge)
    return np.sqrt(total)


@njit(**INNER)
def _by_projecting(task, e, nearest, fine):
    """With r' so that t = 0; ``nearest`` is the largest x_j'r - shift_j off the support."""
    work, m, d = task.work, task.query.state[0].size, task.atoms.x.double.shape[1]
    if nearest > 0.0:
        return NEVER
    # By how much LL' may differ from the true Gram matrix, on the scale of its diagonal.
    wrong = m * (d + m + 10) * U + (0.0 if fine else m * 2.1 * EPS32)
    inverse = _inverse_norm(work, m)
    spoilt = wrong * inverse * inverse
    if not spoilt < 0.5:
        return NEVER
    step, error, length = np.empty(m), 0.0, 0.0
    for a in range(m):
        step[a] = work.t[a]
        error += _own_error(task, a, e.tau) ** 2 / (1.0 + work.member[a].ridge)
    solve_lower(work.chol, m, step)
    for a in range(m):
        length += step[a] * step[a]
    far = (1.02 * np.sqrt(length) + 1.02 * inverse * np.sqrt(error)) / np.sqrt(1.0 - spoilt)
    return (e.rho + far) ** 2 if nearest + e.tau + far <= 0.0 and e.tau + far <= NEAR else NEVER


@njit(**INNER)
def _gap(task, e, over, nearest, penalty, factored):
    """The least of the bounds; the one that costs most is computed if the others do not suffice."""
    work = task.work
    for a in range(task.query.state[0].size):
        over = max(over, work.t[a] * work.member[a].sign + _own_error(task, a, 0.0))
    gap = min(e.primal, min(_by_moving(task, e, over), _by_shrinking(task, e, over)))
    if task.atoms.ridge[0] > 0.0:
        gap = min(gap, _by_ridge(task, e, penalty))
    if factored and gap > 0.1 * task.limits.wish:
        gap = min(gap, _by_projecting(task, e, nearest, task.query.state[0].fine))
    return gap * (MORE + 4.0 * work.r.shape[0] * U)  # the norm of y is 1 up to rounding


@njit(**INNER)
def _on_a_line_of_the_support(task, j):
    """Whether atom j is exactly a multiple of one of the support, so that its price is exactly zero too."""
    lines, index = task.atoms.lines, task.query.atom
    if task.query.state[0].shift > 0.0 or task.atoms.ridge[0] > 0.0:
        return False
    found = False
    for a in range(task.query.state[0].size):
        found |= lines[index[a]] == lines[j]
    return found


@njit(**INNER)
def certify(task, prices, slack, on_support, factored):
    """Price in float64 the atoms that float32 cannot clear; store violation and gap.

    ``factored`` says whether the Cholesky factor of the support is at hand. Returns the number of atoms that
    violate optimality; they are left in ``found``.
    """
    state, atoms, found, r = task.query.state[0], task.atoms, task.work.found, task.work.r
    e = _measure(task, state.size)
    excess, most, nearest, penalty, count = 0.0, 0.0, -NEAR, 0.0, 0
    if e.primal > 0.1 * task.limits.wish:  # else the objective itself is a good bound
        slack += NEAR / prices.unit
    for a in range(candidates(task, prices, atoms.hidden, -slack, prices.p.shape[0])):
        j = found[a]
        s, shift = correlation(atoms.x, j, r), state.shift * atoms.weight[j]
        over = (abs(s) if task.limits.signed else s) - shift
        might = over + 8.0 * U * shift  # the shift is rounded too
        if might > nearest and not _on_a_line_of_the_support(task, j):
            nearest = might
        excess, most = max(excess, over), max(most, might)
        if might + e.tau > 0.0 and atoms.ridge[j] > 0.0:
            penalty += (might + e.tau) ** 2 / atoms.ridge[j]
        if over > prices.entry and atoms.barred[j] == 0.0:
            found[count] = j
            count += 1
    state.violation = max(on_support, excess)
    state.gap = _gap(task, e, most, nearest, penalty, factored)
    return count
