"""Compiled linear algebra on the working set of one query: serial, and without the GIL.

A working set of n atoms is kept in the arrays of a `Scratch`, one entry for each member. The passive set (the
members whose codes are free) is listed in ``pos``, and ``z`` holds its minimiser. Loops that run often read
the arrays into local names first, and functions that are called from such loops take plain arrays: a tuple of
arrays is copied, and every array in it counted, at each call.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .tables import INNER, OPTIONS

FINE = 1e-11  # squared distance from a span that counts as linear dependence, in float64
COARSE = 1e-5  # the same with a Gram matrix in float32
MOST_BLOCKS = 12  # exchanges of blocks of atoms before single pivots are tried


@njit(**OPTIONS)
def dot(a, b):
    """Inner product a'b in float64."""
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@njit(**INNER)
def dot_first(a, b, n):
    """Inner product of the first n entries; slices would be counted at each call."""
    s = 0.0
    for i in range(n):
        s += a[i] * b[i]
    return s


@njit(**INNER)
def sum_depth(n):
    """Additions that a term goes through at most in `correlation`: times the roundoff, its relative error."""
    return n // 4 + 6


@njit(**INNER)
def _dot_in_quarters(a, b):
    """Inner product of long vectors, summed in quarters, which bounds the rounding error."""
    n = a.shape[0] // 4
    s0 = s1 = s2 = s3 = 0.0
    for i in range(n):
        s0 += a[i] * b[i]
        s1 += a[n + i] * b[n + i]
        s2 += a[2 * n + i] * b[2 * n + i]
        s3 += a[3 * n + i] * b[3 * n + i]
    for i in range(4 * n, a.shape[0]):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@njit(**INNER)
def _row_product(x, j, r):
    """Product of row j with the first entries of r."""
    if x.double.shape[0] > 0:
        return _dot_in_quarters(x.double[j], r)
    return _dot_in_quarters(x.single[j], r)


@njit(**INNER)
def correlation(x, j, r):
    """x_j'r."""
    s = _row_product(x, j, r)
    if x.place.shape[0] > 0:
        s = x.common * s + x.own * _row_product(x, j, r[x.place[j] * x.double.shape[1] :])
    return x.scale[j] * s


@njit(**INNER)
def _subtract_row(x, j, v, r):
    """Subtract v times row j from the first entries of r."""
    if x.double.shape[0] > 0:
        row = x.double[j]
        for k in range(row.shape[0]):
            r[k] -= v * row[k]
    else:
        row32 = x.single[j]
        for k in range(row32.shape[0]):
            r[k] -= v * row32[k]


@njit(**INNER)
def subtract(x, j, c, r):
    """r -= c x_j."""
    v = c * x.scale[j]
    if x.place.shape[0] > 0:
        _subtract_row(x, j, v * x.common, r)
        _subtract_row(x, j, v * x.own, r[x.place[j] * x.double.shape[1] :])
    else:
        _subtract_row(x, j, v, r)


@njit(**INNER)
def copy_row(x, j, out):
    """Copy row j of unit norm."""
    v, d = x.scale[j], x.double.shape[1]
    if x.double.shape[0] > 0:
        row = x.double[j]
        for k in range(d):  # loops, because assignments to slices take seconds to compile
            out[k] = v * row[k]
    else:
        row32 = x.single[j]
        for k in range(d):
            out[k] = v * row32[k]


@njit(**INNER)
def _fetch(row, source, atom, n):
    """Fill a row of the Gram matrix of the working set from that of the dictionary."""
    for k in range(n):
        row[k] = source[atom[k]]


@njit(**INNER)
def gram_from_features(work, n, x, y):
    """Gram matrix and b of the working set in float64."""
    part = np.empty((n, x.double.shape[1]))
    for a in range(n):
        copy_row(x, work.atom[a], part[a])
        work.member[a].have = True
        work.member[a].b = correlation(x, work.atom[a], y)
    product = np.dot(part, part.T)
    gram, atom, place, shared = work.gram, work.atom, x.place, x.common * x.common
    for a in range(n):
        for k in range(n):
            apart = place.shape[0] > 0 and place[atom[a]] != place[atom[k]]
            gram[a, k] = shared * product[a, k] if apart else product[a, k]


@njit(**INNER)
def descend(work, n, gram32, signed, sweeps):
    """Coordinate descent on the working set from its codes and gradient g: it guesses the support."""
    member, atom, g, gram = work.member, work.atom, work.g, work.gram
    for _ in range(sweeps):
        largest = biggest = 0.0
        for a in range(n):
            old, shift = member[a].code, member[a].shift
            if old == 0.0 and (abs(g[a]) if signed else g[a]) <= shift:
                continue
            target = old + g[a]
            new = target + shift if signed and target < -shift else max(0.0, target - shift)
            new /= 1.0 + member[a].ridge
            biggest = max(biggest, abs(new))
            step = new - old
            if step != 0.0:
                member[a].code = new
                row = gram[a]
                if not member[a].have:
                    _fetch(row, gram32[atom[a]], atom, n)
                    member[a].have = True
                for k in range(n):
                    g[k] -= step * row[k]
                largest = max(largest, abs(step))
        if largest <= 1e-3 * biggest:
            break


