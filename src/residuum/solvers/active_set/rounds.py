"""The rounds of one query: price all atoms, solve the working set, certify.

The steps and their formulas are in the docstring of the package.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg  # noqa: F401  loads the BLAS that compiled np.dot calls, so that its threads can be limited
from numba import njit

from .certify import certify
from .kernels import (
    COARSE,
    FINE,
    descend,
    factor,
    gram_from_features,
    passive_gradient,
    passive_objective,
    passive_residual,
    pivot_blocks,
    refine,
)
from .pricing import candidates, compute_prices
from .single import pivot_singly
from .tables import (
    CERTIFY,
    DONE,
    EXHAUSTED,
    GROW,
    INNER,
    OPTIONS,
    RUNNING,
    STEP,
    STUCK,
    TO_THE_END,
    Prices,
    Queries,
    Task,
)

ROUNDING = 1e-15  # of an objective near 1
UNKNOWN = 1e300  # an objective or a gradient that has not been computed
COARSE_ROUNDS = 40  # after so many rounds a query goes on in float64


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
def _go_fine(state):
    """Solve the working sets of this query in float64 from now on."""
    state.fine, state.objective = True, UNKNOWN


@njit(**INNER)
def _is_optimal(task):
    """Whether the certificate fulfils what rounding allows to ask for."""
    state = task.query.state[0]
    return state.violation <= task.limits.tol and state.gap <= task.limits.tol


@njit(**STEP)
def _conclude(task, prices):
    """End the query if its refined code is optimal, or if it cannot be improved; else the new atoms found."""
    state, n_new = task.query.state[0], 0
    worst, moved = _polish(task)
    if worst < UNKNOWN:
        n_new = certify(task, prices, prices.bound + 1.05 * moved / prices.unit, worst, True)
        if n_new == 0 and _is_optimal(task):
            state.status = DONE
    if state.status == RUNNING and n_new == 0 and state.fine and state.objective < UNKNOWN:
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

    They are those of best price in float32. If there are none, the code is certified: then they are those
    that violate optimality in float64, or the query ends.
    """
    state, limits = task.query.state[0], task.limits
    if prices.unit > prices.entry and not state.settle:
        limit = max(limits.more if state.size > 0 else limits.first, state.size // 2)
        n_new = candidates(task, prices, task.atoms.barred, prices.likely, limit)
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
    elif _is_optimal(task):
        state.status = DONE


@njit(**STEP)
def _round(task, mode, given):
    """Price all atoms, then improve the code with the best of them or conclude that there is none."""
    state = task.query.state[0]
    if state.n_iter == COARSE_ROUNDS and not state.fine:
        _go_fine(state)
        state.settle = True
    prices = compute_prices(task, mode, given)
    state.n_iter += 1
    n_new, sweeps = _choose(task, prices)
    if state.status == RUNNING and state.n_iter > task.limits.max_iter:
        state.status = EXHAUSTED
    if state.status != RUNNING:
        return
    _improve(task, prices, given, n_new, sweeps)
    if state.status == RUNNING:
        state.settle = False
    elif state.status == STUCK:
        _after_failure(task, sweeps)
    elif state.status == GROW:
        state.n_iter -= 1


@njit(**STEP)
def _certify_as_it_is(task, given):
    """Violation and gap of a stored code, without refining it."""
    work, x, m = task.work, task.atoms.x, task.query.state[0].size
    _load_support(task)
    passive_residual(work, m, x, task.query.y, work.r)
    worst = passive_gradient(work, m, x)
    everything = 1e30  # no price clears an atom
    certify(task, Prices(given, 1.0, 0.0, 0.0, 0.0, task.limits.entry), everything, worst, False)


@njit(**INNER)
def _make_task(atoms, queries, work, limits, i):
    """All that the steps of query i need."""
    arrays = (queries.y[i], queries.residual[i], queries.atom[i], queries.value[i])
    return Task(atoms, Queries(*arrays, queries.state[i : i + 1]), work, limits)


@njit(**OPTIONS)
def run(atoms, queries, work, limits, mode, rows, prices):
    """Advance the listed queries in one of the modes, to which these prices belong.

    TO_THE_END takes X'y, ONE_ROUND takes X'r / ||r||, CERTIFY needs none and takes zeros.
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
