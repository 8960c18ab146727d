"""Soft non-negative coding: minimise_c ||y - Xc||^2 + l2 ||c||^2 + neg_weight ||min(c, 0)||^2."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, qr
from sklearn.exceptions import ConvergenceWarning

from residuum.system.threads import run_chunks, thread_count

from ._newton_block import Prepared, certify, solve_block
from ._room import Room
from .base import FloatArray, Solution

_BLOCK_ENTRIES = 2_000_000  # codes at once in one thread: 16 MB, and about ten arrays of that size
_SINGLE_TOL = 1e-6
_GRAM_ATOMS = 8000  # 256 MB

Array = npt.NDArray[np.float64]


def prepare_newton(
    atoms: FloatArray,
    l2: float = 0.01,
    neg_weight: float = 1.0,
    *,
    spectrum: FloatArray | None = None,
    room: int = 0,
) -> Prepared:
    """Factor the dictionary once for many calls of :func:`solve_newton`.

    Where the features are eigenvectors of ``X X'`` already, ``spectrum`` holds its diagonal and nothing is
    factored. ``room`` is the number of atoms that may join later without a copy of all.
    """
    if not (np.isfinite(l2) and l2 > 0):
        raise ValueError(
            f"The 'l2' parameter of solve_newton must be a positive finite number. Got {l2!r} instead."
        )
    if not (np.isfinite(neg_weight) and neg_weight >= 0):
        raise ValueError(
            "The 'neg_weight' parameter of solve_newton must be a non-negative finite number. "
            f"Got {neg_weight!r} instead; for an infinite weight solve the non-negative problem."
        )
    exact = np.asarray(atoms, dtype=np.float64)
    basis = np.eye(exact.shape[1])
    if spectrum is not None:
        return _with_gram(l2, neg_weight, basis, exact, np.asarray(spectrum, dtype=np.float64))
    if exact.shape[0] < exact.shape[1]:
        basis, triangle = qr(exact.T, mode="economic", check_finite=False)
        exact = triangle.T
    eigenvalues, vectors = eigh(exact.T @ exact, check_finite=False)
    return _with_gram(l2, neg_weight, basis @ vectors, exact @ vectors, np.maximum(eigenvalues, 0), room)


def _with_gram(
    l2: float, neg_weight: float, basis: Array, rotated: Array, eigenvalues: Array, room: int = 0
) -> Prepared:
    """The preparation, with ``X'MX`` where float32 makes progress and it does not take too much memory."""
    n_atoms, rank = rotated.shape
    capacity = n_atoms + room
    arrays = {"atoms": np.empty((capacity, rank)), "atoms32": np.empty((capacity, rank), np.float32)}
    for array in arrays.values():
        array[:n_atoms] = rotated
    parts = (float(l2), float(neg_weight), basis, arrays["atoms"][:n_atoms], eigenvalues)
    prep = Prepared(*parts, arrays["atoms32"][:n_atoms])
    if prep.well_conditioned and n_atoms <= _GRAM_ATOMS:
        arrays["gram32"] = np.empty((capacity, capacity), np.float32)
        scaled = prep.atoms32 * prep.shrink.astype(np.float32)
        np.matmul(scaled, prep.atoms32.T, out=arrays["gram32"][:n_atoms, :n_atoms])
        return replace(prep, gram32=arrays["gram32"], room=Room(n_atoms, arrays))
    return prep


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
    """Solve minimise_c ||y - Xc||^2 + l2 ||c||^2 + neg_weight ||min(c, 0)||^2 for each query y.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        The columns of X, as rows.
    queries : ndarray of shape (n_queries, n_features)
        One y per row.
    l2 : float, default=0.01
        Positive weight of the ridge.
    neg_weight : float, default=1.0
        Non-negative finite weight of the squared negative part; 0 is the ridge code in closed form.
    tol : float, default=1e-10
        Relative duality gap every query has to reach. Where atoms and queries are float32 it is at least
        1e-6: their codes are float32 and cannot promise more. At 1e-9 or below codes are polished to
        rounding.
    max_iter : int, default=100
        Limit on the Newton steps of the careful path, taken by queries the fast path gives up.
    n_jobs : int, optional
        Threads; ``None`` follows joblib.
    prepared : Prepared, optional
        From :func:`prepare_newton` with the same atoms and weights.

    Returns
    -------
    Solution
        Dense codes; ``n_iter`` counts corrections after the first certificate, ``violation`` is the largest
        entry of the half gradient, ``gap`` the duality gap over ||y||^2 (0 for a zero query).

    Examples
    --------
    >>> import numpy as np
    >>> solve_newton(np.eye(2), np.array([[1.0, -1.0]]), l2=1.0, neg_weight=2.0).codes
    array([[ 0.5 , -0.25]])
    """
    prep = prepare_newton(atoms, l2, neg_weight) if prepared is None else prepared
    if (prep.l2, prep.neg_weight, len(prep.atoms), len(prep.basis)) != (l2, neg_weight, *np.shape(atoms)):
        raise ValueError("'prepared' was made for other atoms, l2 or neg_weight; call prepare_newton again.")
    single = np.result_type(np.asarray(atoms).dtype, np.asarray(queries).dtype, np.float32) == np.float32
    return solve_prepared(prep, queries, single=single, tol=tol, max_iter=max_iter, n_jobs=n_jobs)


def solve_prepared(
    prep: Prepared,
    queries: FloatArray,
    *,
    single: bool,
    tol: float = 1e-10,
    max_iter: int = 100,
    n_jobs: int | None = None,
) -> Solution:
    """What :func:`solve_newton` does with a preparation; `single` for atoms and queries in float32."""
    tol = max(tol, _SINGLE_TOL) if single else tol
    n_queries, n_atoms = len(queries), len(prep.atoms)
    codes = np.empty((n_queries, n_atoms), np.float32 if single else np.float64)
    n_iter = np.zeros(n_queries, np.int64)
    violation, gap = np.zeros(n_queries), np.zeros(n_queries)

    def task(start: int, stop: int) -> None:
        rows = slice(start, stop)
        unit, norms = _unit_rows(np.asarray(queries[rows], np.float64))
        block = unit @ prep.basis
        solved = solve_block(prep, block, tol / 2 if single else tol, max_iter, single=single)
        codes[rows] = solved.codes * norms[:, None]
        if single:
            solved.codes = codes[rows] / np.where(norms > 0, norms, 1.0)[:, None]
            certify(prep, block, np.arange(stop - start), solved)
        n_iter[rows], gap[rows], violation[rows] = solved.n_iter, solved.gap, solved.violation * norms

    if prep.neg_weight and not prep.well_conditioned:
        _ = prep.settled[0].metric_atoms  # once, before the threads ask for it
    run_chunks(task, n_queries, int(np.clip(_BLOCK_ENTRIES // n_atoms, 16, 128)), thread_count(n_jobs))
    converged = gap <= tol
    if not converged.all():
        warnings.warn(
            f"{np.sum(~converged)} of {n_queries} codes did not reach the relative duality gap tol={tol:g} "
            f"(largest {gap.max():.1e}); raise max_iter or l2, or accept a larger tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return Solution(codes, n_iter, violation, gap, converged)


def _unit_rows(rows: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return rows of unit norm and the norms; the problem is positively homogeneous in the query."""
    largest = np.abs(rows).max(axis=1, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)
    rows = rows / safe[:, None]
    norms = np.linalg.norm(rows, axis=1)
    return rows / np.where(norms > 0, norms, 1.0)[:, None], norms * safe
