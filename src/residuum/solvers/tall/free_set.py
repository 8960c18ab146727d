"""Minimise a small quadratic program over its free variables, the others staying where they are."""

from __future__ import annotations

from numba import njit

from residuum.solvers.active_set.tables import INNER, STEP

from .layout import (
    AT,
    AT_LOW,
    FREE,
    LANES,
    NU,
    PIVOT,
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

DEPENDENT = 1e-15  # pivot, relative to its diagonal entry, at which a free set counts as singular


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
def _factor(Q, V, L, pos, m, kept):
    """``Q[pos, pos] = L'D^{-1}L``, L upper triangular, D its diagonal; columns before ``kept`` are there.

    Returns the number of columns that are independent. Below its diagonal L stays zero, which makes blocks of
    LANES harmless that begin there.
    """
    for i in range(kept, m):
        a = pos[i]
        for j in range(i + 1):
            V[T, j] = Q[a, pos[j]]
        end = i // LANES * LANES + LANES
        for k in range(i):
            L[k, i] = V[T, k]
            f = V[T, k] * V[PIVOT, k]
            c = k // LANES * LANES
            while c < end:
                for lane in range(LANES):
                    V[T, c + lane] -= f * L[k, c + lane]
                c += LANES
        if not V[T, i] > DEPENDENT * Q[a, a]:
            return i
        L[i, i] = V[T, i]
        V[PIVOT, i] = 1.0 / V[T, i]
    return m


@njit(**INNER)
def forwards(V, L, m, t):
    """Substitute row t of V forwards."""
    end = (m + LANES - 1) // LANES * LANES
    for k in range(m):
        own = V[t, k]
        f = own * V[PIVOT, k]
        c = k // LANES * LANES
        while c < end:
            for lane in range(LANES):
                V[t, c + lane] -= f * L[k, c + lane]
            c += LANES
        V[t, k] = own


@njit(**INNER)
def backwards(V, L, m, t):
    """Substitute row t of V backwards: then it is the solution of ``Q[pos, pos] s = t``."""
    for i in range(m - 1, -1, -1):
        s = V[t, i]
        for j in range(i + 1, m):
            s -= L[i, j] * V[t, j]
        V[t, i] = s * V[PIVOT, i]


@njit(**STEP)
def subtract(V, row, factor, Q, j):
    """V[row] -= factor * Q[j]; both are as wide as a multiple of LANES."""
    c = 0
    while c < Q.shape[1]:
        for lane in range(LANES):
            V[row, c + lane] -= factor * Q[j, c + lane]
        c += LANES


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
    m, kept = _list_free(V, S, pos, Q.shape[0])
    rest = S[TOTAL]
    for i in range(Q.shape[0]):
        V[P, i] = V[H, i]
    if S[SHIFTED] > 0.0:
        for i in range(Q.shape[0]):
            if V[AT, i] != FREE and V[X, i] != 0.0:
                subtract(V, P, V[X, i], Q, i)
                rest -= V[W, i] * V[X, i]
    S[NU] = 0.0
    got = _factor(Q, V, L, pos, m, kept)
    S[SIZE] = got
    if got < m:
        return False
    for i in range(m):
        V[T, i] = V[P, pos[i]]
    forwards(V, L, m, T)
    backwards(V, L, m, T)
    if S[SUMMED] > 0.0:
        for i in range(m):
            V[TW, i] = V[W, pos[i]]
        forwards(V, L, m, TW)
        backwards(V, L, m, TW)
        if not along_sum(V, S, pos, m, rest):
            return False
    for i in range(m):
        V[X, pos[i]] = V[T, i]
        subtract(V, P, V[T, i], Q, pos[i])
    return True
