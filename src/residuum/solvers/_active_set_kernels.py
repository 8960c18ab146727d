"""Compiled inner loops of the exact engine: one query at a time, serial, without the GIL.

Everything here is in the scaled problem (atoms and query of unit norm):

    minimise_c  ||y - Xc||^2 + sum_j ridge_j c_j^2 + 2 sum_j shift_j |c_j|    s.t. c >= 0 unless signed

so that atom j is optimal when ``x_j'r - ridge_j c_j = shift_j sign(c_j)`` on the support and
``x_j'r <= shift_j`` (in modulus when signed) off it, with ``r = y - Xc``.

A working set of n atoms is held in two tables, one column per member: ``mem`` (float64, rows C..T) and
``ints`` (int32, rows ATOM..HAVE), with its Gram in ``rows``. The passive set (the members whose code is free)
is listed in ints[POS].
Inner functions take plain arrays: tuples of arrays would be copied and counted at every call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

# Without ninf: infinite penalties exclude atoms, so infinities must keep their meaning.
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"},
    "error_model": "numpy",
}
# Functions that only compiled code calls need no wrapper for Python, which is slow to compile.
_INNER: dict[str, Any] = {**_OPTIONS, "cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}

FINE = 1e-11  # squared distance from a span that counts as linear dependence, in float64

# Rows of mem: code, x_j'y, sign, shift, ridge; then by place in the passive set: solution, scratch.
C, B, SIGN, SHIFT, RIDGE, Z, T = range(7)
# Rows of ints: atom, whether it is new, in the passive set, has its Gram row; then the passive set.
ATOM, NEW, INSIDE, HAVE, POS = range(5)


@njit(**_OPTIONS)
def dot(a, b):
    """Inner product a'b."""
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@njit(**_INNER)
def price_with_gram(p, corr, gram32, index, value, size):
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


@njit(**_INNER)
def _count_above(v, cut):
    count = np.int32(0)
    for j in range(v.shape[0]):
        count += np.int32(v[j] > cut)
    return count


@njit(**_INNER)
def candidates(p, shift, weight32, barred, order, index, size, signed, threshold, limit, v, found):
    """Atoms outside the support with p - shift above the threshold, in their order, into ``found``.

    Only about the ``limit`` best, if more. Without an ``order`` of the atoms, theirs is ascending.
    """
    n = p.shape[0]
    h = np.float32(shift)
    if signed:
        for j in range(n):
            v[j] = abs(p[j]) - h * weight32[j] - barred[j]
    else:
        for j in range(n):
            v[j] = p[j] - h * weight32[j] - barred[j]
    for a in range(size):
        v[index[a]] = -np.inf
    low = np.float32(threshold)
    top = np.float32(-np.inf)
    for j in range(n):
        top = max(top, v[j])
    if not top > low:
        return 0
    if limit < n and _count_above(v, low) > limit:
        high = top
        for _ in range(14):  # bisect for a cut that keeps nearly `limit` atoms
            middle = np.float32(0.5) * (low + high)
            count = _count_above(v, middle)
            if count > limit:
                low = middle
            else:
                high = middle
                if 4 * count >= 3 * limit:
                    break
        low = high if high < top else low
    count = 0
    for t in range(order.shape[0]):
        j = order[t]
        if v[j] > low and count < limit:
            found[count] = j
            count += 1
    if order.shape[0] > 0:
        return count
    for start in range(0, n, 32):
        stop = min(start + 32, n)
        best = np.float32(-np.inf)
        for j in range(start, stop):
            best = max(best, v[j])
        if best > low:
            for j in range(start, stop):
                if v[j] > low and count < limit:
                    found[count] = j
                    count += 1
    return count


@njit(**_INNER)
def merge(index, value, size, found, n_new, mem, ints, rank, weight, ridge, shift):
    """Working set = support + new atoms, by rank; b and Gram are left to the caller."""
    a = b = n = 0
    while a < size or b < n_new:
        old = b >= n_new or (a < size and rank[index[a]] <= rank[found[b]])
        if old:
            if b < n_new and index[a] == found[b]:
                b += 1
            j = index[a]
            mem[C, n] = value[a]
            a += 1
        else:
            j = found[b]
            mem[C, n] = 0.0
            b += 1
        ints[ATOM, n], ints[NEW, n], ints[HAVE, n] = j, not old, False
        mem[SIGN, n] = -1.0 if mem[C, n] < 0.0 else 1.0
        mem[SHIFT, n], mem[RIDGE, n] = shift * weight[j], ridge[j]
        n += 1
    return n


@njit(**_INNER)
def fetch(rows, ints, a, n, gram32):
    """Put row ``a`` of the working set's Gram into ``rows`` on first use."""
    if not ints[HAVE, a]:
        row, source, atom = rows[a], gram32[ints[ATOM, a]], ints[ATOM]
        for k in range(n):
            row[k] = source[atom[k]]
        ints[HAVE, a] = True


@njit(**_INNER)
def descend(mem, ints, n, g, rows, gram32, signed, sweeps, precision):
    """Coordinate descent on the working set, from its codes and gradient g: guesses the support."""
    for _ in range(sweeps):
        largest = biggest = 0.0
        for a in range(n):
            old, h = mem[C, a], mem[SHIFT, a]
            if old == 0.0 and (abs(g[a]) if signed else g[a]) <= h:
                continue
            ridge = mem[RIDGE, a]
            target = old + g[a]
            new = (target + h if signed and target < -h else max(0.0, target - h)) / (1.0 + ridge)
            biggest = max(biggest, abs(new))
            step = new - old
            if step != 0.0:
                mem[C, a] = new
                fetch(rows, ints, a, n, gram32)
                row = rows[a]
                for k in range(n):
                    g[k] -= step * row[k]
                largest = max(largest, abs(step))
        if largest <= precision * biggest:
            break


