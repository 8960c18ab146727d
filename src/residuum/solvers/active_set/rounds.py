"""The rounds of one query: price all atoms, solve the working set, certify.

The steps and their formulas are in the docstring of the package.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg  # noqa: F401  loads the BLAS that compiled np.dot calls, so that its threads can be limited
from numba import njit

from .kernels import (
    COARSE,
    FINE,
    INNER,
    OPTIONS,
    STEP,
    Rows,
    Scratch,
    correlation,
    descend,
    dot,
    factor,
    gram_from_features,
    passive_gradient,
    passive_objective,
    passive_residual,
    pivot_blocks,
    refine,
)
from .single import pivot_singly

# What has become of a query.
DONE, RUNNING, GROW, STUCK, EXHAUSTED = range(5)
# What `run` does with it: put a warm start in order, go on to the optimum, do one round, or certify it as it is.
WARM, TO_THE_END, ONE_ROUND, CERTIFY = range(4)

EPS32 = 6.0e-8  # unit roundoff of float32, rounded up
TYPICAL = 4.0e-8  # times sqrt(n_features): the rounding error to expect of a float32 price, below its bound
ROUNDING = 1e-15  # of an objective near 1
UNKNOWN = 1e300  # an objective or a gradient that has not been computed
COARSE_ROUNDS = 40  # after so many rounds a query goes on in float64
REACH = (
    10.0  # where no dual point can be made feasible, the gap covers codes with an l1 norm this much larger
)


class Atoms(NamedTuple):
    """The dictionary as the kernels see it."""

    x: Rows
    gram32: np.ndarray  # (n_atoms, n_atoms) float32, or (0, 0)
    weight: np.ndarray  # (n_atoms,) float64: shift_j = weight_j * (shift of the query), at least 1 if l1 > 0
    weight32: np.ndarray  # the same in float32
    barred: np.ndarray  # (n_atoms,) float32: inf for atoms that never enter (zero, duplicate), else 0
    ridge: np.ndarray  # (n_atoms,) float64
    inner: np.ndarray  # (n_features,) float64 with X'inner >= 1, or empty


# What is known of one query besides its support.
STATE = np.dtype(
    [
        ("shift", np.float64),
        ("size", np.int64),  # atoms in the support
        ("objective", np.float64),  # minus ||y||^2
        ("violation", np.float64),
        ("gap", np.float64),
        ("n_iter", np.int64),
        ("status", np.int64),
        ("fine", np.bool_),  # whether its working sets are solved in float64
        ("settle", np.bool_),  # whether its next round certifies without looking for atoms in float32
    ],
    align=True,
)


class Queries(NamedTuple):
    """Queries of unit norm with their codes; a support is in ascending order."""

    y: np.ndarray  # (n, n_features) float64
    residual: np.ndarray  # (n, n_features) float64
    atom: np.ndarray  # (n, capacity) int32: the support
    value: np.ndarray  # (n, capacity) float64: the codes on it
    state: np.ndarray  # (n,) of STATE


class Query(NamedTuple):
    """One of them."""

    y: np.ndarray
    residual: np.ndarray
    atom: np.ndarray
    value: np.ndarray
    state: np.ndarray  # (1,)


class Limits(NamedTuple):
    """What ends a query, and how fast its working set grows."""

    signed: bool
    tol: float  # violation of a query that counts as converged
    entry: float  # least violation of an atom that enters in float64
    first: int  # new atoms in the first round
    more: int  # new atoms in later rounds
    sweeps: int  # of coordinate descent
    max_iter: int


class Task(NamedTuple):
    """All that the steps of one query need."""

    atoms: Atoms
    query: Query
    work: Scratch
    limits: Limits


class Prices(NamedTuple):
    """Prices x_j'r / unit of all atoms in float32, and how far they can be trusted."""

    p: np.ndarray  # (n_atoms,) float32
    unit: float
    shift: float  # shift of the query / unit
    bound: float  # of the rounding error
    likely: float  # rounding error to expect
    entry: float  # least violation, not divided by unit, of an atom that enters in float64


