"""The exact engine, by working sets, for many queries at once.

    minimise_c  ||y - Xc||^2 + l2 ||c||^2 + l1 ||c||_1    s.t. c >= 0  (any sign when signed)

The columns of X are the atoms. Each query alternates between pricing all atoms (X'r with r = y - Xc) and
solving exactly on a small working set: coordinate descent guesses the support, block principal pivoting
with a Cholesky factor confirms it, and single Lawson-Hanson pivots, whose objective falls at every step,
take over when blocks cycle. A query ends when no atom can improve its objective.

Atoms and queries are scaled to unit norm first, so badly scaled columns cost nothing, and ``violation`` is in
that scale.

Codes that are not unique: of atoms that are equal up to a positive factor (up to sign when signed) only one
may carry weight when l2 = 0: with l1 = 0 the first, with l1 > 0 the one of largest norm. An atom in the span
of the support only enters in exchange for another, so a support holds at most ``n_features`` atoms then.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  loads the BLAS that compiled np.dot calls, so that its threads can be limited
import scipy.sparse as sp

from residuum.system.threads import run_chunks, thread_count

from . import _active_set_rounds as rounds
from ._active_set_careful import finish_carefully
from ._active_set_rounds import DONE, GROW, ONE_ROUND, RUNNING, STUCK, TO_THE_END, WARM
from ._active_set_single import pivot_singly
from ._change import Change
from ._room import Places, Room, Roomy, from_arrivals, places_after, spare
from .base import FloatArray, Solution

GRAM_BYTES = 1 << 30  # largest float32 Gram that is built unasked
BLOCK = 48  # priced rows are padded to a multiple: BLAS then treats every row alike
# New atoms in the first round, in later ones; sweeps of coordinate descent. Signed supports are larger and
# their atoms closer to dependent: they are approached in smaller steps.
EFFORT = {False: (48, 48, 10), True: (24, 8, 20)}
CHUNK = 240  # queries handled together by one thread
START = (0, 0, 0, False, 0.0)  # of a pass of the kernel over its queries


_compiling = threading.Lock()
_compiled = False


def _compile_once() -> None:
    """Load the compiled kernels, or compile them and say so; only a cold cache takes seconds."""
    global _compiled
    with _compiling:
        if _compiled:
            return
        _compiled = True
        text = (
            "residuum: compiling the exact engine; this happens once per installation and takes up to 20 s.\n"
        )
        notice = threading.Timer(1.5, sys.stderr.write, [text])
        notice.daemon = True
        notice.start()
        try:
            one = np.ones((1, 1))
            prepared = prepare_atoms(one)
            job = _Chunk(prepared, _kernel_atoms(prepared, 0.0, 0.0, False)[0], one, np.zeros(1))
            job.solve(False, (1e-10, 1e-14), (*EFFORT[False], 10))
        finally:
            notice.cancel()


def _for_kernels(array: FloatArray) -> FloatArray:
    """The same memory without its read-only mark, which would make numba compile everything again.

    The kernels never write to the arrays that pass through here.
    """
    if array.flags.writeable or array.size == 0:
        return array
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    return np.frombuffer(memory, dtype=array.dtype).reshape(array.shape)


@dataclass(frozen=True)
class PreparedAtoms(Roomy):
    """Atoms scaled to unit norm with what solves share; build with :func:`prepare_atoms`, reuse at will."""

    unit: FloatArray  # (n_atoms, n_features) float64
    unit32: FloatArray
    norms: FloatArray  # (n_atoms,); 0 for a zero atom
    gram32: FloatArray  # (n_atoms, n_atoms), perhaps with room behind, or (0, 0)
    keys: FloatArray  # (n_atoms,), equal for equal atoms
    twins: dict[bool, tuple[np.ndarray, np.ndarray]]  # signed -> (atom, group) of atoms with duplicates
    inner: FloatArray  # (n_features,) with unit @ inner >= 1, or empty
    room: Room | None  # where unit, unit32 and gram32 can grow
    places: Places | None = None  # position of each atom in the dictionary, where the order is another

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.norms)


def _unit_rows(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows over their norms, and the norms; dividing by the largest entry first survives any scale."""
    largest = np.abs(rows).max(axis=1, initial=0.0).astype(np.float64)
    safe = np.where(largest > 0, largest, 1.0)
    # Two factors, as 1/largest may overflow for subnormal rows.
    root = np.sqrt(safe)
    unit = rows / root[:, None]
    unit /= root[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", unit, unit))
    norms[norms == 0] = 1.0
    unit /= norms[:, None]
    return np.ascontiguousarray(unit, dtype=np.float64), norms * largest


def _keys(unit: FloatArray) -> FloatArray:
    """``x'u`` with one random u, |u| = 1: the same for equal atoms but for rounding, hardly for others."""
    probe = np.random.default_rng(0).standard_normal(unit.shape[1])
    return unit @ (probe / np.linalg.norm(probe))


def _twins(unit: FloatArray, key: FloatArray, signed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Atoms that have a duplicate, with the first atom of their group."""
    if signed:
        key = np.abs(key)
    order = np.argsort(key, kind="stable")
    close = np.flatnonzero(np.diff(key[order]) <= 1e-13)
    group = np.arange(len(unit))
    for a in close:
        i, j = order[a], order[a + 1]
        flip = np.sign(unit[i] @ unit[j]) if signed else 1.0
        if np.abs(unit[i] - flip * unit[j]).max() <= 1e-15:
            low, high = sorted((group[i], group[j]))
            group[group == high] = low
    shared = np.flatnonzero(np.bincount(group, minlength=len(unit))[group] > 1)
    return shared, group[shared]


def _inner_direction(unit: FloatArray, nonzero: np.ndarray) -> FloatArray:
    """Direction u with x_j'u >= 1 for every non-zero atom, to make dual points feasible; empty if none."""
    if not nonzero.any():
        return np.empty(0)
    u = unit.mean(axis=0)
    for _ in range(30):
        inner = np.where(nonzero, unit @ u, np.inf)
        worst = int(inner.argmin())
        if inner[worst] > 1e-3 * np.linalg.norm(u):
            return u / inner[worst]
        u = u / max(np.linalg.norm(u), 1e-300) + 0.5 * unit[worst]
    return np.empty(0)


def prepare_atoms(
    atoms: FloatArray, *, gram: FloatArray | None = None, build_gram: bool = True, room: int = 0
) -> PreparedAtoms:
    """Scale atoms and, where it is small enough, build their Gram matrix.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Finite, float32 or float64.
    gram : ndarray of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T`` if it is at hand.
    build_gram : bool
        Whether to build a Gram matrix that was not given, when it takes at most 1 GiB.
    room : int
        Atoms that may join later without a copy.
    """
    scaled, norms = _unit_rows(atoms)
    n_atoms, n_features = scaled.shape
    capacity = n_atoms + room
    unit32 = np.empty((capacity, n_features), np.float32)
    unit32[:n_atoms] = scaled
    unit = scaled
    if room:
        unit = np.empty((capacity, n_features))
        unit[:n_atoms] = scaled
    arrays = {"unit": unit, "unit32": unit32}
    if gram is not None or (build_gram and 4 * n_atoms**2 <= GRAM_BYTES):
        arrays["gram32"] = np.empty((capacity, capacity), np.float32)
        with np.errstate(divide="ignore"):
            inverse = np.where(norms > 0, 1.0 / norms, 0.0)
        for start in range(0, n_atoms, 512):
            part = slice(start, min(start + 512, n_atoms))
            with np.errstate(all="ignore"):
                block = None if gram is None else gram[part] * inverse[part, None] * inverse
            if block is None or not np.isfinite(block).all():
                block = scaled[part] @ scaled.T
            arrays["gram32"][part, :n_atoms] = block
    keys = _keys(scaled)
    return _prepared(Room(n_atoms, arrays), norms, keys, _inner_direction(scaled, norms > 0), None)


def prepare_changed_atoms(old: PreparedAtoms, change: Change) -> PreparedAtoms:
    """What `prepare_atoms` makes of the atoms after a change; the old Gram matrix serves on."""
    n_before, n_after = old.n_atoms, change.after.n_atoms
    if (4 * n_after**2 <= GRAM_BYTES) != bool(len(old.gram32)):
        return prepare_atoms(change.after.settled().atoms, room=spare(n_after))
    new, new_norms = _unit_rows(change.after.rows(change.added))
    rows = {"unit": new, "unit32": new.astype(np.float32)}
    if not len(change.removed):
        places: Places | None = places_after(old.places, change)
        norms = np.concatenate([old.norms, new_norms])
        keys = np.concatenate([old.keys, _keys(new)])
        if len(old.gram32):
            rows["gram32"] = np.hstack([new @ old.unit.T, new @ new.T])
        room = old.own_room(rows).extended(n_before, rows)
    else:
        places, change = None, from_arrivals(old.places, change)
        norms, keys = change.carry(old.norms, new_norms), change.carry(old.keys, _keys(new))
        arrays = {name: change.carry(getattr(old, name), rows[name]) for name in rows}
        if len(old.gram32):
            gram32 = old.gram32[:n_before, :n_before]
            arrays["gram32"] = change.carry_square(gram32, (new @ arrays["unit"].T).astype(np.float32))
        room = Room(n_after, arrays)
    # A direction that serves the old atoms serves fewer of them too, and new ones unless they lie elsewhere.
    inner = old.inner
    if not len(inner) or (new @ inner < 1).any():
        inner = _inner_direction(room.arrays(n_after)["unit"], norms > 0)
    return _prepared(room, norms, keys, inner, places)


def _prepared(
    room: Room, norms: FloatArray, keys: FloatArray, inner: FloatArray, places: Places | None
) -> PreparedAtoms:
    arrays = {"gram32": np.empty((0, 0), np.float32), **room.arrays(len(norms))}
    twins = {signed: _twins(arrays["unit"], keys, signed) for signed in (False, True)}
    return PreparedAtoms(**arrays, norms=norms, keys=keys, twins=twins, inner=inner, room=room, places=places)


def _ranks(prepared: PreparedAtoms) -> tuple[np.ndarray, np.ndarray]:
    """Ranks of the atoms, their places in the dictionary, and the atoms by rank where that is another order.

    Where several codes are optimal, the one that is found does not depend on when a sample arrived.
    """
    if prepared.places is None:
        return np.arange(prepared.n_atoms, dtype=np.int32), np.empty(0, np.int32)
    return prepared.places.astype(np.int32), np.argsort(prepared.places).astype(np.int32)


def _kernel_atoms(prepared: PreparedAtoms, l1: float, l2: float, signed: bool) -> tuple[rounds.Atoms, float]:
    """The kernels' view of the atoms for one problem, and the l1 shift of a query of unit norm."""
    norms = prepared.norms
    positive = norms > 0
    largest = float(norms.max(initial=0.0)) or 1.0
    barred = np.where(positive, 0.0, np.inf).astype(np.float32)
    with np.errstate(over="ignore", divide="ignore"):
        weight = (
            np.where(positive, np.minimum(largest / norms, 1e38), 1.0) if l1 > 0 else np.zeros(len(norms))
        )
        ridge = (
            np.where(positive, np.minimum((np.sqrt(l2) / norms) ** 2, 1e200), 1.0) if l2 > 0 else weight * 0
        )
    if l2 == 0:
        shared, group = prepared.twins[signed]
        rank = shared if prepared.places is None else prepared.places[shared]
        preference = np.lexsort((rank, -norms[shared] if l1 > 0 else rank, group))
        keep = np.concatenate([[True], np.diff(group[preference]) != 0]) if len(shared) else np.empty(0, bool)
        barred[shared[preference][~keep]] = np.inf
    view = rounds.Atoms(
        _for_kernels(prepared.unit), _for_kernels(prepared.gram32),
        weight, weight.astype(np.float32), barred, ridge,
        prepared.inner if not signed else np.empty(0), *_ranks(prepared),
    )  # fmt: skip
    return view, l1 / (2.0 * largest)


class _Chunk:
    """The queries of one chunk on their way to the optimum."""

    def __init__(self, prepared: PreparedAtoms, view: rounds.Atoms, queries: FloatArray, shifts: FloatArray):
        n, n_atoms = len(queries), len(view.x)
        self.prepared, self.view, self.queries, self.shifts = prepared, view, queries, shifts
        capacity = min(n_atoms, 128)
        self.state = rounds.State(
            np.zeros((n, capacity), np.int32), np.zeros((n, capacity)),
            np.zeros(n, np.int32), np.zeros(n), queries.copy(),
            np.zeros(n, np.int64), np.zeros(n), np.zeros(n), np.full(n, RUNNING, np.int64),
        )  # fmt: skip
        self.work = rounds.make_work(min(2 * n_atoms, 256), *view.x.shape)

    def grow(self, at_least: int = 0) -> None:
        """Double the room for supports and working sets."""
        n_atoms = len(self.view.x)
        wide: list[Any] = []
        for old in self.state[:2]:
            new = np.zeros((len(old), min(n_atoms, max(2 * old.shape[1], at_least))), old.dtype)
            new[:, : old.shape[1]] = old
            wide.append(new)
        self.state = self.state._replace(atom=wide[0], value=wide[1])
        size = min(n_atoms, max(2 * self.work.ints.shape[1], at_least))
        self.work = rounds.make_work(size, *self.view.x.shape)

    def run(self, mode: int, rows: np.ndarray, prices: FloatArray, *options: Any) -> None:
        """Run the kernel over rows, again with more room for those that ask for it."""
        while len(rows):
            parts = (self.queries, self.shifts, self.state, self.work, self.view)
            where = START
            while (where := rounds.run(mode, rows, prices, *parts, *options, where))[0] < len(rows):
                place, n, _, _, drift = where
                pivot_singly(rows[place], n, drift, self.state, self.work, options[0])
            again = self.state.status[rows] == GROW
            if not again.any():
                return
            self.grow()
            rows, prices = rows[again], np.ascontiguousarray(prices[: len(again)][again])

    def load(self, x0: sp.csr_array, scale: FloatArray, *options: Any) -> None:
        """Take over a warm start; ``scale`` turns its entries into codes of the scaled problem."""
        state, signed = self.state, options[0]
        most = int(np.diff(x0.indptr).max(initial=0))
        if most > state.atom.shape[1]:
            self.grow(most)
            state = self.state
        for i in range(len(self.queries)):
            span = slice(x0.indptr[i], x0.indptr[i + 1])
            index = x0.indices[span]
            value = x0.data[span] * scale[i] * self.prepared.norms[index]
            keep = (
                np.isfinite(value) & (self.view.barred[index] == 0) & ((value > 0) | (signed & (value < 0)))
            )
            order = np.argsort(self.view.rank[index[keep]])
            state.size[i] = count = int(keep.sum())
            state.atom[i, :count] = index[keep][order]
            state.value[i, :count] = value[keep][order]
        warm = np.flatnonzero(state.size)
        self.run(WARM, warm, np.zeros((len(warm), len(self.view.x)), np.float32), *options)
        state = self.state
        state.size[state.status == STUCK] = 0
        state.objective[state.size == 0] = 0.0
        state.status[:] = RUNNING

    def solve(self, signed: bool, tols: tuple[float, float], limits: tuple[int, int, int, int]) -> None:
        """Run every query to its end."""
        options = (signed, tols, limits)
        if len(self.view.gram32):
            self.run(TO_THE_END, np.arange(len(self.queries)), self.price(self.queries), *options)
        else:
            while len(rows := np.flatnonzero(self.state.status == RUNNING)):
                self.run(ONE_ROUND, rows, self.price(self.state.residual[rows]), *options)
        for i in np.flatnonzero(self.state.status != DONE):
            stuck = self.state.status[i] == STUCK
            steps = 3 * len(self.view.x) + 30 if stuck else 0
            self.finish(int(i), signed, tols[1], steps)
            if stuck and self.state.violation[i] <= tols[0]:
                self.state.status[i] = DONE

    def finish(self, i: int, signed: bool, vtol: float, steps: int) -> None:
        """Solve one query carefully in at most ``steps`` pivots, and certify it."""
        while not finish_carefully(
            i, self.queries, self.shifts, self.state, self.work, self.view, signed, vtol, steps
        ):
            self.grow()

    def price(self, residuals: FloatArray) -> FloatArray:
        """X'r over the norm of r, in float32."""
        n = len(residuals)
        norms = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        padded = np.zeros((-(-n // BLOCK) * BLOCK, residuals.shape[1]), np.float32)
        np.divide(residuals, np.where(norms > 0, norms, 1.0)[:, None], out=padded[:n], casting="same_kind")
        return padded @ self.prepared.unit32.T  # (n padded, n_atoms)


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
    _compile_once()
    signed = bool(signed)
    if not isinstance(atoms, PreparedAtoms):
        with_gram = 4 * len(queries) >= len(atoms)
        atoms = prepare_atoms(atoms, gram=gram, build_gram=with_gram)
    n_queries, n_atoms = len(queries), len(atoms.unit)
    view, shift = _kernel_atoms(atoms, l1, l2, signed)
    warm = None if x0 is None else sp.csr_array(x0)
    limits = (*EFFORT[signed], 1000 if max_iter is None else int(max_iter))
    tols = (float(tol), 1e-4 * float(tol))
    parts: list[Any] = [None] * n_queries
    chunk = CHUNK

    def work(start: int, stop: int) -> None:
        unit, norms = _unit_rows(queries[start:stop])
        zero = norms == 0
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            shifts = np.where(zero, 0.0, np.minimum(shift / norms, 1e30))
            scale = np.where(zero, 0.0, 1.0 / norms)
        job = _Chunk(atoms, view, unit, shifts)
        if warm is not None:
            job.load(sp.csr_array(warm[start:stop]), scale, signed, tols, limits)
        job.solve(signed, tols, limits)
        parts[start] = _result(job, norms)

    run_chunks(work, n_queries, chunk, thread_count(n_jobs))
    return _gather([part for part in parts if part is not None], n_atoms)


def _result(job: _Chunk, norms: FloatArray) -> tuple:
    """Codes in the caller's scale, as CSR pieces, with their certificate."""
    state = job.state
    used = np.arange(state.atom.shape[1]) < state.size[:, None]
    used[used] = state.value[used] != 0
    index = state.atom[used]
    with np.errstate(over="ignore", under="ignore"):
        value = state.value[used] * np.repeat(norms, used.sum(axis=1)) / job.prepared.norms[index]
    return value, index, used.sum(axis=1), state.n_iter, state.violation, state.gap, state.status == DONE


def _gather(parts: list[tuple], n_atoms: int) -> Solution:
    """One Solution from the results of the chunks."""
    if not parts:
        none = np.empty(0)
        return Solution(sp.csr_array((0, n_atoms)), none.astype(np.int64), none, none, none.astype(bool))
    value, index, counts, n_iter, violation, gap, converged = (np.concatenate(p) for p in zip(*parts))
    indptr = np.concatenate([[0], np.cumsum(counts)])
    codes = sp.csr_array((value, index, indptr), shape=(len(counts), n_atoms))
    codes.has_sorted_indices = True
    return Solution(codes, n_iter, violation, gap, converged)
