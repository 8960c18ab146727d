"""Lawson-Hanson on an orthogonal factor of the atoms: slow, for supports too ill-conditioned for a Gram.

The scaled problem is that of ``_active_set_kernels``; atom j is the column (x_j; sqrt(ridge_j) e_slot).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._active_set_kernels import _INNER, _OPTIONS, dot, gradient, residual
from ._active_set_rounds import certify, load

DEPENDENT = 2e-14  # distance from the span, atoms being of unit norm


@njit(**_INNER)
def _orthogonalise(q, r, order, first, count, atoms):
    """Rebuild columns first..count-1 of the factor; returns the first dependent column, or count."""
    d = atoms.x.shape[1]
    for k in range(first, count):
        v = q[k]
        for t in range(v.shape[0]):
            v[t] = atoms.x[order[k], t] if t < d else 0.0
        v[d + k] = np.sqrt(atoms.ridge[order[k]])
        for i in range(k):
            r[i, k] = 0.0
        for _ in range(2):  # twice is enough for orthogonality to rounding
            for i in range(k):
                s = dot(q[i], v)
                r[i, k] += s
                for t in range(v.shape[0]):
                    v[t] -= s * q[i, t]
        norm = np.sqrt(dot(v, v))
        if norm <= DEPENDENT:
            return k
        r[k, k] = norm
        for t in range(v.shape[0]):
            v[t] /= norm
    return count


@njit(**_INNER)
def _least_squares(q, r, order, sign, count, y, shift, atoms, z):
    """Solve for z = (R'R)^-1 (A'y - shift sign)."""
    d = y.shape[0]
    for k in range(count):
        s = shift * atoms.weight[order[k]] * sign[k]
        for i in range(k):
            s -= r[i, k] * z[i]
        z[k] = s / r[k, k]
    for k in range(count):
        z[k] = dot(q[k, :d], y) - z[k]
    for k in range(count - 1, -1, -1):
        s = z[k]
        for i in range(k + 1, count):
            s -= r[k, i] * z[i]
        z[k] = s / r[k, k]


@njit(**_INNER)
def _exchange(r, code, sign, count, d):
    """Trade the last atom, which depends on the others, for one of them; the place of the atom that leaves.

    Xc stays as it is along this direction while the l1 norm falls, until a code reaches zero.
    """
    last = count - 1
    for k in range(last - 1, -1, -1):
        s = r[k, last]
        for i in range(k + 1, last):
            s -= r[k, i] * d[i]
        d[k] = s / r[k, k]
    up = sign[last]
    step, leaving = np.inf, last
    for k in range(last):
        if up * d[k] * code[k] > 0.0 and code[k] / (up * d[k]) < step:
            step, leaving = code[k] / (up * d[k]), k
    if leaving == last:
        return last
    for k in range(last):
        code[k] -= step * up * d[k]
    code[last] = step * up
    return leaving


@njit(**_INNER)
def solve_carefully(y, shift, atoms, signed, order, code, count, vtol, max_iter):
    """Optimise from the support ``order[:count]`` with feasible ``code``; returns its size.

    ``order`` and ``code`` have room for every atom that can be independent, and are overwritten.
    """
    n, d = atoms.x.shape
    room = order.shape[0]  # one more than can be independent: the atom being exchanged
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
                newest = order[got]
                if newest == entered and shift > 0.0:
                    leaving = _exchange(r, code, sign, count, z)
                if order[leaving] == newest:
                    banned[newest] = True
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
        for t in range(d):
            res[t] = y[t]
        for k in range(count):
            code[k] = z[k]
            for t in range(d):
                res[t] -= code[k] * atoms.x[order[k], t]
        best, entered, up = vtol, -1, 1.0
        inside = np.zeros(n, np.bool_)
        for k in range(count):
            inside[order[k]] = True
        for t in range(n):
            j = atoms.order[t] if atoms.order.shape[0] > 0 else t
            if inside[j] or banned[j] or atoms.barred[j] > 0:
                continue
            s = dot(atoms.x[j], res)
            v = (abs(s) if signed else s) - shift * atoms.weight[j]
            if v > best:
                best, entered, up = v, j, (1.0 if s >= 0 else -1.0)
        if entered < 0 or count == room:
            break
        order[count], code[count], sign[count] = entered, 0.0, up
        count += 1
    return count


@njit(**_OPTIONS)
def finish_carefully(i, queries, shifts, state, work, atoms, signed, vtol_min, max_iter):
    """Solve one query carefully (not if max_iter = 0), store it, certify in float64; False = no room."""
    y, shift = queries[i], shifts[i]
    n, d = atoms.x.shape
    index, value = state.atom[i], state.value[i]
    if max_iter > 0:
        room = n if atoms.ridge[0] > 0.0 else min(n, d + 1)
        order, code = np.empty(room, np.int64), np.empty(room)
        count = min(room, state.size[i])
        reach = 0.0
        for k in range(count):
            order[k], code[k] = index[k], value[k]
            reach += abs(value[k])
        vtol = max(vtol_min, 2e-15 * (1.0 + reach))
        count = solve_carefully(y, shift, atoms, signed, order, code, count, vtol, max_iter)
        if count > min(index.shape[0], work.ints.shape[1]):
            return False
        for k in range(count):  # insertion by rank: np.argsort takes seconds to compile
            place = k
            while place > 0 and atoms.rank[index[place - 1]] > atoms.rank[order[k]]:
                index[place], value[place] = index[place - 1], value[place - 1]
                place -= 1
            index[place], value[place] = order[k], code[k]
        state.size[i] = count
    m = state.size[i]
    load(index, value, m, work.mem, work.ints, atoms.weight, atoms.ridge, shift)
    residual(work.mem, work.ints, m, atoms.x, y, work.r)
    worst = gradient(work.mem, work.ints, m, atoms.x, work.r)
    p = work.price[0]
    for j in range(n):
        p[j] = 0.0
    _, state.violation[i], state.gap[i] = certify(
        work.mem, work.ints, index, m, p, work.price[1], work.found, 0.0, 1e30,
        shift, atoms, y, work.r, signed, vtol_min, worst,
    )  # fmt: skip
    return True
