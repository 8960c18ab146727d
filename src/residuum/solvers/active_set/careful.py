"""Lawson and Hanson's method on an orthogonal factor: slow, for supports too ill-conditioned for a Gram matrix.

Atom j is the column (x_j; sqrt(ridge_j) e_k), where k is its place in the support, and A = QR.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from .kernels import INNER, OPTIONS, copy_atom, correlation, dot, passive_gradient, passive_residual, subtract
from .rounds import Prices, certify, load_support, make_task

DEPENDENT = 2e-14  # distance from the span, atoms being of unit norm


class Support(NamedTuple):
    """The support in order of entry, one entry for each atom in it, and its factor."""

    atom: np.ndarray  # int64
    code: np.ndarray
    sign: np.ndarray
    z: np.ndarray  # minimiser, or a direction
    q: np.ndarray  # (room, n_features + room): row k is column k of Q
    r: np.ndarray  # (room, room)


@njit(**INNER)
def _orthogonalise(support, first, count, atoms):
    """Rebuild columns first..count-1 of the factor; the first dependent column, or count."""
    q, r, d = support.q, support.r, atoms.x.double.shape[1]
    for k in range(first, count):
        v = q[k]
        for t in range(d, v.shape[0]):
            v[t] = 0.0
        copy_atom(atoms.x, support.atom[k], v)
        v[d + k] = np.sqrt(atoms.ridge[support.atom[k]])
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


@njit(**INNER)
def _solve_upper(r, count, z):
    """Solve R s = z in place."""
    for k in range(count - 1, -1, -1):
        s = z[k]
        for i in range(k + 1, count):
            s -= r[k, i] * z[i]
        z[k] = s / r[k, k]


@njit(**INNER)
def _minimise(task, support, count):
    """z = (R'R)^-1 (A'y - shift sign), the minimiser on the support with its signs."""
    q, r, z, y = support.q, support.r, support.z, task.query.y
    shift, d = task.query.state[0].shift, y.shape[0]
    for k in range(count):
        s = shift * task.atoms.weight[support.atom[k]] * support.sign[k]
        for j in range(k):
            s -= r[j, k] * z[j]
        z[k] = s / r[k, k]
    for k in range(count):
        z[k] = dot(q[k, :d], y) - z[k]
    _solve_upper(r, count, z)


@njit(**INNER)
def _exchange(support, count):
    """Trade the last atom, which depends on the others, for one of them; the place of the atom that leaves.

    Along this direction Xc stays as it is while the l1 norm falls, until a code reaches zero.
    """
    code, d, last = support.code, support.z, count - 1
    for k in range(last):
        d[k] = support.r[k, last]
    _solve_upper(support.r, last, d)
    up = support.sign[last]
    step, leaving = np.inf, last
    for k in range(last):
        if up * d[k] * code[k] > 0.0 and code[k] / (up * d[k]) < step:
            step, leaving = code[k] / (up * d[k]), k
    if leaving < last:
        for k in range(last):
            code[k] -= step * up * d[k]
        code[last] = step * up
    return leaving


@njit(**INNER)
def _step_to_the_border(support, count):
    """Move the codes towards z until one of wrong sign reaches zero; its place, or -1 if z is feasible."""
    code, z = support.code, support.z
    alpha, leaving = 1.0, -1
    for k in range(count):
        if z[k] * support.sign[k] <= 0.0:
            ratio = code[k] / (code[k] - z[k]) if code[k] != z[k] else 0.0
            if leaving < 0 or ratio < alpha:
                alpha, leaving = ratio, k
    for k in range(count):
        code[k] = code[k] + alpha * (z[k] - code[k]) if leaving >= 0 else z[k]
    return leaving


@njit(**INNER)
def _leaving(task, support, first, count, entered, banned):
    """The place of the atom that has to leave the support, or -1 when the codes are its minimiser.

    An atom that depends on the others, or that leaves as soon as it entered, never enters again.
    """
    dependent = _orthogonalise(support, first, count, task.atoms)
    if dependent < count:
        trade = support.atom[dependent] == entered and task.query.state[0].shift > 0.0
        leaving = _exchange(support, count) if trade else dependent
        if leaving == dependent:
            banned[support.atom[leaving]] = True
        return leaving
    _minimise(task, support, count)
    leaving = _step_to_the_border(support, count)
    if leaving >= 0 and support.atom[leaving] == entered:
        banned[entered] = True
    return leaving


@njit(**INNER)
def _entering(task, support, count, least, banned):
    """The atom outside the support that violates optimality most, if by more than ``least``, and its sign."""
    atoms, shift, residual = task.atoms, task.query.state[0].shift, task.query.y.copy()
    for k in range(count):
        subtract(atoms.x, support.atom[k], support.code[k], residual)
    closed = banned.copy()
    for k in range(count):
        closed[support.atom[k]] = True
    best, entering, up = least, -1, 1.0
    for j in range(closed.shape[0]):
        if closed[j] or atoms.barred[j] > 0:
            continue
        s = correlation(atoms.x, j, residual)
        v = (abs(s) if task.limits.signed else s) - shift * atoms.weight[j]
        if v > best:
            best, entering, up = v, j, (1.0 if s >= 0 else -1.0)
    return entering, up


@njit(**INNER)
def _optimise(task, support, count, least, max_iter):
    """Optimise from the first ``count`` atoms of the support and their feasible codes; the size it ends with."""
    atom, code, sign = support.atom, support.code, support.sign
    banned = np.zeros(task.atoms.weight.shape[0], np.bool_)
    first, entered = 0, -1
    for _ in range(max_iter):
        while True:
            leaving = _leaving(task, support, first, count, entered, banned)
            if leaving < 0:
                break
            for k in range(leaving, count - 1):
                atom[k], code[k], sign[k] = atom[k + 1], code[k + 1], sign[k + 1]
            count -= 1
            first = leaving
        first = count
        entered, up = _entering(task, support, count, least, banned)
        if entered < 0 or count == atom.shape[0]:
            break
        atom[count], code[count], sign[count] = entered, 0.0, up
        count += 1
    return count


@njit(**INNER)
def _solve(task, max_iter):
    """Optimise query i from its stored code and store the result; whether there was room for it."""
    query, atoms = task.query, task.atoms
    index, value = query.atom, query.value
    n, d = atoms.weight.shape[0], query.y.shape[0]
    # One more than can be independent: the atom that is being exchanged.
    room = n if atoms.ridge[0] > 0.0 else min(n, d + 1)
    support = Support(
        np.empty(room, np.int64), np.empty(room), np.empty(room), np.empty(room),
        np.empty((room, d + room)), np.empty((room, room)),
    )  # fmt: skip
    count = min(room, query.state[0].size)
    reach = 0.0
    for k in range(count):
        support.atom[k], support.code[k] = index[k], value[k]
        support.sign[k] = 1.0 if value[k] >= 0 else -1.0
        reach += abs(value[k])
    least = max(task.limits.entry, 2e-15 * (1.0 + reach))
    count = _optimise(task, support, count, least, max_iter)
    if count > min(index.shape[0], task.work.member.shape[0]):
        return False
    for k in range(count):  # insertion, because np.argsort takes seconds to compile
        place = k
        while place > 0 and index[place - 1] > support.atom[k]:
            index[place], value[place] = index[place - 1], value[place - 1]
            place -= 1
        index[place], value[place] = support.atom[k], support.code[k]
    query.state[0].size = count
    return True


@njit(**OPTIONS)
def finish_carefully(atoms, queries, work, limits, i, max_iter):
    """Solve query i carefully (not if max_iter = 0) and certify it in float64; False when room lacks."""
    task = make_task(atoms, queries, work, limits, i)
    if max_iter > 0 and not _solve(task, max_iter):
        return False
    m = task.query.state[0].size
    load_support(task)
    passive_residual(work, m, atoms.x, task.query.y, work.r)
    worst = passive_gradient(work, m, atoms.x)
    p = work.price
    for j in range(p.shape[0]):
        p[j] = 0.0
    everything = 1e30  # no price clears an atom
    certify(task, Prices(p, 1.0, 0.0, 0.0, 0.0, limits.entry), everything, worst)
    return True
