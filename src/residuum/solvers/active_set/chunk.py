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
from .proof import LONG, Case, prove
from .tables import (
    CERTIFY,
    EXHAUSTED,
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

MOST_RIDGE = 1e300  # an atom with more can lower the objective by 1e-300 at most, and is left out
LARGEST_EXPONENT = 1024  # of a finite float64, as frexp counts
BLOCK = 48  # priced rows are padded to a multiple, so that their number changes no bit

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
        Chunk(prepared, view, one, np.zeros(1), Limits(False, 1e-10, 1e-10, 1e-14, 1, 1, 1, 10)).solve()


def read_only(array: Any) -> Any:
    """A view that cannot be written to: numba compiles for it, whether or not the array itself can be."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def kernel_atoms(prepared: PreparedAtoms, l1: float, l2: float, signed: bool) -> tuple[Atoms, int]:
    """The kernels' view of the atoms for one problem, and the atom of largest norm, whose weight is 1."""
    rows, scale, exponents = prepared.rows, prepared.scale, prepared.exponents
    positive = scale > 0
    # Norms as given, as logarithms: they may lie beyond the range of floating-point numbers.
    logs = np.where(positive, exponents - np.log2(np.where(positive, scale, 1.0)), -np.inf)
    largest = int(logs.argmax())
    barred = np.where(positive, 0.0, np.inf).astype(np.float32)
    hidden = barred.copy()
    weight = ridge = np.zeros(len(scale))
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        if l1 > 0:
            ratio = np.ldexp(scale / scale[largest], exponents[largest] - exponents)
            weight = np.where(positive, np.clip(ratio, 1.0, 1e38), 1.0)
        if l2 > 0:
            ridge = np.ldexp(l2 * scale * scale, -2 * exponents)
            barred[ridge > MOST_RIDGE] = hidden[ridge > MOST_RIDGE] = np.inf
            ridge = np.where(positive, np.clip(ridge, 1e-300, MOST_RIDGE), 1.0)
    if l2 == 0:
        shared, group = prepared.twins[signed]
        preference = np.lexsort((shared, -logs[shared] if l1 > 0 else shared, group))
        ordered = shared[preference]
        later = np.diff(group[preference], prepend=-1) == 0
        barred[ordered[later]] = np.inf
        # Exact duplicates fulfil what the atom does that they duplicate; others have to be looked at.
        first = np.maximum.accumulate(np.where(later, -1, np.arange(len(later))))
        same = later & (prepared.lines[ordered] == prepared.lines[ordered[first]])
        hidden[ordered[same]] = np.inf
    double, single = (rows if rows.dtype == kind else np.empty((0, rows.shape[1]), kind) for kind in "df")
    inner = np.empty(0) if signed else prepared.inner
    copies = prepared.copies
    double, single, scale, places = map(read_only, (double, single, scale, copies.places))
    x = Rows(double, single, scale, places, copies.common, copies.own)
    weights = (weight, weight.astype(np.float32))
    arrays = (prepared.gram32, *weights, barred, hidden, prepared.lines, ridge, inner)
    return Atoms(x, *map(read_only, arrays)), largest


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
        self.work = make_scratch(self.room, prepared.n_atoms, prepared.length)

    @property
    def task(self) -> tuple[Atoms, Queries, Scratch, Limits]:
        """All that the kernels need."""
        return self.atoms, self.queries, self.work, self.limits

    def grow(self, least: int = 0) -> None:
        """Double the room for supports and working sets, or more to have room for ``least`` atoms."""
        more = min(self.prepared.n_atoms, max(2 * self.room, least)) - self.room
        wider = {name: np.pad(getattr(self.queries, name), ((0, 0), (0, more))) for name in ("atom", "value")}
        self.queries = self.queries._replace(**wider)
        self.room += more
        self.work = make_scratch(self.room, self.prepared.n_atoms, self.prepared.length)

    def run(self, mode: int, rows: Any, prices: FloatArray) -> None:
        """Run the kernel over rows, again with more room for those that ask for it."""
        while len(rows):
            rounds.run(*self.task, mode, rows, prices)
            again = self.state["status"][rows] == GROW
            if not again.any():
                return
            self.grow()
            rows, prices = rows[again], np.ascontiguousarray(prices[: len(again)][again])

    def load(self, x0: sp.csr_array, norms: FloatArray, exponents: Any) -> None:
        """Take over a warm start for queries whose norms are ``norms * 2**exponents``."""
        prepared = self.prepared
        x0.sum_duplicates()
        if (most := int(np.diff(x0.indptr).max(initial=0))) > self.room:
            self.grow(most)
        queries = self.queries
        for i, (start, stop) in enumerate(zip(x0.indptr[:-1], x0.indptr[1:], strict=True)):
            index = x0.indices[start:stop]
            with np.errstate(all="ignore"):
                value = x0.data[start:stop] / (prepared.scale[index] * norms[i])
                value = np.ldexp(value, prepared.exponents[index] - exponents[i])
            allowed = (value != 0) if self.limits.signed else (value > 0)
            # Codes far beyond the norm of the query help nobody and overflow in float32.
            keep = allowed & (np.abs(value) < 1e6) & (self.atoms.barred[index] == 0)
            count = int(keep.sum())
            queries.atom[i, :count], queries.value[i, :count] = index[keep], value[keep]
            queries.residual[i] -= value[keep] @ prepared.unit(index[keep])
            self.state["size"][i] = count
            self.state["objective"][i] = rounds.UNKNOWN if count else 0.0

    def solve(self) -> None:
        """Run every query to its end."""
        status = self.state["status"]
        if len(self.prepared.gram32):
            self.run(TO_THE_END, np.arange(len(status)), self.price(self.queries.y))
            if not self.prepared.trusted:
                self.look_again()
        while len(rows := np.flatnonzero(status == RUNNING)):
            self.run(ONE_ROUND, rows, self.price(self.queries.residual[rows]))
        for i in np.flatnonzero(status == STUCK):
            self.finish(int(i))
        left = np.flatnonzero(status == EXHAUSTED)
        self.run(CERTIFY, left, np.zeros((len(left), self.prepared.n_atoms), np.float32))
        status[left] = EXHAUSTED

    def look_again(self) -> None:
        """Let no query end by prices from a Gram matrix that was given: go on with prices from the atoms."""
        self.state["status"], self.state["objective"] = RUNNING, rounds.UNKNOWN
        queries = self.queries
        for i, size in enumerate(self.state["size"]):
            combined = queries.value[i, :size] @ self.prepared.unit(queries.atom[i, :size])
            queries.residual[i] = queries.y[i] - combined

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
        )
        if self.objective(i, atom, value) < self.objective(i, support.atom, support.code):
            return
        order, count = np.argsort(support.atom), len(support.atom)
        if count > self.room:
            self.grow(count)
        self.queries.atom[i, :count] = support.atom[order]
        self.queries.value[i, :count] = support.code[order]
        self.state["size"][i] = count

    def objective(self, i: int, atom: Any, code: FloatArray) -> float:
        """Objective of a code of query i, and what rounding the code may add to it."""
        atoms, size = self.atoms, np.abs(code)
        r = self.queries.y[i].astype(LONG) - code.astype(LONG) @ self.prepared.unit(atom).astype(LONG)
        penalty = atoms.ridge[atom] @ code**2 + 2 * self.state["shift"][i] * (atoms.weight[atom] @ size)
        return float(r @ r + penalty) + float(1e-15 * size.sum()) ** 2

    def price(self, residuals: FloatArray) -> FloatArray:
        """X'r over the norm of r, in float32."""
        n = len(residuals)
        norms = np.sqrt(np.einsum("ij,ij->i", residuals, residuals))
        divisors = np.where(norms > 0, norms, 1.0)[:, None]
        padded = np.zeros((-(-n // BLOCK) * BLOCK, self.prepared.rows.shape[1]), np.float32)
        prices = np.empty((len(padded), self.prepared.n_atoms), np.float32)
        for some, folded in self.prepared.copies.folded(residuals):
            np.divide(folded, divisors, out=padded[:n], casting="same_kind")
            np.matmul(padded, self.prepared.rows32[some].T, out=prices[:, some])
        scale = self.prepared.scale.astype(np.float32)
        if (scale != 1).any():
            prices *= scale
        return prices

    def codes(self, norms: FloatArray, exponents: Any) -> tuple[FloatArray, Any, Any]:
        """Codes in the caller's units, as pieces of a CSR array: values, atoms, number of atoms per query.

        The norms of the queries are ``norms * 2**exponents``. Codes that overflow are shortened until they
        do not.
        """
        queries, prepared = self.queries, self.prepared
        used = np.arange(queries.atom.shape[1]) < self.state["size"][:, None]
        used[used] = queries.value[used] != 0
        counts, index = used.sum(axis=1), queries.atom[used]
        rows = np.repeat(np.arange(len(used)), counts)
        fraction, power = np.frexp(queries.value[used] * prepared.scale[index] * norms[rows])
        power += exponents[rows] - prepared.exponents[index]
        beyond = np.zeros(len(used), np.int32)
        np.maximum.at(beyond, rows, power - LARGEST_EXPONENT)
        with np.errstate(under="ignore"):
            return np.ldexp(fraction, power - beyond[rows]), index, counts

    def prove(self, codes: tuple, given: FloatArray, norms: FloatArray, exponents: Any) -> None:
        """Certify the codes that kernels cannot: of queries that got stuck, and of extreme values."""
        value, index, counts = codes
        ends = np.cumsum(counts)
        size = np.abs(value)
        extreme = np.flatnonzero((size < np.finfo(np.float64).tiny) | (size > 1e307))
        rows = set(np.searchsorted(ends, extreme, side="right").tolist())
        for i in sorted(rows | set(np.flatnonzero(self.state["status"] == STUCK).tolist())):
            part = slice(ends[i] - counts[i], ends[i])
            atom, norm = index[part].astype(np.int64), LONG(norms[i])
            code = np.ldexp(value[part].astype(LONG), self.prepared.exponents[atom] - exponents[i])
            y = np.ldexp(given[i].astype(LONG), -exponents[i]) / norm
            shift, signed = float(self.state["shift"][i]), self.limits.signed
            code /= self.prepared.scale[atom].astype(LONG) * norm
            case = Case(self.prepared, self.atoms, signed, shift, y=y, support=atom, code=code)
            self.state["violation"][i], self.state["gap"][i] = prove(case)
            self.state["rounding"][i] = 4 * np.finfo(np.float64).eps * float(np.abs(code).sum())
