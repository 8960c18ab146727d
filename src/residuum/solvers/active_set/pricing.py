"""Prices of all atoms, the choice among them, and the certificate of a code."""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernels import correlation, dot
from .tables import INNER, TO_THE_END, Prices

EPS32 = 6.0e-8  # unit roundoff of float32, rounded up
TYPICAL = 4.0e-8  # times sqrt(n_features): the rounding error to expect of a float32 price, below its bound
REACH = 10.0  # where no dual point can be made feasible, the gap covers codes of an l1 norm this much larger


@njit(**INNER)
def _price_with_gram(p, corr, gram32, index, value, size):
    """Prices p = X'y - Gc in float32, four rows of G at a time."""
    n = p.shape[0]
    for j in range(n):
        p[j] = corr[j]
    a = 0
    while a + 4 <= size:
        g0, g1, g2, g3 = gram32[index[a]], gram32[index[a + 1]], gram32[index[a + 2]], gram32[index[a + 3]]
        c0, c1 = np.float32(value[a]), np.float32(value[a + 1])
        c2, c3 = np.float32(value[a + 2]), np.float32(value[a + 3])
        for j in range(n):
            p[j] -= (c0 * g0[j] + c1 * g1[j]) + (c2 * g2[j] + c3 * g3[j])
        a += 4
    while a < size:
        g0, c0 = gram32[index[a]], np.float32(value[a])
        for j in range(n):
            p[j] -= c0 * g0[j]
        a += 1


@njit(**INNER)
def compute_prices(task, mode, given):
    """Prices of all atoms: from X'y and the Gram matrix to the end, else those of the residual as given."""
    query = task.query
    size, shift, d = query.state[0].size, query.state[0].shift, query.y.shape[0]
    reach = 0.0
    for a in range(size):
        reach += abs(query.value[a])
    likely = TYPICAL * np.sqrt(d) * (1.0 + reach)
    entry = max(task.limits.entry, 2e-15 * (1.0 + reach))
    if mode == TO_THE_END:
        p, unit = task.work.price, 1.0
        _price_with_gram(p, given, task.atoms.gram32, query.atom, query.value, size)
        bound = EPS32 * 1.05 * ((d + 10) + (size + 10) * reach + 4.0 * shift)
    else:
        p, unit = given, max(1e-300, np.sqrt(dot(query.residual, query.residual)))
        bound = EPS32 * 1.05 * ((d + 10) + 4.0 * shift / unit)
    return Prices(p, unit, shift / unit, bound, likely, entry)


@njit(**INNER)
def _count_above(v, cut):
    count = np.int32(0)
    for j in range(v.shape[0]):
        count += np.int32(v[j] > cut)
    return count


@njit(**INNER)
def _raise_cut(v, low, limit):
    """A cut above ``low`` that nearly ``limit`` entries exceed, by bisection."""
    top = low
    for j in range(v.shape[0]):
        top = max(top, v[j])
    high = top
    for _ in range(14):
        middle = np.float32(0.5) * (low + high)
        count = _count_above(v, middle)
        if count > limit:
            low = middle
        else:
            high = middle
            if 4 * count >= 3 * limit:
                break
    return high if high < top else low


@njit(**INNER)
def _list_above(v, cut, limit, found):
    """The first ``limit`` entries above the cut, ascending; blocks without any are skipped quickly."""
    n, count = v.shape[0], 0
    for start in range(0, n, 32):
        stop = min(start + 32, n)
        if _count_above(v[start:stop], cut) > 0:
            for j in range(start, stop):
                if v[j] > cut and count < limit:
                    found[count] = j
                    count += 1
    return count


@njit(**INNER)
def candidates(task, prices, threshold, limit):
    """Atoms outside the support whose price exceeds the shift by more than the threshold; their number.

    They are listed in ``found``, ascending; if more than ``limit`` do, only about so many, the best.
    """
    p, v, found = prices.p, task.work.excess, task.work.found
    weight32, barred = task.atoms.weight32, task.atoms.barred
    n, h = p.shape[0], np.float32(prices.shift)
    if task.limits.signed:
        for j in range(n):
            v[j] = abs(p[j]) - h * weight32[j] - barred[j]
    else:
        for j in range(n):
            v[j] = p[j] - h * weight32[j] - barred[j]
    index = task.query.atom
    for a in range(task.query.state[0].size):
        v[index[a]] = -np.inf
    cut = np.float32(threshold)
    count = _count_above(v, cut)
    if count > limit:
        cut = _raise_cut(v, cut, limit)
    return _list_above(v, cut, limit, found) if count > 0 else 0


@njit(**INNER)
def _duality_gap(task, excess, penalty):
    """Duality gap at the code in the scratch, whose residual is in ``r`` and gradient in ``t``.

    The dual is to maximise 2 s'y - ||s||^2 - sum_j (x_j's - shift_j)_+^2 / ridge_j, where the sum means the
    constraint x_j's <= shift_j if ridge_j = 0. ``excess`` is the largest x_j'r - shift_j off the support and
    ``penalty`` the sum of their squares over ridge_j.
    """
    work, inner, signed = task.work, task.atoms.inner, task.limits.signed
    y, r, shift = task.query.y, work.r, task.query.state[0].shift
    rr, ry = dot(r, r), dot(r, y)
    primal, scale, over, reach, slack = rr, 1.0, max(excess, 0.0), 0.0, 0.0
    for a in range(task.query.state[0].size):
        h, ridge, z, t = work.member[a].shift, work.member[a].ridge, work.z[a], work.t[a]
        primal += ridge * z * z + 2.0 * h * abs(z)
        miss = t * work.member[a].sign + ridge * abs(z)  # sign * x_j'r - shift_j
        slack += abs(t * z)
        reach += abs(z)
        if ridge > 0.0:
            penalty += max(miss, 0.0) ** 2 / ridge
        over = max(over, abs(miss) if signed and h == 0.0 else miss)
        if miss > 0.0:
            scale = min(scale, h / (h + miss))
    if task.atoms.ridge[0] > 0.0:
        gap = primal - (2.0 * ry - rr - penalty)
    elif shift > 0.0:  # no shift of an atom lies below that of the query
        scale = min(scale, shift / (shift + max(excess, 0.0)))
        gap = primal - (2.0 * scale * ry - scale * scale * rr)
    elif inner.shape[0] > 0 and not signed:
        uy, ur, uu = dot(inner, y), dot(inner, r), dot(inner, inner)
        gap = 2.0 * rr - 2.0 * ry + over * (2.0 * uy - 2.0 * ur + over * uu)
    else:
        gap = 2.0 * slack + 2.0 * over * REACH * max(reach, 1.0)
    return max(0.0, min(primal, gap))  # the dual point zero is always feasible


@njit(**INNER)
def certify(task, prices, slack, on_support):
    """Price in float64 the atoms that float32 cannot clear; store violation and gap.

    Returns the number of atoms that violate optimality; they are left in ``found``.
    """
    state, atoms, found, r = task.query.state[0], task.atoms, task.work.found, task.work.r
    excess, penalty, count = 0.0, 0.0, 0
    for a in range(candidates(task, prices, -slack, prices.p.shape[0])):
        j = found[a]
        s = correlation(atoms.x, j, r)
        over = (abs(s) if task.limits.signed else s) - state.shift * atoms.weight[j]
        if over > 0.0:
            excess = max(excess, over)
            if atoms.ridge[j] > 0.0:
                penalty += over * over / atoms.ridge[j]
        if over > prices.entry:
            found[count] = j
            count += 1
    state.violation = max(on_support, excess)
    state.gap = _duality_gap(task, excess, penalty)
    return count
