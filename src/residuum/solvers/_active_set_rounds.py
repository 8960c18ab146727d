"""Rounds of the exact engine: price all atoms, solve the working set, certify.

The scaled problem and its optimality conditions are those of ``_active_set_kernels``. Prices are taken in
float32; an atom is cleared only when its price lies below the rounding bound of that arithmetic, every
other atom is priced again in float64. So the certificate is that of float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from ._active_set_kernels import (
    _INNER,
    _OPTIONS,
    ATOM,
    FINE,
    HAVE,
    NEW,
    POS,
    RIDGE,
    SHIFT,
    SIGN,
    B,
    C,
    T,
    Z,
    candidates,
    descend,
    dot,
    factor,
    gradient,
    merge,
    passive_value,
    pivot_blocks,
    price_with_gram,
    refine,
    residual,
)

DONE, RUNNING, GROW, STUCK, EXHAUSTED, CYCLED = range(6)
WARM, TO_THE_END, ONE_ROUND = range(3)

EPS32 = 6.0e-8  # unit roundoff of float32, rounded up
TYPICAL = 4.0e-8  # times sqrt(n_features): rounding error to expect of a float32 price, as against its bound
COARSE = 1e-5  # as FINE, with a Gram in float32
ROUNDING = 1e-15  # of an objective near 1
COARSE_ROUNDS = 40  # after so many rounds a query goes on in float64
REACH = (
    10.0  # where no dual point can be made feasible, the gap covers codes this many times larger in l1 norm
)


class Atoms(NamedTuple):
    """The dictionary as the kernels see it."""

    x: np.ndarray  # (n_atoms, n_features) float64, unit rows
    gram32: np.ndarray  # (n_atoms, n_atoms) float32, or (0, 0)
    weight: np.ndarray  # (n_atoms,) float64: shift_j = weight_j * (shift of the query)
    weight32: np.ndarray  # the same in float32
    barred: np.ndarray  # (n_atoms,) float32: inf for atoms that never enter (zero, duplicate), else 0
    ridge: np.ndarray  # (n_atoms,) float64
    inner: np.ndarray  # (n_features,) float64 with X'inner >= 1, or empty
    rank: np.ndarray  # (n_atoms,) int32: the path through equally good atoms follows it
    order: np.ndarray  # (n_atoms,) int32, atoms by rank; empty where that is ascending


class State(NamedTuple):
    """What is kept of each query between rounds; supports are in the order of the atoms' ranks."""

    atom: np.ndarray  # (n, capacity) int32
    value: np.ndarray  # (n, capacity) float64
    size: np.ndarray  # (n,) int32
    objective: np.ndarray  # (n,) float64, minus ||y||^2
    residual: np.ndarray  # (n, n_features) float64
    n_iter: np.ndarray  # (n,) int64
    violation: np.ndarray  # (n,) float64
    gap: np.ndarray  # (n,) float64
    status: np.ndarray  # (n,) int64


class Work(NamedTuple):
    """Scratch of one thread."""

    mem: np.ndarray  # (7, size) float64
    ints: np.ndarray  # (5, size) int32
    g: np.ndarray  # (size,) float64
    rows: np.ndarray  # (size, size) float64
    chol: np.ndarray  # (size, size) float64
    found: np.ndarray  # (n_atoms,) int32
    price: np.ndarray  # (2, n_atoms) float32
    r: np.ndarray  # (n_features,) float64


def make_work(size: int, n_atoms: int, n_features: int) -> Work:
    """Allocate the scratch of one thread for working sets of ``size`` atoms."""
    return Work(
        np.zeros((7, size)),
        np.zeros((5, size), np.int32),
        np.zeros(size),
        np.empty((size, size)),
        np.empty((size, size)),
        np.empty(n_atoms, np.int32),
        np.empty((2, n_atoms), np.float32),
        np.empty(n_features),
    )


