"""Soft non-negative coding: minimise_c ||y - Xc||^2 + l2 ||c||^2 + neg_weight ||min(c, 0)||^2."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, qr
from sklearn.exceptions import ConvergenceWarning

from ._blas import run_blocks
from ._newton_block import Prepared, solve_block
from .base import FloatArray, Solution

_BLOCK = 128


def prepare_newton(atoms: FloatArray, l2: float = 0.01, neg_weight: float = 1.0) -> Prepared:
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
    rotated = np.ascontiguousarray(exact @ vectors)
    return Prepared(float(l2), float(neg_weight), basis @ vectors, rotated, np.maximum(eigenvalues, 0))


def solve_newton(
    atoms: FloatArray,
    queries: FloatArray,
    *,
    l2: float = 0.01,
    neg_weight: float = 1.0,
    tol: float = 1e-10,
    max_iter: int = 100,
    n_jobs: int | None = None,
    prepared: Prepared | None = None,
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
        block = solve_block(prep, unit @ prep.basis, tol, max_iter)
        codes[rows] = block.codes * norms[:, None]
        n_iter[rows], gap[rows] = block.n_iter, block.gap
        violation[rows] = block.violation * norms

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


