"""The coding problem that NSC, SRC, CRC, ProCRC, NRC and SoftNRC share, and its certified solutions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray

Float64Array = npt.NDArray[np.float64]

CERTIFICATE_FIELDS = ("n_iter", "violation", "gap", "converged")


@dataclass(frozen=True)
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
        Duality gap divided by ``||y||^2``: an upper bound on how far the objective is from its minimum.
    converged : ndarray of bool, shape (n_queries,)
        Whether the query met the tolerance that was asked for.
    """

    codes: Any
    n_iter: npt.NDArray[np.int64]
    violation: Float64Array
    gap: Float64Array
    converged: npt.NDArray[np.bool_]


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
        """Upper bound on ``(value(c) - min value) / ||y||^2``, shape (n_queries,); 0 for a zero query.

        For ``shared = 1, classwise = 0`` the bound is the duality gap: with ``r = y - Xc`` (made feasible
        where there is no l2 to absorb a violation) the dual value is ``2r'y - ||r||^2 - sum_j phi*(2x_j'r)``.
        Otherwise strong convexity gives ``||gradient/2||^2 / l2``.
        """
        queries = np.asarray(queries, dtype=np.float64)
        codes = np.asarray(codes, dtype=np.float64)
        energy = np.sum(queries**2, axis=1)  # (n_queries,)
        if self.shared == 1 and self.classwise == 0:
            residual = queries - dictionary.combinations(codes)
            primal = np.sum(residual**2, axis=1) + self._penalty(codes)
            # r = 0 is always feasible, so the dual value is never below zero.
            bound = primal - np.maximum(self._dual(dictionary, queries, residual), 0)
            # Below this, rounding of the two values hides the sign of their difference.
            bound = np.maximum(bound, 0)
        elif self.is_linear and self.l2 > 0:
            half = self.gradient(dictionary, queries, codes) / 2
            bound = np.sum(half**2, axis=1) / self.l2
        else:
            raise ValueError(
                f"No certificate is known for {self}: use shared=1 with classwise=0, or l1=0, neg_weight=0 "
                "and l2 > 0."
            )
        return np.divide(bound, energy, out=np.zeros_like(bound), where=energy > 0)

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
        return Solution(codes, n_iter, violation, gap, converged)

    def _penalty(self, codes: FloatArray) -> Float64Array:
        penalty = self.l2 * np.sum(codes**2, axis=1) + self.l1 * np.sum(np.abs(codes), axis=1)
        if math.isinf(self.neg_weight):
            return penalty + np.where((codes < 0).any(axis=1), np.inf, 0.0)
        if self.neg_weight:
            penalty += self.neg_weight * np.sum(np.minimum(codes, 0) ** 2, axis=1)
        return penalty

    def _dual(self, dictionary: Dictionary, queries: FloatArray, residual: FloatArray) -> Float64Array:
        prices = dictionary.correlations(residual)  # (n_queries, n_atoms)
        bounded_above = self.l2 == 0  # x_j'r <= l1/2 is a constraint
        bounded_below = self.l2 == 0 and self.neg_weight == 0
        if bounded_above and self.l1 > 0:
            largest = np.abs(prices).max(axis=1) if bounded_below else prices.max(axis=1)
            shrink = np.minimum(1.0, (self.l1 / 2) / np.maximum(largest, np.finfo(float).tiny))[:, None]
            residual, prices = shrink * residual, shrink * prices
        elif bounded_above and not bounded_below:
            if dictionary.interior is None:
                return np.zeros(len(queries))
            excess = np.maximum(prices.max(axis=1), 0)[:, None]
            residual = residual - excess * dictionary.interior
            # The feasible set is a cone here, so the best multiple of the point is free.
            along, length = np.sum(residual * queries, axis=1), np.sum(residual**2, axis=1)
            multiple = np.divide(np.maximum(along, 0), length, out=np.ones_like(along), where=length > 0)
            return 2 * multiple * along - multiple**2 * length
        elif bounded_above:
            return np.zeros(len(queries))
        value = 2 * np.sum(residual * queries, axis=1) - np.sum(residual**2, axis=1)
        if self.l2 > 0:
            value -= np.sum(np.maximum(prices - self.l1 / 2, 0) ** 2, axis=1) / self.l2
            if math.isfinite(self.neg_weight):
                below = np.sum(np.maximum(-prices - self.l1 / 2, 0) ** 2, axis=1)
                value -= below / (self.l2 + self.neg_weight)
        elif math.isfinite(self.neg_weight) and self.neg_weight > 0:
            value -= np.sum(np.maximum(-prices - self.l1 / 2, 0) ** 2, axis=1) / self.neg_weight
        return value


def _wide(array: FloatArray) -> Float64Array:
    return array.astype(np.float64, copy=False)


def stack(solutions: list[Solution]) -> Solution:
    """The solutions of consecutive blocks of queries as one."""
    if len(solutions) == 1:
        return solutions[0]
    join = sp.vstack if sp.issparse(solutions[0].codes) else np.concatenate
    columns = [np.concatenate([getattr(s, f) for s in solutions]) for f in CERTIFICATE_FIELDS]
    return Solution(join([s.codes for s in solutions]), *columns)


def dense(codes: Any) -> FloatArray:
    """Codes as an ndarray."""
    return codes.toarray() if sp.issparse(codes) else codes