@njit(**INNER)
def factor(work, n, m, start, gram32, least):
    """Cholesky factor of the passive set's Gram matrix from row ``start``.

    Returns m, or the first row whose pivot is at most ``least``. A pivot is the squared distance of an atom
    from the span of the atoms before it.
    """
    member, atom, pos = work.member, work.atom, work.pos
    chol, gram = work.chol, work.gram
    for i in range(start, m):
        a = pos[i]
        row, source = chol[i], gram[a]
        if not member[a].have:
            _fetch(source, gram32[atom[a]], atom, n)
            member[a].have = True
        for j in range(i):
            other = chol[j]
            row[j] = (source[pos[j]] - dot_first(row, other, j)) * other[j]
        pivot = 1.0 + member[a].ridge - dot_first(row, row, i)
        if pivot <= least:
            return i
        row[i] = 1.0 / np.sqrt(pivot)
    return m


@njit(**INNER)
def solve_lower(chol, m, t):
    """Solve L s = t in place."""
    for i in range(m):
        row = chol[i]
        t[i] = (t[i] - dot_first(row, t, i)) * row[i]


@njit(**INNER)
def solve_upper(chol, m, t):
    """Solve L's = t in place."""
    for i in range(m - 1, -1, -1):
        row = chol[i]
        v = t[i] * row[i]
        t[i] = v
        for k in range(i):
            t[k] -= v * row[k]


@njit(**INNER)
def free_the_support(work, n):
    """Passive set = support of the codes, with their signs."""
    for a in range(n):
        work.member[a].inside = work.member[a].code != 0.0
        if work.member[a].inside:
            work.member[a].sign = -1.0 if work.member[a].code < 0.0 else 1.0


@njit(**INNER)
def list_passive(work, n):
    """List the passive set in ``pos``; its size."""
    m = 0
    for a in range(n):
        if work.member[a].inside:
            work.pos[m] = a
            m += 1
    return m


@njit(**INNER)
def minimise_passive(work, m):
    """Minimiser z on the passive set with its signs; the number of entries whose sign came out wrong."""
    z = work.z
    for i in range(m):
        a = work.pos[i]
        z[i] = work.member[a].b - work.member[a].shift * work.member[a].sign
    solve_lower(work.chol, m, z)
    solve_upper(work.chol, m, z)
    wrong = 0
    for i in range(m):
        if z[i] * work.member[work.pos[i]].sign <= 0.0:
            wrong += 1
    return wrong


@njit(**INNER)
def passive_objective(work, m):
    """Objective minus ||y||^2 at the minimiser z of the passive set."""
    f = 0.0
    for i in range(m):
        a = work.pos[i]
        f -= work.z[i] * (work.member[a].b - work.member[a].shift * work.member[a].sign)
    return f


@njit(**INNER)
def _drop_wrong_signs(work, m):
    """Take every atom whose sign came out wrong from the passive set; the place of the first."""
    first = m
    for i in range(m):
        a = work.pos[i]
        if work.z[i] * work.member[a].sign <= 0.0:
            work.member[a].inside = False
            first = min(first, i)
    return first


@njit(**INNER)
def _add_violators(work, n, m, signed, threshold):
    """Put every atom that violates optimality by more than ``threshold`` in; the first, or n if none does."""
    member, g = work.member, work.g
    for k in range(n):
        g[k] = member[k].b
    for i in range(m):
        row, step = work.gram[work.pos[i]], work.z[i]
        for k in range(n):
            g[k] -= step * row[k]
    first = n
    for k in range(n):
        if not work.member[k].inside and (abs(g[k]) if signed else g[k]) - work.member[k].shift > threshold:
            work.member[k].inside = True
            work.member[k].sign = 1.0 if g[k] >= 0 else -1.0
            first = min(first, k)
    return first


@njit(**INNER)
def pivot_blocks(work, n, gram32, least, signed, threshold):
    """Block principal pivoting from the signs of the codes; size of the passive set, or -1 if it gave up."""
    free_the_support(work, n)
    start = 0
    for _ in range(MOST_BLOCKS):
        m = list_passive(work, n)
        got = factor(work, n, m, min(start, m), gram32, least)
        if got < m:
            work.member[work.pos[got]].inside = False
            start = got
        elif minimise_passive(work, m) > 0:
            start = _drop_wrong_signs(work, m)
        else:
            first = _add_violators(work, n, m, signed, threshold)
            if first == n:
                return m
            start = 0
            while start < m and work.pos[start] < first:
                start += 1
    return -1


@njit(**INNER)
def passive_residual(work, m, x, y, r):
    """Residual r = y - Xz on the passive set."""
    for k in range(r.shape[0]):
        r[k] = y[k]
    for i in range(m):
        subtract(x, work.atom[work.pos[i]], work.z[i], r)


@njit(**INNER)
def passive_gradient(work, m, x):
    """t = x_j'r - shift_j sign_j - ridge_j z_j on the passive set; its largest modulus."""
    worst = 0.0
    for i in range(m):
        a = work.pos[i]
        slope = correlation(x, work.atom[a], work.r) - work.member[a].shift * work.member[a].sign
        work.t[i] = slope - work.member[a].ridge * work.z[i]
        worst = max(worst, abs(work.t[i]))
    return worst


@njit(**INNER)
def refine(work, m, x, y):
    """Iterative refinement of z against the features; leaves r and the gradient, returns its modulus."""
    last = np.inf
    for step in range(7):
        passive_residual(work, m, x, y, work.r)
        worst = passive_gradient(work, m, x)
        if step > 0 and (worst <= 2e-15 or worst >= 0.5 * last or step == 6):
            break
        last = worst
        solve_lower(work.chol, m, work.t)
        solve_upper(work.chol, m, work.t)
        for i in range(m):
            work.z[i] += work.t[i]
    return worst
