"""The compiled kernels at work on one chunk of queries."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import FloatArray

from . import rounds
from .atoms import PreparedAtoms, prepare_atoms
from .careful import Support, solve_carefully
from .tables import (
    CERTIFY,
    DONE,
    GROW,
    ONE_ROUND,
    RUNNING,
    STATE,
    STUCK,
    TO_THE_END,
    Atoms,
    Limits,
    Queries,
    Rows,
    Scratch,
    make_scratch,
)

BLOCK = 48  # priced rows are padded to a multiple: BLAS then treats every row alike

_compiling = threading.Lock()
_compiled = False


def compile_once() -> None:
    """Load the compiled kernels, or compile them, in one thread while the others wait."""
    global _compiled
    with _compiling:
        if _compiled:
            return
        _compiled = True
        one = np.ones((1, 1))
        prepared = prepare_atoms(one)
        view, _ = kernel_atoms(prepared, 0.0, 0.0, False)
        Chunk(prepared, view, one, np.zeros(1), Limits(False, 1e-10, 1e-14, 1, 1, 1, 10)).solve()


def _read_only(array: Any) -> Any:
    """A view that cannot be written to: numba compiles for it, whether or not the array itself can be."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def kernel_atoms(prepared: PreparedAtoms, l1: float, l2: float, signed: bool) -> tuple[Atoms, float]:
    """The kernels' view of the atoms for one problem, and the l1 shift of a query of unit norm."""
    norms, rows = prepared.norms, prepared.rows
    positive = norms > 0
    largest = float(norms.max(initial=0.0)) or 1.0
    barred = np.where(positive, 0.0, np.inf).astype(np.float32)
    weight = ridge = np.zeros(len(norms))
    with np.errstate(over="ignore", divide="ignore"):
        if l1 > 0:
            weight = np.where(positive, np.minimum(largest / norms, 1e38), 1.0)
        if l2 > 0:
            ridge = np.where(positive, np.minimum((np.sqrt(l2) / norms) ** 2, 1e200), 1.0)
    if l2 == 0:
        shared, group = prepared.twins[signed]
        preference = np.lexsort((shared, -norms[shared] if l1 > 0 else shared, group))
        later = np.diff(group[preference], prepend=-1) == 0
        barred[shared[preference][later]] = np.inf
    double, single = (rows if rows.dtype == kind else np.empty((0, rows.shape[1]), kind) for kind in "df")
    inner = np.empty(0) if signed else prepared.inner
    x = Rows(*map(_read_only, (double, single, prepared.scale)))
    arrays = (prepared.gram32, weight, weight.astype(np.float32), barred, ridge, inner)
    return Atoms(x, *map(_read_only, arrays)), l1 / (2.0 * largest)