@njit(**INNER)
def _price_with_gram(p, corr, gram32, index, value, size):
    """Prices p = X'y - Gc in float32, four rows of G at a time."""
    n = p.shape[0]
    for j in range(n):
        p[j] = corr[j]
    a = 0
    while a + 4 <= size:
        g0, g1, g2, g3 = gram32[index[a]], gram32[index[a + 1]], gram32[index[a + 2]], gram32[index[a + 3]]
        c0, c1 = np.float32(value[a]), np.float32(value[a + 1])
        c2, c3 = np.float32(value[a + 2]), np.float32(value[a + 3])
        for j in range(n):
            p[j] -= (c0 * g0[j] + c1 * g1[j]) + (c2 * g2[j] + c3 * g3[j])
        a += 4
    while a < size:
        g0, c0 = gram32[index[a]], np.float32(value[a])
        for j in range(n):
            p[j] -= c0 * g0[j]
        a += 1


@njit(**INNER)
def _prices(task, mode, given):
    """Prices of all atoms: from X'y and the Gram matrix to the end, else those of the residual as given."""
    query = task.query
    size, shift, d = query.state[0].size, query.state[0].shift, query.y.shape[0]
    reach = 0.0
    for a in range(size):
        reach += abs(query.value[a])
    likely = TYPICAL * np.sqrt(d) * (1.0 + reach)
    entry = max(task.limits.entry, 2e-15 * (1.0 + reach))
    if mode == TO_THE_END:
        p, unit = task.work.price, 1.0
        _price_with_gram(p, given, task.atoms.gram32, query.atom, query.value, size)
        bound = EPS32 * 1.05 * ((d + 10) + (size + 10) * reach + 4.0 * shift)
    else:
        p, unit = given, max(1e-300, np.sqrt(dot(query.residual, query.residual)))
        bound = EPS32 * 1.05 * ((d + 10) + 4.0 * shift / unit)
    return Prices(p, unit, shift / unit, bound, likely, entry)


@njit(**INNER)
def _count_above(v, cut):
    count = np.int32(0)
    for j in range(v.shape[0]):
        count += np.int32(v[j] > cut)
    return count


@njit(**INNER)
def _raise_cut(v, low, limit):
    """A cut above ``low`` that nearly ``limit`` entries exceed, by bisection."""
    top = low
    for j in range(v.shape[0]):
        top = max(top, v[j])
    high = top
    for _ in range(14):
        middle = np.float32(0.5) * (low + high)
        count = _count_above(v, middle)
        if count > limit:
            low = middle
        else:
            high = middle
            if 4 * count >= 3 * limit:
                break
    return high if high < top else low


@njit(**INNER)
def _list_above(v, cut, limit, found):
    """The first ``limit`` entries above the cut, ascending; blocks without any are skipped quickly."""
    n, count = v.shape[0], 0
    for start in range(0, n, 32):
        stop = min(start + 32, n)
        if _count_above(v[start:stop], cut) > 0:
            for j in range(start, stop):
                if v[j] > cut and count < limit:
                    found[count] = j
                    count += 1
    return count


@njit(**INNER)
def _candidates(task, prices, threshold, limit):
    """Atoms outside the support whose price exceeds the shift by more than the threshold; their number.

    They are listed in ``found``, ascending; if more than ``limit`` do, only about so many, the best.
    """
    p, v, found = prices.p, task.work.excess, task.work.found
    weight32, barred = task.atoms.weight32, task.atoms.barred
    n, h = p.shape[0], np.float32(prices.shift)
    if task.limits.signed:
        for j in range(n):
            v[j] = abs(p[j]) - h * weight32[j] - barred[j]
    else:
        for j in range(n):
            v[j] = p[j] - h * weight32[j] - barred[j]
    index = task.query.atom
    for a in range(task.query.state[0].size):
        v[index[a]] = -np.inf
    cut = np.float32(threshold)
    count = _count_above(v, cut)
    if count > limit:
        cut = _raise_cut(v, cut, limit)
    return _list_above(v, cut, limit, found) if count > 0 else 0


@njit(**INNER)
def _set_member(task, a, j, code, new):
    """Make atom j with its code member a of the working set."""
    task.work.atom[a], member = j, task.work.member[a]
    member.code, member.sign = code, -1.0 if code < 0.0 else 1.0
    member.shift = task.query.state[0].shift * task.atoms.weight[j]
    member.ridge, member.new, member.have = task.atoms.ridge[j], new, False


