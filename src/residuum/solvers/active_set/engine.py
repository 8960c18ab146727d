"""The exact engine for many queries: scaled to unit norm, solved in chunks by some threads, scaled back."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import FloatArray
from residuum.problem import Solution
from residuum.system.threads import run_chunks, thread_count

from .atoms import PreparedAtoms, prepare_atoms, unit_rows

REACHABLE = 1e-12  # smaller tolerances do not make a query go on: they are met by rounding, or not
CHUNK = 240  # queries handled together by one thread, fewer where they have more entries than these
CHUNK_ENTRIES = 1 << 22
# New atoms in the first round and in later ones, sweeps of coordinate descent. Signed supports are larger and
# their atoms closer to dependent: they are approached in smaller steps.
EFFORT = {False: (48, 48, 10), True: (24, 8, 20)}


def solve_active_set(
    atoms: FloatArray | PreparedAtoms,
    queries: FloatArray,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    signed: bool = False,
    gram: FloatArray | None = None,
    x0: Any = None,
    tol: float = 1e-10,
    max_iter: int | None = None,
    n_jobs: int | None = None,
) -> Solution:
    """Minimise ||y - Xc||^2 + l2 ||c||^2 + l1 ||c||_1 over c >= 0 (any sign when signed), to rounding.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features) or PreparedAtoms
        The columns of X, as rows.
    queries : ndarray of shape (n_queries, n_features)
        The y, one per row; each is solved by itself.
    l1, l2 : float
        Non-negative weights.
    signed : bool
        Allow negative codes: lasso and elastic net.
    gram : ndarray of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T``; otherwise built when it is small and there are queries enough to pay for it.
        One that is given makes the solver faster at most: certificates do not depend on it.
    x0 : array or sparse array of shape (n_queries, n_atoms), optional
        Warm start.
    tol : float
        Largest violation, in the scale of unit norms, and largest gap of a query that counts as converged.
        Where codes are so large that rounding them makes a larger violation, that violation is allowed.
    max_iter : int, optional
        Most pricing rounds per query; 1000 when None.
    n_jobs : int, optional
        Threads; None follows ``joblib.parallel_config``, then NUMBA_NUM_THREADS and OMP_NUM_THREADS.

    Returns
    -------
    Solution
        Codes are a ``scipy.sparse.csr_array``.
    """
    from . import chunk as compiled  # loads numba, which importing residuum must not

    compiled.compile_once()
    if not isinstance(atoms, PreparedAtoms):
        atoms = prepare_atoms(atoms, gram=gram, build_gram=4 * len(queries) >= len(atoms))
    view, largest = compiled.kernel_atoms(atoms, l1, l2, bool(signed))
    most = 1000 if max_iter is None else int(max_iter)
    stretch = atoms.copies.stretch  # gaps are relative to the longer queries inside
    wish = float(tol) / stretch
    target = max(wish, REACHABLE)
    limits = compiled.Limits(bool(signed), target, wish, 1e-4 * target, *EFFORT[bool(signed)], most)
    warm = None if x0 is None else sp.csr_array(x0)
    results: dict[int, tuple] = {}

    def work(start: int, stop: int) -> None:
        given = atoms.copies.queries(queries[start:stop])
        unit, norms, exponents = unit_rows(given)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            shifts = 0.5 * l1 * atoms.scale[largest] / norms
            shifts = np.ldexp(shifts, -atoms.exponents[largest] - exponents)
        shifts = np.where(norms > 0, np.minimum(shifts, 1e30), 0.0)
        chunk = compiled.Chunk(atoms, view, unit, shifts, limits)
        if warm is not None:
            chunk.load(sp.csr_array(warm[start:stop]), norms, exponents)
        chunk.solve()
        codes = chunk.codes(norms, exponents)
        chunk.prove(codes, given, norms, exponents)
        state = chunk.state
        violation, rounding = np.sqrt(stretch) * state["violation"], np.sqrt(stretch) * state["rounding"]
        gap = atoms.copies.gap(state["gap"])
        converged = (violation <= np.maximum(tol, rounding)) & (gap <= tol)
        results[start] = (*codes, state["n_iter"], violation, gap, converged)

    size = min(CHUNK, max(1, CHUNK_ENTRIES // max(atoms.length, 1)))
    run_chunks(work, len(queries), size, thread_count(n_jobs))
    return _gather([results[start] for start in sorted(results)], atoms.n_atoms)


def _gather(parts: list[tuple], n_atoms: int) -> Solution:
    """One Solution from the results of the chunks."""
    if not parts:
        none = np.empty(0)
        return Solution(sp.csr_array((0, n_atoms)), none.astype(np.int64), none, none, none.astype(bool))
    value, index, counts, n_iter, violation, gap, converged = (
        np.concatenate(pieces) for pieces in zip(*parts, strict=True)
    )
    indptr = np.concatenate([[0], np.cumsum(counts)])
    codes = sp.csr_array((value, index, indptr), shape=(len(counts), n_atoms))
    codes.has_sorted_indices = True
    return Solution(codes, n_iter, violation, gap, converged)
