"""The exact engine for many queries: scaled to unit norm, solved in chunks by some threads, scaled back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import FloatArray
from residuum.problem import Solution
from residuum.system.threads import run_chunks, thread_count

from .atoms import PreparedAtoms, prepare_atoms, unit_rows

if TYPE_CHECKING:
    from .chunk import Chunk

CHUNK = 240  # queries handled together by one thread
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
    x0 : array or sparse array of shape (n_queries, n_atoms), optional
        Warm start.
    tol : float
        Largest violation, in the scale of unit norms, of a query that counts as converged.
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
    view, shift = compiled.kernel_atoms(atoms, l1, l2, bool(signed))
    most = 1000 if max_iter is None else int(max_iter)
    limits = compiled.Limits(bool(signed), float(tol), 1e-4 * float(tol), *EFFORT[bool(signed)], most)
    warm = None if x0 is None else sp.csr_array(x0)
    results: dict[int, tuple] = {}

    def work(start: int, stop: int) -> None:
        unit, norms = unit_rows(queries[start:stop])
        zero = norms == 0
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            shifts = np.where(zero, 0.0, np.minimum(shift / norms, 1e30))
            scale = np.where(zero, 0.0, 1.0 / norms)
        chunk = compiled.Chunk(atoms, view, unit, shifts, limits)
        if warm is not None:
            chunk.load(sp.csr_array(warm[start:stop]), scale)
        chunk.solve()
        results[start] = _result(chunk, norms, atoms.norms)

    run_chunks(work, len(queries), CHUNK, thread_count(n_jobs))
    return _gather([results[start] for start in sorted(results)], atoms.n_atoms)


def _result(chunk: Chunk, query_norms: FloatArray, atom_norms: FloatArray) -> tuple:
    """Codes in the caller's scale, as pieces of a CSR array, with their certificate."""
    queries, state = chunk.queries, chunk.state
    used = np.arange(queries.atom.shape[1]) < state["size"][:, None]
    used[used] = queries.value[used] != 0
    counts, index = used.sum(axis=1), queries.atom[used]
    with np.errstate(over="ignore", under="ignore"):
        value = queries.value[used] * np.repeat(query_norms, counts) / atom_norms[index]
    return value, index, counts, state["n_iter"], state["violation"], state["gap"], chunk.converged


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
