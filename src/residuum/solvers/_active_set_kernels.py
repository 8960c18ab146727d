"""Compiled inner loops of the exact engine: one query at a time, serial, without the GIL.

Everything here is in the scaled problem (atoms and query of unit norm):

    minimise_c  ||y - Xc||^2 + sum_j ridge_j c_j^2 + 2 sum_j shift_j |c_j|    s.t. c >= 0 unless signed

so that atom j is optimal when ``x_j'r - ridge_j c_j = shift_j sign(c_j)`` on the support and
``x_j'r <= shift_j`` (in modulus when signed) off it, with ``r = y - Xc``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

# No nnan/ninf: infinite penalties exclude atoms, so infinities must keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
_OPTIONS = {"nogil": True, "cache": True, "fastmath": _FAST, "error_model": "numpy"}

EPS32 = 6.0e-8  # unit roundoff of float32, rounded up
PIVOT = 1e-11  # squared distance from the span below which an atom counts as linearly dependent

DONE, RUNNING, GROW, STUCK, EXHAUSTED = 0, 1, 2, 3, 4


class Atoms(NamedTuple):
    """The dictionary as the kernels see it."""

    x: np.ndarray  # (n_atoms, n_features) float64, unit rows
    gram: np.ndarray  # (n_atoms, n_atoms) float64, or (0, 0)
    gram32: np.ndarray  # the same in float32
    weight: np.ndarray  # (n_atoms,) float64: shift_j = weight_j * (shift of the query)
    weight32: np.ndarray  # the same in float32
    barred: np.ndarray  # (n_atoms,) float32: inf for atoms that never enter (zero, duplicate), else 0
    ridge: np.ndarray  # (n_atoms,) float64
    inner: np.ndarray  # (n_features,) float64 with X'inner >= 1, or empty


class State(NamedTuple):
    """What is kept of each query between rounds; supports are in ascending order of atoms."""

    index: np.ndarray  # (n, capacity) int32
    value: np.ndarray  # (n, capacity) float64
    corr: np.ndarray  # (n, capacity) float64: x_j'y
    size: np.ndarray  # (n,) int32
    objective: np.ndarray  # (n,) float64
    residual: np.ndarray  # (n, n_features) float64
    n_iter: np.ndarray  # (n,) int64
    violation: np.ndarray  # (n,) float64
    gap: np.ndarray  # (n,) float64


class Work(NamedTuple):
    """Scratch of one thread for working sets of at most ``len(atom)`` atoms."""

    atom: np.ndarray  # int32, ascending
    c: np.ndarray  # float64 codes
    b: np.ndarray  # float64 x_j'y
    exact: np.ndarray  # bool: b is in float64, not a float32 price
    sign: np.ndarray  # float64
    g: np.ndarray  # float32 gradient
    rows: np.ndarray  # (size, size) float32 Gram rows, gathered when first needed
    have: np.ndarray  # bool: which of them are there
    full: np.ndarray  # (size, size) float64 Gram, when no Gram is stored
    chol: np.ndarray  # (size, size) float64
    z: np.ndarray  # float64
    t: np.ndarray  # float64
    pos: np.ndarray  # int32 positions of the passive set in the working set
    inside: np.ndarray  # bool
    found: np.ndarray  # (n_atoms,) int32 candidates
    price: np.ndarray  # (n_atoms,) float32
    r: np.ndarray  # (n_features,) float64


def make_work(size: int, n_atoms: int, n_features: int, with_gram: bool) -> Work:
    """Allocate the scratch of one thread."""
    f64, f32 = np.float64, np.float32
    full = (0, 0) if with_gram else (size, size)
    return Work(
        np.empty(size, np.int32), np.empty(size, f64), np.empty(size, f64), np.empty(size, np.bool_),
        np.empty(size, f64), np.empty(size, f32), np.empty((size, size), f32), np.empty(size, np.bool_),
        np.empty(full, f64), np.empty((size, size), f64), np.empty(size, f64), np.empty(size, f64),
        np.empty(size, np.int32), np.empty(size, np.bool_), np.empty(n_atoms, np.int32),
        np.empty(n_atoms, f32), np.empty(n_features, f64),
    )  # fmt: skip


@njit(**_OPTIONS)
def _dot(a, b):
    s = 0.0
    for i in range(a.shape[0]):
        s += a[i] * b[i]
    return s


@njit(**_OPTIONS)
def _price_with_gram(p, corr, gram32, index, value, size):
    """p = X'y - G c, in float32."""  # fmt: skip
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
        g0 = gram32[index[a]]
        c0 = np.float32(value[a])
        for j in range(n):
            p[j] -= c0 * g0[j]
        a += 1


