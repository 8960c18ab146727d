"""Solve r + X phi(X'r) = y for one query, phi(q) = q/l2 where q > 0 and q/(l2 + neg_weight) elsewhere.

The last resort: semismooth Newton in float64 with Cholesky factors and an exact line search on the convex
function whose gradient is the left side minus y. It converges from any start and whatever the conditioning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

Array = npt.NDArray[np.float64]

_STAGE_RATIO = 1e-3


def newton_exact(
    atoms: Array, shrink: Array, query: Array, *, weights: tuple[float, float, float], max_iter: int
) -> tuple[Array, int]:
    """Return the residual r that solves the equation, and the number of Newton steps.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, rank)
        In coordinates where X X' is diagonal.
    shrink : ndarray of shape (rank,)
        Diagonal of (I + X X' / (l2 + neg_weight))^-1.
    query : ndarray of shape (rank,)
        Right-hand side y.
    weights : (l2, l2 + neg_weight, alpha)
        With 1/alpha = 1/l2 - 1/(l2 + neg_weight).
    max_iter : int
        Limit on Newton steps.
    """
    _, w_neg, alpha = weights
    residual = query * shrink
    # Slopes that differ by more than a thousand make the pattern erratic far from the solution; the solution
    # for a milder slope is a start near enough. The largest eigenvalue of X'MX is below the one used here.
    stage = max(alpha, _STAGE_RATIO * w_neg * (1 - shrink.min(initial=1.0)))
    steps = 0
    while stage > alpha:
        mild = (1 / (1 / stage + 1 / w_neg), w_neg, stage)
        residual, used = _newton(atoms, shrink, query, residual, mild, max_iter - steps, settle=False)
        steps += used
        stage = max(alpha, stage * 0.1) if stage * 0.1 > 1.5 * alpha else alpha
    residual, used = _newton(atoms, shrink, query, residual, weights, max_iter - steps, settle=True)
    return residual, steps + used


def _newton(
    atoms: Array,
    shrink: Array,
    query: Array,
    r: Array,
    weights: tuple[float, float, float],
    max_iter: int,
    *,
    settle: bool,
) -> tuple[Array, int]:
    """Newton steps until the pattern repeats and, if asked to settle, refinement no longer helps."""
    l2, w_neg, alpha = weights
    best_r, best_norm = r, np.inf
    pattern: npt.NDArray[np.bool_] | None = None
    solve: Any = None
    stalled = 0
    for step in range(max_iter):
        q = atoms @ r
        positive = q > 0
        defect = r + (q / np.where(positive, l2, w_neg)) @ atoms - query
        size = float(np.linalg.norm(defect))
        same = pattern is not None and bool((positive == pattern).all())
        if same and not settle:
            return r, step
        stalled = stalled + 1 if same and size > 0.5 * best_norm else 0
        if size < best_norm:
            best_r, best_norm = r, size
        # On a settled pattern the steps are iterative refinement: two without progress mean rounding level.
        if size == 0 or stalled >= 2:
            return best_r, step
        if not same:
            pattern, solve = positive, _factor(atoms[positive], shrink, alpha)
        direction = -solve(defect)
        if not same:
            curve = (direction @ (r - query), direction @ direction)
            direction *= _line_search(q, atoms @ direction, *curve, l2, w_neg)
        r = r + direction
    return best_r if settle else r, max(max_iter, 0)


def _factor(chosen: Array, shrink: Array, alpha: float) -> Any:
    """Return v -> (diag(1/shrink) + chosen' chosen / alpha)^-1 v, factored in the smaller dimension."""
    root = np.sqrt(shrink)
    scaled = chosen * root  # (n_chosen, rank)
    n_chosen, rank = scaled.shape
    if n_chosen == 0:
        return lambda v: shrink * v
    small = n_chosen <= rank
    gram = scaled @ scaled.T if small else scaled.T @ scaled
    gram[np.diag_indices_from(gram)] += alpha
    factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
    if small:
        return lambda v: (
            shrink * v - root * (cho_solve(factor, scaled @ (root * v), check_finite=False) @ scaled)
        )
    return lambda v: root * (alpha * cho_solve(factor, root * v, check_finite=False))


def _line_search(q: Array, slope: Array, linear: float, curvature: float, l2: float, w_neg: float) -> float:
    """Return the minimiser over tau of the merit along the direction; its derivative is piecewise linear."""

    def derivative(tau: float) -> tuple[float, float]:
        at = q + tau * slope
        weight = np.where(at > 0, 1 / l2, 1 / w_neg) * slope
        return float(linear + tau * curvature + at @ weight), float(curvature + slope @ weight)

    low, high, tau = 0.0, np.inf, 1.0
    for _ in range(60):
        value, second = derivative(tau)
        if value > 0:
            high = tau
        else:
            low = tau
        new = tau - value / second
        if not low <= new <= high:
            new = (low + min(high, 2 * max(tau, 1.0))) / 2
        if abs(new - tau) <= 1e-12 * max(1.0, abs(tau)):
            return new
        tau = new
    return tau