@njit(**_INNER)
def duality_gap(mem, ints, m, r, y, shift, inner, signed, excess, excess_sq):
    """Duality gap at the refined code; mem[T] holds the gradient on the passive set.

    Dual: maximise 2 s'y - ||s||^2 - sum_j (x_j's - shift_j)_+^2 / ridge_j, the sum read as the constraint
    x_j's <= shift_j where ridge_j = 0. ``excess`` is the largest x_j'r - shift_j off the support and
    ``excess_sq`` the sum of their squares over ridge_j (negative: no ridge).
    """
    rr, ry = dot(r, r), dot(r, y)
    primal, penalty, scale = rr, max(excess_sq, 0.0), 1.0
    over, reach, slack = max(excess, 0.0), 0.0, 0.0
    for i in range(m):
        a = ints[POS, i]
        h, ridge, z, t = mem[SHIFT, a], mem[RIDGE, a], mem[Z, i], mem[T, i]
        primal += ridge * z * z + 2.0 * h * abs(z)
        miss = t * mem[SIGN, a] + ridge * abs(z)  # sign * x_j'r - shift_j
        slack += abs(t * z)
        reach += abs(z)
        if ridge > 0.0:
            penalty += max(miss, 0.0) ** 2 / ridge
        over = max(over, abs(miss) if signed and h == 0.0 else miss)
        if miss > 0.0:
            scale = min(scale, h / (h + miss))
    if excess_sq >= 0.0:
        return max(0.0, min(primal, primal - (2.0 * ry - rr - penalty)))
    gap = primal  # the dual point zero is always feasible
    if shift > 0.0:
        # The least weight of an atom is 1, so no shift lies below that of the query.
        scale = min(scale, shift / (shift + max(excess, 0.0)))
        gap = min(gap, primal - (2.0 * scale * ry - scale * scale * rr))
    elif inner.shape[0] > 0 and not signed:
        uy, ur, uu = dot(inner, y), dot(inner, r), dot(inner, inner)
        gap = min(gap, 2.0 * rr - 2.0 * ry + over * (2.0 * uy - 2.0 * ur + over * uu))
    else:
        gap = min(gap, 2.0 * slack + 2.0 * over * REACH * max(reach, 1.0))
    return max(gap, 0.0)


@njit(**_INNER)
def certify(mem, ints, index, m, p, v, found, scaled, slack, shift, atoms, y, r, signed, vtol, on_support):
    """Price in float64 the atoms that float32 cannot clear.

    Returns (number of violators, left in ``found``; largest violation; gap).
    """
    x, weight, ridge = atoms.x, atoms.weight, atoms.ridge
    n_close = candidates(
        p, scaled, atoms.weight32, atoms.barred, atoms.order, index, m, signed, -slack, p.shape[0], v, found
    )
    excess, excess_sq = 0.0, 0.0 if ridge[0] > 0.0 else -1.0
    count = 0
    for a in range(n_close):
        j = found[a]
        s = dot(x[j], r)
        over = (abs(s) if signed else s) - shift * weight[j]
        if over > 0.0:
            excess = max(excess, over)
            if ridge[j] > 0.0:
                excess_sq += over * over / ridge[j]
        if over > vtol:
            found[count] = j
            count += 1
    gap = duality_gap(mem, ints, m, r, y, shift, atoms.inner, signed, excess, excess_sq)
    return count, max(on_support, excess), gap


@njit(**_INNER)
def load(index, value, m, mem, ints, weight, ridge, shift):
    """Put a stored support into the scratch as the passive set."""
    for a in range(m):
        j = index[a]
        ints[ATOM, a], ints[POS, a], ints[HAVE, a] = j, a, False
        mem[C, a] = mem[Z, a] = value[a]
        mem[SIGN, a] = -1.0 if value[a] < 0.0 else 1.0
        mem[SHIFT, a], mem[RIDGE, a] = shift * weight[j], ridge[j]


@njit(**_INNER)
def from_features(mem, ints, n, rows, x, y):
    """Gram and b of the working set in float64."""
    part = np.empty((n, x.shape[1]))
    for a in range(n):
        row = x[ints[ATOM, a]]
        for k in range(row.shape[0]):  # loops, as slice assignments take seconds to compile
            part[a, k] = row[k]
        ints[HAVE, a] = True
        mem[B, a] = dot(row, y)
    product = np.dot(part, part.T)
    for a in range(n):
        for k in range(n):
            rows[a, k] = product[a, k]


@njit(**_INNER)
def enough(before, drift):
    """The value below which an objective counts as no worse than ``before``."""
    return before + drift * (1.0 + abs(before)) if before < 1e300 else before