@njit(**_INNER)
def factor(chol, mem, ints, n, m, start, rows, gram32, least):
    """Cholesky of the passive set's Gram from row ``start``; m, or the first row with a pivot <= least.

    A pivot is the squared distance of an atom from the span of those before it. The diagonal
    holds reciprocals.
    """
    pos = ints[POS]
    for i in range(start, m):
        a = pos[i]
        fetch(rows, ints, a, n, gram32)
        row, gram = chol[i], rows[a]
        for j in range(i):
            other = chol[j]
            s = 0.0
            for k in range(j):
                s += row[k] * other[k]
            row[j] = (gram[pos[j]] - s) * other[j]
        s = 0.0
        for k in range(i):
            s += row[k] * row[k]
        pivot = 1.0 + mem[RIDGE, a] - s
        if pivot <= least:
            return i
        row[i] = 1.0 / np.sqrt(pivot)
    return m


@njit(**_INNER)
def solve(chol, m, t):
    """Solve L L' z = t in place."""
    for i in range(m):
        row = chol[i]
        s = 0.0
        for k in range(i):
            s += row[k] * t[k]
        t[i] = (t[i] - s) * row[i]
    for i in range(m - 1, -1, -1):
        row = chol[i]
        v = t[i] * row[i]
        t[i] = v
        for k in range(i):
            t[k] -= v * row[k]


@njit(**_INNER)
def collect(ints, n):
    """List the passive set in ints[POS]; its size."""
    m = 0
    for a in range(n):
        if ints[INSIDE, a]:
            ints[POS, m] = a
            m += 1
    return m


@njit(**_INNER)
def begin(mem, ints, n):
    """Passive set = support of the codes, with their signs."""
    for a in range(n):
        ints[INSIDE, a] = mem[C, a] != 0.0
        if ints[INSIDE, a]:
            mem[SIGN, a] = -1.0 if mem[C, a] < 0.0 else 1.0


@njit(**_INNER)
def _stationary(chol, mem, ints, m):
    """Minimiser z on the passive set with its signs; the number of wrong signs."""
    z = mem[Z]
    for i in range(m):
        a = ints[POS, i]
        z[i] = mem[B, a] - mem[SHIFT, a] * mem[SIGN, a]
    solve(chol, m, z)
    wrong = 0
    for i in range(m):
        if z[i] * mem[SIGN, ints[POS, i]] <= 0.0:
            wrong += 1
    return wrong


@njit(**_INNER)
def passive_value(mem, ints, m):
    """Objective minus ||y||^2 at the minimiser z of the passive set."""
    f = 0.0
    for i in range(m):
        a = ints[POS, i]
        f -= mem[Z, i] * (mem[B, a] - mem[SHIFT, a] * mem[SIGN, a])
    return f


@njit(**_INNER)
def pivot_blocks(mem, ints, n, g, rows, chol, gram32, least, signed, tries, threshold):
    """Block principal pivoting from the signs of c; size of the passive set, or -1 when it gave up."""
    begin(mem, ints, n)
    start = 0
    for _ in range(tries):
        m = collect(ints, n)
        got = factor(chol, mem, ints, n, m, min(start, m), rows, gram32, least)
        if got < m:
            ints[INSIDE, ints[POS, got]] = False
            start = got
            continue
        if _stationary(chol, mem, ints, m) > 0:
            start = m
            for i in range(m):
                a = ints[POS, i]
                if mem[Z, i] * mem[SIGN, a] <= 0.0:
                    ints[INSIDE, a] = False
                    start = min(start, i)
            continue
        for k in range(n):
            g[k] = mem[B, k]
        for i in range(m):
            row, step = rows[ints[POS, i]], mem[Z, i]
            for k in range(n):
                g[k] -= step * row[k]
        first = n
        for k in range(n):
            if not ints[INSIDE, k] and (abs(g[k]) if signed else g[k]) - mem[SHIFT, k] > threshold:
                ints[INSIDE, k] = True
                mem[SIGN, k] = 1.0 if g[k] >= 0 else -1.0
                first = min(first, k)
        if first == n:
            return m
        start = 0
        while start < m and ints[POS, start] < first:
            start += 1
    return -1


@njit(**_INNER)
def residual(mem, ints, m, x, y, r):
    """Residual r = y - Xz on the passive set."""
    for k in range(r.shape[0]):
        r[k] = y[k]
    for i in range(m):
        row, v = x[ints[ATOM, ints[POS, i]]], mem[Z, i]
        for k in range(r.shape[0]):
            r[k] -= v * row[k]


@njit(**_INNER)
def gradient(mem, ints, m, x, r):
    """mem[T] = x_j'r - shift_j sign_j - ridge_j z_j on the passive set; its largest modulus."""
    worst = 0.0
    for i in range(m):
        a = ints[POS, i]
        mem[T, i] = dot(x[ints[ATOM, a]], r) - mem[SHIFT, a] * mem[SIGN, a] - mem[RIDGE, a] * mem[Z, i]
        worst = max(worst, abs(mem[T, i]))
    return worst


@njit(**_INNER)
def refine(mem, ints, m, chol, x, y, r):
    """Iterative refinement of z against the features; leaves r and the gradient, returns its modulus."""
    last = np.inf
    t = mem[T]
    for step in range(7):
        residual(mem, ints, m, x, y, r)
        worst = gradient(mem, ints, m, x, r)
        if step > 0 and (worst <= 2e-15 or worst >= 0.5 * last or step == 6):
            break
        last = worst
        solve(chol, m, t)
        for i in range(m):
            mem[Z, i] += t[i]
    return worst
