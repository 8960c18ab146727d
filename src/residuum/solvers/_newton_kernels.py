"""min_{p >= 0} p'(H + alpha I)p / 2 - g'p on the few atoms that matter to one query, in float32.

H = X'(I + X X'/(l2 + neg_weight))^-1 X has its eigenvalues below l2 + neg_weight, so conjugate gradients with
projection need a few dozen products with a matrix that fits the cache of one core.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": {"reassoc", "contract", "nsz"}}


@njit(**_OPTIONS)
def admm_update(
    linear: Any, state: Any, value: Any, product: Any, beta: float, rho: float, relax: float
) -> None:
    """Over-relaxed ADMM on the state s in place: iterate max(s, 0), multiplier min(s, 0), next right side."""
    inverse, keep, step = np.float32(relax / beta), np.float32(1 - relax), np.float32(rho)
    zero = np.float32(0)
    for i in range(state.shape[0]):
        for j in range(state.shape[1]):
            old = state[i, j]
            new = inverse * (value[i, j] - product[i, j]) + keep * max(old, zero) + min(old, zero)
            state[i, j] = new
            value[i, j] = linear[i, j] + step * abs(new)


@njit(**_OPTIONS)
def cg_update(face: Any, x: Any, g: Any, d: Any, hd: Any, size: Any, target: Any, alpha: Any) -> None:
    """One step of conjugate gradients per row on its face, given H d; rows whose size met the target rest."""
    for i in range(x.shape[0]):
        if size[i] <= target[i]:
            continue
        curve = new = np.float32(0)
        for j in range(x.shape[1]):
            hd[i, j] = hd[i, j] + alpha * d[i, j] if face[i, j] else np.float32(0)
            curve += d[i, j] * hd[i, j]
        step = size[i] / curve
        for j in range(x.shape[1]):
            x[i, j] += step * d[i, j]
            g[i, j] -= step * hd[i, j]
            new += g[i, j] * g[i, j]
        ratio = new / size[i]
        for j in range(x.shape[1]):
            d[i, j] = g[i, j] + ratio * d[i, j]
        size[i] = new


@njit(**_OPTIONS)
def gather(gram: Any, index: Any, small: Any) -> None:
    """Write gram[index][:, index] to small, reading rows of the symmetric gram from their diagonal on."""
    n = len(index)
    for a in range(n):
        row = gram[index[a]]
        out = small[a]
        for b in range(a, n):
            out[b] = row[index[b]]
    tile = 32
    for a0 in range(0, n, tile):
        for b0 in range(0, a0 + 1, tile):
            for a in range(a0, min(a0 + tile, n)):
                for b in range(b0, min(b0 + tile, a)):
                    small[a, b] = small[b, a]


@njit(**_OPTIONS)
def subtract_moved(reach: Any, core_reach: Any, index: Any, small: Any) -> None:
    """Subtract the rows and columns ``index`` of reach' core_reach, symmetric and of low rank."""
    n, n_moved = len(index), len(reach)
    other = np.empty(n, np.float32)
    for m in range(n_moved):
        for b in range(n):
            other[b] = core_reach[m, index[b]]
        for a in range(n):
            out, factor = small[a], reach[m, index[a]]
            for b in range(n):
                out[b] -= factor * other[b]


@njit(**_OPTIONS)
def _add_product(small: Any, n: int, vector: Any, scale: Any, out: Any) -> None:
    """Add scale * small @ vector to out, four non-zeros of vector (rows of symmetric small) at a time."""
    used = np.empty(n, np.int64)
    count = 0
    for j in range(n):
        if vector[j] != 0:
            used[count] = j
            count += 1
    k = 0
    while k + 4 <= count:
        r0, r1, r2, r3 = small[used[k]], small[used[k + 1]], small[used[k + 2]], small[used[k + 3]]
        v0, v1 = scale * vector[used[k]], scale * vector[used[k + 1]]
        v2, v3 = scale * vector[used[k + 2]], scale * vector[used[k + 3]]
        for i in range(n):
            out[i] += (v0 * r0[i] + v1 * r1[i]) + (v2 * r2[i] + v3 * r3[i])
        k += 4
    while k < count:
        row, v = small[used[k]], scale * vector[used[k]]
        for i in range(n):
            out[i] += v * row[i]
        k += 1


