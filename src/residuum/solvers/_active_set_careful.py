"""Lawson-Hanson on an orthogonal factor of the atoms: slow, for supports too ill-conditioned for a Gram.

The scaled problem is that of ``_active_set_kernels``; atom j is the column (x_j; sqrt(ridge_j) e_slot).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._active_set_kernels import _OPTIONS, _dot, _residual
from ._active_set_rounds import _certify, _load

DEPENDENT = 2e-14  # distance from the span, atoms being of unit norm


@njit(**_OPTIONS)
def _orthogonalise(q, r, order, first, count, atoms):
    """Rebuild columns first..count-1 of the factor; returns the first dependent column, or count."""
    d = atoms.x.shape[1]
    for k in range(first, count):
        v = q[k]
        v[:] = 0.0
        v[:d] = atoms.x[order[k]]
        v[d + k] = np.sqrt(atoms.ridge[order[k]])
        for i in range(k):
            r[i, k] = 0.0
        for _ in range(2):  # twice is enough for orthogonality to rounding
            for i in range(k):
                s = _dot(q[i], v)
                r[i, k] += s
                for t in range(v.shape[0]):
                    v[t] -= s * q[i, t]
        norm = np.sqrt(_dot(v, v))
        if norm <= DEPENDENT:
            return k
        r[k, k] = norm
        for t in range(v.shape[0]):
            v[t] /= norm
    return count


@njit(**_OPTIONS)
def _least_squares(q, r, order, sign, count, y, shift, atoms, z):
    """z = (R'R)^-1 (A'y - shift sign)."""
    d = y.shape[0]
    for k in range(count):
        s = shift * atoms.weight[order[k]] * sign[k]
        for i in range(k):
            s -= r[i, k] * z[i]
        z[k] = s / r[k, k]
    for k in range(count):
        z[k] = _dot(q[k, :d], y) - z[k]
    for k in range(count - 1, -1, -1):
        s = z[k]
        for i in range(k + 1, count):
            s -= r[k, i] * z[i]
        z[k] = s / r[k, k]


@njit(**_OPTIONS)
def solve_carefully(y, shift, atoms, signed, order, code, count, vtol, max_iter):
    """Optimise from the support ``order[:count]`` with feasible ``code``; returns its size.

    ``order`` and ``code`` have room for every atom that can be independent, and are overwritten.
    """
    n, d = atoms.x.shape
    room = order.shape[0]
    q = np.empty((room, d + room))
    r = np.empty((room, room))
    z = np.empty(room)
    sign = np.empty(room)
    res = np.empty(d)
    banned = np.zeros(n, np.bool_)
    for k in range(count):
        sign[k] = 1.0 if code[k] >= 0 else -1.0
    first, entered = 0, -1
    for _ in range(max_iter):
        while True:
            got = _orthogonalise(q, r, order, first, count, atoms)
            leaving = got
            if got < count:
                banned[order[got]] = True
            else:
                _least_squares(q, r, order, sign, count, y, shift, atoms, z)
                alpha, leaving = 1.0, -1
                for k in range(count):
                    if z[k] * sign[k] <= 0.0:
                        ratio = code[k] / (code[k] - z[k]) if code[k] != z[k] else 0.0
                        if leaving < 0 or ratio < alpha:
                            alpha, leaving = ratio, k
                if leaving < 0:
                    break
                for k in range(count):
                    code[k] += alpha * (z[k] - code[k])
                if order[leaving] == entered:
                    banned[entered] = True
            for k in range(leaving, count - 1):
                order[k], code[k], sign[k] = order[k + 1], code[k + 1], sign[k + 1]
            count -= 1
            first = leaving
        first = count
        code[:count] = z[:count]
        res[:] = y
        for k in range(count):
            for t in range(d):
                res[t] -= code[k] * atoms.x[order[k], t]
        best, entered, up = vtol, -1, 1.0
        inside = np.zeros(n, np.bool_)
        for k in range(count):
            inside[order[k]] = True
        for j in range(n):
            if inside[j] or banned[j] or atoms.barred[j] > 0:
                continue
            s = _dot(atoms.x[j], res)
            v = (abs(s) if signed else s) - shift * atoms.weight[j]
            if v > best:
                best, entered, up = v, j, (1.0 if s >= 0 else -1.0)
        if entered < 0 or count == room:
            break
        order[count], code[count], sign[count] = entered, 0.0, up
        count += 1
    return count


@njit(**_OPTIONS)
def finish_carefully(i, queries, shifts, state, w, atoms, signed, vtol_min, max_iter):
    """Solve one query carefully (not at all if max_iter = 0), store it, certify in float64; False = no room."""
    y, shift = queries[i], shifts[i]
    n, d = atoms.x.shape
    room = n if atoms.ridge[0] > 0.0 else min(n, d)
    if max_iter > 0:
        order, code = np.empty(room, np.int64), np.empty(room)
        count = min(room, state.size[i])
        order[:count] = state.index[i, :count]
        code[:count] = state.value[i, :count]
        vtol = max(vtol_min, 2e-15 * (1.0 + np.abs(code[:count]).sum()))
        count = solve_carefully(y, shift, atoms, signed, order, code, count, vtol, max_iter)
        if count > min(state.index.shape[1], w.atom.shape[0]):
            return False
        ascending = np.argsort(order[:count])
        for k in range(count):
            state.index[i, k], state.value[i, k] = order[ascending[k]], code[ascending[k]]
            state.corr[i, k] = 0.0
        state.size[i] = count
    m = _load(i, state, w)
    _residual(w, m, atoms.x, y)
    worst = 0.0
    for a in range(m):
        j = w.atom[a]
        w.t[a] = _dot(atoms.x[j], w.r) - shift * atoms.weight[j] * w.sign[a] - atoms.ridge[j] * w.z[a]
        worst = max(worst, abs(w.t[a]))
    w.price[:] = 0.0
    _, state.violation[i], state.gap[i] = _certify(
        w, m, w.price, 1.0, np.inf, shift, atoms, y, signed, vtol_min, worst
    )
    return True
