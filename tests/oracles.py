"""Slow literal loops straight from the paper's equations. They are never optimised.

Columns of X are atoms here, as in the paper; y is one query.
"""

from __future__ import annotations

import itertools

import numpy as np
from scipy.optimize import minimize


def normalised(columns):
    """Step 1 of Algorithms 1 and 3: unit l2 norm."""
    return columns / np.linalg.norm(columns, axis=0)


def algorithm_1(X_blocks, y, code):
    """Steps 3 and 4 of Algorithm 1: residuals of the classes, and the label."""
    residuals, start = [], 0
    for block in X_blocks:
        part = code[start : start + block.shape[1]]
        residuals.append(np.linalg.norm(y - block @ part))
        start += block.shape[1]
    return np.array(residuals), int(np.argmin(residuals))


def crc_code(X, y, l2):
    """``min ||y - Xc||^2 + l2 ||c||^2`` by its normal equations."""
    return np.linalg.solve(X.T @ X + l2 * np.eye(X.shape[1]), X.T @ y)


def src_code(X, y, l1, sweeps=20000):
    """``min ||y - Xc||^2 + l1 ||c||_1`` one coordinate at a time."""
    c = np.zeros(X.shape[1])
    for _ in range(sweeps):
        before = c.copy()
        for j in range(X.shape[1]):
            rest = y - X @ c + X[:, j] * c[j]
            price = X[:, j] @ rest
            c[j] = np.sign(price) * max(abs(price) - l1 / 2, 0) / (X[:, j] @ X[:, j])
        if np.abs(c - before).max() < 1e-15:
            break
    return c


def algorithm_2(X, y, rho, T):
    """The paper's ADMM: returns the iterates [(c_1, z_1), ..., (c_T, z_T)]."""
    n = X.shape[1]
    c, z, delta = np.zeros(n), np.zeros(n), np.zeros(n)
    iterates = []
    for _ in range(T):
        c = np.linalg.inv(X.T @ X + rho / 2 * np.eye(n)) @ (X.T @ y + rho / 2 * z + 0.5 * delta)  # Eq. 8
        z = np.maximum(0, c - delta / rho)  # Eq. 10
        delta = delta + rho * (z - c)  # Eq. 11
        iterates.append((c, z))
    return iterates


def algorithm_3(X_blocks, y, rho, T):
    """NRC: normalise, code by Algorithm 2, residuals, label."""
    X_blocks = [normalised(block) for block in X_blocks]
    y = y / np.linalg.norm(y)
    code = algorithm_2(np.hstack(X_blocks), y, rho, T)[-1][1]
    return (code, *algorithm_1(X_blocks, y, code))


def nsc_code(X_blocks, y, l2):
    """Every class alone: least squares of ``[X_k; sqrt(l2) I] c = [y; 0]``."""
    parts = []
    for block in X_blocks:
        n = block.shape[1]
        stacked = np.vstack([block, np.sqrt(l2) * np.eye(n)])
        parts.append(np.linalg.lstsq(stacked, np.concatenate([y, np.zeros(n)]), rcond=None)[0])
    return np.concatenate(parts)


def procrc_code(X_blocks, y, l2, gamma):
    """BFGS on ``||y - Xc||^2 + l2 ||c||^2 + gamma/K sum_k ||Xc - X_k c_k||^2``."""
    X, K = np.hstack(X_blocks), len(X_blocks)
    masked = []
    start = 0
    for block in X_blocks:
        only = np.zeros_like(X)
        only[:, start : start + block.shape[1]] = block
        masked.append(X - only)
        start += block.shape[1]

    def objective(c):
        apart = [M @ c for M in masked]
        value = np.sum((y - X @ c) ** 2) + l2 * c @ c + gamma / K * sum(a @ a for a in apart)
        slope = 2 * (X.T @ (X @ c - y) + l2 * c)
        slope += 2 * gamma / K * sum(M.T @ a for M, a in zip(masked, apart, strict=True))
        return value, slope

    return minimize(objective, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-10}).x


def soft_code(X, y, l2, neg_weight):
    """Newton steps on the sign pattern of ``min ||y - Xc||^2 + l2 ||c||^2 + neg_weight ||min(c,0)||^2``.

    Where the plain step cycles, the step is halved until the objective falls.
    """

    def objective(c):
        return np.sum((y - X @ c) ** 2) + l2 * c @ c + neg_weight * np.sum(np.minimum(c, 0) ** 2)

    c = crc_code(X, y, l2)
    for _ in range(1000):
        weights = l2 + neg_weight * (c < 0)
        target = np.linalg.solve(X.T @ X + np.diag(weights), X.T @ y)
        step = 1.0
        while step > 1e-12 and objective(c + step * (target - c)) > objective(c):
            step /= 2
        moved = c + step * (target - c)
        if np.abs(moved - c).max() < 1e-15:
            break
        c = moved
    return c


def nnls_by_brute_force(X, y, l2=0.0):
    """The best least-squares fit over every subset of atoms whose coefficients come out non-negative."""
    n = X.shape[1]
    best, best_code = float(y @ y), np.zeros(n)
    for size in range(1, n + 1):
        for subset in itertools.combinations(range(n), size):
            A = X[:, subset]
            part = np.linalg.pinv(A.T @ A + l2 * np.eye(size)) @ (A.T @ y)
            value = np.sum((y - A @ part) ** 2) + l2 * part @ part
            if (part >= -1e-12).all() and value < best - 1e-14:
                best, best_code = value, np.zeros(n)
                best_code[list(subset)] = np.maximum(part, 0)
    return best_code, best


