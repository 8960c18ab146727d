"""Semismooth Newton steps for blocks of queries, on the side of the features.

The code of ``min_c ||y - Xc||^2 + l2*||c||^2 + neg_weight*||min(c, 0)||^2`` is a function of its residual
r = y - Xc, a vector with as many entries as there are features: with w = l2 + neg_weight,

    c = phi(X'r),   phi(q) = q/l2 where q > 0 and q/w elsewhere,   F(r) = r + X phi(X'r) - y = 0.

F is the gradient of a strongly convex function of r, the negative dual. With 1/alpha = 1/l2 - 1/w and
M = (I + X X'/w)^-1, which is diagonal in the eigenvectors of X X', a Newton step solves

    (M^-1 + X_P X_P' / alpha) d = -F(r),   P = {j : x_j'r > 0},

and ends where the function is smallest along d, so the steps converge from anywhere. P holds a small part of
the atoms, so conjugate gradients preconditioned by M take a few dozen cheap products in float32, and follow P
where it changes on the way. Their number grows with the square root of ||X'MX|| / alpha. Where that is large,
the equation is factored in float64, and milder problems with a larger alpha lead to the one to be solved.

**Start.** The non-negative part p = max(X'r, 0) / alpha of the code solves
``min_{p >= 0} (y - Xp)'M(y - Xp) + alpha ||p||^2``. A few over-relaxed steps of ADMM on that problem, in
float32, find most of P. With s = p minus the scaled multiplier, p = max(s, 0) and beta = alpha + rho,

    s <- relax/beta * (rho |s| + X't) - (relax/2) |s| + (1 - relax/2) s,
    t = M y - K (X X' M y + rho X|s|),   K = (beta M^-1 + X X')^-1.

From r = M (y - Xp) two Newton steps in float32, the first of them for the P that s suggests, lead to the
point at which F is first evaluated in float64.

**End.** For the dual point r and the codes phi(X'r) the duality gap is ||F(r)||^2. One more product makes it
far smaller: the codes p + X'r_p / w with r_p = r - M F(r) have exactly r_p as their residual, and the gap
that `CodingProblem.gap` reports for them is (l2 / alpha^2) ||X_P' M F||^2 unless a sign differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, qr
from scipy.linalg.lapack import dposv

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.solvers.newton.kernels import (
    advance,
    certify,
    correct_codes,
    first_steps,
    newton_steps,
    relax,
    step_lengths,
)

Array = npt.NDArray[np.float64]

_ATOMS_AT_ONCE = 512  # their products with a block of queries stay in the cache
ROW_MULTIPLE = 8  # the rounding of a row of a product can depend on the number of rows
_WARM_STEPS, _RELAX = 6, 1.7  # of ADMM
_CG_TOLS = 1e-5, 5e-3  # most and least precise solution of a Newton equation
_CG_ROUNDS = 12  # queries that take more Newton steps get exact ones
_MOST_CONDITION = 2e3  # of the Newton equation in the metric M, for conjugate gradients in float32
_SINGLE_CONDITION = 1e6  # for a factorisation in float64 of atoms that were rounded to float32
_SINGLE_SPREAD = 5e4  # of the eigenvalues of X X'/w, for products in float32
_STAGE_RATIO, _STAGE_STEPS = 10.0, 2
# Tolerances up to the first are polished until the estimated gap is at most the second times l2 or 1/l2.
# Codes are then within about 1e-8 of the optimum, and do not depend on how the queries were divided.
_POLISH, _POLISHED = 1e-9, 1e-16
# Larger tolerances are aimed at with a margin, but this multiple of the goal is worth a look at the gap,
# which is several times smaller than its estimate.
_WORTH_A_LOOK = 16


@dataclass(frozen=True)
class Prepared:
    """What depends on the atoms and the weights alone; build with `prepare`."""

    atoms: FloatArray  # (n_atoms, n_features), as given
    basis: Array | None  # (n_features, rank), eigenvectors of X X'; None where the features are that already
    eigenvalues: Array  # (rank,)
    rotated: npt.NDArray[np.float32]  # (n_atoms, rank), the atoms in that basis
    l2: float
    w: float  # l2 + neg_weight
    alpha: float  # w l2 / neg_weight = l2 + l2^2 / neg_weight
    longest: float = 1.0  # largest norm of an atom
    precision: Any = np.float64  # of the products that evaluate F

    @property
    def metric(self) -> Array:
        """Diagonal of M."""
        return 1 / (1 + self.eigenvalues / self.w)

    @property
    def top(self) -> float:
        """Largest eigenvalue of X'MX."""
        return float((self.eigenvalues * self.metric).max(initial=0.0))

    @property
    def rounding(self) -> float:
        """Of the products of a unit atom with a residual of unit norm in float64, at most."""
        n_atoms, n_features = self.atoms.shape
        return float(np.finfo(np.float64).eps * (n_features + np.sqrt(n_atoms)))

    @property
    def condition(self) -> float:
        """Of a Newton equation in the metric M, at most."""
        return self.top / self.alpha

    @property
    def factors(self) -> bool:
        """Whether Newton equations are factored from the first step on."""
        return self.condition > _MOST_CONDITION

    @property
    def single_suffices(self) -> bool:
        """Whether float32 products can bring the gap to 1e-6; X X'/w magnifies their rounding."""
        return not self.factors and bool(self.eigenvalues.max(initial=0.0) <= _SINGLE_SPREAD * self.w)

    def stages(self, max_iter: int) -> list[Prepared]:
        """The problem of every Newton step, and after the last step: milder ones first where alpha is small.

        Far from the solution, slopes of phi that differ by a factor of thousands make Newton steps short. The
        solution for a larger alpha is a start near enough.
        """
        alphas = [self.alpha]
        while self.top > _MOST_CONDITION * alphas[0]:
            alphas.insert(0, _STAGE_RATIO * alphas[0])
        milder = [replace(self, l2=1 / (1 / alpha + 1 / self.w), alpha=alpha) for alpha in alphas[:-1]]
        plan = [stage for stage in milder for _ in range(_STAGE_STEPS)]
        return [*plan, *[self] * max_iter][:max_iter] + [self]

    def to_basis(self, rows: Any) -> Any:
        """Vectors of features in the basis."""
        return rows if self.basis is None else _product(rows, self.basis)

    def from_basis(self, rows: Any) -> Any:
        """Vectors of the basis as features."""
        return rows if self.basis is None else _product(rows, self.basis.T)

    def rotated_atoms(self, chosen: Any) -> Array:
        """Some atoms in the basis, as precise as a Newton equation needs them."""
        if self.condition <= _SINGLE_CONDITION:
            return self.rotated[chosen].astype(np.float64)
        rows: Array = self.to_basis(self.atoms[chosen].astype(np.float64))
        return rows