@njit(**INNER)
def _load_support(task):
    """Put the stored support into the scratch, as working set and as passive set."""
    query = task.query
    for a in range(query.state[0].size):
        j, c = query.atom[a], query.value[a]
        _set_member(task, a, j, c, False)
        task.work.pos[a], task.work.z[a] = a, c


@njit(**INNER)
def _polish(task):
    """Refine a stored code against the features and keep it feasible: (max|gradient|, l1 distance moved).

    The gradient is UNKNOWN where the code is too inaccurate to be refined as it is.
    """
    query, x, work = task.query, task.atoms.x, task.work
    y, value, m, fine = query.y, query.value, query.state[0].size, query.state[0].fine
    _load_support(task)
    if fine:
        gram_from_features(work, m, x, y)
    if factor(work, m, m, np.int64(0), task.atoms.gram32, FINE if fine else COARSE) < m:
        return UNKNOWN, 0.0
    worst = refine(work, m, x, y)
    moved, wrong = 0.0, 0.0
    for a in range(m):
        if work.z[a] * work.member[a].sign < 0.0:
            wrong = max(wrong, abs(work.z[a]))
            work.z[a] = 0.0
        moved += abs(work.z[a] - value[a])
    if wrong > 0.0:
        if not fine:
            return UNKNOWN, 0.0
        passive_residual(work, m, x, y, work.r)
        worst = max(wrong, passive_gradient(work, m, x))
    for a in range(m):
        value[a] = work.z[a]
    return worst, moved


@njit(**INNER)
def _duality_gap(task, excess, penalty):
    """Duality gap at the code in the scratch, whose residual is in ``r`` and gradient in ``t``.

    The dual is to maximise 2 s'y - ||s||^2 - sum_j (x_j's - shift_j)_+^2 / ridge_j, where the sum means the
    constraint x_j's <= shift_j if ridge_j = 0. ``excess`` is the largest x_j'r - shift_j off the support and
    ``penalty`` the sum of their squares over ridge_j.
    """
    work, inner, signed = task.work, task.atoms.inner, task.limits.signed
    y, r, shift = task.query.y, work.r, task.query.state[0].shift
    rr, ry = dot(r, r), dot(r, y)
    primal, scale, over, reach, slack = rr, 1.0, max(excess, 0.0), 0.0, 0.0
    for a in range(task.query.state[0].size):
        h, ridge, z, t = work.member[a].shift, work.member[a].ridge, work.z[a], work.t[a]
        primal += ridge * z * z + 2.0 * h * abs(z)
        miss = t * work.member[a].sign + ridge * abs(z)  # sign * x_j'r - shift_j
        slack += abs(t * z)
        reach += abs(z)
        if ridge > 0.0:
            penalty += max(miss, 0.0) ** 2 / ridge
        over = max(over, abs(miss) if signed and h == 0.0 else miss)
        if miss > 0.0:
            scale = min(scale, h / (h + miss))
    if task.atoms.ridge[0] > 0.0:
        gap = primal - (2.0 * ry - rr - penalty)
    elif shift > 0.0:  # no shift of an atom lies below that of the query
        scale = min(scale, shift / (shift + max(excess, 0.0)))
        gap = primal - (2.0 * scale * ry - scale * scale * rr)
    elif inner.shape[0] > 0 and not signed:
        uy, ur, uu = dot(inner, y), dot(inner, r), dot(inner, inner)
        gap = 2.0 * rr - 2.0 * ry + over * (2.0 * uy - 2.0 * ur + over * uu)
    else:
        gap = 2.0 * slack + 2.0 * over * REACH * max(reach, 1.0)
    return max(0.0, min(primal, gap))  # the dual point zero is always feasible


