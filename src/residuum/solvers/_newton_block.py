"""Blocks of unit queries: p >= 0 minimising (y - Xp)'M(y - Xp) + alpha ||p||^2, then c = p + X'r/(l2 + neg_weight).

With w = l2 + neg_weight, the penalty l2 c^2 + neg_weight min(c, 0)^2 is the smallest w d^2 + alpha p^2 over
d + p = c, p >= 0, alpha = w l2 / neg_weight. Eliminating d leaves non-negative least squares with a ridge in the
metric M = (I + X X'/w)^-1, whose solution is sparse: p_j = x_j'r / alpha where that is positive, r = M(y - Xp).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._newton_exact import newton_exact
from ._newton_kernels import admm_update, solve_rows

Array = npt.NDArray[np.float64]

_ADMM_STEPS = 5
_ADMM_RELAX = 1.7
_LOCAL_CAP = 900
_GRAM_ATOMS = 8000
_MAX_ROUNDS = 25
_FACE_STEPS = 8


@dataclass(frozen=True)
class Prepared:
    """What depends on the dictionary and the weights alone."""

    l2: float
    neg_weight: float
    basis: Array  # (n_features, rank)
    atoms: Array  # (n_atoms, rank), X in the basis where X X' is diagonal
    eigenvalues: Array  # (rank,), of X X'
    shrink: Array = field(init=False)  # (rank,), diagonal of M
    atoms32: Any = field(init=False)
    gram32: Any = field(init=False)  # (n_atoms, n_atoms), X'MX, or None where it would not pay

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "shrink", 1 / (1 + self.eigenvalues / self.w_neg))
        set_field(self, "atoms32", self.atoms.astype(np.float32))
        gram = None
        if self.well_conditioned and len(self.atoms) <= _GRAM_ATOMS:
            gram = (self.atoms32 * self.shrink.astype(np.float32)) @ self.atoms32.T
        set_field(self, "gram32", gram)

    @property
    def w_neg(self) -> float:
        return self.l2 + self.neg_weight

    @property
    def alpha(self) -> float:
        return self.w_neg * self.l2 / self.neg_weight if self.neg_weight else np.inf

    @property
    def top(self) -> float:
        """The largest eigenvalue of X'MX."""
        return float((self.eigenvalues * self.shrink).max(initial=0.0))

    @property
    def well_conditioned(self) -> bool:
        """Whether float32 products make progress and r = M(y - Xp) equals y - Xc to rounding."""
        if self.neg_weight == 0:
            return False
        return self.top <= 2e3 * self.alpha and self.eigenvalues.max(initial=0.0) <= 1e6 * self.w_neg


@dataclass
class BlockSolution:
    """Codes of one block and their certificates, filled in as queries finish."""

    codes: Array
    n_iter: npt.NDArray[np.int64]
    violation: Array
    gap: Array


def solve_block(prep: Prepared, block: Array, tol: float, max_iter: int) -> BlockSolution:
    """Solve for unit (or zero) queries given in the prepared basis, each on its own."""
    n = len(block)
    out = BlockSolution(np.zeros((n, len(prep.atoms))), np.zeros(n, np.int64), np.zeros(n), np.zeros(n))
    if prep.neg_weight == 0:
        out.codes[:] = (block * prep.shrink) @ prep.atoms.T / prep.l2
        _certify(prep, block, np.arange(n), out)
        return out
    left = _fast(prep, block, tol, out) if prep.well_conditioned else np.arange(n)
    for i in left:
        residual, steps = newton_exact(
            prep.atoms, prep.shrink, block[i], weights=(prep.l2, prep.w_neg, prep.alpha), max_iter=max_iter
        )
        out.n_iter[i] += steps
        inner = prep.atoms @ residual
        out.codes[i] = inner / np.where(inner > 0, prep.l2, prep.w_neg)
    _certify(prep, block, left, out)
    return out


def _fast(prep: Prepared, block: Array, tol: float, out: BlockSolution) -> npt.NDArray[np.int64]:
    """Fill ``out`` for the queries that reach the tolerance and return the others."""
    coarse = block.astype(np.float32)
    linear, state = _admm(prep, coarse)
    scale = np.abs(linear).max(axis=1).astype(np.float64)
    p = np.maximum(state, 0).astype(np.float64)
    _improve(prep, coarse, p, np.where(state > 0, linear, np.float32(-1)).astype(np.float64), False, 1e-3)
    _improve(prep, coarse, p, _price(prep, coarse, p) - prep.alpha * p, True, 1e-4)
    left = np.arange(len(block))
    best, stalls = np.full(len(block), np.inf), np.zeros(len(block), np.int64)
    given_up = []
    for _ in range(_MAX_ROUNDS):
        inner = _price(prep, block[left], p)
        slack = inner - prep.alpha * p
        codes = p + inner / prep.w_neg
        gap, violation = _gap(prep, codes, inner)
        error = np.where((p > 0) | (slack > 0), np.abs(slack), 0).max(axis=1)
        done = (gap <= tol) & ((tol > 1e-9) | (error <= 1e-13 * scale[left]))
        rows = left[done]
        out.codes[rows], out.gap[rows], out.violation[rows] = codes[done], gap[done], violation[done]
        stalls[left] = np.where(error < 0.5 * best[left], 0, stalls[left] + 1)
        best[left] = np.minimum(best[left], error)
        stop = ~done & (stalls[left] >= 3)
        given_up.append(left[stop])
        keep = ~(done | stop)
        left, p, slack = left[keep], p[keep], slack[keep]
        if not len(left):
            break
        out.n_iter[left] += 1
        _improve(prep, coarse[left], p, slack, True, 1e-5)
    return np.sort(np.concatenate([*given_up, left]))


