"""Blocks of unit queries: minimise_{p >= 0} (y - Xp)'M(y - Xp) + alpha ||p||^2, then c = p + X'r / w.

With w = l2 + neg_weight, the penalty l2 c^2 + neg_weight min(c, 0)^2 is the smallest w d^2 + alpha p^2 over
d + p = c, p >= 0, alpha = w l2 / neg_weight. Eliminating d leaves non-negative least squares with a ridge
in the metric M = (I + X X'/w)^-1, and a sparse solution: p_j = x_j'r / alpha where that is positive,
r = M(y - Xp). For that d, r is also y - Xc, so X'r gives the certificate of c as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._newton_exact import newton_exact
from ._newton_kernels import admm_update, cg_update, improve_dense, solve_rows
from ._room import Places, Room, Roomy
from .active_set import PreparedAtoms, prepare_atoms, solve_active_set

Array = npt.NDArray[np.float64]

Rows = npt.NDArray[np.int64]

_ADMM_STEPS = 6
_ADMM_RELAX = 1.7
_FACE_ADMM_STEPS = 24
_LOCAL_CAP = 900  # atoms in play for one query; beyond it the gathered products leave the cache
_MAX_ROUNDS = 12
_CG_STEPS = 100
_FIRST_TOL, _FACE_TOL = 1e-3, 1e-3
_POLISH = 1e-9


class Metric(NamedTuple):
    """``D - DU'CUD``, a diagonal with a correction of low rank, that multiplies rows."""

    diagonal: Any  # (rank,)
    moved: Any  # (n_moved, rank), U
    core: Any  # (n_moved, n_moved), C

    @classmethod
    def inverse(cls, diagonal: Array, moved: Array, signs: Array, weight: float) -> Metric:
        """``(diag(1/diagonal) + U' diag(signs) U / weight)^{-1}``."""
        core = np.linalg.inv(weight * np.diag(signs) + (moved * diagonal) @ moved.T)
        return cls(diagonal, moved, (core + core.T) / 2)

    def __call__(self, rows: Any) -> Any:
        """The matrix times every row, in the precision of the rows."""
        diagonal = self.diagonal.astype(rows.dtype, copy=False)
        scaled = rows * diagonal
        if len(self.moved):
            moved = (self.moved * self.diagonal).astype(rows.dtype, copy=False)
            scaled -= (rows @ moved.T) @ self.core.astype(rows.dtype, copy=False) @ moved
        return scaled


@dataclass(frozen=True)
class Prepared(Roomy):
    """What depends on the dictionary and the weights alone; build with `prepare_newton`.

    Atoms that joined (sign 1) or left (sign -1) since the basis was computed make ``X X'`` differ from its
    diagonal there by ``moved' diag(signs) moved``, and ``X'MX`` from gram32 by ``reach' core_reach``.
    """

    l2: float
    neg_weight: float
    basis: Array  # (n_features, rank)
    atoms: Array  # (n_atoms, rank), X in the basis where X X' was diagonal
    eigenvalues: Array  # (rank,), of X X' then
    atoms32: Any
    gram32: Any = None  # (n_atoms, n_atoms), X'MX with M as it was then, or None where it would not pay
    moved: Array = field(default_factory=lambda: np.empty((0, 0)))  # (n_moved, rank)
    signs: Array = field(default_factory=lambda: np.empty(0))  # (n_moved,)
    places: Places | None = None  # position of each atom in the dictionary, where the order is another
    room: Room | None = None  # where atoms, atoms32 and gram32 can grow
    shrink: Array = field(init=False)  # (rank,), diagonal of M but for what moved
    metric: Metric = field(init=False)  # M
    reach: Any = field(init=False)  # (n_moved, n_atoms)
    core_reach: Any = field(init=False)

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "shrink", 1 / (1 + self.eigenvalues / self.w_neg))
        set_field(self, "metric", self.inverse(self.shrink, self.w_neg))
        reach = np.empty((0, len(self.atoms)), np.float32)
        if len(self.signs):
            reach = (self.moved * self.shrink).astype(np.float32) @ self.atoms32.T
        set_field(self, "reach", reach)
        set_field(self, "core_reach", self.metric.core.astype(np.float32) @ reach if len(reach) else reach)

    @property
    def n_atoms(self) -> int:
        return len(self.atoms)

    def inverse(self, diagonal: Array, weight: float) -> Metric:
        """``(diag(1/diagonal) + moved' diag(signs) moved / weight)^{-1}``."""
        if not len(self.signs):
            return Metric(diagonal, self.moved, self.moved)
        return Metric.inverse(diagonal, self.moved, self.signs, weight)

    @cached_property
    def settled(self) -> tuple[Prepared, Array]:
        """The same in the eigenvectors of what ``X X'`` is now, and the rotation that leads there."""
        if not len(self.signs):
            return self, np.eye(len(self.shrink))
        eigenvalues, turn = np.linalg.eigh(self.atoms.T @ self.atoms)
        eigenvalues = np.maximum(eigenvalues, 0)
        atoms = np.ascontiguousarray(self.atoms @ turn)
        parts = (self.basis @ turn, atoms, eigenvalues, atoms.astype(np.float32))
        return Prepared(self.l2, self.neg_weight, *parts), turn

    @cached_property
    def metric_atoms(self) -> PreparedAtoms:
        """X in the metric M, for the exact engine; `settled` only."""
        return prepare_atoms(self.atoms * np.sqrt(self.shrink))

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


