"""Compiled loops over the atoms of a block, for SoftNRC over shards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from residuum.system.compiling import KEPT

_OPTIONS: dict[str, Any] = {"cache": KEPT, "nogil": True, "fastmath": {"contract", "nsz"}}


@njit(**_OPTIONS)
def add_positive(prices: Any, atoms: Any, reach: Any) -> None:
    """Add ``sum_j max(q_j, 0) x_j`` to the reach of every query; few prices q are positive.

    Four atoms at a time keep the arithmetic units busy.
    """
    n_atoms, n_features = atoms.shape
    index, part = np.empty(n_atoms + 4, np.int64), np.empty(n_features, atoms.dtype)
    for i in range(len(prices)):
        q, count = prices[i], 0
        for j in range(n_atoms):
            index[count] = j
            count += q[j] > 0
        part[:] = 0
        whole = count - count % 4
        for a in range(0, whole, 4):
            j0, j1, j2, j3 = index[a], index[a + 1], index[a + 2], index[a + 3]
            q0, q1, q2, q3 = q[j0], q[j1], q[j2], q[j3]
            x0, x1, x2, x3 = atoms[j0], atoms[j1], atoms[j2], atoms[j3]
            for k in range(n_features):
                part[k] += (q0 * x0[k] + q1 * x1[k]) + (q2 * x2[k] + q3 * x3[k])
        for a in range(whole, count):
            q0, x0 = q[index[a]], atoms[index[a]]
            for k in range(n_features):
                part[k] += q0 * x0[k]
        if count:
            for k in range(n_features):
                reach[i, k] += part[k]


@njit(**_OPTIONS)
def _term(size: float, price: float, weight: float, inverse: float) -> float:
    """``weight s^2 - 2 s q + max(q, 0)^2 / weight`` for s >= 0, in a form that does not cancel."""
    if price > 0:
        return (weight * size - price) ** 2 * inverse
    return size * (weight * size - 2 * price)


@njit(**_OPTIONS)
def finish(prices: Any, inner: Any, tau: Any, alpha: float, l2: float, w: float, figures: Any) -> None:
    """Overwrite the prices q of a point by the codes ``c = max(q, 0)/alpha + X'r/w``, given the inner X'r.

    Figures are added for every query: ``sum |c_j|``, ``sum c_j^2``, the terms of the duality gap at most for
    inner products that are wrong by tau, and the largest entry of the half gradient.
    """
    step, inverse_w = 1 / alpha, 1 / w
    positive, negative = (l2, 1 / l2), (w, inverse_w)  # weights of codes and their inverses
    for i in range(len(prices)):
        size = energy = terms = largest = 0.0
        for j in range(prices.shape[1]):
            p = np.float64(inner[i, j])
            prices[i, j] = max(np.float64(prices[i, j]), 0.0) * step + p * inverse_w
            c = np.float64(prices[i, j])
            # The part of the code that has its sign, and the other part, which is 0.
            own, other = (positive, negative) if c > 0 else (negative, positive)
            s, q = (c, p) if c > 0 else (-c, -p)
            size += s
            energy += s * s
            largest = max(largest, abs(own[0] * s - q))
            terms += max(_term(s, q - tau[i], *own), _term(s, q + tau[i], *own))
            terms += max(tau[i] - q, 0.0) ** 2 * other[1]
        figures[0, i] += size
        figures[1, i] += energy
        figures[2, i] += terms
        figures[3, i] = max(figures[3, i], largest)
