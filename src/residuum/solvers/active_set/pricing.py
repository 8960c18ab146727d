"""Prices of all atoms, and the choice among them."""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernels import dot
from .tables import INNER, TO_THE_END, Prices

EPS32 = 6.0e-8  # unit roundoff of float32, rounded up
TYPICAL = 4.0e-8  # times sqrt(n_features): the rounding error to expect of a float32 price, below its bound


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
    size, shift, d = query.state[0].size, query.state[0].shift, task.atoms.x.double.shape[1]
    reach = 0.0
    for a in range(size):
        reach += abs(query.value[a])
    likely = TYPICAL * np.sqrt(d) * (1.0 + reach)
    entry = max(task.limits.entry, 2e-15 * (1.0 + reach))
    if mode == TO_THE_END:
        p, unit = task.work.price, 1.0
        _price_with_gram(p, given, task.atoms.gram32, query.atom, query.value, size)
        bound = EPS32 * 1.05 * ((d + 10) + (size + 10) * (1.0 + reach) + 4.0 * shift)
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
def candidates(task, prices, barred, threshold, limit):
    """Atoms outside the support whose price exceeds the shift by more than the threshold; their number.

    They are listed in ``found``, ascending; if more than ``limit`` do, only about so many, the best.
    ``barred`` is infinite for atoms that are left out.
    """
    p, v, found = prices.p, task.work.excess, task.work.found
    weight32 = task.atoms.weight32
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
