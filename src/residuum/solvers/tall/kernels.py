"""Solve and certify one small quadratic program after the other, compiled.

The steps and their formulas are in the docstring of the package.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from residuum.solvers.active_set.tables import INNER, OPTIONS, STEP

from .exchanges import optimum, reach_of
from .free_set import along_sum, solve_factored
from .lanes import subtract
from .layout import (
    ALPHA,
    BEST,
    BETA,
    CONCAVE,
    DEPTH,
    EPS,
    FARTHEST,
    FIRST,
    FORCED,
    GAP,
    HIGH,
    KIND,
    LENGTH,
    LINEAR,
    LOW,
    MU,
    N_ENTRIES,
    NO_SUM,
    NU,
    ROUNDING,
    SCALE,
    SHIFT,
    SIZE,
    SLACK,
    SLOPE,
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
    """P = LINEAR - QX."""
    n, wide = Q.shape
    for i in range(n):
        V[P, i] = V[LINEAR, i]
    for i in range(n):
        if V[X, i] != 0.0:
            subtract(V, P, V[X, i], Q, i, 0, wide)


@njit(**STEP)
def _most(slope, room, curvature):
    """A bound on ``2 slope d - d^2 / curvature`` for 0 <= d <= room."""
    slope = max(slope, 0.0)
    return min(slope * slope * curvature, 2.0 * slope * min(max(room, 0.0), FAR))


@njit(**STEP)
def _error(V, S, i, tau):
    """Bound on the rounding error of ``p - nu w`` of a variable."""
    return tau * V[ALPHA, i] + 4.0 * U * (abs(S[NU] * V[W, i]) + V[SHIFT, i])


@njit(**STEP)
def _gap_along(V, S, n, tau):
    """The gap by an inner direction z.

    ``2 q'd - d'Qd <= t^2 z'Qz + 2 (q - t Qz)'d``, with t so large that no unbounded variable can gain.
    """
    t = 0.0
    for i in range(n):
        q, error, slack = V[P, i] - S[NU] * V[W, i], _error(V, S, i, tau), S[SLACK] * V[ALPHA, i]
        if V[FARTHEST, i] == np.inf:
            t = max(t, (q + error) / max(V[SLOPE, i] - slack, 1.0 / FAR))
        if V[LOW, i] == -np.inf:
            t = max(t, (error - q) / max(-V[SLOPE, i] - slack, 1.0 / FAR))
    t *= WORSE
    gap = t * t * S[LENGTH]
    for i in range(n):
        q = V[P, i] - S[NU] * V[W, i] - t * V[SLOPE, i]
        error = _error(V, S, i, tau) + t * (S[SLACK] * V[ALPHA, i] + 4.0 * U * abs(V[SLOPE, i]))
        up = 0.0 if V[FARTHEST, i] == np.inf else max(q + error, 0.0) * max(V[FARTHEST, i] - V[X, i], 0.0)
        down = 0.0 if V[LOW, i] == -np.inf else max(error - q, 0.0) * (V[X, i] - V[LOW, i])
        gap += 2.0 * max(up, down)
    return gap


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
        q, error = p - nu * w, _error(V, S, i, tau)
        above, below = V[HIGH, i] - x, x - V[LOW, i]
        gap += max(_most(q + error, V[FARTHEST, i] - x, curvature), _most(error - q, below, curvature))
        if S[CONCAVE] > 0.0:
            farthest = min(max(V[FARTHEST, i] - x, below), FAR_SQUARED)
            gap += S[CONCAVE] * farthest * farthest
        violation = max(violation, min(max(q, -q) * V[SCALE, i], (above if q > 0.0 else below) * alpha))
    if S[LENGTH] > 0.0:
        gap = min(gap, _gap_along(V, S, n, tau))
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
    solve_factored(V, L, m, T)
    if S[SUMMED] > 0.0:
        along_sum(V, S, pos, m, short)
        S[NU] += nu
    for a in range(m):
        i = pos[a]
        V[X, i] = min(max(V[X, i] + V[T, a], V[LOW, i]), V[HIGH, i])


@njit(**STEP)
def _solve(Q, inverse, V, S, L, pos):
    """Solve and certify one program: X and the certificate.

    With eps > 0, Q may be singular. Then ``min f(x) + eps ||x - centre||^2`` is solved again and again, the
    last x being the centre, until f itself is optimal. Without it, the further turns refine x.
    """
    n = Q.shape[0]
    S[STEPS] = 0.0
    for i in range(n):
        V[H, i], V[BEST, i] = V[LINEAR, i], 0.0
    best = (np.inf, np.inf, 0.0, 0.0, 0.0)
    for turn in range(MOST_TURNS):
        if turn == 0 or S[EPS] > 0.0:
            optimum(Q, inverse, V, S, L, pos, turn > 0)
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
            V[H, i] = V[LINEAR, i] + S[EPS] * V[X, i]
    S[VIOLATION], S[GAP], S[VALUE], S[ROUNDING], S[NU] = best


@njit(**STEP)
def _forced(V, S, n):
    """What bounds and sum force ``sum_j ||a_j|| |x_j|`` to be at least; the scale of a certificate has it."""
    forced, least = 0.0, np.inf
    for i in range(n):
        forced += V[ALPHA, i] * abs(min(max(0.0, V[LOW, i]), V[HIGH, i]))
        if V[ALPHA, i] > 0.0:  # a column of zeros can take the whole sum, but then nothing would have a scale
            least = min(least, V[ALPHA, i] / V[W, i])
    return max(forced, abs(S[TOTAL]) * least if S[KIND] == SUM_TO and least < np.inf else 0.0)


@njit(**OPTIONS)
def solve_block(given, numbers, matrices, which, linear, beta, scratch, points, certificate):
    """Solve one program for each row of ``linear``: fills ``points`` and ``certificate``.

    Row r belongs to matrix ``which[r]``. Columns of the certificate: violation, gap, objective - beta^2,
    rounding, steps, multiplier of the sum, scale.
    """
    n, (V, L) = linear.shape[1], scratch
    pos, S = np.zeros(n, np.int64), np.zeros(N_ENTRIES)
    for row in range(given.shape[0]):
        for i in range(n):
            V[row, i] = given[row, i]
    for entry in range(numbers.shape[0]):
        S[entry] = numbers[entry]
    for r in range(linear.shape[0]):
        k = which[r]
        if r == 0 or which[r - 1] != k:
            for i in range(n):
                V[ALPHA, i], V[SLOPE, i] = matrices.alpha[k, i], matrices.slope[k, i]
                V[SCALE, i] = 1.0 / V[ALPHA, i] if V[ALPHA, i] > 0.0 else 0.0
            S[MU], S[EPS], S[FIRST] = matrices.mu[k], matrices.eps[k], matrices.first[k]
            S[LENGTH], S[SLACK] = matrices.length[k], matrices.slack[k]
            S[FORCED] = _forced(V, S, n)
        S[BETA] = beta[r]
        for i in range(n):
            V[LINEAR, i] = linear[r, i] - V[SHIFT, i]
        _solve(matrices.Q[k], matrices.inverse[k], V, S, L, pos)
        for i in range(n):
            points[r, i] = V[BEST, i]
        certificate[r, 0], certificate[r, 1], certificate[r, 2] = S[VIOLATION], S[GAP], S[VALUE]
        certificate[r, 3], certificate[r, 4], certificate[r, 5] = S[ROUNDING], S[STEPS], S[NU]
        certificate[r, 6] = S[BETA] + S[FORCED]