def solve_block(prep: Prepared, block: Array, tol: float, max_iter: int, *, single: bool) -> BlockSolution:
    """Solve for unit (or zero) queries given in the prepared basis, each on its own.

    With ``single`` gaps are estimated in float32 all through, and the caller certifies the codes it returns.
    """
    n = len(block)
    out = BlockSolution(np.zeros((n, len(prep.atoms))), np.zeros(n, np.int64), np.zeros(n), np.zeros(n))
    if prep.neg_weight == 0:
        residual = block * prep.shrink
        for _ in range(2):  # XX' is diagonal only up to rounding, which a small l2 would magnify
            wanted = block - residual - (residual @ prep.atoms.T / prep.l2) @ prep.atoms
            residual += wanted * prep.shrink
        out.codes[:] = residual @ prep.atoms.T / prep.l2
        certify(prep, block, np.arange(n), out)
        return out
    left = np.arange(n)
    if prep.well_conditioned:
        linear, state = _admm(prep, block.astype(np.float32), _ADMM_STEPS)
        few = (state > 0).sum(axis=1) <= _LOCAL_CAP
        working = block.astype(np.float32) if single else block
        failed = _local(prep, working, linear[few], state[few], tol, left[few], out)
        left = np.sort(np.concatenate([failed, left[~few]]))
        left = _faces(prep, working, tol, left, out) if len(left) else left
    else:
        left = _sparse(prep, block, tol, out)
    careful, turn = prep.settled if len(left) and len(prep.signs) else (prep, None)
    weights = (prep.l2, prep.w_neg, prep.alpha)
    for i in left:
        query = block[i] if turn is None else block[i] @ turn
        residual, steps = newton_exact(
            careful.atoms, careful.shrink, query, weights=weights, max_iter=max_iter
        )
        out.n_iter[i] += steps
        inner = careful.atoms @ residual
        out.codes[i] = inner / np.where(inner > 0, prep.l2, prep.w_neg)
    certify(prep, block, left, out)
    return out


def _local(
    prep: Prepared, block: Any, linear: Any, state: Any, tol: float, rows: Rows, out: BlockSolution
) -> Rows:
    """Solve by projected conjugate gradients on each query's atoms in play; return the rows that failed."""
    coarse = block[rows].astype(np.float32)
    scale = np.abs(linear).max(axis=1).astype(np.float64)
    p = np.maximum(state, 0).astype(np.float64)
    chosen = np.where(state > 0, linear, np.float32(-1)).astype(np.float64)
    _improve(prep, p, chosen, False, np.full(len(p), _FIRST_TOL))
    inner = _price(prep, coarse, p).astype(np.float64)
    gap, _ = _gap(prep, p + inner / prep.w_neg, inner)
    _improve(prep, p, inner - prep.alpha * p, True, _factor(tol, gap))
    progress = _Progress(prep, tol, rows, scale, out)
    for _ in range(_MAX_ROUNDS):
        inner = _price(prep, block[progress.left], p).astype(np.float64, copy=False)
        keep = progress.accept(p, inner)
        p, slack = p[keep], inner[keep] - prep.alpha * p[keep]
        if not len(p):
            break
        _improve(prep, p, slack, True, progress.factor)
    return progress.unsolved()


