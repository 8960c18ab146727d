"""Compiled steps for one right-hand side of a small quadratic program.

The steps and their formulas are in the docstring of the package.

All vectors of a program are rows of one array V, named by the constants below, and all its numbers entries of
one array S: a function that took each array by itself would count every one of them at each call, which takes
longer than the arithmetic. Loops run over blocks of LANES columns where a free set may have few variables;
the compiler turns such blocks into vector instructions.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from residuum.solvers.active_set.tables import INNER, OPTIONS, STEP

# Rows of V. Given: bounds, the farthest that a variable can be where the sum implies that, the weights of the
# sum, norms of the columns, the part of the linear term that is no product with b, and the linear term.
LOW, HIGH, FARTHEST, W, ALPHA, SHIFT, LINEAR = range(7)
# Computed: the point, its gradient h - Qx, h, the state of each variable, memory, and one over the norms.
X, P, H, AT, OLD, BEST, CENTRE, T, TW, PIVOT, SCALE = range(7, 18)
N_ROWS = 18
# Entries of S: least eigenvalue of Q - eps at least, ridge on the diagonal of Q, roundings that an entry of
# the gradient goes through, the sum and what kind of sum it is, norm of b, tolerance, and whether any bound
# is neither zero nor infinite.
MU, EPS, DEPTH, TOTAL, KIND, BETA, TOL, SHIFTED = range(8)
# Computed: whether the sum counts as an equation now, its multiplier, size of the free set, steps taken,
# the certificate: violation, gap, objective minus beta^2, violation that rounding x makes; and how large a
# combination of columns the bounds and the sum force x to be.
SUMMED, NU, SIZE, STEPS, VIOLATION, GAP, VALUE, ROUNDING, FORCED = range(8, 17)
N_ENTRIES = 17

NO_SUM, SUM_TO, SUM_AT_MOST = range(3)
FREE, AT_LOW, AT_HIGH = 0.0, -1.0, 1.0

LANES = 8
U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order
DEPENDENT = 1e-15  # pivot, relative to its diagonal entry, at which a free set counts as singular
MOST_BLOCKS = 30  # exchanges of whole blocks before single variables are exchanged
PATIENCE = 3  # exchanges in a row that may leave more violations than the best before that
FAR = 1e300  # stands for an infinite distance, because it may be multiplied by zero
SWEEPS = 30  # of coordinate descent
MOST_TURNS = 40  # proximal points
WORSE = 1.0 + 1e-12  # covers the rounding of the bounds themselves


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
def _forwards(V, L, m, t):
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
def _backwards(V, L, m, t):
    """Substitute row t of V backwards: then it is the solution of ``Q[pos, pos] s = t``."""
    for i in range(m - 1, -1, -1):
        s = V[t, i]
        for j in range(i + 1, m):
            s -= L[i, j] * V[t, j]
        V[t, i] = s * V[PIVOT, i]


@njit(**STEP)
def _subtract(V, row, factor, Q, j):
    """V[row] -= factor * Q[j]; both are as wide as a multiple of LANES."""
    c = 0
    while c < Q.shape[1]:
        for lane in range(LANES):
            V[row, c + lane] -= factor * Q[j, c + lane]
        c += LANES


@njit(**STEP)
def _along_sum(V, S, pos, m, rest):
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
def _minimise_free(Q, V, S, L, pos):
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
                _subtract(V, P, V[X, i], Q, i)
                rest -= V[W, i] * V[X, i]
    S[NU] = 0.0
    got = _factor(Q, V, L, pos, m, kept)
    S[SIZE] = got
    if got < m:
        return False
    for i in range(m):
        V[T, i] = V[P, pos[i]]
    _forwards(V, L, m, T)
    _backwards(V, L, m, T)
    if S[SUMMED] > 0.0:
        for i in range(m):
            V[TW, i] = V[W, pos[i]]
        _forwards(V, L, m, TW)
        _backwards(V, L, m, TW)
        if not _along_sum(V, S, pos, m, rest):
            return False
    for i in range(m):
        V[X, pos[i]] = V[T, i]
        _subtract(V, P, V[T, i], Q, pos[i])
    return True


@njit(**STEP)
def _noise(V, S, n):
    """Norm of b plus the norms of all columns times their variables: rounding goes with it."""
    reach = S[BETA]
    for i in range(n):
        reach += V[ALPHA, i] * abs(V[X, i])
    return reach


@njit(**STEP)
def _start(inverse, V, S):
    """Free are the variables that lie within their bounds at the minimiser without bounds."""
    n = inverse.shape[0]
    for i in range(inverse.shape[1]):
        V[X, i] = V[T, i] = 0.0
    for j in range(n):
        _subtract(V, X, -V[H, j], inverse, j)
    if S[SUMMED] > 0.0:
        reached = per = 0.0
        for j in range(n):
            _subtract(V, T, -V[W, j], inverse, j)
        for i in range(n):
            reached += V[W, i] * V[X, i]
            per += V[W, i] * V[T, i]
        for i in range(n):
            V[X, i] -= (reached - S[TOTAL]) / per * V[T, i]
    for i in range(n):
        V[AT, i] = FREE
        if not V[X, i] > V[LOW, i]:
            V[AT, i], V[X, i] = AT_LOW, V[LOW, i]
        elif V[X, i] >= V[HIGH, i]:
            V[AT, i], V[X, i] = AT_HIGH, V[HIGH, i]


@njit(**STEP)
def _exchange(V, S, n):
    """Move every variable beyond its bounds to them, free every one that would leave them; their number."""
    noise = 4.0 * U * (n + 8) * _noise(V, S, n)
    wrong = 0
    for i in range(n):  # written without branches
        at, x, low, high = V[AT, i], V[X, i], V[LOW, i], V[HIGH, i]
        leaves = at * (V[P, i] - S[NU] * V[W, i]) < -noise * V[ALPHA, i] and low < high
        side = AT_LOW if x < low else AT_HIGH if x > high else FREE
        new = side if at == FREE else FREE if leaves else at
        wrong += new != at
        V[AT, i], V[X, i] = new, min(max(x, low), high)
    return wrong


@njit(**INNER)
def _pivot_blocks(Q, V, S, L, pos):
    """Block principal pivoting; False if it gave up."""
    fewest, patience = Q.shape[0] + 1, PATIENCE
    for _ in range(MOST_BLOCKS):
        S[STEPS] += 1.0
        if not _minimise_free(Q, V, S, L, pos):
            return False
        wrong = _exchange(V, S, Q.shape[0])
        if wrong == 0:
            return True
        if wrong < fewest:
            fewest, patience = wrong, PATIENCE
        elif patience > 0:
            patience -= 1
        else:
            return False
    return False


@njit(**STEP)
def _make_feasible(V, S, n):
    """Move X into the bounds, then to its sum, variable by variable; free is what is at no bound."""
    short, free, loose = S[TOTAL], 0, -1
    for i in range(n):
        V[X, i] = min(max(V[X, i], V[LOW, i]), V[HIGH, i])
        short -= V[W, i] * V[X, i]
    for i in range(n):
        if S[SUMMED] > 0.0 and short != 0.0:
            moved = min(max(V[X, i] + short / V[W, i], V[LOW, i]), V[HIGH, i])
            short -= V[W, i] * (moved - V[X, i])
            V[X, i] = moved
        V[AT, i] = AT_LOW if V[X, i] == V[LOW, i] else AT_HIGH if V[X, i] == V[HIGH, i] else FREE
        if V[AT, i] == FREE:
            free += 1
        elif V[LOW, i] < V[HIGH, i]:
            loose = i
    if S[SUMMED] > 0.0 and free == 0 and loose >= 0:
        V[AT, loose] = FREE


@njit(**STEP)
def _stop_at_border(V, pos, m):
    """Where X is beyond a bound, go back towards OLD until no variable is; fix the one that stopped there."""
    length, blocking = 2.0, -1
    for a in range(m):
        i = pos[a]
        if V[X, i] < V[LOW, i] or V[X, i] > V[HIGH, i]:
            bound = V[LOW, i] if V[X, i] < V[LOW, i] else V[HIGH, i]
            share = (bound - V[OLD, i]) / (V[X, i] - V[OLD, i])
            if share < length:
                length, blocking = share, i
    if blocking < 0:
        return False
    low = V[X, blocking] < V[LOW, blocking]
    for a in range(m):
        i = pos[a]
        V[X, i] = min(max(V[OLD, i] + length * (V[X, i] - V[OLD, i]), V[LOW, i]), V[HIGH, i])
    V[AT, blocking] = AT_LOW if low else AT_HIGH
    V[X, blocking] = V[LOW, blocking] if low else V[HIGH, blocking]
    return True


@njit(**INNER)
def _descend(Q, V, S):
    """Coordinate descent from X, moved into its bounds; a sum counts as one more row of A."""
    n, short, rho = Q.shape[0], S[TOTAL], 0.0
    for i in range(n):
        V[P, i] = V[H, i]
    for i in range(n):
        V[X, i] = min(max(V[X, i], V[LOW, i]), V[HIGH, i])
        short -= V[W, i] * V[X, i]
        if S[SUMMED] > 0.0:
            rho = max(rho, Q[i, i] / (V[W, i] * V[W, i]))
        if V[X, i] != 0.0:
            _subtract(V, P, V[X, i], Q, i)
    for _ in range(SWEEPS):
        largest = biggest = 0.0
        for i in range(n):
            w = rho * V[W, i]
            old = V[X, i]
            new = old + (V[P, i] + w * short) / (Q[i, i] + w * V[W, i])
            new = min(max(new, V[LOW, i]), V[HIGH, i])
            biggest = max(biggest, abs(new))
            if new != old:
                largest = max(largest, abs(new - old))
                V[X, i] = new
                short -= V[W, i] * (new - old)
                _subtract(V, P, new - old, Q, i)
        if largest <= 1e-3 * biggest:
            break


@njit(**INNER)
def _pivot_singly(Q, V, S, L, pos):
    """Feasible descent, one variable at a time: the objective falls whenever the point moves."""
    n = Q.shape[0]
    _make_feasible(V, S, n)
    for _ in range(20 * n + 50):
        S[STEPS] += 1.0
        for i in range(n):
            V[OLD, i] = V[X, i]
        if not _minimise_free(Q, V, S, L, pos):
            break
        if _stop_at_border(V, pos, int(S[SIZE])):
            continue
        noise, entering = 4.0 * U * (n + 8) * _noise(V, S, n), -1
        for i in range(n):
            if V[AT, i] != FREE and V[LOW, i] < V[HIGH, i] and V[ALPHA, i] > 0.0:
                excess = -V[AT, i] * (V[P, i] - S[NU] * V[W, i]) / V[ALPHA, i]
                if excess > noise:
                    noise, entering = excess, i
        if entering < 0:
            return
        V[AT, entering] = FREE
    for i in range(n):
        V[X, i] = V[OLD, i]


@njit(**STEP)
def _optimum(Q, inverse, V, S, L, pos):
    """X: the optimum of a program whose Q is positive definite.

    A sum that may be smaller is an equation if it is exceeded without it.
    """
    n = Q.shape[0]
    S[SUMMED] = 1.0 if S[KIND] == SUM_TO else 0.0
    for _ in range(2):
        _start(inverse, V, S)
        if not _pivot_blocks(Q, V, S, L, pos):
            _descend(Q, V, S)
            _pivot_singly(Q, V, S, L, pos)
        if S[KIND] != SUM_AT_MOST or S[SUMMED] > 0.0:
            break
        reached = 0.0
        for i in range(n):
            reached += V[W, i] * V[X, i]
        if reached <= S[TOTAL]:
            break
        S[SUMMED] = 1.0
    if S[KIND] == SUM_AT_MOST:
        S[NU] = max(S[NU], 0.0)


@njit(**STEP)
def _gradient(Q, V, S):
    """P = LINEAR - (Q - eps) X."""
    n = Q.shape[0]
    for i in range(n):
        V[P, i] = V[LINEAR, i] + S[EPS] * V[X, i]
    for i in range(n):
        if V[X, i] != 0.0:
            _subtract(V, P, V[X, i], Q, i)


@njit(**STEP)
def _most(slope, room, curvature):
    """A bound on ``2 slope d - d^2 / curvature`` for 0 <= d <= room."""
    slope = max(slope, 0.0)
    return min(slope * slope * curvature, 2.0 * slope * min(max(room, 0.0), FAR))


@njit(**STEP)
def _certify(V, S, n):
    """VIOLATION, GAP, VALUE and ROUNDING of X with the gradient P."""
    reach = _noise(V, S, n)
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
        violation = max(violation, min(max(q, -q) * V[SCALE, i], (above if q > 0.0 else below) * alpha))
    amiss = 0.0
    if S[KIND] != NO_SUM:
        # At most the sum: what is left of it counts only with a multiplier, what is too much always.
        amiss = abs(short) if S[SUMMED] > 0.0 else max(-short, 0.0)
        gap += 2.0 * abs(nu) * (abs(short) + U * (n + 4) * summing)
        amiss = amiss / summing if summing > 0.0 else 0.0
    scale = S[BETA] + S[FORCED]
    whole = max(S[BETA] * S[BETA] + value, 0.0) + 4.0 * tau * reach  # the objective, whose minimum is >= 0
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
    _forwards(V, L, m, T)
    _backwards(V, L, m, T)
    if S[SUMMED] > 0.0:
        _along_sum(V, S, pos, m, short)
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
            _optimum(Q, inverse, V, S, L, pos)
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
