"""Minimise a small quadratic program over its free variables, the others staying where they are."""

from __future__ import annotations

from numba import njit

from residuum.solvers.active_set.tables import INNER, STEP

from .lanes import dot, subtract, subtract_four
from .layout import (
    AT,
    AT_LOW,
    FREE,
    LANES,
    NU,
    PIVOT,
    RIDGE,
    SHIFTED,
    SIZE,
    SUMMED,
    TOTAL,
    TW,
    H,
    P,
    T,
    W,
    X,
)

FOUR = 4
DEPENDENT = 1e-15  # pivot, relative to its diagonal entry, at which a free set counts as singular


@njit(**STEP)
def padded(m):
    """The next multiple of LANES."""
    return (m + LANES - 1) // LANES * LANES


@njit(**STEP)
def _list_free(V, S, pos, n):
    """List the free variables, those of the last list first: (number, how many kept their place)."""
    before, m = int(S[SIZE]), 0
    while m < before and V[AT, pos[m]] == FREE:
        m += 1
    kept = m
    for i in range(kept, before):
        if V[AT, pos[i]] == FREE:
            pos[m] = pos[i]
            m += 1
    for i in range(n):
        V[T, i] = V[AT, i]
    for i in range(m):
        V[T, pos[i]] = AT_LOW  # listed
    for i in range(n):
        if V[T, i] == FREE:
            pos[m] = i
            m += 1
    return m, kept


@njit(**INNER)
def _gather(Q, S, L, pos, m, first):
    """Upper triangle of ``Q[pos, pos]`` with the ridge, from column ``first`` on, and zeros beyond it."""
    end = padded(m)
    for i in range(m):
        a = pos[i]
        for j in range(max(i // LANES * LANES, first), m):
            L[i, j] = Q[a, pos[j]]
        for j in range(m, end):
            L[i, j] = 0.0
    for i in range(first, m):
        L[i, i] += S[RIDGE]


@njit(**INNER)
def _factor(Q, V, S, L, pos, m, kept):
    """``Q[pos, pos] + ridge = L'D^{-1}L``, L upper triangular, D its diagonal; ``kept`` columns are there.

    Returns the number of columns that are independent. Four rows at a time are taken from all rows below
    them, so that no row waits for the one before it. Left of its diagonal L is zero as far as a block of
    LANES may begin there.
    """
    first, end = kept // LANES * LANES, padded(m)
    _gather(Q, S, L, pos, m, first)
    for top in range(0, m, FOUR):
        below = min(top + FOUR, m)
        for k in range(top, below):
            if k >= first:
                if not L[k, k] > DEPENDENT * Q[pos[k], pos[k]]:
                    return k
                V[PIVOT, k] = 1.0 / L[k, k]
                for j in range(k // LANES * LANES, k):
                    L[k, j] = 0.0
            for i in range(k + 1, below):
                subtract(L, i, L[k, i] * V[PIVOT, k], L, k, max(i // LANES * LANES, first), end)
        for i in range(below, m):
            f = (
                L[top, i] * V[PIVOT, top],
                L[top + 1, i] * V[PIVOT, top + 1],
                L[top + 2, i] * V[PIVOT, top + 2],
                L[top + 3, i] * V[PIVOT, top + 3],
            )
            subtract_four(L, i, f, L, top, max(i // LANES * LANES, first), end)
    return m


@njit(**STEP)
def solve_factored(V, L, m, t):
    """Replace row t of V by the solution s of ``L'D^{-1}L s = t``."""
    end = padded(m)
    for i in range(m, end):
        V[t, i] = 0.0
    for k in range(m):
        own = V[t, k]
        subtract(V, t, own * V[PIVOT, k], L, k, k // LANES * LANES, end)
        V[t, k] = own
    for i in range(m - 1, -1, -1):
        own, V[t, i] = V[t, i], 0.0
        V[t, i] = (own - dot(L, i, V, t, i // LANES * LANES, end)) * V[PIVOT, i]


@njit(**STEP)
def along_sum(V, S, pos, m, rest):
    """Move row T by a multiple of row TW so that its sum is ``rest``; False if it cannot be."""
    per = 0.0
    for i in range(m):
        per += V[W, pos[i]] * V[TW, i]
    if not per > 0.0:
        return False
    S[NU] = 0.0
    for _ in range(2):  # the second time corrects what rounding left
        reached = 0.0
        for i in range(m):
            reached += V[W, pos[i]] * V[T, i]
        nu = (reached - rest) / per
        for i in range(m):
            V[T, i] -= nu * V[TW, i]
        S[NU] += nu
    return True


@njit(**INNER)
def minimise_free(Q, V, S, L, pos):
    """X, P, NU: the minimiser on the free set, the others staying where they are.

    False if the free set is singular, or if the sum cannot be reached.
    """
    n, wide = Q.shape
    m, kept = _list_free(V, S, pos, n)
    rest = S[TOTAL]
    for i in range(n):
        V[P, i] = V[H, i]
    if S[SHIFTED] > 0.0:
        for i in range(n):
            if V[AT, i] != FREE and V[X, i] != 0.0:
                subtract(V, P, V[X, i], Q, i, 0, wide)
                rest -= V[W, i] * V[X, i]
    S[NU] = 0.0
    got = _factor(Q, V, S, L, pos, m, kept)
    S[SIZE] = got
    if got < m:
        return False
    for i in range(m):
        V[T, i] = V[P, pos[i]]
    solve_factored(V, L, m, T)
    if S[SUMMED] > 0.0:
        for i in range(m):
            V[TW, i] = V[W, pos[i]]
        solve_factored(V, L, m, TW)
        if not along_sum(V, S, pos, m, rest):
            return False
    for i in range(m):
        V[X, pos[i]] = V[T, i]
        subtract(V, P, V[T, i], Q, pos[i], 0, wide)
    if S[RIDGE] > 0.0:
        for i in range(n):
            V[P, i] -= S[RIDGE] * V[X, i]
    return True