def _sparse(prep: Prepared, block: Array, tol: float, out: BlockSolution) -> Rows:
    """Solve by the exact engine in the metric M, which does not mind a small alpha; rows that failed."""
    settled, turn = prep.settled
    turned = block @ turn if len(prep.signs) else block
    metric = np.sqrt(settled.shrink)
    p = solve_active_set(settled.metric_atoms, turned * metric, l2=prep.alpha, n_jobs=1).codes.toarray()
    out.codes[:] = p + _price(settled, turned, p) / prep.w_neg
    rows = np.arange(len(block))
    certify(prep, block, rows, out)
    return rows[out.gap > tol]


def _faces(prep: Prepared, block: Any, tol: float, rows: Rows, out: BlockSolution) -> Rows:
    """Solve by Newton steps, conjugate gradients for all rows at once; return the rows that failed.

    For queries with too many positive atoms to gather their products. More steps of ADMM are worth their
    price here: a Newton step costs as much as a dozen of them.
    """
    linear, state = _admm(prep, block[rows].astype(np.float32), _FACE_ADMM_STEPS)
    p = np.maximum(state, 0).astype(np.float64)
    progress = _Progress(prep, tol, rows, np.abs(linear).max(axis=1).astype(np.float64), out)
    for _ in range(_MAX_ROUNDS):
        inner = _price(prep, block[progress.left], p).astype(np.float64, copy=False)
        keep = progress.accept(p, inner)
        p, inner = p[keep], inner[keep]
        if not len(p):
            break
        face = inner > 0
        dropped = np.where(face, 0, p)
        slack = inner - prep.alpha * p
        if dropped.any():
            slack += _product(prep, dropped.astype(np.float32))
        p = np.where(face, p + _face_cg(prep, face, slack, np.maximum(progress.factor, _FACE_TOL)), 0)
    return progress.unsolved()


class _Progress:
    """Which queries are done, which go on and which no longer improve."""

    def __init__(self, prep: Prepared, tol: float, rows: Rows, scale: Array, out: BlockSolution) -> None:
        self.prep, self.tol, self.out = prep, tol, out
        self.left, self.scale = rows, scale
        self.best = np.full(len(rows), np.inf)
        self.stalls = np.zeros(len(rows), np.int64)
        self.factor = np.ones(len(rows))  # by which the gradient of each open query has to shrink
        self.given_up: list[Rows] = []

    def accept(self, p: Array, inner: Array) -> npt.NDArray[np.bool_]:
        """Store the finished among the open queries, given p and X'r; return which remain open."""
        out, prep = self.out, self.prep
        codes = p + inner / prep.w_neg
        gap, violation = _gap(prep, codes, inner)
        slack = inner - prep.alpha * p
        error = np.abs(np.where((p != 0) | (slack > 0), slack, 0)).max(axis=1)
        # Tight tolerances are polished to rounding, so that codes do not depend on how the batch was split.
        target = np.maximum(3e-11 * prep.alpha, 1e-14 * self.scale)
        done = (gap <= self.tol) & ((self.tol > _POLISH) | (error <= target))
        factor = (
            _factor(self.tol, gap)
            if self.tol > _POLISH
            else np.clip(0.1 * target / np.maximum(error, target), 1e-5, 1e-1)
        )
        rows = self.left[done]
        out.codes[rows], out.gap[rows], out.violation[rows] = codes[done], gap[done], violation[done]
        self.stalls = np.where(error < 0.5 * self.best, 0, self.stalls + 1)
        self.best = np.minimum(self.best, error)
        stop = ~done & (self.stalls >= 3)
        self.given_up.append(self.left[stop])
        keep = ~(done | stop)
        self.left, self.scale, self.best = self.left[keep], self.scale[keep], self.best[keep]
        self.stalls, self.factor = self.stalls[keep], factor[keep]
        out.n_iter[self.left] += 1
        return keep

    def unsolved(self) -> Rows:
        return np.sort(np.concatenate([*self.given_up, self.left]))


def _factor(tol: float, gap: Array) -> Array:
    """Return how much smaller the gradient must become: the gap falls with its square."""
    return np.clip(0.2 * np.sqrt(tol / np.maximum(gap, tol)), 1e-5, 1e-1)