@njit(**_OPTIONS)
def _candidates(p, shift, weight32, barred, signed, threshold, limit, found):
    """Atoms with p - shift above the threshold, ascending; the best about ``limit`` of them if more."""
    n = p.shape[0]
    h = np.float32(shift)
    low = np.float32(threshold)
    top = np.float32(-np.inf)
    count = 0
    for start in range(0, n, 64):
        stop = min(start + 64, n)
        best = np.float32(-np.inf)
        for j in range(start, stop):
            v = (abs(p[j]) if signed else p[j]) - h * weight32[j] - barred[j]
            best = max(best, v)
        if best > low:
            top = max(top, best)
            for j in range(start, stop):
                v = (abs(p[j]) if signed else p[j]) - h * weight32[j] - barred[j]
                if v > low:
                    found[count] = j
                    count += 1
    if count <= limit:
        return count
    # A histogram finds a cut that keeps at most `limit` (unless one bin alone holds more).
    bins = np.zeros(512, np.int64)
    scale = np.float32(511.0) / max(top - low, np.float32(1e-30))
    for a in range(count):
        j = found[a]
        v = (abs(p[j]) if signed else p[j]) - h * weight32[j] - barred[j]
        bins[min(511, int((v - low) * scale))] += 1
    cut, total = 511, bins[511]
    while cut > 0 and total + bins[cut - 1] <= limit:
        cut -= 1
        total += bins[cut]
    kept = 0
    for a in range(count):
        j = found[a]
        v = (abs(p[j]) if signed else p[j]) - h * weight32[j] - barred[j]
        if min(511, int((v - low) * scale)) >= cut and kept < limit:
            found[kept] = j
            kept += 1
    return kept


@njit(**_OPTIONS)
def _merge(index, value, corr, size, w, n_new, p, unit, y, corr_row, x, use_row, signed):
    """Working set = support + new candidates, ascending; new b from float32 prices or float64 dots."""
    a = b = n = 0
    while a < size or b < n_new:
        if b >= n_new or (a < size and index[a] <= w.found[b]):
            if b < n_new and index[a] == w.found[b]:
                b += 1
            j = index[a]
            w.c[n], w.b[n], w.exact[n] = value[a], corr[a], True
            a += 1
        else:
            j = w.found[b]
            b += 1
            w.c[n] = 0.0
            if use_row:
                w.b[n], w.exact[n] = corr_row[j], False
            else:
                w.b[n], w.exact[n] = _dot(x[j], y), True
        w.atom[n] = j
        w.g[n] = p[j] * unit
        w.sign[n] = -1.0 if signed and (w.c[n] < 0.0 or (w.c[n] == 0.0 and p[j] < 0.0)) else 1.0
        w.have[n] = False
        n += 1
    return n


@njit(**_OPTIONS)
def _fill_full(x, w, n):
    """Gram of the working set from the features."""
    d = x.shape[1]
    part = np.empty((n, d))
    for a in range(n):
        row = x[w.atom[a]]
        for k in range(d):
            part[a, k] = row[k]
    product = np.dot(part, part.T)
    for a in range(n):
        w.have[a] = True
        for k in range(n):
            w.full[a, k] = product[a, k]
            w.rows[a, k] = product[a, k]


@njit(**_OPTIONS)
def _row(w, a, n, gram32):
    """Row ``a`` of the working set's Gram, gathered on first use."""
    if not w.have[a]:
        source = gram32[w.atom[a]]
        for k in range(n):
            w.rows[a, k] = source[w.atom[k]]
        w.have[a] = True
    return w.rows[a]