def simplex_by_brute_force(X, y, l2=0.0):
    """``min ||y - Xc||^2 + l2 ||c||^2``, c >= 0 with sum 1: the best of all subsets by their KKT systems."""
    n = X.shape[1]
    best, best_code = np.inf, None
    for size in range(1, n + 1):
        for subset in itertools.combinations(range(n), size):
            A = X[:, subset]
            system = np.zeros((size + 1, size + 1))
            system[:size, :size] = A.T @ A + l2 * np.eye(size)
            system[:size, size] = system[size, :size] = 1
            part = np.linalg.lstsq(system, np.append(A.T @ y, 1.0), rcond=1e-12)[0][:size]
            value = np.sum((y - A @ part) ** 2) + l2 * part @ part
            if (part >= -1e-9).all() and abs(part.sum() - 1) < 1e-9 and value < best:
                best, best_code = value, np.zeros(n)
                best_code[list(subset)] = np.maximum(part, 0)
    return best_code / best_code.sum(), best


def constrained_by_brute_force(A, B, lower, upper, *, sum_to=None, sum_at_most=None, l1=0.0, l2=0.0, L=None):
    """``min ||b - Ax||^2 + l2 ||Lx||^2 + l1 sum(x)`` within bounds, and with a sum.

    Every choice of active constraints is tried.

    Right-hand sides are columns. Returns the best feasible points as columns, and their objectives.
    """
    n, k = A.shape[1], B.shape[1]
    M = np.vstack([A, np.sqrt(l2) * (np.eye(n) if L is None else L)])
    T = np.vstack([B, np.zeros((len(M) - len(B), k))])
    best, points = np.full(k, np.inf), np.zeros((n, k))
    total = sum_to if sum_to is not None else sum_at_most
    sums = [None] if total is None else [total] if sum_to is not None else [None, total]
    for sides in itertools.product("flu", repeat=n):
        fixed = np.array([{"f": 0.0, "l": lo, "u": up}[s] for s, lo, up in zip(sides, lower, upper)])
        if not np.isfinite(fixed).all():
            continue
        free = [j for j in range(n) if sides[j] == "f"]
        for wanted in sums:
            X = np.tile(fixed[:, None], k)
            X[free] += _free_part(M[:, free], T - M @ X, None if wanted is None else wanted - fixed.sum(), l1)
            slack = 1e-11 * (1 + np.abs(X))
            ok = (lower[:, None] - slack <= X).all(axis=0) & (upper[:, None] + slack >= X).all(axis=0)
            X = np.clip(X, lower[:, None], upper[:, None])
            if total is not None:
                over = X.sum(axis=0) - total
                ok &= (over if sum_to is None else np.abs(over)) <= 1e-10 * (1 + np.abs(X).sum(axis=0))
            value = np.sum((T - M @ X) ** 2, axis=0) + l1 * X.sum(axis=0)
            better = ok & (value < best)
            best[better], points[:, better] = value[better], X[:, better]
    return points, best


def _free_part(M, T, wanted, l1=0.0):
    """Least squares without bounds, for columns of T; the solution sums to ``wanted`` if that is given.

    ``l1 sum(x)`` moves the minimiser by ``-(M'M)^{-1} l1/2``; with the sum given it is a constant.
    """
    size = np.maximum(np.linalg.norm(M, axis=0), 1e-300)
    if wanted is None:
        plain = np.linalg.lstsq(M / size, T, rcond=1e-13)[0]
        moved = np.linalg.pinv((M / size).T @ (M / size)) @ (l1 / 2 / size) if l1 else np.zeros(len(size))
        return (plain - moved[:, None]) / size[:, None]
    m = M.shape[1]
    if m == 0:
        return np.zeros((0, T.shape[1]))
    start = np.full((m, 1), wanted / m)
    along = np.linalg.svd(np.ones((1, m)))[2][1:].T  # (m, m - 1): directions that keep the sum
    return start + along @ np.linalg.lstsq(M @ along, T - M @ start, rcond=1e-13)[0]


def degrees_of_freedom(fit, b, step=1e-5):
    """Trace of the derivative of a fit ``A x(b)``, one entry of b after the other."""
    trace = 0.0
    for i in range(len(b)):
        ahead, behind = b.copy(), b.copy()
        ahead[i] += step
        behind[i] -= step
        trace += (fit(ahead) - fit(behind))[i] / (2 * step)
    return trace


def weighted_code(X_blocks, y, weights, *, l2, neg_weight=0.0, gamma=0.0, alone=False):
    """BFGS on the problem of every classifier that takes weights, term by term.

    ``||y - Xc||^2``, or ``sum_k ||y - X_k c_k||^2`` where every class stands alone, plus
    ``gamma/K sum_k ||Xc - X_k c_k||^2 + sum_j (l2 c_j^2 + neg_weight min(c_j, 0)^2) / w_j``.
    """
    X, K = np.hstack(X_blocks), len(X_blocks)
    own = np.repeat(np.arange(K), [block.shape[1] for block in X_blocks])
    parts = [X * (own == k) for k in range(K)]

    def objective(c):
        wholes = parts if alone else [X]
        lefts = [y - M @ c for M in wholes]
        apart = [(X - M) @ c for M in parts]
        prices = (l2 + neg_weight * (c < 0)) / weights
        value = sum(r @ r for r in lefts) + gamma / K * sum(a @ a for a in apart) + prices @ c**2
        slope = -2 * sum(M.T @ r for M, r in zip(wholes, lefts, strict=True)) + 2 * prices * c
        slope += 2 * gamma / K * sum((X - M).T @ a for M, a in zip(parts, apart, strict=True))
        return value, slope

    start = np.zeros(X.shape[1])
    return minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-11, "maxiter": 5000}).x
