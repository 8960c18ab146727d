"""Exact NRC and SRC over shards, by column generation.

    minimise_c  ||y - Xc||^2 + l2 ||c||^2 + l1 ||c||_1    subject to c >= 0 (any sign when signed)

Every query has a working set of atoms, at first none. In each pass

1.  the shards price the residuals of all open queries (`pricing`) and return their best candidates;
2.  the best of these over all shards are fetched and join the working set, which never shrinks;
3.  a kernel solves the problem on the working set, or the exact engine where atoms are nearly dependent.

A query ends when no atom of any shard can improve it, or when all that could are in its working set already.
Its code is then computed once more on its support alone, and certified for the whole dictionary
(`certificate`). Another query takes its place, so every pass is full. What happens to a query depends on the
query and the shards alone: neither the batch nor the workers change a bit of its code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray, Integers
from residuum.problem import CodingProblem, Solution
from residuum.rules import ClassParts, CodedParts
from residuum.scale.certificate import certify
from residuum.scale.dictionary import ShardedDictionary
from residuum.scale.pricing import MOST_MOVED, Priced, Request, U, Wanted, fetch, price
from residuum.scale.shards import Shard
from residuum.solvers import ActiveSet
from residuum.solvers.active_set import prepare_atoms, solve_active_set
from residuum.system.progress import tell_progress
from residuum.system.threads import run_chunks, thread_count

# Atoms that join a working set at a time, by whether codes may be negative: signed supports are larger and
# their atoms closer to dependent, so they are approached in smaller steps.
_JOINING = {False: 32, True: 24}
_OF_EACH_SHARD = 12  # candidates
_MOST_PASSES = 1000
# Least excess that counts, as in the engine: a share of the tolerance, or what rounding makes of 1 + ||c||_1.
_ENTRY, _ROUNDING = 1e-4, 2e-15


@dataclass
class Query:
    """One query on its way to the optimum."""

    number: int
    y: FloatArray  # (n_features,) float64
    residual: FloatArray
    atoms: FloatArray  # (size, n_features) float32: the working set, ascending
    position: Integers = field(default_factory=lambda: np.empty(0, np.int64))  # of these in the dictionary
    code: FloatArray = field(default_factory=lambda: np.empty(0))
    passes: int = 0
    violation: float = math.inf
    gap: float = math.inf
    converged: bool = False

    @property
    def reach(self) -> float:
        """``1 + ||c||_1``."""
        return 1.0 + float(np.abs(self.code).sum())

    @property
    def used(self) -> Any:
        """Which atoms of the working set carry the code."""
        return np.flatnonzero(self.code)

    def keep_support(self) -> None:
        """Forget the atoms that the code does not use."""
        used = self.used
        self.atoms, self.position, self.code = self.atoms[used], self.position[used], self.code[used]


class ColumnGeneration:
    """The exact solver over shards.

    Parameters
    ----------
    solver : ActiveSet
        The problem, the dictionary in shards and the tolerance.
    batch : int
        Queries that are open at a time.
    """

    has_threads = True
    entries_per_query = 512  # so that some 2,000 queries come at a time, and few passes are not full

    def __init__(self, solver: ActiveSet, batch: int) -> None:
        self.problem: CodingProblem = solver.problem
        self.dictionary: Any = solver.dictionary
        self._shards: ShardedDictionary = cast(Any, solver.dictionary)
        self.tol, self.batch, self.n_jobs = solver.tol, batch, solver.n_jobs
        self.signed = not math.isinf(self.problem.neg_weight)

    def prepare(self) -> None:
        """Look for the direction that certificates need."""
        if not self.signed and not self.problem.l1 and not self.problem.l2:
            _ = self.dictionary.interior

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; the certificate comes for free."""
        solved = self.coded(queries)
        indptr = np.concatenate([[0], np.cumsum([len(query.code) for query in solved])])
        index = np.concatenate([query.position for query in solved])
        values = np.concatenate([query.code for query in solved])
        codes = sp.csr_array((values, index, indptr), shape=(len(queries), self.dictionary.n_atoms))
        return self._solution(codes, solved)

    def compact(self, queries: FloatArray) -> tuple[Dictionary, Solution]:
        """A dictionary of the atoms that are used, and the codes over it."""
        solved = self.coded(queries)
        used, first = np.unique(np.concatenate([query.position for query in solved]), return_index=True)
        atoms = np.concatenate([query.atoms for query in solved])[first]
        starts = np.searchsorted(used, self.dictionary.starts).astype(np.int64)
        small = Dictionary(atoms, starts, self.dictionary.samples[used] if len(queries) == 1 else used)
        # Ties are settled by the rounding of sums over whole classes, whatever the batch.
        small.__dict__["masses"] = self.dictionary.masses
        indptr = np.concatenate([[0], np.cumsum([len(query.code) for query in solved])])
        index = np.searchsorted(used, np.concatenate([query.position for query in solved]))
        values = np.concatenate([query.code for query in solved])
        codes = sp.csr_array((values, index, indptr), shape=(len(queries), len(used)))
        return small, self._solution(codes, solved)

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and which queries met their tolerance."""
        small, solution = self.compact(queries)
        return CodedParts(small, queries, solution.codes), solution.converged

    def _solution(self, codes: Any, solved: list[Query]) -> Solution:
        return Solution(
            codes,
            np.array([query.passes for query in solved], dtype=np.int64),
            np.array([query.violation for query in solved]),
            np.array([query.gap for query in solved]),
            np.array([query.converged for query in solved], dtype=bool),
        )

    def coded(self, queries: FloatArray) -> list[Query]:
        """Every query with its support, code and certificate, in order."""
        waiting = [self._begun(i, y) for i, y in enumerate(np.asarray(queries, dtype=np.float64))]
        done: dict[int, Query] = {}
        active: list[Query] = []
        while active or waiting:
            while waiting and len(active) < self.batch:
                active.append(waiting.pop(0))
            active = self._pass(active, done)
            tell_progress("coding queries", len(done), len(queries))
        return [done[i] for i in range(len(queries))]

    def _begun(self, number: int, y: FloatArray) -> Query:
        return Query(number, y, y.copy(), np.empty((0, len(y)), np.float32))

    def _pass(self, active: list[Query], done: dict[int, Query]) -> list[Query]:
        """Price all open queries once; solve those that go on, certify those that end."""
        found = list(self._shards.map(price, self._request(active)))
        joining = self._joining(active, found)
        largest = np.max([priced.largest for _, priced in found], axis=0)
        penalty = np.sum([priced.penalty for _, priced in found], axis=0)
        rows = self._fetched(joining)
        on: list[int] = []
        for i, query in enumerate(active):
            query.passes += 1
            if joining[i] and query.passes < _MOST_PASSES:
                on.append(i)
        ending = sorted(set(range(len(active))) - set(on))

        def improve(i: int) -> None:
            self._solve(active[i], rows, joining[i])

        def end(i: int) -> None:
            self._end(active[i], float(largest[i]), float(penalty[i]))
            done[active[i].number] = active[i]

        self._each(improve, on)
        self._each(end, ending)
        return [active[i] for i in on]

    def _each(self, work: Callable[[int], None], chosen: list[int]) -> None:
        def run(first: int, stop: int) -> None:
            for i in chosen[first:stop]:
                work(i)

        run_chunks(run, len(chosen), 16, thread_count(self.n_jobs))

    def _request(self, active: list[Query]) -> Request:
        supports = [query.position[query.used] for query in active]
        reach = np.array([query.reach for query in active])
        return Request(
            residual=np.stack([query.residual for query in active]),
            reach=reach,
            support=np.concatenate(supports),
            ends=np.cumsum([len(support) for support in supports]),
            shift=0.5 * self.problem.l1,
            signed=self.signed,
            entry=np.maximum(_ENTRY * max(self.tol, 1e-12), _ROUNDING * reach),
            most=_OF_EACH_SHARD,
            bar_duplicates=self.problem.l2 == 0,
        )

    def _joining(
        self, active: list[Query], found: list[tuple[Shard, Priced]]
    ) -> list[list[tuple[int, int, int]]]:
        """For every query the (position, shard, row) of the best candidates that are new to it, ascending."""
        numbers = np.concatenate([np.full(len(priced.row), s) for s, (_, priced) in enumerate(found)])
        query = np.concatenate([priced.query for _, priced in found])
        row = np.concatenate([priced.row for _, priced in found])
        excess = np.concatenate([priced.excess for _, priced in found])
        position = np.concatenate([shard.positions(priced.row.astype(np.int64)) for shard, priced in found])
        order = np.lexsort((position, -excess, query))
        ends = np.searchsorted(query[order], np.arange(len(active) + 1))
        chosen = []
        for i, owner in enumerate(active):
            most = max(_JOINING[self.signed], len(owner.used) // 2)
            some = order[ends[i] : ends[i + 1]]
            some = some[~np.isin(position[some], owner.position)][:most]
            some = some[np.argsort(position[some])]
            chosen.append(list(zip(*(a[some].tolist() for a in (position, numbers, row)), strict=True)))
        return chosen

    def _fetched(self, joining: list[list[tuple[int, int, int]]]) -> dict[int, FloatArray]:
        """The atoms that join any query, by position."""
        rows: dict[int, dict[int, int]] = {}
        for chosen in joining:
            for position, number, row in chosen:
                rows.setdefault(number, {})[row] = position
        wanted = {
            number: Wanted(self._shards.shards.shards[number], np.array(sorted(found)))
            for number, found in sorted(rows.items())
        }
        atoms: dict[int, FloatArray] = {}
        fetched = self._shards.runner.map(fetch, list(wanted.values()))
        for (number, some), block in zip(wanted.items(), fetched, strict=True):
            for row, atom in zip(some.rows.tolist(), block, strict=True):
                atoms[rows[number][row]] = atom
        return atoms

    def _solve(self, query: Query, rows: dict[int, FloatArray], joining: list[tuple[int, int, int]]) -> None:
        """Solve the working set after new atoms have joined it."""
        new = np.array([position for position, _, _ in joining], dtype=np.int64)
        position = np.concatenate([query.position, new])
        atoms = np.concatenate([query.atoms, np.stack([rows[p] for p in new.tolist()])])
        order = np.argsort(position)
        query.position, query.atoms = position[order], atoms[order]
        query.code = np.concatenate([query.code, np.zeros(len(new))])[order]
        self._minimise(query)

    def _minimise(self, query: Query) -> None:
        """The optimum over the working set, from the code that is known."""
        from residuum.solvers.active_set.working_set import minimise_over  # loads the engine's kernels

        l1, l2 = self.problem.l1, self.problem.l2
        found = minimise_over(query.atoms, query.y, query.code, l1=l1, l2=l2, signed=self.signed)
        if found is None:
            self._minimise_with_care(query)
        else:
            query.code, query.residual = found

    def _minimise_with_care(self, query: Query) -> None:
        """The optimum over the working set by the whole engine, as if nothing were known."""
        solution = solve_active_set(
            prepare_atoms(query.atoms),
            query.y[None],
            l1=self.problem.l1,
            l2=self.problem.l2,
            signed=self.signed,
            tol=self.tol,
            n_jobs=1,
        )
        query.code = solution.codes.toarray()[0]
        used = query.used
        query.residual = query.y - query.code[used] @ query.atoms[used].astype(np.float64)

    def _end(self, query: Query, largest: float, penalty: float) -> None:
        """Compute the code anew on its support alone, which then determines its last bits; certify."""
        query.keep_support()
        before = query.residual
        if len(query.code):
            query.code = np.zeros(len(query.code))  # so that nothing but the support matters
            self._minimise(query)
            largest, penalty = self._with_those_that_left(query, largest, penalty)
            query.keep_support()
        moved = float(np.linalg.norm(query.residual - before)) * (1 + 1e-12) + 1e-300
        certify(query, self.problem, self._inner, largest=largest, moved=moved, penalty=penalty, tol=self.tol)

    def _with_those_that_left(self, query: Query, largest: float, penalty: float) -> tuple[float, float]:
        """The figures of the shards, which left the support out, with atoms that are no longer in it."""
        left = query.atoms[query.code == 0].astype(np.float64)
        if not len(left):
            return largest, penalty
        r, shift = query.residual, 0.5 * self.problem.l1
        prices = left @ r
        excess = (np.abs(prices) if self.signed else prices) - shift
        room = MOST_MOVED + U * ((len(r) + 8) * float(np.linalg.norm(r)) + 8 * shift)
        return max(largest, float(excess.max())), penalty + float(np.sum(np.maximum(excess + room, 0) ** 2))

    @property
    def _inner(self) -> FloatArray:
        plain = not self.signed and not self.problem.l1 and not self.problem.l2
        return self._shards.interior if plain else np.empty(0)