def prepare(problem: CodingProblem, dictionary: Dictionary) -> Prepared:
    """Find the eigenvectors of X X' and rotate the atoms to them."""
    atoms, l2, w = dictionary.atoms, problem.l2, problem.l2 + problem.neg_weight
    basis: Array | None = None
    if dictionary.spectrum is None:
        basis, eigenvalues = _eigenvectors(atoms)
    else:
        eigenvalues = np.asarray(dictionary.spectrum, np.float64)
    empty = np.empty((0, 0), np.float32)
    alpha = l2 + l2 * (l2 / problem.neg_weight)
    prepared = Prepared(atoms, basis, eigenvalues, empty, l2, w, alpha, dictionary.longest)
    if basis is None:
        return replace(prepared, rotated=atoms.astype(np.float32, copy=False))
    rotated = np.empty((len(atoms), len(eigenvalues)), np.float32)
    for part, some in _chunks(atoms, np.float64):
        rotated[part] = some @ basis
    return replace(prepared, rotated=rotated)


def _eigenvectors(atoms: FloatArray) -> tuple[Array, Array]:
    """Orthonormal eigenvectors of X X' that span the atoms, and their eigenvalues."""
    n_atoms, n_features = atoms.shape
    if n_atoms < n_features:
        span, triangle = qr(atoms.T.astype(np.float64), mode="economic", check_finite=False)
        eigenvalues, vectors = eigh(triangle @ triangle.T, check_finite=False)
        return span @ vectors, np.maximum(eigenvalues, 0)
    moment = np.zeros((n_features, n_features))
    for _, some in _chunks(atoms, np.float64):
        moment += some.T @ some
    eigenvalues, vectors = eigh(moment, check_finite=False)
    return vectors, np.maximum(eigenvalues, 0)