def _admm(prep: Prepared, block: Any) -> tuple[Any, Any]:
    """Return X'My and the state of a few over-relaxed ADMM steps, whose sign is nearly that of p."""
    rho = np.sqrt(prep.alpha * max(prep.top, prep.alpha))
    beta = prep.alpha + rho
    inverse = prep.shrink / (prep.eigenvalues * prep.shrink + beta)
    inverse, shrink = inverse.astype(np.float32), prep.shrink.astype(np.float32)
    linear = (block * shrink) @ prep.atoms32.T
    state, value = np.zeros_like(linear), linear.copy()
    for _ in range(_ADMM_STEPS):
        product = ((value @ prep.atoms32) * inverse) @ prep.atoms32.T
        admm_update(linear, state, value, product, beta, rho, _ADMM_RELAX)
    return linear, state


def _price(prep: Prepared, block: Any, p: Any) -> Any:
    """Return X'r with r = M(y - Xp), in the precision of the block."""
    atoms = prep.atoms32 if block.dtype == np.float32 else prep.atoms
    residuals = block - p.astype(block.dtype, copy=False) @ atoms
    return (residuals * prep.shrink.astype(block.dtype)) @ atoms.T


def _improve(prep: Prepared, coarse: Any, p: Any, slack: Any, correct: bool, tol: float) -> None:
    """Reduce the negative gradient ``slack`` at p (or at 0, if not ``correct``) by the factor ``tol``, updating p."""
    large = np.ones(len(p), np.bool_)
    if prep.gram32 is not None:
        solve_rows(prep.gram32, prep.alpha, p, slack, correct, tol, 200, _LOCAL_CAP, large)
    if large.any():
        rows = np.flatnonzero(large)
        if not correct:
            slack = _price(prep, coarse, p) - prep.alpha * p
        p[rows] = _face_cg(prep, p[rows], slack[rows], max(tol, 1e-3))


def _face_cg(prep: Prepared, p: Any, slack: Any, tol: float) -> Any:
    """Return p after conjugate gradients for the atoms with p > 0 or slack > 0, all queries at once."""
    face = (p > 0) | (slack > 0)
    scale = np.abs(slack).max(axis=1, keepdims=True)
    scale[scale == 0] = 1
    g = np.where(face, slack / scale, 0).astype(np.float32)
    x, d = np.zeros_like(g), g.copy()
    alpha, shrink = np.float32(prep.alpha), prep.shrink.astype(np.float32)
    size = np.einsum("ij,ij->i", g, g)
    target = size * np.float32(tol * tol)
    for _ in range(_FACE_STEPS):
        hd = ((d @ prep.atoms32) * shrink) @ prep.atoms32.T
        hd += alpha * d
        hd *= face
        curve = np.einsum("ij,ij->i", d, hd)
        step = np.where(size > target, size / np.where(curve > 0, curve, 1), 0).astype(np.float32)[:, None]
        x += step * d
        g -= step * hd
        new = np.einsum("ij,ij->i", g, g)
        d = g + (new / np.where(size > 0, size, 1))[:, None] * d
        size = new
        if (size <= target).all():
            break
    return np.maximum(p + scale * x, 0)


def _gap(prep: Prepared, codes: Array, inner: Array) -> tuple[Array, Array]:
    """Return (primal - dual) / ||y||^2 and the largest entry of the half gradient, given X'r with r = y - Xc.

    Because r - y = -Xc, primal - dual = sum_j w(c_j) c_j^2 - 2 c_j x_j'r + (x_j'r)^2 / w(x_j'r), no term of which
    is negative: nothing cancels, so gaps far below the rounding of the objective can be told.
    """
    weighted = np.where(codes > 0, prep.l2, prep.w_neg) * codes
    violation = np.abs(weighted - inner).max(axis=1)
    terms = weighted * codes - 2 * inner * codes + inner * inner / np.where(inner > 0, prep.l2, prep.w_neg)
    return np.maximum(terms.sum(axis=1), 0), violation


def _certify(prep: Prepared, block: Array, rows: npt.NDArray[np.int64], out: BlockSolution) -> None:
    """Write gap and violation of the codes from their own residual y - Xc."""
    inner = (block[rows] - out.codes[rows] @ prep.atoms) @ prep.atoms.T
    out.gap[rows], out.violation[rows] = _gap(prep, out.codes[rows], inner)
