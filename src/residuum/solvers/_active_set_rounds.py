"""Rounds of the exact engine: price all atoms, solve the working set, certify.

The scaled problem and its optimality conditions are those of ``_active_set_kernels``. Prices are taken in
float32; an atom is cleared only when its price lies below the rounding bound of that arithmetic, every
other atom is priced again in float64. So the certificate is that of float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ._active_set_kernels import (
    _OPTIONS,
    DONE,
    EPS32,
    EXHAUSTED,
    GROW,
    RUNNING,
    STUCK,
    _candidates,
    _descend,
    _dot,
    _factor,
    _fill_full,
    _lawson_hanson,
    _merge,
    _pivot_blocks,
    _price_with_gram,
    _refine,
    _residual,
    _value,
)

UNPROVEN_REACH = 10.0


@njit(**_OPTIONS)
def _gap(w, m, shift, atoms, y, signed, excess, excess_sq):
    """Duality gap at the refined code; ``t`` holds the gradient on the passive set.

    Dual: maximise 2 s'y - ||s||^2 - sum_j (x_j's - shift_j)_+^2 / ridge_j, the sum read as the constraint
    x_j's <= shift_j where ridge_j = 0. ``excess`` is the largest x_j'r - shift_j off the support and
    ``excess_sq`` the sum of their squares over ridge_j.
    """
    rr, ry = _dot(w.r, w.r), _dot(w.r, y)
    primal = rr
    dual_ridge = 2.0 * ry - rr - excess_sq
    scale = 1.0
    over = max(excess, 0.0)
    reach = slack = 0.0
    has_ridge = atoms.ridge[0] > 0.0
    has_shift = shift > 0.0
    for i in range(m):
        a = w.pos[i]
        j = w.atom[a]
        h, ridge, z = shift * atoms.weight[j], atoms.ridge[j], w.z[i]
        primal += ridge * z * z + 2.0 * h * abs(z)
        price = w.t[i] * w.sign[a] + ridge * abs(z) + h  # sign * x_j'r
        slack += abs(w.t[i] * z)
        reach += abs(z)
        if has_ridge:
            dual_ridge -= max(price - h, 0.0) ** 2 / ridge
        else:
            miss = price - h
            if signed and h == 0.0:
                miss = abs(miss)
            over = max(over, miss)
            if has_shift and price > 0.0:
                scale = min(scale, h / price)
    if has_ridge:
        return max(0.0, min(primal, primal - dual_ridge))
    gap = primal  # the dual point zero is always feasible
    if has_shift:
        if excess > 0.0:
            floor = shift * atoms.weight.min()
            scale = min(scale, floor / (floor + excess))
        gap = min(gap, primal - (2.0 * scale * ry - scale * scale * rr))
    elif atoms.inner.shape[0] > 0:
        uy, ur, uu = _dot(atoms.inner, y), _dot(atoms.inner, w.r), _dot(atoms.inner, atoms.inner)
        gap = min(gap, 2.0 * rr - 2.0 * ry + over * (2.0 * uy - 2.0 * ur + over * uu))
    else:
        gap = min(gap, 2.0 * slack + 2.0 * over * UNPROVEN_REACH * max(reach, 1.0))
    return max(gap, 0.0)


@njit(**_OPTIONS)
def _certify(w, m, p, unit, slack, shift, atoms, y, signed, vtol, on_support):
    """Price in float64 the atoms that float32 cannot clear.

    Returns (violators left in w.found, largest violation, gap). ``p`` is in multiples of ``unit``.
    """
    n_close = _candidates(
        p, shift / unit, atoms.weight32, atoms.barred, signed, -slack, p.shape[0], w.found
    )
    excess = excess_sq = 0.0
    count = i = 0
    for a in range(n_close):
        j = w.found[a]
        while i < m and w.atom[w.pos[i]] < j:
            i += 1
        if i < m and w.atom[w.pos[i]] == j:
            continue
        s = _dot(atoms.x[j], w.r)
        v = (abs(s) if signed else s) - shift * atoms.weight[j]
        if v > 0.0:
            excess = max(excess, v)
            if atoms.ridge[j] > 0.0:
                excess_sq += v * v / atoms.ridge[j]
        if v > vtol:
            w.found[count] = j
            count += 1
    return count, max(on_support, excess), _gap(w, m, shift, atoms, y, signed, excess, excess_sq)


@njit(**_OPTIONS)
def _load(i, state, w):
    """Put a stored support into the scratch."""
    m = state.size[i]
    for a in range(m):
        w.atom[a], w.pos[a] = state.index[i, a], a
        w.c[a] = w.z[a] = state.value[i, a]
        w.b[a], w.exact[a] = state.corr[i, a], True
        w.sign[a] = 1.0 if w.c[a] >= 0 else -1.0
        w.have[a] = False
    return m


@njit(**_OPTIONS)
def _improve(i, state, w, n_new, p, unit, corr_row, shift, atoms, y, signed, vtol, sweeps, noise):
    """Solve the working set (support + new atoms) and store the result; STUCK when nothing was gained.

    Without sweeps the new atoms start inside the passive set.
    """
    size = state.size[i]
    if size + n_new > w.atom.shape[0]:
        return GROW
    stored = atoms.gram.shape[0] > 0
    use_row = stored and sweeps > 0
    index, value, corr = state.index[i], state.value[i], state.corr[i]
    n = _merge(index, value, corr, size, w, n_new, p, unit, y, corr_row, atoms.x, use_row, signed)
    if not stored:
        _fill_full(atoms.x, w, n)
    if sweeps > 0:
        _descend(w, n, atoms, shift, signed, sweeps, 1e-3)
    else:
        for a in range(n):
            if w.c[a] == 0.0:
                w.c[a] = 1e-300 * w.sign[a]
    m = _pivot_blocks(w, n, shift, atoms, y, signed, 12, noise)
    before = state.objective[i]
    least = 1e-15 * (1.0 + abs(before)) if before < np.inf else 0.0
    objective = _value(w, m, shift, atoms) if m >= 0 else np.inf
    if not objective < before - least:
        n = _merge(index, value, corr, size, w, n_new, p, unit, y, corr_row, atoms.x, False, signed)
        m = _lawson_hanson(w, n, shift, atoms, y, signed, vtol)
        objective = _value(w, m, shift, atoms)
        if not objective < before - least:
            return STUCK
    if m > state.index.shape[1]:
        return GROW
    for k in range(m):
        a = w.pos[k]
        index[k], value[k], corr[k] = w.atom[a], w.z[k], w.b[a]
    state.size[i] = m
    state.objective[i] = objective
    return RUNNING


@njit(**_OPTIONS)
def _polish(i, state, w, m, shift, atoms, y):
    """Refine the code against the features, keep it feasible; (max|gradient|, l1 distance moved)."""
    worst = _refine(w, m, shift, atoms, y)
    moved = 0.0
    clipped = False
    for a in range(m):
        moved += abs(w.z[a] - state.value[i, a])
        if w.z[a] * w.sign[w.pos[a]] < 0.0:
            worst = max(worst, abs(w.z[a]))
            moved += abs(w.z[a])
            w.z[a] = 0.0
            clipped = True
        state.value[i, a] = w.z[a]
    if clipped:
        _residual(w, m, atoms.x, y)
    return worst, moved


@njit(**_OPTIONS)
def _reach(state, i):
    reach = 0.0
    for a in range(state.size[i]):
        reach += abs(state.value[i, a])
    return reach


@njit(**_OPTIONS)
def warm_start(rows, queries, shifts, state, status, w, atoms, signed):
    """Replace the stored codes (an x0) by the optimum on their support."""
    dummy = w.price
    dummy[:] = 0.0
    for q in range(rows.shape[0]):
        i = rows[q]
        y = queries[i]
        if state.size[i] == 0:
            status[i] = RUNNING
            continue
        for a in range(state.size[i]):
            state.corr[i, a] = _dot(atoms.x[state.index[i, a]], y)
        state.objective[i] = np.inf
        status[i] = _improve(i, state, w, 0, dummy, 1.0, dummy, shifts[i], atoms, y, signed, 1e-13, 0, 1e-6)
        if status[i] == RUNNING:
            _refine(w, state.size[i], shifts[i], atoms, y)
            state.residual[i] = w.r


@njit(**_OPTIONS)
def solve_with_gram(rows, corr, queries, shifts, state, status, w, atoms, signed, tols, limits):
    """Run each listed query to its end, pricing through the Gram matrix."""
    tol, vtol_min = tols
    k_new, sweeps, max_iter = limits
    d = queries.shape[1]
    p = w.price
    for q in range(rows.shape[0]):
        i = rows[q]
        y, shift = queries[i], shifts[i]
        status[i] = RUNNING
        while status[i] == RUNNING:
            m = state.size[i]
            reach = _reach(state, i)
            bound = EPS32 * 1.05 * ((d + 10) + (m + 10) * reach + 4.0 * shift)
            vtol = max(vtol_min, 2e-15 * (1.0 + reach))
            _price_with_gram(p, corr[i], atoms.gram32, state.index[i], state.value[i], m)
            state.n_iter[i] += 1
            limit = max(k_new, m // 2)
            n_new = _candidates(p, shift, atoms.weight32, atoms.barred, signed, bound, limit, w.found)
            trials = sweeps
            if n_new == 0:
                _load(i, state, w)
                if _factor(w, m, 0, atoms) < m:
                    status[i] = STUCK
                    break
                worst, moved = _polish(i, state, w, m, shift, atoms, y)
                slack = bound + 1.05 * moved
                n_new, state.violation[i], state.gap[i] = _certify(
                    w, m, p, 1.0, slack, shift, atoms, y, signed, vtol, worst
                )
                trials = 0
                if n_new == 0:
                    status[i] = DONE if state.violation[i] <= tol else STUCK
                    break
            if state.n_iter[i] > max_iter:
                status[i] = EXHAUSTED
                break
            status[i] = _improve(
                i, state, w, n_new, p, 1.0, corr[i], shift, atoms, y, signed, vtol, trials, 4.0 * bound
            )
            if status[i] == STUCK and trials == 0 and state.violation[i] <= tol:
                status[i] = DONE


@njit(**_OPTIONS)
def solve_round(rows, prices, queries, shifts, state, status, w, atoms, signed, tols, limits):
    """One round for each listed query, whose residual over its norm was priced in ``prices``."""
    tol, vtol_min = tols
    k_new, sweeps, max_iter = limits
    d = queries.shape[1]
    for q in range(rows.shape[0]):
        i = rows[q]
        y, shift, p = queries[i], shifts[i], prices[q]
        m = _load(i, state, w)
        w.r[:] = state.residual[i]
        unit = np.sqrt(_dot(w.r, w.r))
        reach = _reach(state, i)
        bound = EPS32 * 1.05 * ((d + 10) + 4.0 * shift / max(unit, 1e-300))
        vtol = max(vtol_min, 2e-15 * (1.0 + reach))
        state.n_iter[i] += 1
        n_new, trials = 0, sweeps
        if unit > 1e-300:
            scaled = shift / unit
            limit = max(k_new, m // 2)
            n_new = _candidates(p, scaled, atoms.weight32, atoms.barred, signed, bound, limit, w.found)
        if n_new == 0 or unit <= vtol:
            worst = 0.0
            for a in range(m):
                j = w.atom[a]
                w.t[a] = _dot(atoms.x[j], w.r) - shift * atoms.weight[j] * w.sign[a] - atoms.ridge[j] * w.z[a]
                worst = max(worst, abs(w.t[a]))
            n_new, state.violation[i], state.gap[i] = _certify(
                w, m, p, max(unit, 1e-300), bound, shift, atoms, y, signed, max(vtol, unit * 1e-14), worst
            )
            trials = 0
            if n_new == 0 or unit <= vtol:
                status[i] = DONE if state.violation[i] <= tol else STUCK
                continue
        if state.n_iter[i] > max_iter:
            status[i] = EXHAUSTED
            continue
        noise = 4.0 * bound * unit
        status[i] = _improve(i, state, w, n_new, p, unit, p, shift, atoms, y, signed, vtol, trials, noise)
        if status[i] == RUNNING:
            _polish(i, state, w, state.size[i], shift, atoms, y)
            state.residual[i] = w.r
        elif status[i] == STUCK and trials == 0 and state.violation[i] <= tol:
            status[i] = DONE
        if status[i] == GROW:
            state.n_iter[i] -= 1