@njit(**_INNER)
def store(index, value, size, m, mem, ints):
    """Store the passive set as the support; (status, size)."""
    if m > index.shape[0]:
        return GROW, size
    for k in range(m):
        index[k], value[k] = ints[ATOM, ints[POS, k]], mem[Z, k]
    return RUNNING, m


@njit(**_INNER)
def improve(
    index,
    value,
    size,
    before,
    n_new,
    p,
    unit,
    b32,
    shift,
    atoms,
    work,
    y,
    signed,
    fine,
    tolerance,
    sweeps,
    drift,
):
    """Solve the working set (support + new atoms), store it; (status, size, objective).

    Coarse (not fine), b and Gram are in float32 and the objective is not watched. Without sweeps the new
    atoms start inside the passive set. When pivoting failed or the objective did not stay below its old value
    plus ``drift``: STUCK if coarse, else CYCLED with the size of the working set, for `pivot_singly`.
    """
    mem, ints, rows, chol, gram32 = work.mem, work.ints, work.rows, work.chol, atoms.gram32
    if size + n_new > ints.shape[1]:
        return GROW, size, before
    n = merge(index, value, size, work.found, n_new, mem, ints, atoms.rank, atoms.weight, atoms.ridge, shift)
    if fine:
        from_features(mem, ints, n, rows, atoms.x, y)
    else:
        for a in range(n):
            mem[B, a] = b32[ints[ATOM, a]]
    if sweeps > 0:
        for a in range(n):
            work.g[a] = p[ints[ATOM, a]] * unit
        descend(mem, ints, n, work.g, rows, gram32, signed, sweeps, 1e-3)
    else:
        for a in range(n):
            if ints[NEW, a]:
                mem[C, a] = -1e-300 if signed and p[ints[ATOM, a]] < 0.0 else 1e-300
    least = FINE if fine else COARSE
    m = pivot_blocks(mem, ints, n, work.g, rows, chol, gram32, least, signed, 12, tolerance)
    if m < 0 and not fine:
        return STUCK, size, before
    objective = passive_value(mem, ints, m) if m >= 0 else 1e300
    if fine and objective >= enough(before, drift):
        return CYCLED, n, before
    status, size = store(index, value, size, m, mem, ints)
    return status, size, objective if status == RUNNING else before


@njit(**_INNER)
def polish(index, value, m, shift, atoms, work, y, fine):
    """Refine a stored code against the features, kept feasible; (max|gradient|, l1 distance moved)."""
    mem, ints, m = work.mem, work.ints, np.int64(m)
    load(index, value, m, mem, ints, atoms.weight, atoms.ridge, shift)
    if fine:
        from_features(mem, ints, m, work.rows, atoms.x, y)
    least = FINE if fine else COARSE
    if factor(work.chol, mem, ints, m, m, np.int64(0), work.rows, atoms.gram32, least) < m:
        return 1e300, 0.0
    worst = refine(mem, ints, m, work.chol, atoms.x, y, work.r)
    moved, wrong = 0.0, 0.0
    for a in range(m):
        if mem[Z, a] * mem[SIGN, a] < 0.0:
            wrong = max(wrong, abs(mem[Z, a]))
            mem[Z, a] = 0.0
        moved += abs(mem[Z, a] - value[a])
    if wrong > 0.0:
        if not fine:
            return 1e300, 0.0
        residual(mem, ints, m, atoms.x, y, work.r)
        worst = max(wrong, gradient(mem, ints, m, atoms.x, work.r))
    for a in range(m):
        value[a] = mem[Z, a]
    return worst, moved


