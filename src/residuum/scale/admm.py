"""NRC by ADMM over shards, on the side of the features.

With A = XX' + rho/2 I the steps of Algorithm 2 (`residuum.solvers.admm`) read for non-negative codes

    v_t = A^{-1} (y - X|s_t|),    s_{t+1} = max(s_t, 0) + X'v_t,    s_0 = 0,

and the code is max(s_T, 0). The state s of an atom is a function of v_0, ..., v_{t-1} alone. A shard computes
it anew in every pass, so T passes need T (T + 3) / 2 products instead of 2 T, and a worker that dies loses
nothing.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from residuum.dictionary import FloatArray
from residuum.errors import UsageError
from residuum.problem import CodingProblem, Solution
from residuum.rules import ClassParts
from residuum.scale.dictionary import ENTRIES_PER_QUERY, ShardedDictionary, blocks_of, padded, placed, product
from residuum.scale.parts import SummedParts
from residuum.scale.shards import Shard
from residuum.solvers import ADMM
from residuum.solvers.factors import factored, inverted

_LEAST_RIDGE = 1e-2  # A^{-1}y is as large as 1/ridge, and float32 cannot afford much


class ShardedADMM:
    """A fixed number of steps of ADMM for non-negative codes.

    Parameters
    ----------
    solver : ADMM
        The problem, the dictionary in shards, rho and the number of steps.
    batch : int
        Of no use here: 504 queries are worked on at a time, so that no batch changes their bits.
    """

    has_threads = True
    entries_per_query = ENTRIES_PER_QUERY

    def __init__(self, solver: ADMM, batch: int) -> None:
        if solver.tol is not None:
            raise UsageError(
                "step_tol must be None for a dictionary in shards: as many steps as published are made. Take "
                "solver='exact' for codes with a certificate."
            )
        self.problem: CodingProblem = solver.problem
        self.dictionary: Any = solver.dictionary
        self._shards: ShardedDictionary = cast(Any, solver.dictionary)
        self.rho, self.max_iter, self.tol = solver.rho, solver.max_iter, solver.tol
        self._kind = np.dtype(np.float32 if self.rho / 2 >= _LEAST_RIDGE else np.float64)

    def prepare(self) -> None:
        """Sum XX' over the shards and factor A."""
        self._inverse = inverted(factored(self.dictionary.normal, self.rho / 2))

    def _vectors(self, queries: FloatArray) -> list[FloatArray]:
        """v_0, ..., v_{T-1} of every query."""
        if not hasattr(self, "_inverse"):
            self.prepare()
        y = np.asarray(queries, dtype=np.float64)
        vectors: list[FloatArray] = []
        reach: Any = 0.0
        for _ in range(self.max_iter):
            if vectors:
                reach = self._shards.sums(_reach, vectors)["reach"]
            vector = product(padded(y - reach, np.float64), self._inverse)[: len(y)]
            vectors.append(vector.astype(self._kind))
        return vectors

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query; a fixed number of steps has no target to miss."""
        sums = self._shards.sums(_class_sums, self._vectors(queries))
        return SummedParts(self._shards, queries, sums), np.ones(len(queries), dtype=bool)

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; `certify` costs three more passes."""
        codes = np.empty((len(queries), self.dictionary.n_atoms), dtype=self._kind)
        for shard, found in self._shards.map(_codes, self._vectors(queries)):
            for run in shard.runs:
                codes[:, placed(run)] = found[:, run.first : run.stop]
        steps, always = np.full(len(queries), self.max_iter), np.ones(len(queries), dtype=bool)
        return self.problem.certified(
            self.dictionary, queries, codes, n_iter=steps, converged=always, certify=certify
        )


def _states(atoms: FloatArray, vectors: list[FloatArray]) -> FloatArray:
    """s_t for some atoms, from the padded vectors of all steps before."""
    state = product(vectors[0], atoms.T)
    for vector in vectors[1:]:
        state = np.maximum(state, 0, out=state)
        state += product(vector, atoms.T)
    return state


def _reach(shard: Shard, vectors: list[FloatArray]) -> dict[str, FloatArray]:
    """``X|s|`` over the shard."""
    atoms, kind = shard.atoms(), vectors[0].dtype
    rows = [padded(vector, kind) for vector in vectors]
    reach = np.zeros(rows[0].shape)
    for run in shard.runs:
        for some in blocks_of(run):
            block = atoms[some].astype(kind, copy=False)
            reach += product(np.abs(_states(block, rows)), block)
    return {"reach": reach[: len(vectors[0])]}


def _class_sums(shard: Shard, vectors: list[FloatArray]) -> dict[Any, FloatArray]:
    """``X_k z_k`` and ``||z_k||^2`` for the codes z = max(s, 0)."""
    atoms, count, kind = shard.atoms(), len(vectors[0]), vectors[0].dtype
    rows = [padded(vector, kind) for vector in vectors]
    found: dict[Any, FloatArray] = {}
    for run in shard.runs:
        reach, energy = np.zeros(rows[0].shape), np.zeros(len(rows[0]))
        for some in blocks_of(run):
            block = atoms[some].astype(kind, copy=False)
            codes = np.maximum(_states(block, rows), 0)
            reach += product(codes, block)
            energy += np.einsum("qj,qj->q", codes, codes)
        found["class", run.label], found["energy", run.label] = reach[:count], energy[:count]
    return found


def _codes(shard: Shard, vectors: list[FloatArray]) -> FloatArray:
    atoms, kind = shard.atoms(), vectors[0].dtype
    rows = [padded(vector, kind) for vector in vectors]
    found = np.empty((len(vectors[0]), len(atoms)), dtype=kind)
    for run in shard.runs:
        for some in blocks_of(run):
            found[:, some] = np.maximum(_states(atoms[some].astype(kind, copy=False), rows), 0)[: len(found)]
    return found
