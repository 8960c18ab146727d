"""Compiled loops over the atoms of one query at a time; none of them calls another library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from residuum.system.compiling import KEPT

_MAX_ITER = 100  # of conjugate gradients
_MARGIN = 0.01  # atoms whose price is negative by no more than this part of the largest may still join P
_OPTIONS: dict[str, Any] = {"cache": KEPT, "nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**_OPTIONS)
def relax(state: Any, size_weight: Any, sign_weight: Any, part: Any, last: bool) -> None:
    """``s <- part + size_weight |s| + sign_weight s``; `part` is overwritten by |s|, at last by max(s, 0)."""
    for i in range(state.shape[0]):
        for j in range(state.shape[1]):
            s = part[i, j] + size_weight * abs(state[i, j]) + sign_weight * state[i, j]
            state[i, j] = s
            part[i, j] = max(s, np.float32(0)) if last else abs(s)


@njit(**_OPTIONS)
def _normal_product(atoms: Any, index: Any, prices: Any, vector: Any, changes: Any, out: Any) -> None:
    """Write ``x_j'v`` to the changes and add ``sum x_j (x_j'v)`` over positive prices to out.

    Each atom is read once, and four at a time keep the arithmetic units busy.
    """
    count, n_features, zero = len(index), len(vector), np.float32(0)
    whole = count - count % 4
    for a in range(0, whole, 4):
        x0, x1 = atoms[index[a]], atoms[index[a + 1]]
        x2, x3 = atoms[index[a + 2]], atoms[index[a + 3]]
        t0 = t1 = t2 = t3 = zero
        for k in range(n_features):
            t0 += x0[k] * vector[k]
            t1 += x1[k] * vector[k]
            t2 += x2[k] * vector[k]
            t3 += x3[k] * vector[k]
        changes[a], changes[a + 1], changes[a + 2], changes[a + 3] = t0, t1, t2, t3
        t0 = t0 if prices[a] > 0 else zero
        t1 = t1 if prices[a + 1] > 0 else zero
        t2 = t2 if prices[a + 2] > 0 else zero
        t3 = t3 if prices[a + 3] > 0 else zero
        if t0 != 0 or t1 != 0 or t2 != 0 or t3 != 0:
            for k in range(n_features):
                out[k] += (t0 * x0[k] + t1 * x1[k]) + (t2 * x2[k] + t3 * x3[k])
    for a in range(whole, count):
        x0, t0 = atoms[index[a]], zero
        for k in range(n_features):
            t0 += x0[k] * vector[k]
        changes[a] = t0
        if prices[a] > 0:
            for k in range(n_features):
                out[k] += t0 * x0[k]


@njit(**_OPTIONS)
def _conjugate_gradients(
    atoms: Any, index: Any, prices: Any, metric: Any, alpha: Any, left: Any, least: Any, max_iter: int, d: Any
) -> None:
    """Find d with F(r + d) = 0 as far as the atoms ``index`` are concerned, in float32, given their prices.

    ``left`` is -F(r), and becomes -F(r + d), with a square norm in the metric M of at most ``least``. The set
    P may change on the way: a step along the conjugate direction takes P for what it was before the step, and
    then the atoms that have changed sides are put right.
    """
    n_features, zero = len(left), np.float32(0)
    direction, before = np.zeros(n_features, np.float32), np.zeros(n_features, np.float32)
    image, changes = np.empty(n_features, np.float32), np.empty(len(index), np.float32)
    previous = zero
    d[:] = 0
    for _ in range(max_iter):
        size = cross = zero
        for k in range(n_features):
            size += metric[k] * left[k] * left[k]
            cross += metric[k] * left[k] * before[k]
        if size <= least:
            return
        mix = max((size - cross) / previous, zero) if previous > 0 else zero
        slope = zero
        for k in range(n_features):
            direction[k] = metric[k] * left[k] + mix * direction[k]
            slope += direction[k] * left[k]
            before[k] = left[k]
            image[k] = 0
        previous = size
        _normal_product(atoms, index, prices, direction, changes, image)
        curvature = zero
        for k in range(n_features):
            image[k] = direction[k] / metric[k] + image[k] / alpha
            curvature += direction[k] * image[k]
        length = slope / curvature
        for k in range(n_features):
            d[k] += length * direction[k]
            left[k] -= length * image[k]
        for a in range(len(index)):
            new = prices[a] + length * changes[a]
            if (new > 0) != (prices[a] > 0):
                missing, x = abs(new) / alpha, atoms[index[a]]
                for k in range(n_features):
                    left[k] -= missing * x[k]
            prices[a] = new


@njit(**_OPTIONS)
def first_steps(
    atoms: Any, guesses: Any, metric: Any, alpha: Any, queries: Any, tol: Any, points: Any
) -> None:
    """Take every point r to F(r) = 0 as far as the atoms whose guess is positive are concerned."""
    n_features = points.shape[1]
    left, step = np.empty(n_features, np.float32), np.empty(n_features, np.float32)
    for i in range(len(points)):
        index = np.flatnonzero(guesses[i] > 0)
        prices = np.empty(len(index), np.float32)
        size = np.float32(0)
        for k in range(n_features):
            left[k] = queries[i, k] - points[i, k] / metric[k]
            size += metric[k] * queries[i, k] * queries[i, k]
        for a in range(len(index)):
            x, price = atoms[index[a]], np.float32(0)
            for k in range(n_features):
                price += x[k] * points[i, k]
            prices[a] = price
            if price > 0:
                for k in range(n_features):
                    left[k] -= price / alpha * x[k]
        _conjugate_gradients(atoms, index, prices, metric, alpha, left, tol * tol * size, _MAX_ITER, step)
        points[i] += step


@njit(**_OPTIONS)
def newton_steps(
    atoms: Any, prices: Any, metric: Any, alpha: Any, scales: Any, lefts: Any, tols: Any, steps: Any
) -> None:
    """Write the Newton step of every query, which takes only some atoms into account.

    They are those whose price is positive, or negative by little. Lefts (-F) and steps are divided by the
    scales.
    """
    n_atoms = prices.shape[1]
    index, some = np.empty(n_atoms, np.int64), np.empty(n_atoms, np.float32)
    for i in range(len(prices)):
        threshold = -_MARGIN * max(prices[i].max(), 0.0)
        count = 0
        for positive in (True, False):  # side by side, so that whole blocks of the others can be skipped
            for j in range(n_atoms):
                if prices[i, j] > (0.0 if positive else threshold) and (positive or prices[i, j] <= 0):
                    index[count], some[count] = j, prices[i, j] / scales[i]
                    count += 1
        size = np.float32(0)
        for k in range(len(metric)):
            size += metric[k] * lefts[i, k] * lefts[i, k]
        least = tols[i] * tols[i] * size
        _conjugate_gradients(
            atoms, index[:count], some[:count], metric, alpha, lefts[i], least, _MAX_ITER, steps[i]
        )


@njit(**_OPTIONS)
def _slope(prices: Any, change: Any, length: float, l2: float, w: float) -> tuple[float, float]:
    """``sum_j (phi(q + t dq) - phi(q)) dq`` and its derivative by t, at the length t."""
    slope = second = 0.0
    for j in range(len(prices)):
        q, dq = prices[j], change[j]
        new = q + length * dq
        weight = l2 if new > 0 else w
        second += dq * dq / weight
        if (q > 0) == (new > 0):
            slope += length * dq * dq / weight
        else:
            slope += (new / weight - q / (w if new > 0 else l2)) * dq
    return slope, second


@njit(**_OPTIONS)
def step_lengths(prices: Any, changes: Any, slopes: Any, squares: Any, l2: float, w: float, out: Any) -> None:
    """Write the t that minimises the dual function along each step, where its derivative vanishes:

        slope + t ||d||^2 + sum_j (phi(q_j + t dq_j) - phi(q_j)) dq_j = 0,

    an increasing, piecewise linear function of t: Newton's method, kept between the bounds known so far.
    """
    for i in range(len(prices)):
        low, high, length = 0.0, np.inf, 1.0
        for _ in range(60):
            rest, second = _slope(prices[i], changes[i], length, l2, w)
            value = slopes[i] + length * squares[i] + rest
            if value > 0:
                high = length
            else:
                low = length
            second += squares[i]
            new = length - value / second if second > 0 else length
            if not low <= new <= high:
                new = (low + min(high, 2 * max(length, 1.0))) / 2
            moved = abs(new - length)
            length = new
            if moved <= 1e-6 * length:
                break
        out[i] = length


@njit(**_OPTIONS)
def advance(prices: Any, changes: Any, lengths: Any, l2: float, w: float) -> None:
    """Add the steps to the prices q; the changes are overwritten by the codes phi(q)."""
    for i in range(len(prices)):
        for j in range(prices.shape[1]):
            q = prices[i, j] + lengths[i] * changes[i, j]
            prices[i, j] = q
            changes[i, j] = q / l2 if q > 0 else q / w


@njit(**_OPTIONS)
def correct_codes(
    prices: Any,
    inner: Any,
    alpha: float,
    l2: float,
    w: float,
    rounding: float,
    longest: float,
    gap: Any,
    violation: Any,
) -> None:
    """Overwrite the prices q by the codes ``max(q, 0)/alpha + X'r/w`` and certify them, given X'r."""
    for i in range(len(prices)):
        for j in range(prices.shape[1]):
            prices[i, j] = max(prices[i, j], 0.0) / alpha + inner[i, j] / w
    certify(prices, inner, l2, w, rounding, longest, gap, violation)


@njit(**_OPTIONS)
def certify(
    codes: Any, inner: Any, l2: float, w: float, rounding: float, longest: float, gap: Any, violation: Any
) -> None:
    """Write primal minus dual value and the largest entry of the half gradient, given X'r with r = y - Xc.

    Because ``r - y = -Xc``, the gap is ``sum_j w(c_j) c_j^2 - 2 c_j x_j'r + (x_j'r)^2 / w(x_j'r)``. No term
    is negative, so nothing cancels, and gaps far below the rounding of the objective can be told. What the
    products x_j'r may be wrong by, ``rounding * longest * max(1, longest * ||c||_1)`` each where no norm of
    an atom exceeds `longest`, is added: a term is a square over l2.
    """
    for i in range(len(codes)):
        total = largest = size = 0.0
        for j in range(codes.shape[1]):
            c, q = codes[i, j], inner[i, j]
            size += abs(c)
            slope = (l2 if c > 0 else w) * c - q
            largest = max(largest, abs(slope))
            if (c > 0) == (q > 0):
                total += slope * slope / (l2 if c > 0 else w)
            else:
                total += (l2 if c > 0 else w) * c * c - 2 * c * q + q * q / (l2 if q > 0 else w)
        error = rounding * longest * max(longest * size, 1.0) * np.sqrt(codes.shape[1] / l2)
        gap[i], violation[i] = (np.sqrt(total) + error) ** 2, largest
