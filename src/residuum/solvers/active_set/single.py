"""Single pivots on a working set (Lawson and Hanson), for the sets on which blocks of pivots cycle.

One atom at a time enters the passive set. Where the minimiser of the passive set is not feasible, the code
moves towards it until an entry reaches zero, and that atom leaves. The objective never rises.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernels import FINE, factor, free_the_support, list_passive, minimise_passive, solve_upper
from .tables import INNER

TOLERANCE = 1e-15  # violation at which an atom of the working set does not enter


@njit(**INNER)
def _exchange(work, m, excess):
    """Trade the last passive atom, which depends on the others, for one of them; the place that leaves.

    Along this direction Xc stays as it is, but with an l1 weight the objective falls at the rate 2 * excess
    until a code reaches zero. The last atom itself leaves when nothing is gained.
    """
    last = m - 1
    chol, member, pos, d = work.chol, work.member, work.pos, work.t
    pivot = 1.0 + member[pos[last]].ridge
    for i in range(last):
        d[i] = chol[last, i]
        pivot -= d[i] * d[i]
    solve_upper(chol, last, d)
    up = member[pos[last]].sign
    step, leaving = np.inf, last
    for i in range(last):
        c = member[pos[i]].code
        if up * d[i] * c > 0.0 and c / (up * d[i]) < step:
            step, leaving = c / (up * d[i]), i
    if leaving == last or step * max(pivot, 0.0) >= excess:
        return last
    for i in range(last):
        member[pos[i]].code -= step * up * d[i]
    member[pos[last]].code = step * up
    return leaving


@njit(**INNER)
def _step_to_the_border(work, m):
    """Move the codes towards z until one of wrong sign reaches zero; its place."""
    member, pos, z = work.member, work.pos, work.z
    alpha, leaving = 1.0, -1
    for i in range(m):
        old, new = member[pos[i]].code, z[i]
        if new * member[pos[i]].sign <= 0.0:
            ratio = old / (old - new) if old != new else 0.0
            if leaving < 0 or ratio < alpha:
                alpha, leaving = ratio, i
    for i in range(m):
        member[pos[i]].code += alpha * (z[i] - member[pos[i]].code)
    return leaving


@njit(**INNER)
def _leaving(work, m, start, gram32, entered, excess, banned):
    """The place of the atom that has to leave the passive set, or -1 when z is feasible.

    An atom that depends on the others, or that leaves as soon as it entered, never enters again.
    """
    pos = work.pos
    dependent = factor(work, banned.shape[0], m, start, gram32, FINE)
    if dependent < m:
        leaving = _exchange(work, m, excess) if pos[dependent] == entered else dependent
        if leaving == dependent:
            banned[pos[leaving]] = True
        return leaving
    if minimise_passive(work, m) == 0:
        return -1
    leaving = _step_to_the_border(work, m)
    if pos[leaving] == entered:
        banned[entered] = True
    return leaving


@njit(**INNER)
def _entering(work, m, banned, signed):
    """The atom outside that violates optimality most, or -1, and by how much."""
    member, entering, best = work.member, -1, TOLERANCE
    for a in range(banned.shape[0]):
        if not member[a].inside and not banned[a]:
            s, row = member[a].b, work.gram[a]
            for i in range(m):
                s -= row[work.pos[i]] * work.z[i]
            v = (abs(s) if signed else s) - member[a].shift
            if v > best:
                entering, best = a, v
                member[a].sign = 1.0 if s >= 0 else -1.0
    return entering, best


@njit(**INNER)
def pivot_singly(work, n, gram32, signed):
    """Minimise on the working set from its feasible codes by single pivots; size of the passive set.

    The passive set is kept in order of entry, so that the factor grows or is rebuilt from the atom that left.
    All rows of the Gram matrix must be filled.
    """
    free_the_support(work, n)
    member, pos = work.member, work.pos
    banned = np.zeros(n, np.bool_)
    # Integers of one type: a function is compiled again for a literal zero.
    m, start, entered, excess = list_passive(work, n), np.int64(0), np.int64(-1), 0.0
    for _ in range(10 * n + 10):
        while True:
            leaving = _leaving(work, m, start, gram32, entered, excess, banned)
            if leaving < 0:
                break
            member[pos[leaving]].inside, member[pos[leaving]].code = False, 0.0
            m -= 1
            for i in range(leaving, m):
                pos[i] = pos[i + 1]
            start = leaving
        for i in range(m):
            member[pos[i]].code = work.z[i]
        start = m
        entered, excess = _entering(work, m, banned, signed)
        if entered < 0:
            break
        member[entered].inside = True
        pos[m] = entered
        m += 1
    m = list_passive(work, n)
    for i in range(m):
        work.z[i] = member[pos[i]].code
    return m
