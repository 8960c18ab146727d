"""Which variables are free at the optimum: exchanges of whole blocks, then of single variables."""

from __future__ import annotations

from numba import njit

from residuum.solvers.active_set.tables import INNER, STEP

from .free_set import minimise_free
from .lanes import subtract
from .layout import (
    ALPHA,
    AT,
    AT_HIGH,
    AT_LOW,
    BETA,
    EPS,
    FIRST,
    FREE,
    HIGH,
    KIND,
    LOW,
    NU,
    OLD,
    RIDGE,
    SIZE,
    STEPS,
    SUM_AT_MOST,
    SUM_TO,
    SUMMED,
    TOTAL,
    H,
    P,
    T,
    U,
    W,
    X,
)

MOST_BLOCKS = 30  # exchanges of whole blocks before single variables are exchanged
PATIENCE = 3  # exchanges in a row that may leave more violations than the best before that
LARGE = 1e-5  # ridge with which blocks do not cycle, for columns whose norms are near one


@njit(**STEP)
def reach_of(V, S, n):
    """Norm of b plus the norms of all columns times their variables: rounding goes with it."""
    reach = S[BETA]
    for i in range(n):
        reach += V[ALPHA, i] * abs(V[X, i])
    return reach


@njit(**STEP)
def _start(inverse, V, S):
    """Free are the variables that lie within their bounds at the minimiser without bounds."""
    n, wide = inverse.shape
    for i in range(wide):
        V[X, i] = V[T, i] = 0.0
    for j in range(n):
        subtract(V, X, -V[H, j], inverse, j, 0, wide)
    if S[SUMMED] > 0.0:
        reached = per = 0.0
        for j in range(n):
            subtract(V, T, -V[W, j], inverse, j, 0, wide)
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
    noise = 4.0 * U * (n + 8) * reach_of(V, S, n)
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
        if not minimise_free(Q, V, S, L, pos):
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
def _pivot_singly(Q, V, S, L, pos):
    """Feasible descent, one variable at a time: the objective falls whenever the point moves."""
    n = Q.shape[0]
    _make_feasible(V, S, n)
    for _ in range(20 * n + 50):
        S[STEPS] += 1.0
        for i in range(n):
            V[OLD, i] = V[X, i]
        if not minimise_free(Q, V, S, L, pos):
            break
        if _stop_at_border(V, pos, int(S[SIZE])):
            continue
        noise, entering = 4.0 * U * (n + 8) * reach_of(V, S, n), -1
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
def _from_scratch(Q, inverse, V, S, L, pos):
    """Blocks; where they cycle or Q is ill-conditioned, blocks with a large ridge, then single exchanges."""
    _start(inverse, V, S)
    S[RIDGE], S[SIZE] = S[FIRST], 0.0
    if _pivot_blocks(Q, V, S, L, pos) and S[FIRST] == 0.0:
        return
    if S[FIRST] == 0.0:
        S[RIDGE], S[SIZE] = LARGE, 0.0
        _pivot_blocks(Q, V, S, L, pos)
    S[RIDGE], S[SIZE] = S[EPS], 0.0
    _pivot_singly(Q, V, S, L, pos)


@njit(**STEP)
def optimum(Q, inverse, V, S, L, pos, near):
    """X: the optimum of a program whose Q is positive definite with its ridge; X may be near it already.

    A sum that may be smaller is an equation if it is exceeded without it.
    """
    n = Q.shape[0]
    if not near:
        S[SUMMED] = 1.0 if S[KIND] == SUM_TO else 0.0
    for _ in range(2):
        if near:
            _pivot_singly(Q, V, S, L, pos)
        else:
            _from_scratch(Q, inverse, V, S, L, pos)
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
