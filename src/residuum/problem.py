"""The coding problem that all classifiers share, and its certified solutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray

Float64Array = npt.NDArray[np.float64]

_U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order

CERTIFICATE_FIELDS = ("n_iter", "violation", "gap", "converged")


@dataclass(frozen=True, repr=False)
class Solution:
    """Codes with a certificate per query.

    Attributes
    ----------
    codes : ndarray or scipy.sparse.csr_array of shape (n_queries, n_atoms)
        One row per query.
    n_iter : ndarray of int, shape (n_queries,)
        Iterations spent on each query.
    violation : ndarray of float64, shape (n_queries,)
        Largest violation of the optimality conditions over the atoms; for non-negative codes
        ``max|min(c, X'(Xc - y))|``.
    gap : ndarray of float64, shape (n_queries,)
        Upper bound on how far the objective is from its minimum, divided by ``||y||^2``. It holds for the
        atoms, the query and the code exactly as they are, rounding included. Where nothing better can be
        proved it is the objective itself.
    converged : ndarray of bool, shape (n_queries,)
        Whether the query met the tolerance that was asked for. Never True for a code that is not finite.
    """

    codes: Any
    n_iter: npt.NDArray[np.int64]
    violation: Float64Array
    gap: Float64Array
    converged: npt.NDArray[np.bool_]

    def __repr__(self) -> str:
        n_queries, n_atoms = self.codes.shape if self.codes.ndim == 2 else (1, len(self.codes))
        if not n_queries:
            return f"Solution(no queries, {n_atoms} atoms)"
        support = (self.codes.nnz if sp.issparse(self.codes) else np.count_nonzero(self.codes)) / n_queries
        measured = not np.isnan(self.gap).any()
        worst = f"worst violation {np.max(self.violation):.2g}, worst gap {np.max(self.gap):.2g}"
        return (
            f"Solution({n_queries} {'query' if n_queries == 1 else 'queries'}, {n_atoms} atoms, mean support "
            f"{support:.4g}, {worst if measured else 'violation and gap not measured'}, "
            f"{np.count_nonzero(self.converged)} of {n_queries} converged)"
        )


@dataclass(frozen=True)
class CodingProblem:
    """``min_c c'(shared*G + classwise*B + l2*I)c - 2c'X'y + l1*||c||_1 + neg_weight*||min(c, 0)||^2``.

    ``G = X'X``, and ``B`` is ``G`` with everything outside the diagonal blocks of the classes set to zero.
    ``neg_weight = inf`` is the constraint ``c >= 0``.
    """

    shared: float = 1.0
    classwise: float = 0.0
    l2: float = 0.0
    l1: float = 0.0
    neg_weight: float = 0.0

    @property
    def is_linear(self) -> bool:
        """Whether the minimiser is a linear function of the query."""
        return self.l1 == 0 and self.neg_weight == 0

    def value(self, dictionary: Dictionary, queries: FloatArray, codes: FloatArray) -> Float64Array:
        """Objective of each query, shape (n_queries,)."""
        codes = np.asarray(codes, dtype=np.float64)
        whole = dictionary.combinations(codes)  # (n_queries, n_features)
        value = self.shared * np.sum(whole**2, axis=1) - 2 * np.sum(whole * queries, axis=1)
        if self.classwise:
            for block in dictionary.blocks:
                value += self.classwise * np.sum(
                    (codes[:, block] @ _wide(dictionary.atoms[block])) ** 2, axis=1
                )
        return value + self._penalty(codes)

    def gradient(self, dictionary: Dictionary, queries: FloatArray, codes: FloatArray) -> Float64Array:
        """Gradient of the smooth part (all but l1 and an infinite neg_weight), shape (n_queries, n_atoms)."""
        codes = np.asarray(codes, dtype=np.float64)
        half: Float64Array = np.asarray(
            dictionary.correlations(self.shared * dictionary.combinations(codes) - queries), dtype=np.float64
        )
        half += self.l2 * codes
        if self.classwise:
            for block in dictionary.blocks:
                atoms = _wide(dictionary.atoms[block])
                half[:, block] += self.classwise * ((codes[:, block] @ atoms) @ atoms.T)
        if math.isfinite(self.neg_weight) and self.neg_weight:
            half += self.neg_weight * np.minimum(codes, 0)
        return 2 * half

    def violation(self, dictionary: Dictionary, queries: FloatArray, codes: FloatArray) -> Float64Array:
        """``max_j |c_j - prox_j(c - gradient/2)|``, shape (n_queries,): zero exactly at a minimiser.

        Without l1 and for ``neg_weight = inf`` this is ``max|min(c, X'(Xc - y))|``, the KKT violation of
        non-negative least squares; without either it is half the largest entry of the gradient.
        """
        codes = np.asarray(codes, dtype=np.float64)
        half = self.gradient(dictionary, queries, codes) / 2
        if self.l1 == 0 and math.isfinite(self.neg_weight):
            return np.abs(half).max(axis=1, initial=0.0)
        smooth_apart = CodingProblem(l1=self.l1, neg_weight=math.inf if math.isinf(self.neg_weight) else 0.0)
        return np.abs(codes - smooth_apart.prox(codes - half, 2.0)).max(axis=1, initial=0.0)

    def prox(self, points: FloatArray, rho: float) -> FloatArray:
        """``argmin_z l1*||z||_1 + neg_weight*||min(z, 0)||^2 + rho/2*||z - points||^2``, entry by entry."""
        threshold = self.l1 / rho
        above = np.maximum(points - threshold if threshold else points, 0)
        if math.isfinite(self.neg_weight):
            shrink = rho / (rho + 2 * self.neg_weight)
            above += shrink * np.minimum(points + threshold, 0)
        return above

    def gap(self, dictionary: Dictionary, queries: FloatArray, codes: FloatArray) -> Float64Array:
        """Upper bound on ``(value(c) - min value) / ||y||^2``, shape (n_queries,), rounding included.

        For ``shared = 1, classwise = 0`` the bound is a duality gap. With the penalty phi(c_j) of one code,
        its conjugate phi*, r = y - Xc and any vector r' it is
        ``||r - r'||^2 + sum_j phi(c_j) - 2 c_j x_j'r' + phi*(2 x_j'r')``, where no term is negative.
        Where phi* may be infinite, r' is r moved or shrunk until it is not; r' = 0 serves where no better
        vector is known. Otherwise strong convexity gives ``||gradient/2||^2 / l2``. The gap is inf for codes
        that are infeasible or not finite.
        """
        queries, codes = np.asarray(queries, dtype=np.float64), np.asarray(codes, dtype=np.float64)
        exponents = np.frexp(np.abs(queries).max(axis=1, initial=0.0))[1][:, None]
        # Powers of two, which round nothing, keep the squares of extreme queries within range.
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            queries, codes = np.ldexp(queries, -exponents), np.ldexp(codes, -exponents)
            l1 = np.ldexp(self.l1, -exponents)
            energy = np.sum(queries**2, axis=1)  # (n_queries,)
            if self.shared == 1 and self.classwise == 0:
                bound = self._duality_gap(dictionary, queries, codes, l1 / 2)
            elif self.is_linear and self.l2 > 0:
                half = np.abs(self.gradient(dictionary, queries, codes)) / 2
                longest = dictionary.longest
                reach = longest * np.abs(codes).sum(axis=1, keepdims=True)
                reach *= abs(self.shared) + abs(self.classwise)
                depth = dictionary.n_features + dictionary.n_atoms + 8
                half += _U * depth * longest * (reach + np.sqrt(energy)[:, None])
                half += _U * 4 * self.l2 * np.abs(codes)
                bound = np.sum(half**2 / self.l2, axis=1)
            else:
                raise ValueError(
                    f"No certificate is known for {self}: use shared=1 with classwise=0, or l1=0, "
                    "neg_weight=0 and l2 > 0."
                )
            relative = np.where(bound > 0, bound / energy, 0.0)
        return np.where(np.isnan(bound), np.inf, relative)

    def _duality_gap(
        self, dictionary: Dictionary, queries: FloatArray, codes: FloatArray, half_l1: FloatArray
    ) -> Float64Array:
        residual = queries - dictionary.combinations(codes)
        norm, reach = np.sqrt(np.sum(residual**2, axis=1)), dictionary.longest * np.abs(codes).sum(axis=1)
        rho = _U * (dictionary.n_atoms + 16) * (np.sqrt(np.sum(queries**2, axis=1)) + reach)  # error of it
        zero = np.zeros((1, 1))
        primal = (norm + rho) ** 2 + self.dual_terms(codes, zero, zero, half_l1)
        point, lowest, highest = self._dual_point(dictionary, queries, residual, half_l1)
        apart = np.sqrt(np.sum((residual - point) ** 2, axis=1)) + rho
        apart += 4 * _U * (norm + np.sqrt(np.sum(point**2, axis=1)))
        return np.fmin(primal, apart**2 + self.dual_terms(codes, lowest, highest, half_l1)) * (1 + 1e-12)

    def dual_terms(
        self, codes: FloatArray, lowest: FloatArray, highest: FloatArray, half_l1: FloatArray
    ) -> Float64Array:
        """``sum_j phi(c_j) - 2 c_j q_j + phi*(2 q_j)`` at most, for prices q from an interval.

        A term is a convex function of q, so it is largest at an end. The form does not cancel.
        """
        total = np.zeros(len(codes))
        for sign, weight in ((1.0, self.l2), (-1.0, self.l2 + self.neg_weight)):
            code = np.maximum(sign * codes, 0)
            ends = (_one_sided(code, sign * q - half_l1, weight) for q in (lowest, highest))
            total += np.sum(np.maximum(*ends), axis=1)
        return total

    def _dual_point(
        self, dictionary: Dictionary, queries: FloatArray, residual: FloatArray, half_l1: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The vector r', and intervals of its prices: the residual unless a conjugate is infinite there."""
        prices = dictionary.correlations(residual)  # (n_queries, n_atoms)
        depth = _U * (dictionary.n_features + 8) * dictionary.longest
        tau = depth * np.sqrt(np.sum(residual**2, axis=1, keepdims=True))  # error of a price
        two_sided = self.neg_weight == 0
        inner = dictionary.interior if self.l2 == self.l1 == 0 else np.empty(0)
        largest = (np.abs(prices) if two_sided else prices).max(axis=1, keepdims=True) + 2 * tau
        if self.l2 > 0 or (self.l1 == 0 and (two_sided or not len(inner))):
            return residual, prices - tau, prices + tau
        if self.l1 > 0:
            shrink = np.minimum(1.0, half_l1 / np.maximum(largest, half_l1))
            point, prices = shrink * residual, shrink * prices
            lowest = -half_l1 if two_sided else -np.inf
            return point, np.maximum(prices - tau, lowest), np.minimum(prices + tau, half_l1)
        step = np.maximum(largest, 0)
        point, prices = residual - step * inner, prices - step * dictionary.correlations(inner[None])
        tau = tau + 2 * depth * step * np.linalg.norm(inner)
        if math.isinf(self.neg_weight):
            # The feasible set is a cone here, so the best multiple of the point is free.
            along, length = np.sum(point * queries, axis=1), np.sum(point**2, axis=1)
            multiple = np.divide(np.maximum(along, 0), length, out=np.ones_like(along), where=length > 0)
            multiple = np.minimum(multiple, 1.0)[:, None]
            point, prices = multiple * point, multiple * prices
        return point, prices - tau, np.minimum(prices + tau, 0)

    def certified(
        self,
        dictionary: Dictionary,
        queries: FloatArray,
        codes: FloatArray,
        *,
        n_iter: npt.NDArray[np.int64],
        converged: npt.NDArray[np.bool_],
        certify: bool,
    ) -> Solution:
        """A Solution whose violation and gap are measured in float64, or NaN when not asked for."""
        violation = gap = np.full(len(queries), np.nan)
        if certify:
            violation = self.violation(dictionary, queries, codes)
            gap = self.gap(dictionary, queries, codes)
            converged = converged & np.isfinite(gap)
        return Solution(codes, n_iter, violation, gap, converged)

    def _penalty(self, codes: FloatArray) -> Float64Array:
        penalty = self.l2 * np.sum(codes**2, axis=1) + self.l1 * np.sum(np.abs(codes), axis=1)
        if math.isinf(self.neg_weight):
            return penalty + np.where((codes < 0).any(axis=1), np.inf, 0.0)
        if self.neg_weight:
            penalty += self.neg_weight * np.sum(np.minimum(codes, 0) ** 2, axis=1)
        return penalty


def _one_sided(code: FloatArray, over: FloatArray, weight: float) -> FloatArray:
    """``weight c^2 - 2 c q + max(q, 0)^2 / weight`` for codes c >= 0 and q = ``over``."""
    if weight == 0:
        return np.where(over > 0, np.inf, -2 * code * over)
    if math.isinf(weight):
        return np.where(code > 0, np.inf, 0.0)
    outside = (np.sqrt(weight) * code - over / np.sqrt(weight)) ** 2
    return np.where(over > 0, outside, code * (weight * code - 2 * over))


def _wide(array: FloatArray) -> Float64Array:
    return array.astype(np.float64, copy=False)


def stack(solutions: list[Solution]) -> Solution:
    """The solutions of consecutive blocks of queries as one."""
    if len(solutions) == 1:
        return solutions[0]
    codes = [s.codes for s in solutions]
    # The stack of sparse arrays has another type in SciPy 1.11.
    joined = sp.csr_array(sp.vstack(codes, format="csr")) if sp.issparse(codes[0]) else np.concatenate(codes)
    columns = [np.concatenate([getattr(s, f) for s in solutions]) for f in CERTIFICATE_FIELDS]
    return Solution(joined, *columns)


def dense(codes: Any) -> FloatArray:
    """Codes as an ndarray."""
    return codes.toarray() if sp.issparse(codes) else codes