@njit(**INNER)
def _certify(task, prices, slack, on_support):
    """Price in float64 the atoms that float32 cannot clear; store violation and gap.

    Returns the number of atoms that violate optimality; they are left in ``found``.
    """
    state, atoms, found, r = task.query.state[0], task.atoms, task.work.found, task.work.r
    excess, penalty, count = 0.0, 0.0, 0
    for a in range(_candidates(task, prices, -slack, prices.p.shape[0])):
        j = found[a]
        s = correlation(atoms.x, j, r)
        over = (abs(s) if task.limits.signed else s) - state.shift * atoms.weight[j]
        if over > 0.0:
            excess = max(excess, over)
            if atoms.ridge[j] > 0.0:
                penalty += over * over / atoms.ridge[j]
        if over > prices.entry:
            found[count] = j
            count += 1
    state.violation = max(on_support, excess)
    state.gap = _duality_gap(task, excess, penalty)
    return count


@njit(**INNER)
def _go_fine(state):
    """Solve the working sets of this query in float64 from now on."""
    state.fine, state.objective = True, UNKNOWN


@njit(**STEP)
def _conclude(task, prices):
    """End the query if its refined code is optimal, or if it cannot be improved; else the new atoms found."""
    state, n_new = task.query.state[0], 0
    worst, moved = _polish(task)
    if worst < UNKNOWN:
        n_new = _certify(task, prices, prices.bound + 1.05 * moved / prices.unit, worst)
        optimal = state.violation <= task.limits.tol
        if n_new == 0 and (optimal or state.fine):
            state.status = DONE if optimal else STUCK
    elif state.fine and state.objective < UNKNOWN:
        state.status = STUCK
    if state.status == RUNNING and not state.fine:
        _go_fine(state)
    return n_new


@njit(**INNER)
def _merge(task, n_new):
    """Working set = support + new atoms, ascending; its size."""
    index, value, size = task.query.atom, task.query.value, task.query.state[0].size
    found = task.work.found
    a = b = n = 0
    while a < size or b < n_new:
        old = b >= n_new or (a < size and index[a] <= found[b])
        if old:
            j, c = index[a], value[a]
            a += 1
        else:
            j, c = found[b], 0.0
            b += 1
        _set_member(task, n, j, c, not old)
        n += 1
    return n


@njit(**INNER)
def _guess_support(task, n, prices, sweeps):
    """Codes whose support and signs pivoting starts from; without sweeps the new atoms are all in it."""
    work, signed, p = task.work, task.limits.signed, prices.p
    if sweeps > 0:
        for a in range(n):
            work.g[a] = p[work.atom[a]] * prices.unit
        descend(work, n, task.atoms.gram32, signed, sweeps)
    else:
        for a in range(n):
            if work.member[a].new:
                work.member[a].code = -1e-300 if signed and p[work.atom[a]] < 0.0 else 1e-300


@njit(**INNER)
def _restore_codes(task, n):
    """Give the working set the stored codes again."""
    query, work = task.query, task.work
    k = 0
    for a in range(n):
        work.member[a].code = 0.0
        if k < query.state[0].size and work.atom[a] == query.atom[k]:
            work.member[a].code = query.value[k]
            k += 1


@njit(**INNER)
def _store(task, m, objective):
    """Store the passive set as the support, if there is room for it."""
    query, state, work = task.query, task.query.state[0], task.work
    if m > query.atom.shape[0]:
        state.status = GROW
        return
    for k in range(m):
        query.atom[k], query.value[k] = work.atom[work.pos[k]], work.z[k]
    state.size, state.objective = m, objective


@njit(**STEP)
def _improve(task, prices, b32, n_new, sweeps):
    """Solve the working set, support + new atoms, and store it; STUCK if the objective did not fall.

    While the query is coarse, b and the Gram matrix are in float32 and the objective is not watched.
    """
    query, state, atoms, work = task.query, task.query.state[0], task.atoms, task.work
    signed = task.limits.signed
    if state.size + n_new > work.member.shape[0]:
        state.status = GROW
        return
    n, fine = _merge(task, n_new), state.fine
    if fine:
        gram_from_features(work, n, atoms.x, query.y)
    else:
        for a in range(n):
            work.member[a].b = b32[work.atom[a]]
    _guess_support(task, n, prices, sweeps)
    threshold = prices.likely * prices.unit
    m = pivot_blocks(work, n, atoms.gram32, FINE if fine else COARSE, signed, threshold)
    objective = passive_objective(work, m) if m >= 0 else UNKNOWN
    if fine:
        limit = state.objective
        if limit < UNKNOWN:
            # A certified violation may lower the objective by less than its rounding; for a while it may.
            patient = sweeps == 0 and state.n_iter <= COARSE_ROUNDS
            limit += (ROUNDING if patient else -ROUNDING) * (1.0 + abs(limit))
        if objective >= limit:
            _restore_codes(task, n)
            m = pivot_singly(work, n, atoms.gram32, signed)
            objective = passive_objective(work, m)
            if objective >= limit:
                m = -1
    if m < 0:
        state.status = STUCK
    else:
        _store(task, m, objective)