@njit(**_OPTIONS)
def _descend(w, n, atoms, shift, signed, sweeps, precision):
    """Coordinate descent on the working set: a guess of the support, in float32."""
    for _ in range(sweeps):
        largest = biggest = 0.0
        for a in range(n):
            j = w.atom[a]
            old = w.c[a]
            curve = 1.0 + atoms.ridge[j]
            target = old + (w.g[a] - atoms.ridge[j] * old) / curve
            h = shift * atoms.weight[j] / curve
            if signed and target < -h:
                new = target + h
            else:
                new = max(0.0, target - h)
            if new != old:
                step = new - old
                w.c[a] = new
                row = _row(w, a, n, atoms.gram32)
                s = np.float32(step)
                for k in range(n):
                    w.g[k] -= s * row[k]
                largest = max(largest, abs(step))
            biggest = max(biggest, abs(new))
        if largest <= precision * biggest:
            break


@njit(**_OPTIONS)
def _entry(w, a, k, atoms):
    if atoms.gram.shape[0] > 0:
        return atoms.gram[w.atom[a], w.atom[k]]
    return w.full[a, k]


@njit(**_OPTIONS)
def _factor(w, m, start, atoms):
    """Cholesky of the passive set's Gram from row ``start``; returns m, or the first dependent row."""
    chol = w.chol
    for i in range(start, m):
        a = w.pos[i]
        row = chol[i]
        for j in range(i):
            other = chol[j]
            s = _entry(w, a, w.pos[j], atoms)
            for k in range(j):
                s -= row[k] * other[k]
            row[j] = s * other[j]  # the diagonal holds reciprocals
        pivot = 1.0 + atoms.ridge[w.atom[a]]
        for k in range(i):
            pivot -= row[k] * row[k]
        if not pivot > PIVOT:
            return i
        row[i] = 1.0 / np.sqrt(pivot)
    return m


@njit(**_OPTIONS)
def _solve(chol, m, t):
    """Solve L L' z = t in place, the diagonal of L stored as reciprocals."""
    for i in range(m):
        row = chol[i]
        s = t[i]
        for k in range(i):
            s -= row[k] * t[k]
        t[i] = s * row[i]
    for i in range(m - 1, -1, -1):
        row = chol[i]
        v = t[i] * row[i]
        t[i] = v
        for k in range(i):
            t[k] -= v * row[k]


@njit(**_OPTIONS)
def _collect(w, n):
    m = 0
    for a in range(n):
        if w.inside[a]:
            w.pos[m] = a
            m += 1
    return m


@njit(**_OPTIONS)
def _stationary(w, m, shift, atoms, x, y):
    """z = minimiser on the passive set with its signs; returns the number of wrong signs."""
    for i in range(m):
        a = w.pos[i]
        if not w.exact[a]:
            w.b[a] = _dot(x[w.atom[a]], y)
            w.exact[a] = True
        w.z[i] = w.b[a] - shift * atoms.weight[w.atom[a]] * w.sign[a]
    _solve(w.chol, m, w.z)
    wrong = 0
    for i in range(m):
        if w.z[i] * w.sign[w.pos[i]] <= 0.0:
            wrong += 1
    return wrong


@njit(**_OPTIONS)
def _value(w, m, shift, atoms):
    """Objective minus ||y||^2 at the minimiser z of the passive set."""
    f = 0.0
    for i in range(m):
        a = w.pos[i]
        f -= w.z[i] * (w.b[a] - shift * atoms.weight[w.atom[a]] * w.sign[a])
    return f


@njit(**_OPTIONS)
def _pivot_blocks(w, n, shift, atoms, y, signed, tries, threshold):
    """Block principal pivoting from the signs of c; size of the passive set, or -1 when it gave up."""
    for a in range(n):
        w.inside[a] = w.c[a] != 0.0
        if w.inside[a]:
            w.sign[a] = 1.0 if w.c[a] > 0 else -1.0
    start = 0
    for _ in range(tries):
        m = _collect(w, n)
        got = _factor(w, m, min(start, m), atoms)
        if got < m:
            w.inside[w.pos[got]] = False
            start = got
            continue
        wrong = _stationary(w, m, shift, atoms, atoms.x, y)
        if wrong > 0:
            start = m
            for i in range(m):
                if w.z[i] * w.sign[w.pos[i]] <= 0.0:
                    w.inside[w.pos[i]] = False
                    start = min(start, i)
            continue
        for k in range(n):
            w.g[k] = w.b[k]
        for i in range(m):
            row = _row(w, w.pos[i], n, atoms.gram32)
            s = np.float32(w.z[i])
            for k in range(n):
                w.g[k] -= s * row[k]
        first = n
        for k in range(n):
            if not w.inside[k]:
                v = (abs(w.g[k]) if signed else w.g[k]) - shift * atoms.weight[w.atom[k]]
                if v > threshold:
                    w.inside[k] = True
                    w.sign[k] = 1.0 if w.g[k] >= 0 else -1.0
                    first = min(first, k)
        if first == n:
            return m
        start = 0
        while start < m and w.pos[start] < first:
            start += 1
    return -1