def _chunks(atoms: FloatArray, dtype: Any) -> Iterator[tuple[slice, Any]]:
    """Consecutive atoms, converted to a precision."""
    for first in range(0, len(atoms), _ATOMS_AT_ONCE):
        part = slice(first, first + _ATOMS_AT_ONCE)
        yield part, atoms[part].astype(dtype, copy=False)


def _product(rows: Any, matrix: Any) -> Any:
    """``rows @ matrix``, with zero rows added so that the result of a row does not depend on their number."""
    count = len(rows)
    missing = -count % ROW_MULTIPLE
    if missing:
        rows = np.concatenate([rows, np.zeros((missing, rows.shape[1]), rows.dtype)])
    return (rows @ matrix)[:count]


@dataclass
class Certificate:
    """What is known about the codes of one block."""

    n_iter: npt.NDArray[np.int64]
    violation: Array
    gap: Array


class _Open:
    """The queries of a block that are not solved yet: row i of every array belongs to query ``row[i]``."""

    def __init__(self, queries: Array, goal: float, n_atoms: int) -> None:
        n_queries = len(queries)
        self.row = np.arange(n_queries)
        self.query = queries
        self.residual = np.zeros_like(queries)  # r
        self.defect = -queries  # F(r)
        self.prices = np.zeros((n_queries, n_atoms))  # X'r
        self.estimate = np.ones(n_queries)  # of the gap
        self.goal = np.full(n_queries, goal)  # of the estimate
        self.stalled = np.zeros(n_queries, np.int64)  # steps in sequence that hardly reduced it

    def keep(self, chosen: npt.NDArray[np.bool_]) -> None:
        """Drop all other queries."""
        if not chosen.all():
            for name, array in vars(self).items():
                setattr(self, name, array[chosen])


def solve_block(
    prepared: Prepared, queries: Array, codes: FloatArray, tol: float, max_iter: int
) -> Certificate:
    """Write the codes of unit (or zero) queries given in the basis, each solved in at most max_iter steps."""
    n_queries, n_atoms = codes.shape
    solved = Certificate(np.zeros(n_queries, np.int64), np.zeros(n_queries), np.zeros(n_queries))
    codes[:] = 0
    goal, enough = tol / 4, _WORTH_A_LOOK
    if tol <= _POLISH:
        goal, enough = _POLISHED * min(prepared.l2, 1 / prepared.l2), 1
    plan = prepared.stages(max_iter)
    still = _Open(queries, goal, n_atoms)
    still.keep(np.abs(queries).max(axis=1, initial=0.0) > 0)
    guesses, points = _warm_start(plan[0], still.query)
    for step, (stage, following) in enumerate(pairwise(plan), start=1):
        if not len(still.row):
            break
        if stage.factors or step > _CG_ROUNDS:
            directions = _exact_directions(stage, still.defect, guesses if step == 1 else still.prices)
        elif step == 1:
            directions = _first_directions(stage, still, guesses, points)
        else:
            directions = _newton_directions(stage, still.prices, still.defect, still.estimate, still.goal)
        _step(stage, following, still, directions)
        end = step == max_iter
        promising = (still.estimate <= enough * still.goal) | (still.stalled >= 2) | end
        if following.alpha > prepared.alpha or not promising.any():
            continue
        found, gap, violation = _certified(prepared, still, promising)
        good = (gap <= tol) | end
        rows = still.row[promising][good]
        codes[rows], solved.n_iter[rows] = found[good], step
        solved.gap[rows], solved.violation[rows] = gap[good], violation[good]
        still.goal[promising] /= 100
        promising[promising] = good
        still.keep(~promising)
    return solved