@njit(**_OPTIONS)
def run(mode, rows, prices, queries, shifts, state, work, atoms, signed, tols, limits, resume):
    """Advance the listed queries: WARM, TO_THE_END (prices are X'y) or ONE_ROUND (prices are X'r / ||r||).

    Returns where it stopped: the place in ``rows``, the size of the working set, the sweeps tried, whether
    the query settles, the drift allowed. When the place lies within ``rows``, that query CYCLED: run
    `pivot_singly` on it, then go on here with ``resume`` = what was returned; start with zeros.
    Single pivots are seldom needed; apart, they do not make this function slower to compile.
    """
    tol, vtol_min = tols
    k_first, k_new, sweeps, max_iter = limits
    first, n, trials, settle, drift = resume
    resumed = n > 0
    d = queries.shape[1]
    mem, ints, r, v = work.mem, work.ints, work.r, work.price[1]
    nothing = prices[0, :0]
    for q in range(first, rows.shape[0]):
        i = rows[q]
        y, shift = queries[i], shifts[i]
        index, value = state.atom[i], state.value[i]
        p, b32 = (work.price[0], prices[q]) if mode == TO_THE_END else (prices[q], nothing)
        fine = resumed or mode != TO_THE_END
        if not resumed:
            settle, state.status[i] = False, RUNNING
        while resumed or state.status[i] == RUNNING:
            if not resumed:
                m = state.size[i]
                if m > ints.shape[1]:
                    state.status[i] = GROW
                    break
                reach = 0.0
                for a in range(m):
                    reach += abs(value[a])
                unit, bound, vtol = 1.0, 1e-6, max(vtol_min, 2e-15 * (1.0 + reach))
                likely = TYPICAL * np.sqrt(d) * (1.0 + reach)
                n_new, trials = 0, sweeps
                if mode == WARM:
                    trials, state.objective[i] = 0, 1e300
                else:
                    if mode == TO_THE_END:
                        price_with_gram(p, b32, atoms.gram32, index, value, m)
                        bound = EPS32 * 1.05 * ((d + 10) + (m + 10) * reach + 4.0 * shift)
                        if state.n_iter[i] == COARSE_ROUNDS and not fine:
                            fine, settle, state.objective[i] = True, True, 1e300
                    else:
                        unit = max(1e-300, np.sqrt(dot(state.residual[i], state.residual[i])))
                        bound = EPS32 * 1.05 * ((d + 10) + 4.0 * shift / unit)
                    state.n_iter[i] += 1
                    limit = max(k_new if m > 0 else k_first, m // 2)
                    if unit > vtol and not settle:
                        n_new = candidates(
                            p, shift / unit, atoms.weight32, atoms.barred, atoms.order, index, m, signed,
                            likely, limit, v, work.found,
                        )  # fmt: skip
                    if n_new == 0:
                        worst, moved = polish(index, value, m, shift, atoms, work, y, fine)
                        trials = 0
                        if worst < 1e300:
                            slack = bound + 1.05 * moved / unit
                            n_new, state.violation[i], state.gap[i] = certify(
                                mem, ints, index, m, p, v, work.found, shift / unit, slack,
                                shift, atoms, y, r, signed, vtol, worst,
                            )  # fmt: skip
                            if n_new == 0 and (state.violation[i] <= tol or fine):
                                state.status[i] = DONE if state.violation[i] <= tol else STUCK
                                break
                        elif fine and state.objective[i] < 1e300:
                            state.status[i] = STUCK
                            break
                        if not fine:
                            fine, state.objective[i] = True, 1e300
                    if state.n_iter[i] > max_iter:
                        state.status[i] = EXHAUSTED
                        break
                # A certified violation may lower the objective by less than its rounding; for a while it may.
                drift = ROUNDING if trials == 0 and state.n_iter[i] <= COARSE_ROUNDS else -ROUNDING
                status, size, objective = improve(
                    index, value, m, state.objective[i], n_new, p, unit, b32,
                    shift, atoms, work, y, signed, fine, likely * unit, trials, drift,
                )  # fmt: skip
                if status == CYCLED:
                    return q, size, trials, settle, drift
                state.status[i], state.size[i], state.objective[i] = status, size, objective
            resumed = False
            if state.status[i] == STUCK and mode != WARM:
                if not fine:
                    fine, settle, state.objective[i], state.status[i] = True, True, 1e300, RUNNING
                elif trials > 0:
                    settle, state.status[i] = True, RUNNING
                elif state.violation[i] <= tol:
                    state.status[i] = DONE
            elif state.status[i] == RUNNING:
                settle = False
            if state.status[i] == GROW:
                state.n_iter[i] -= 1
            if mode != TO_THE_END and not settle:
                if state.status[i] == RUNNING:
                    m = state.size[i]
                    load(index, value, m, mem, ints, atoms.weight, atoms.ridge, shift)
                    residual(mem, ints, m, atoms.x, y, state.residual[i])
                break
    return rows.shape[0], 0, 0, False, 0.0
