"""NSC, CRC, CROC and ProCRC: class moments are summed over the shards once, and answer without them."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.errors import UsageError
from residuum.rules import ClassParts, MomentParts
from residuum.scale.dictionary import blocks_of, padded, product
from residuum.scale.shards import Shard
from residuum.solvers import ClosedForm
from residuum.solvers.closed_form import LEAST_L2, MomentForm
from residuum.solvers.factors import FeatureFactor


class ShardedClosedForm(ClosedForm):
    """`ClosedForm` by class moments whatever the number of atoms."""

    uses_moments = True

    def __init__(self, solver: ClosedForm, batch: int) -> None:
        if solver.problem.l2 < LEAST_L2:
            raise UsageError(
                f"l2 must be at least {LEAST_L2:g} for a dictionary in shards, because moments lose the "
                f"digits of smaller ones. Got {solver.problem.l2:g}."
            )
        super().__init__(solver.problem, solver.dictionary)

    @cached_property
    def _form(self) -> Any:
        if self.problem.classwise:
            return MomentForm(self.dictionary, self.problem)
        return _Features(self.dictionary, self.problem, self.problem.l2)

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and whether each query was solved (always)."""
        parts, solved = super().class_parts(queries)
        if isinstance(parts, MomentParts) and parts.coded_over is not None:
            parts.energies = partial(_energies, self.dictionary, parts)  # type: ignore[method-assign]
        return parts, solved


class _Features(FeatureFactor):
    """``Q^{-1}`` through features, with codes by a pass over the shards."""

    def encode(self, queries: FloatArray) -> FloatArray:
        """``X'A^{-1}y`` for every query, shape (n_queries, n_atoms)."""
        return self._dictionary.correlations(self.features(queries.astype(np.float64)))


def _energies(dictionary: Any, parts: MomentParts) -> FloatArray:
    """``||c_k||^2`` with the digits of codes, ``c_k = X_k'v_k``, by a pass over the shards."""
    vectors = parts.vectors()
    alike = all(v is vectors[0] for v in vectors)
    found = dictionary.sums(_energies_of, vectors[:1] if alike else vectors)
    nothing = np.zeros(len(parts.queries))
    return np.stack([found.get(k, nothing) for k in range(dictionary.n_classes)], axis=1)


def _energies_of(shard: Shard, vectors: list[FloatArray]) -> dict[int, FloatArray]:
    atoms = shard.atoms()
    found: dict[int, FloatArray] = {}
    for run in shard.runs:
        v = vectors[run.label if len(vectors) > 1 else 0]
        rows, total = padded(v, np.float64), np.zeros(len(v))
        for some in blocks_of(run):
            codes = product(rows, atoms[some].astype(np.float64).T)[: len(v)]
            total += np.einsum("qj,qj->q", codes, codes)
        found[run.label] = total
    return found