@njit(**_OPTIONS)
def projected_cg(small: Any, n: int, alpha: Any, x: Any, low: Any, g: Any, tol: Any, max_iter: int) -> int:
    """Minimise x'(small + alpha I)x / 2 - g'x over x >= low from x; g stays the negative gradient."""
    zero = np.float32(0)
    face_g = np.zeros(n, np.float32)
    old_g = np.zeros(n, np.float32)
    d = np.zeros(n, np.float32)
    hd = np.zeros(n, np.float32)
    clip = np.zeros(n, np.float32)
    previous = zero
    for it in range(max_iter):
        size = cross = zero
        largest = zero
        for i in range(n):
            f = g[i] if (x[i] > low[i] or g[i] > 0) else zero
            face_g[i] = f
            size += f * f
            cross += f * old_g[i]
            largest = max(largest, abs(f))
        if largest <= tol:
            return it
        beta = max((size - cross) / previous, zero) if previous > 0 else zero
        slope = zero
        for i in range(n):
            d[i] = face_g[i] + beta * d[i] if (x[i] > low[i] or g[i] > 0) else zero
            slope += d[i] * face_g[i]
        if slope <= 0:
            slope = size
            for i in range(n):
                d[i] = face_g[i]
        for i in range(n):
            hd[i] = alpha * d[i]
        _add_product(small, n, d, np.float32(1), hd)
        curve = zero
        for i in range(n):
            curve += d[i] * hd[i]
        step = slope / curve
        clipped = False
        for i in range(n):
            new = x[i] + step * d[i]
            g[i] -= step * hd[i]
            clip[i] = zero
            if new < low[i]:
                clip[i] = new - low[i]
                g[i] += alpha * clip[i]
                clipped = True
                new = low[i]
            x[i] = new
            old_g[i] = face_g[i]
        if clipped:
            _add_product(small, n, clip, np.float32(1), g)
        previous = size
    return max_iter


@njit(**_OPTIONS)
def _compact(small: Any, n: int, chosen: Any, x: Any, low: Any, g: Any) -> int:
    """Remove the atoms held at their bound by the gradient; return how many are left."""
    kept = np.empty(n, np.int64)
    m = 0
    for a in range(n):
        if x[a] > low[a] or g[a] > 0:
            kept[m] = a
            m += 1
    for a in range(m):
        source = kept[a]
        for b in range(m):
            small[a, b] = small[source, kept[b]]
        chosen[a], x[a], low[a], g[a] = chosen[source], x[source], low[source], g[source]
    return m


@njit(**_OPTIONS)
def improve_dense(
    small: Any, alpha: float, chosen: Any, base: Any, slack: Any, correct: bool, tol: float, max_iter: int
) -> None:
    """Improve base (p >= 0) in place on the chosen atoms, whose block of H is ``small`` (used up)."""
    n = len(chosen)
    scale = 0.0
    for a in range(n):
        scale = max(scale, abs(slack[chosen[a]]))
    if scale == 0:
        return
    x = np.zeros(n, np.float32)
    low = np.empty(n, np.float32)
    g = np.empty(n, np.float32)
    for a in range(n):
        low[a] = -base[chosen[a]] / scale
        g[a] = slack[chosen[a]] / scale
    if not correct:
        for a in range(n):
            g[a] += np.float32(alpha) * low[a]
        _add_product(small, n, low, np.float32(1), g)
    for stage in range(1 if correct else 2):
        # The first pass begins with many atoms too many: most leave within a few steps.
        early = stage == 0 and not correct
        projected_cg(small, n, np.float32(alpha), x, low, g, np.float32(tol), 6 if early else max_iter)
        if early:
            for a in range(n):
                base[chosen[a]] = 0.0
            n = _compact(small, n, chosen, x, low, g)
    for a in range(n):
        j = chosen[a]
        if correct:
            base[j] = max(base[j] + scale * x[a], 0.0) if x[a] > low[a] else 0.0
        else:
            base[j] = max(scale * (np.float64(x[a]) - np.float64(low[a])), 0.0)


@njit(**_OPTIONS)
def solve_rows(
    gram: Any,
    reach: Any,
    core_reach: Any,
    alpha: float,
    base: Any,
    slack: Any,
    correct: bool,
    tols: Any,
    max_iter: int,
    cap: int,
) -> None:
    """Improve each row of base (p >= 0) in place on the atoms with p > 0 or slack > 0.

    The quadratic term is gram - reach' core_reach; gram may have room behind its last atom.

    With ``correct`` the slack is the negative gradient at p; otherwise it is the linear term, and the
    gradient at p follows from it because p vanishes off the chosen atoms. Rows with more than ``cap`` such
    atoms are left alone.
    """
    n_atoms = base.shape[1]
    small = np.empty((cap, cap), np.float32)
    index = np.empty(n_atoms, np.int64)
    for row in range(base.shape[0]):
        n = 0
        for j in range(n_atoms):
            if base[row, j] > 0 or slack[row, j] > 0:
                index[n] = j
                n += 1
        if n <= cap:
            gather(gram, index[:n], small)
            subtract_moved(reach, core_reach, index[:n], small)
            improve_dense(small, alpha, index[:n], base[row], slack[row], correct, tols[row], max_iter)
