"""Single pivots of the exact engine, for the working sets on which blocks of pivots cycle.

A kernel of its own, so that the common path does not wait for it to compile.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._active_set_kernels import (
    _INNER,
    _OPTIONS,
    ATOM,
    FINE,
    INSIDE,
    POS,
    RIDGE,
    SHIFT,
    SIGN,
    B,
    C,
    T,
    Z,
    _stationary,
    begin,
    collect,
    factor,
    passive_value,
)
from ._active_set_rounds import RUNNING, STUCK, enough, store


@njit(**_INNER)
def _exchange(chol, mem, pos, m, excess):
    """Trade the last passive atom, which depends on the others, for one of them; its place, before it leaves.

    Xc stays as it is along this direction, but with an l1 weight the objective falls at the rate 2 * excess
    until a code reaches zero. The last atom itself leaves when nothing is gained.
    """
    last = m - 1
    d, row = mem[T], chol[last]
    pivot = 1.0 + mem[RIDGE, pos[last]]
    for i in range(last):
        d[i] = row[i]
        pivot -= row[i] * row[i]
    for i in range(last - 1, -1, -1):
        v = d[i] * chol[i, i]
        d[i] = v
        for k in range(i):
            d[k] -= v * chol[i, k]
    up = mem[SIGN, pos[last]]
    step, leaving = np.inf, last
    for i in range(last):
        c = mem[C, pos[i]]
        if up * d[i] * c > 0.0 and c / (up * d[i]) < step:
            step, leaving = c / (up * d[i]), i
    if leaving == last or step * max(pivot, 0.0) >= excess:
        return last
    for i in range(last):
        mem[C, pos[i]] -= step * up * d[i]
    mem[C, pos[last]] = step * up
    return leaving


@njit(**_INNER)
def lawson_hanson(mem, ints, n, rows, chol, signed, tolerance):
    """Single pivots from the feasible code, the objective never rising; size of the passive set.

    The passive set is kept in order of entry, so that the factor grows or is rebuilt from the atom that left.
    The Gram rows must all be there.
    """
    begin(mem, ints, n)
    # Types as the other callers have them: each new combination would be compiled again.
    m, start, entered, best = collect(ints, n), np.int64(0), -1, 0.0
    no_gram = np.empty((0, 0), np.float32)
    banned = np.zeros(n, np.bool_)
    pos = ints[POS]
    for _ in range(10 * n + 10):
        while True:
            leaving = factor(chol, mem, ints, n, m, start, rows, no_gram, FINE)
            if leaving < m:
                newest = pos[leaving]
                if newest == entered:
                    leaving = _exchange(chol, mem, pos, m, best)
                if pos[leaving] == newest:
                    banned[newest] = True
            else:
                if _stationary(chol, mem, ints, m) == 0:
                    break
                alpha, leaving = 1.0, -1
                for i in range(m):
                    old, new = mem[C, pos[i]], mem[Z, i]
                    if new * mem[SIGN, pos[i]] <= 0.0:
                        ratio = old / (old - new) if old != new else 0.0
                        if leaving < 0 or ratio < alpha:
                            alpha, leaving = ratio, i
                for i in range(m):
                    mem[C, pos[i]] += alpha * (mem[Z, i] - mem[C, pos[i]])
                if pos[leaving] == entered:
                    banned[entered] = True
            ints[INSIDE, pos[leaving]], mem[C, pos[leaving]] = False, 0.0
            m -= 1
            for i in range(leaving, m):
                pos[i] = pos[i + 1]
            start = leaving
        start, entered, best = m, -1, tolerance
        for i in range(m):
            mem[C, pos[i]] = mem[Z, i]
        for a in range(n):
            if not ints[INSIDE, a] and not banned[a]:
                s = mem[B, a]
                for i in range(m):
                    s -= rows[a, pos[i]] * mem[Z, i]
                v = (abs(s) if signed else s) - mem[SHIFT, a]
                if v > best:
                    entered, best = a, v
                    mem[SIGN, a] = 1.0 if s >= 0 else -1.0
        if entered < 0:
            break
        ints[INSIDE, entered] = True
        pos[m] = entered
        m += 1
    m = collect(ints, n)
    for i in range(m):
        mem[Z, i] = mem[C, pos[i]]
    return m


@njit(**_OPTIONS)
def pivot_singly(i, n, drift, state, work, signed):
    """Solve the working set of ``n`` atoms that `run` left in ``work``, from the stored code of query i."""
    mem, ints = work.mem, work.ints
    index, value, size = state.atom[i], state.value[i], state.size[i]
    for a in range(n):
        mem[C, a] = 0.0
    for k in range(size):
        for a in range(n):
            if ints[ATOM, a] == index[k]:
                mem[C, a] = value[k]
    m = lawson_hanson(mem, ints, n, work.rows, work.chol, signed, 1e-15)
    objective = passive_value(mem, ints, m)
    if objective >= enough(state.objective[i], drift):
        state.status[i] = STUCK
        return
    status, size = store(index, value, size, m, mem, ints)
    state.status[i], state.size[i] = status, size
    if status == RUNNING:
        state.objective[i] = objective