def _admm(prep: Prepared, block: Any, steps: int) -> tuple[Any, Any]:
    """Return X'My and the state of a few over-relaxed ADMM steps, whose sign is nearly that of p."""
    rho = np.sqrt(prep.alpha * max(prep.top, prep.alpha))
    beta = prep.alpha + rho
    # (beta M^-1 + X X')^-1, where X X' appears in both terms.
    inverse = prep.inverse(prep.shrink / (prep.eigenvalues * prep.shrink + beta), 1 / (1 + beta / prep.w_neg))
    linear = prep.metric(block) @ prep.atoms32.T
    state, value = np.zeros_like(linear), linear.copy()
    for _ in range(steps):
        product = inverse(value @ prep.atoms32) @ prep.atoms32.T
        admm_update(linear, state, value, product, beta, rho, _ADMM_RELAX)
    return linear, state


def _price(prep: Prepared, block: Any, p: Any) -> Any:
    """Return X'r with r = M(y - Xp), in the precision of the block."""
    atoms = prep.atoms32 if block.dtype == np.float32 else prep.atoms
    residuals = block - p.astype(block.dtype, copy=False) @ atoms
    return prep.metric(residuals) @ atoms.T


def _improve(prep: Prepared, p: Array, slack: Array, correct: bool, tols: Array) -> None:
    """Reduce the negative gradient ``slack`` at p (at 0, if not ``correct``) by the factors ``tols``.

    Rows with too many atoms in play are left as they are, and so will be given up.
    """
    if prep.gram32 is not None:
        parts = (prep.gram32, prep.reach, prep.core_reach)
        solve_rows(*parts, prep.alpha, p, slack, correct, tols, _CG_STEPS, _LOCAL_CAP)
        return
    for row, negative_gradient, tol in zip(p, slack, tols):
        chosen = np.flatnonzero((row > 0) | (negative_gradient > 0))
        if len(chosen) <= _LOCAL_CAP:
            some = prep.atoms32[chosen]
            small = prep.metric(some) @ some.T
            improve_dense(small, prep.alpha, chosen, row, negative_gradient, correct, tol, _CG_STEPS)


def _product(prep: Prepared, vectors: Any) -> Any:
    """Return H times each row, H = X'MX."""
    return prep.metric(vectors @ prep.atoms32) @ prep.atoms32.T


def _face_cg(prep: Prepared, face: npt.NDArray[np.bool_], slack: Array, tols: Array) -> Array:
    """Return x on each row's face with (H + alpha I) x = slack there, by conjugate gradients for all rows."""
    scale = np.abs(slack).max(axis=1, keepdims=True)
    scale[scale == 0] = 1
    g = np.where(face, slack / scale, 0).astype(np.float32)
    x, d = np.zeros_like(g), g.copy()
    size = np.einsum("ij,ij->i", g, g)
    target = size * (tols**2).astype(np.float32)
    for _ in range(_CG_STEPS):
        hd = _product(prep, d)
        cg_update(face, x, g, d, hd, size, target, np.float32(prep.alpha))
        if (size <= target).all():
            break
    return x * scale


def _gap(prep: Prepared, codes: Array, inner: Array) -> tuple[Array, Array]:
    """Return (primal - dual) / ||y||^2 and the largest entry of the half gradient, given X'r with r = y - Xc.

    Because r - y = -Xc, primal - dual = sum_j w(c_j) c_j^2 - 2 c_j x_j'r + (x_j'r)^2 / w(x_j'r), no term of
    which is negative: nothing cancels, so gaps far below the rounding of the objective can be told.
    """
    weighted = np.where(codes > 0, prep.l2, prep.w_neg) * codes
    violation = np.abs(weighted - inner).max(axis=1)
    terms = weighted * codes - 2 * inner * codes + inner * inner / np.where(inner > 0, prep.l2, prep.w_neg)
    return np.maximum(terms.sum(axis=1), 0), violation


def certify(prep: Prepared, block: Array, rows: Rows, out: BlockSolution) -> None:
    """Write gap and violation of the codes from their own residual y - Xc."""
    inner = (block[rows] - out.codes[rows] @ prep.atoms) @ prep.atoms.T
    out.gap[rows], out.violation[rows] = _gap(prep, out.codes[rows], inner)