def _step(stage: Prepared, following: Prepared, still: _Open, directions: Array) -> None:
    """Take every open query to the best point along its direction; F is then for the weights that follow."""
    changes = _correlations(stage, directions)
    slopes = np.einsum("ij,ij->i", directions, still.defect)
    squares = np.einsum("ij,ij->i", directions, directions)
    lengths = np.empty(len(slopes))
    step_lengths(still.prices, changes, slopes, squares, stage.l2, stage.w, lengths)
    still.residual += lengths[:, None] * directions
    advance(still.prices, changes, lengths, following.l2, following.w)
    still.defect = still.residual + _combinations(following, changes) - still.query
    estimate = _estimates(following, still.defect)
    hardly = (estimate > 0.25 * still.estimate) & (stage.alpha == following.alpha)
    still.stalled = np.where(hardly, still.stalled + 1, 0)
    still.estimate = estimate


def _estimates(prepared: Prepared, defects: Any) -> Array:
    """About the gap that the end of the solution would leave: X_P X_P' is at most X X', which is diagonal."""
    return defects**2 @ (prepared.l2 / prepared.alpha**2 * prepared.eigenvalues * prepared.metric**2)


def _correlations(prepared: Prepared, vectors: Array) -> Array:
    """``X'v`` for every vector of the basis."""
    dtype = prepared.precision
    rows = prepared.from_basis(vectors).astype(dtype, copy=False)
    if prepared.atoms.dtype == dtype == np.float64:
        return _product(rows, prepared.atoms.T)
    out = np.empty((len(rows), len(prepared.atoms)))
    for part, some in _chunks(prepared.atoms, dtype):
        out[:, part] = _product(rows, some.T)
    return out


def _combinations(prepared: Prepared, codes: Array) -> Array:
    """``Xc`` in the basis for every code."""
    dtype = prepared.precision
    out = np.zeros((len(codes), prepared.atoms.shape[1]))
    for part, some in _chunks(prepared.atoms, dtype):
        out += _product(codes[:, part].astype(dtype, copy=False), some)
    return prepared.to_basis(out)


def _warm_start(prepared: Prepared, queries: Array) -> tuple[Any, Any]:
    """The state s of ADMM for every query, positive about where X'r is, and the r that belongs to it."""
    metric, alpha, single = prepared.metric, prepared.alpha, np.float32
    rho = np.sqrt(alpha * max(prepared.top, alpha))
    beta = alpha + rho
    kernel = metric / (prepared.eigenvalues * metric + beta)  # K
    start = (_RELAX / beta * queries * metric * (1 - prepared.eigenvalues * kernel)).astype(single)
    back = (_RELAX / beta * rho * kernel).astype(single)
    size_weight, sign_weight = single(_RELAX * rho / beta - _RELAX / 2), single(1 - _RELAX / 2)
    state = np.zeros((len(queries), len(prepared.atoms)), single)
    reach = np.zeros_like(start)  # X|s|, at last Xp
    for step in range(1, _WARM_STEPS + 1):
        point, reach = start - back * reach, np.zeros_like(start)
        for part, some in _chunks(prepared.rotated, single):
            product = _product(point, some.T)
            relax(state[:, part], size_weight, sign_weight, product, step == _WARM_STEPS)
            reach += _product(product, some)
    return state, (metric * (queries - reach)).astype(single)


