"""Solve and certify one small quadratic program after the other, compiled.

The steps and their formulas are in the docstring of the package.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from residuum.solvers.active_set.tables import INNER, OPTIONS, STEP

from .exchanges import optimum, reach_of
from .free_set import along_sum, backwards, forwards, subtract
from .layout import (
    ALPHA,
    BEST,
    BETA,
    CENTRE,
    CONCAVE,
    DEPTH,
    EPS,
    FARTHEST,
    FORCED,
    GAP,
    HIGH,
    KIND,
    LINEAR,
    LOW,
    MU,
    N_ENTRIES,
    N_ROWS,
    NO_SUM,
    NU,
    ROUNDING,
    SCALE,
    SHIFT,
    SIZE,
    STEPS,
    SUM_TO,
    SUMMED,
    TOL,
    TOTAL,
    VALUE,
    VIOLATION,
    H,
    P,
    T,
    U,
    W,
    X,
)

FAR = 1e300  # stands for an infinite distance, because it may be multiplied by zero
FAR_SQUARED = 1e150  # the same where the distance is squared
MOST_TURNS = 40  # proximal points
WORSE = 1.0 + 1e-12  # covers the rounding of the bounds themselves


@njit(**STEP)
def _gradient(Q, V, S):
    """P = LINEAR - (Q - eps) X."""
    n = Q.shape[0]
    for i in range(n):
        V[P, i] = V[LINEAR, i] + S[EPS] * V[X, i]
    for i in range(n):
        if V[X, i] != 0.0:
            subtract(V, P, V[X, i], Q, i)


@njit(**STEP)
def _most(slope, room, curvature):
    """A bound on ``2 slope d - d^2 / curvature`` for 0 <= d <= room."""
    slope = max(slope, 0.0)
    return min(slope * slope * curvature, 2.0 * slope * min(max(room, 0.0), FAR))


@njit(**STEP)
def _certify(V, S, n):
    """VIOLATION, GAP, VALUE and ROUNDING of X with the gradient P."""
    reach = reach_of(V, S, n)
    tau, nu = U * S[DEPTH] * reach, S[NU]
    short, summing, value = S[TOTAL], abs(S[TOTAL]), 0.0
    violation, gap, curvature = 0.0, 0.0, 1.0 / max(S[MU], 1.0 / FAR)
    for i in range(n):
        x, p, w, alpha = V[X, i], V[P, i], V[W, i], V[ALPHA, i]
        short -= w * x
        summing += abs(w * x)
        value -= x * (V[LINEAR, i] + p)
        q = p - nu * w
        error = tau * alpha + 4.0 * U * (abs(nu * w) + V[SHIFT, i])
        above, below = V[HIGH, i] - x, x - V[LOW, i]
        gap += max(_most(q + error, V[FARTHEST, i] - x, curvature), _most(error - q, below, curvature))
        if S[CONCAVE] > 0.0:
            farthest = min(max(V[FARTHEST, i] - x, below), FAR_SQUARED)
            gap += S[CONCAVE] * farthest * farthest
        violation = max(violation, min(max(q, -q) * V[SCALE, i], (above if q > 0.0 else below) * alpha))
    amiss = 0.0
    if S[KIND] != NO_SUM:
        # At most the sum: what is left of it counts only with a multiplier, what is too much always.
        amiss = abs(short) if S[SUMMED] > 0.0 else max(-short, 0.0)
        gap += 2.0 * abs(nu) * (abs(short) + U * (n + 4) * summing)
        amiss = amiss / summing if summing > 0.0 else 0.0
    scale = S[BETA] + S[FORCED]
    whole = np.inf
    if S[CONCAVE] < 0.0:  # the objective is a sum of squares, so that its minimum is not negative
        whole = max(S[BETA] * S[BETA] + value, 0.0) + 4.0 * tau * reach
    S[VALUE], S[ROUNDING], S[VIOLATION] = value, 0.0, amiss
    S[GAP] = 0.0 if min(gap, whole) == 0.0 else np.inf
    if scale > 0.0:
        S[GAP] = min(gap, whole) * (WORSE + 4.0 * S[DEPTH] * U) / (scale * scale)
        S[VIOLATION] = max(violation / scale, amiss)
        S[ROUNDING] = 8.0 * U * (reach - S[BETA]) / scale


@njit(**INNER)
def _refine(Q, V, S, L, pos):
    """One step of refinement of X on the free set that was factored last."""
    m, short = int(S[SIZE]), S[TOTAL]
    nu = S[NU]
    for i in range(Q.shape[0]):
        short -= V[W, i] * V[X, i]
    for a in range(m):
        V[T, a] = V[P, pos[a]] - nu * V[W, pos[a]]
    forwards(V, L, m, T)
    backwards(V, L, m, T)
    if S[SUMMED] > 0.0:
        along_sum(V, S, pos, m, short)
        S[NU] += nu
    for a in range(m):
        i = pos[a]
        V[X, i] = min(max(V[X, i] + V[T, a], V[LOW, i]), V[HIGH, i])


@njit(**STEP)
def _solve(Q, inverse, V, S, L, pos):
    """Solve and certify one program: X and the certificate.

    With eps > 0, Q may be singular without it. Then ``min f(x) + eps ||x - centre||^2`` is solved again and
    again from the last x, until f itself is optimal. Without it, the further turns refine x.
    """
    n = Q.shape[0]
    S[STEPS] = S[SIZE] = 0.0
    for i in range(n):
        V[CENTRE, i] = V[BEST, i] = 0.0
    best = (np.inf, np.inf, 0.0, 0.0, 0.0)
    for turn in range(MOST_TURNS):
        if turn == 0 or S[EPS] > 0.0:
            for i in range(n):
                V[H, i] = V[LINEAR, i] + S[EPS] * V[CENTRE, i]
            optimum(Q, inverse, V, S, L, pos)
        else:
            _refine(Q, V, S, L, pos)
        _gradient(Q, V, S)
        _certify(V, S, n)
        if turn > 0 and S[VIOLATION] >= best[0] and S[GAP] >= best[1]:
            if turn > 4 or S[EPS] == 0.0:
                break
        else:
            best = (S[VIOLATION], S[GAP], S[VALUE], S[ROUNDING], S[NU])
            for i in range(n):
                V[BEST, i] = V[X, i]
        if best[0] <= 0.1 * S[TOL] and best[1] <= 0.1 * S[TOL]:
            break
        for i in range(n):
            V[CENTRE, i] = V[X, i]
    S[VIOLATION], S[GAP], S[VALUE], S[ROUNDING], S[NU] = best


@njit(**STEP)
def _forced(V, S, n):
    """What bounds and sum force ``sum_j ||a_j|| |x_j|`` to be at least; the scale of a certificate has it."""
    forced, least = 0.0, np.inf
    for i in range(n):
        forced += V[ALPHA, i] * abs(min(max(0.0, V[LOW, i]), V[HIGH, i]))
        least = min(least, V[ALPHA, i] / V[W, i])
    return max(forced, abs(S[TOTAL]) * least if S[KIND] == SUM_TO else 0.0)


@njit(**OPTIONS)
def solve_block(vectors, numbers, Q, inverse, mu, eps, alpha, which, linear, beta, points, certificate):
    """Solve one program for each row of ``linear``: fills ``points`` and ``certificate``.

    The rows of Q and inverse are padded with zeros to a multiple of LANES. Row r belongs to matrix
    ``which[r]``. Columns of the certificate: violation, gap, objective - beta^2, rounding, steps, multiplier
    of the sum, scale.
    """
    n = linear.shape[1]
    wide = Q.shape[2]
    V, pos, S = np.zeros((N_ROWS, wide)), np.zeros(n, np.int64), np.zeros(N_ENTRIES)
    L = np.zeros((n, wide))
    for row in range(vectors.shape[0]):
        for i in range(n):
            V[row, i] = vectors[row, i]
    for entry in range(numbers.shape[0]):
        S[entry] = numbers[entry]
    for r in range(linear.shape[0]):
        k = which[r]
        for i in range(n):
            V[LINEAR, i] = linear[r, i] - V[SHIFT, i]
            V[ALPHA, i] = alpha[k, i]
            V[SCALE, i] = 1.0 / alpha[k, i] if alpha[k, i] > 0.0 else 0.0
        S[MU], S[EPS], S[BETA] = mu[k], eps[k], beta[r]
        if r == 0 or which[r - 1] != k:
            S[FORCED] = _forced(V, S, n)
        _solve(Q[k], inverse[k], V, S, L, pos)
        for i in range(n):
            points[r, i] = V[BEST, i]
        certificate[r, 0], certificate[r, 1], certificate[r, 2] = S[VIOLATION], S[GAP], S[VALUE]
        certificate[r, 3], certificate[r, 4], certificate[r, 5] = S[ROUNDING], S[STEPS], S[NU]
        certificate[r, 6] = S[BETA] + S[FORCED]
