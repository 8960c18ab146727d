"""Soft non-negative coding: minimise_c ||y - Xc||^2 + l2 ||c||^2 + neg_weight ||min(c, 0)||^2."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, qr
from sklearn.exceptions import ConvergenceWarning

from ._blas import run_blocks
from ._newton_exact import newton_exact
from .base import FloatArray, Solution

_BLOCK = 128


@dataclass(frozen=True)
class PreparedNewton:
    """What depends on the dictionary and the weights alone; made by :func:`prepare_newton`."""

    l2: float
    neg_weight: float
    basis: npt.NDArray[np.float64]  # (n_features, rank)
    atoms: npt.NDArray[np.float64]  # (n_atoms, rank), X in the basis where X X' is diagonal
    shrink: npt.NDArray[np.float64]  # (rank,), diagonal of (I + X X' / (l2 + neg_weight))^-1

    @property
    def w_neg(self) -> float:
        return self.l2 + self.neg_weight

    @property
    def alpha(self) -> float:
        return self.w_neg * self.l2 / self.neg_weight if self.neg_weight else np.inf


def prepare_newton(atoms: FloatArray, l2: float = 0.01, neg_weight: float = 1.0) -> PreparedNewton:
    """Factor the dictionary once for many calls of :func:`solve_newton`."""
    if not (np.isfinite(l2) and l2 > 0):
        raise ValueError(f"The 'l2' parameter of solve_newton must be a positive finite number. Got {l2!r} instead.")
    if not (np.isfinite(neg_weight) and neg_weight >= 0):
        raise ValueError(
            f"The 'neg_weight' parameter of solve_newton must be a non-negative finite number. Got {neg_weight!r} "
            "instead; for an infinite weight solve the non-negative problem."
        )
    exact = np.asarray(atoms, dtype=np.float64)
    basis = np.eye(exact.shape[1])
    if exact.shape[0] < exact.shape[1]:
        basis, triangle = qr(exact.T, mode="economic", check_finite=False)
        exact = triangle.T
    eigenvalues, vectors = eigh(exact.T @ exact, check_finite=False)
    shrink = 1 / (1 + np.maximum(eigenvalues, 0) / (l2 + neg_weight))
    rotated = np.ascontiguousarray(exact @ vectors)
    return PreparedNewton(float(l2), float(neg_weight), basis @ vectors, rotated, shrink)


def solve_newton(
    atoms: FloatArray,
    queries: FloatArray,
    *,
    l2: float = 0.01,
    neg_weight: float = 1.0,
    tol: float = 1e-10,
    max_iter: int = 100,
    n_jobs: int | None = None,
    prepared: PreparedNewton | None = None,
) -> Solution:
    prep = prepare_newton(atoms, l2, neg_weight) if prepared is None else prepared
    if (prep.l2, prep.neg_weight, len(prep.atoms), len(prep.basis)) != (l2, neg_weight, *np.shape(atoms)):
        raise ValueError("'prepared' was made for other atoms, l2 or neg_weight; call prepare_newton again.")
    dtype = np.result_type(np.asarray(atoms).dtype, np.asarray(queries).dtype, np.float32)
    n_queries, n_atoms = len(queries), len(atoms)
    codes = np.empty((n_queries, n_atoms), dtype)
    n_iter = np.zeros(n_queries, np.int64)
    violation, gap = np.zeros(n_queries), np.zeros(n_queries)

    def task(start: int, stop: int) -> None:
        rows = slice(start, stop)
        unit, norms = _unit_rows(np.asarray(queries[rows], np.float64))
        solved, n_iter[rows] = _solve_block(prep, unit @ prep.basis, max_iter)
        _certify(prep, unit @ prep.basis, solved, violation[rows], gap[rows])
        violation[rows] *= norms
        codes[rows] = solved * norms[:, None]

    run_blocks(task, n_queries, _BLOCK, n_jobs)
    converged = gap <= tol
    if not converged.all():
        warnings.warn(
            f"{np.sum(~converged)} of {n_queries} codes did not reach the relative duality gap tol={tol:g} "
            f"(largest {gap.max():.1e}); raise max_iter or l2, or accept a larger tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Solution(codes, n_iter, violation, gap, converged)


def _unit_rows(rows):
    """Return rows of unit norm and the norms; the problem is positively homogeneous in the query."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    rows = rows / safe[:, None]
    norms = np.linalg.norm(rows, axis=1)
    return rows / np.where(norms > 0, norms, 1.0)[:, None], norms * safe


def _solve_block(prep, block, max_iter):
    """Codes of unit queries given in the prepared basis."""
    if prep.neg_weight == 0:
        return (block * prep.shrink) @ prep.atoms.T / prep.l2, 0
    weights = (prep.l2, prep.w_neg, prep.alpha)
    steps = np.zeros(len(block), np.int64)
    residuals = np.empty_like(block)
    for i, query in enumerate(block):
        residuals[i], steps[i] = newton_exact(
            prep.atoms, prep.shrink, query, weights=weights, max_iter=max_iter
        )
    inner = residuals @ prep.atoms.T
    return inner / np.where(inner > 0, prep.l2, prep.w_neg), steps


def _certify(prep, block, codes, violation, gap):
    """Write the half gradient's largest entry and (primal - dual) / ||y||^2 of unit queries."""
    residuals = block - codes @ prep.atoms
    inner = residuals @ prep.atoms.T
    weighted = np.where(codes > 0, prep.l2, prep.w_neg) * codes
    np.abs(weighted - inner).max(axis=1, out=violation)
    dual_weights = np.where(inner > 0, prep.l2, prep.w_neg)
    # primal - dual = 2||r||^2 - 2r'y + sum w c^2 + sum q^2/v, and r - y = -Xc
    np.sum(weighted * codes - 2 * inner * codes + inner * inner / dual_weights, axis=1, out=gap)
    np.maximum(gap, 0.0, out=gap)