def _first_directions(prepared: Prepared, still: _Open, guesses: Any, points: Any) -> Array:
    """Where two Newton steps in float32 lead from the points: directions from r = 0, where F = -y.

    The first step is for the P that is guessed, the second for the P that it leads to.
    """
    single = np.float32
    queries, metric, alpha = (
        still.query.astype(single),
        prepared.metric.astype(single),
        single(prepared.alpha),
    )
    first_steps(prepared.rotated, guesses, metric, alpha, queries, single(_CG_TOLS[1]), points)
    prices, defects = np.empty(guesses.shape, single), points - queries
    for part, some in _chunks(prepared.rotated, single):
        q = _product(points, some.T)
        prices[:, part] = q
        q *= np.where(q > 0, single(1 / prepared.l2), single(1 / prepared.w))
        defects += _product(q, some)
    return points + _newton_directions(prepared, prices, defects, _estimates(prepared, defects), still.goal)


def _newton_directions(
    prepared: Prepared, prices: Any, defects: Any, estimates: Array, goals: Array
) -> Array:
    """Newton directions by conjugate gradients, as precise as the next step can make use of."""
    single = np.float32
    scale = np.abs(defects).max(axis=1).astype(np.float64)
    scale[scale == 0] = 1
    # What P still changes limits a step to about the square of the distance.
    tols = 0.2 * np.sqrt(goals / np.maximum(estimates, goals))
    tols = np.clip(np.maximum(tols, 0.03 * np.sqrt(estimates)), *_CG_TOLS).astype(single)
    lefts = (-defects / scale[:, None]).astype(single)
    steps = np.empty_like(lefts)
    metric, alpha = prepared.metric.astype(single), single(prepared.alpha)
    newton_steps(prepared.rotated, prices, metric, alpha, scale, lefts, tols, steps)
    return steps * scale[:, None]


def _exact_directions(prepared: Prepared, defects: Array, prices: Any) -> Array:
    """Newton directions by a Cholesky factorisation for every query, in the smaller dimension."""
    directions = np.empty_like(defects)
    root = np.sqrt(prepared.metric)
    for i, defect in enumerate(defects):
        scaled = prepared.rotated_atoms(np.flatnonzero(prices[i] > 0)) * root  # (n_chosen, rank)
        right = -root * defect
        few = len(scaled) <= len(root)
        gram = scaled @ scaled.T if few else scaled.T @ scaled
        diagonal = np.einsum("ii->i", gram)
        # Below the rounding of the matrix a smaller alpha would not be seen.
        alpha = max(prepared.alpha, 1e-14 * len(gram) * diagonal.max(initial=0.0))
        diagonal += alpha
        if not few:
            right = alpha * dposv(gram, right, overwrite_a=True)[1]
        elif len(gram):
            right = right - dposv(gram, scaled @ right, overwrite_a=True)[1] @ scaled
        directions[i] = root * right
    return directions


def _certified(prepared: Prepared, still: _Open, chosen: npt.NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Codes p + X'r_p / w of some open queries, their gap and violation."""
    residuals = still.residual[chosen] - prepared.metric * still.defect[chosen]
    inner = _correlations(prepared, residuals)
    codes = still.prices[chosen]
    gap, violation = np.empty(len(codes)), np.empty(len(codes))
    errors = (prepared.rounding, prepared.longest)
    correct_codes(codes, inner, prepared.alpha, prepared.l2, prepared.w, *errors, gap, violation)
    return codes, gap, violation


def certify_codes(prepared: Prepared, queries: Array, codes: Array) -> tuple[Array, Array]:
    """Gap and violation of codes from their own residuals, all in float64."""
    residuals = queries.copy()
    inner = np.empty(codes.shape)
    for part, some in _chunks(prepared.atoms, np.float64):
        residuals -= prepared.to_basis(codes[:, part] @ some)
    whole = prepared.from_basis(residuals)
    for part, some in _chunks(prepared.atoms, np.float64):
        inner[:, part] = whole @ some.T
    gap, violation = np.empty(len(codes)), np.empty(len(codes))
    certify(codes, inner, prepared.l2, prepared.w, prepared.rounding, prepared.longest, gap, violation)
    return gap, violation