class Chunk:
    """Some queries on their way to the optimum."""

    def __init__(
        self, prepared: PreparedAtoms, atoms: Atoms, unit: FloatArray, shifts: FloatArray, limits: Limits
    ) -> None:
        n = len(unit)
        self.prepared, self.atoms, self.limits = prepared, atoms, limits
        self.room = min(prepared.n_atoms, 256)  # for supports and working sets
        self.queries = Queries(
            y=unit,
            residual=unit.copy(),
            atom=np.zeros((n, self.room), np.int32),
            value=np.zeros((n, self.room)),
            state=np.zeros(n, STATE),
        )
        self.state = self.queries.state
        self.state["shift"], self.state["status"] = shifts, RUNNING
        self.state["violation"] = self.state["gap"] = np.inf
        self.work = make_scratch(self.room, *prepared.rows.shape)

    @property
    def task(self) -> tuple[Atoms, Queries, Scratch, Limits]:
        """All that the kernels need."""
        return self.atoms, self.queries, self.work, self.limits

    @property
    def converged(self) -> Any:
        """Which queries have reached their optimum."""
        return self.state["status"] == DONE

    def grow(self, least: int = 0) -> None:
        """Double the room for supports and working sets, or more to have room for ``least`` atoms."""
        more = min(self.prepared.n_atoms, max(2 * self.room, least)) - self.room
        wider = {name: np.pad(getattr(self.queries, name), ((0, 0), (0, more))) for name in ("atom", "value")}
        self.queries = self.queries._replace(**wider)
        self.room += more
        self.work = make_scratch(self.room, *self.prepared.rows.shape)

    def run(self, mode: int, rows: Any, prices: FloatArray) -> None:
        """Run the kernel over rows, again with more room for those that ask for it."""
        while len(rows):
            rounds.run(*self.task, mode, rows, prices)
            again = self.state["status"][rows] == GROW
            if not again.any():
                return
            self.grow()
            rows, prices = rows[again], np.ascontiguousarray(prices[: len(again)][again])

    def load(self, x0: sp.csr_array, scale: FloatArray) -> None:
        """Take over a warm start; ``scale`` turns its entries into codes of the scaled problem."""
        x0.sum_duplicates()
        if (most := int(np.diff(x0.indptr).max(initial=0))) > self.room:
            self.grow(most)
        queries = self.queries
        for i, (start, stop) in enumerate(zip(x0.indptr[:-1], x0.indptr[1:], strict=True)):
            index = x0.indices[start:stop]
            value = x0.data[start:stop] * scale[i] * self.prepared.norms[index]
            allowed = (value != 0) if self.limits.signed else (value > 0)
            # Codes far beyond the norm of the query help nobody and overflow in float32.
            keep = allowed & (np.abs(value) < 1e6) & (self.atoms.barred[index] == 0)
            count = int(keep.sum())
            queries.atom[i, :count], queries.value[i, :count] = index[keep], value[keep]
            queries.residual[i] -= value[keep] @ self.prepared.unit(index[keep])
            self.state["size"][i] = count
            self.state["objective"][i] = rounds.UNKNOWN if count else 0.0

    def solve(self) -> None:
        """Run every query to its end."""
        status, violation = self.state["status"], self.state["violation"]
        if len(self.prepared.gram32):
            self.run(TO_THE_END, np.arange(len(status)), self.price(self.queries.y))
        else:
            while len(rows := np.flatnonzero(status == RUNNING)):
                self.run(ONE_ROUND, rows, self.price(self.queries.residual[rows]))
        left, stuck = np.flatnonzero(status != DONE), np.flatnonzero(status == STUCK)
        for i in stuck:
            self.finish(int(i))
        self.run(CERTIFY, left, np.zeros((len(left), self.prepared.n_atoms), np.float32))
        status[stuck[violation[stuck] <= self.limits.tol]] = DONE

    def finish(self, i: int) -> None:
        """Solve carefully a query that the kernels could not."""
        queries, size = self.queries, self.state["size"][i]
        atom, value = queries.atom[i, :size].astype(np.int64), queries.value[i, :size]
        support = solve_carefully(
            self.prepared,
            self.atoms,
            queries.y[i],
            self.state["shift"][i],
            support=Support(atom, value.copy(), np.where(value < 0, -1.0, 1.0)),
            signed=self.limits.signed,
            least=max(self.limits.entry, 2e-15 * (1.0 + float(np.abs(value).sum()))),
        )
        order, count = np.argsort(support.atom), len(support.atom)
        if count > self.room:
            self.grow(count)
        self.queries.atom[i, :count] = support.atom[order]
        self.queries.value[i, :count] = support.code[order]
        self.state["size"][i] = count

    def price(self, residuals: FloatArray) -> FloatArray:
        """X'r over the norm of r, in float32."""
        n = len(residuals)
        norms = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        padded = np.zeros((-(-n // BLOCK) * BLOCK, residuals.shape[1]), np.float32)
        np.divide(residuals, np.where(norms > 0, norms, 1.0)[:, None], out=padded[:n], casting="same_kind")
        prices = padded @ self.prepared.rows32.T  # (n padded, n_atoms)
        scale = self.prepared.scale.astype(np.float32)
        if (scale != 1).any():
            prices *= scale
        return prices