@njit(**STEP)
def _choose(task, prices):
    """New atoms for the working set: (their number, sweeps of coordinate descent to begin with).

    They are those of best price in float32. If there are none, the code is certified: then they are those that
    violate optimality in float64, or the query ends.
    """
    state, limits = task.query.state[0], task.limits
    if prices.unit > prices.entry and not state.settle:
        limit = max(limits.more if state.size > 0 else limits.first, state.size // 2)
        n_new = _candidates(task, prices, prices.likely, limit)
        if n_new > 0:
            return n_new, limits.sweeps
    return _conclude(task, prices), 0


@njit(**STEP)
def _after_failure(task, sweeps):
    """Decide how to go on after a working set that did not lower the objective."""
    state = task.query.state[0]
    if not state.fine:
        _go_fine(state)
        state.settle, state.status = True, RUNNING
    elif sweeps > 0:
        state.settle, state.status = True, RUNNING
    elif state.violation <= task.limits.tol:
        state.status = DONE


@njit(**STEP)
def _round(task, mode, given):
    """Price all atoms, then improve the code with the best of them or conclude that there is none.

    For a warm start there are no new atoms: its code is made optimal on its own support.
    """
    state = task.query.state[0]
    if state.n_iter == COARSE_ROUNDS and not state.fine:
        _go_fine(state)
        state.settle = True
    prices = _prices(task, mode, given)
    n_new, sweeps = 0, 0
    if mode == WARM:
        state.objective = UNKNOWN
    else:
        state.n_iter += 1
        n_new, sweeps = _choose(task, prices)
    if state.status == RUNNING and state.n_iter > task.limits.max_iter:
        state.status = EXHAUSTED
    if state.status != RUNNING:
        return
    _improve(task, prices, given, n_new, sweeps)
    if state.status == RUNNING:
        state.settle = False
    elif state.status == STUCK and mode != WARM:
        _after_failure(task, sweeps)
    elif state.status == GROW and mode != WARM:
        state.n_iter -= 1


@njit(**STEP)
def _certify_as_it_is(task, given):
    """Violation and gap of a stored code, without refining it."""
    work, x, m = task.work, task.atoms.x, task.query.state[0].size
    _load_support(task)
    passive_residual(work, m, x, task.query.y, work.r)
    worst = passive_gradient(work, m, x)
    everything = 1e30  # no price clears an atom
    _certify(task, Prices(given, 1.0, 0.0, 0.0, 0.0, task.limits.entry), everything, worst)


@njit(**INNER)
def _make_task(atoms, queries, work, limits, i):
    """All that the steps of query i need."""
    arrays = (queries.y[i], queries.residual[i], queries.atom[i], queries.value[i])
    return Task(atoms, Query(*arrays, queries.state[i : i + 1]), work, limits)


@njit(**OPTIONS)
def run(atoms, queries, work, limits, mode, rows, prices):
    """Advance the listed queries: TO_THE_END (prices are X'y), ONE_ROUND (X'r / ||r||), WARM or CERTIFY (zero).

    A query that needs more room than there is has the status GROW afterwards.
    """
    for k in range(rows.shape[0]):
        task = _make_task(atoms, queries, work, limits, rows[k])
        query, state = task.query, task.query.state[0]
        state.status, state.settle, state.fine = RUNNING, False, mode != TO_THE_END
        while state.status == RUNNING:
            if state.size > work.member.shape[0]:
                state.status = GROW
            elif mode == CERTIFY:
                _certify_as_it_is(task, prices[k])
            else:
                _round(task, mode, prices[k])
            if mode != TO_THE_END and not state.settle:
                break
        if mode != TO_THE_END and state.status == RUNNING:
            _load_support(task)
            passive_residual(work, state.size, atoms.x, query.y, query.residual)