@njit(**_OPTIONS)
def _lawson_hanson(w, n, shift, atoms, y, signed, tolerance):
    """Single pivots from the feasible code w.c, the objective never rising; size of the passive set."""
    x = atoms.x
    for a in range(n):
        w.inside[a] = w.c[a] != 0.0
        if w.inside[a]:
            w.sign[a] = 1.0 if w.c[a] > 0 else -1.0
        if not w.exact[a]:
            w.b[a] = _dot(x[w.atom[a]], y)
            w.exact[a] = True
    banned = np.zeros(n, np.bool_)
    entered = -1
    m = 0
    for _ in range(10 * n + 10):
        while True:
            m = _collect(w, n)
            got = _factor(w, m, 0, atoms)
            if got < m:  # the newest atom goes first: the rest were independent without it
                a = entered if entered >= 0 else w.pos[got]
                w.inside[a], w.c[a] = False, 0.0
                banned[a] = True
                entered = -1
                continue
            wrong = _stationary(w, m, shift, atoms, x, y)
            if wrong == 0:
                break
            alpha, leaving = 1.0, -1
            for i in range(m):
                a = w.pos[i]
                if w.z[i] * w.sign[a] <= 0.0:
                    ratio = w.c[a] / (w.c[a] - w.z[i]) if w.c[a] != 0.0 else 0.0
                    if leaving < 0 or ratio < alpha:
                        alpha, leaving = ratio, a
            for i in range(m):
                a = w.pos[i]
                w.c[a] += alpha * (w.z[i] - w.c[a])
                if a == leaving or w.c[a] * w.sign[a] <= 0.0:
                    if a == leaving or a != entered:
                        w.c[a], w.inside[a] = 0.0, False
            if leaving == entered:
                banned[leaving] = True
        for i in range(m):
            w.c[w.pos[i]] = w.z[i]
        entered, best = -1, tolerance
        for a in range(n):
            if not w.inside[a] and not banned[a]:
                s = w.b[a]
                for i in range(m):
                    s -= _entry(w, a, w.pos[i], atoms) * w.z[i]
                v = (abs(s) if signed else s) - shift * atoms.weight[w.atom[a]]
                if v > best:
                    entered, best = a, v
                    w.sign[a] = 1.0 if s >= 0 else -1.0
        if entered < 0:
            break
        w.inside[entered] = True
    return m


@njit(**_OPTIONS)
def _residual(w, m, x, y):
    """r = y - X c on the passive set."""
    for k in range(y.shape[0]):
        w.r[k] = y[k]
    for i in range(m):
        row = x[w.atom[w.pos[i]]]
        v = w.z[i]
        for k in range(y.shape[0]):
            w.r[k] -= v * row[k]


@njit(**_OPTIONS)
def _refine(w, m, shift, atoms, y):
    """Iterative refinement of z against the features; returns max|gradient| on the passive set."""
    x = atoms.x
    last = np.inf
    for step in range(6):
        _residual(w, m, x, y)
        worst = 0.0
        for i in range(m):
            a = w.pos[i]
            j = w.atom[a]
            w.t[i] = _dot(x[j], w.r) - shift * atoms.weight[j] * w.sign[a] - atoms.ridge[j] * w.z[i]
            worst = max(worst, abs(w.t[i]))
        if (step > 0 and worst <= 2e-15) or not worst < 0.5 * last:
            return worst
        last = worst
        _solve(w.chol, m, w.t)
        for i in range(m):
            w.z[i] += w.t[i]
    return worst
