"""Longer atoms that hold their row twice, and are never stored.

With weights ``shared + classwise = 1`` the problem

    minimise_c  shared ||y - Xc||^2 + classwise sum_k ||y - X_k c_k||^2

is ``||y' - X'c||^2`` for the longer atoms and queries

    x_j' = (common x_j; 0; ...; own x_j; ...; 0),    y' = (common y; own y; ...; own y),

where ``common^2 = shared``, ``own^2 = classwise``, and ``own x_j`` stands at the place of the class of j.
So all that the engine knows of atoms of unit norm holds for it. A longer atom is read from its row of D
features and from its place; only queries and residuals have their K + 1 parts in memory. Products of all
atoms of class k with a longer vector are those of their rows with ``common v_0 + own v_k``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import FloatArray

IntArray = npt.NDArray[np.int64]

U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order


@dataclass(frozen=True)
class Copies:
    """How longer atoms are made of rows; without classes an atom is its row."""

    shared: float = 1.0
    classwise: float = 0.0
    starts: IntArray = field(default_factory=lambda: np.zeros(1, np.int64))  # of the classes, and their end

    @property
    def n_classes(self) -> int:
        """Number of classes, or 0."""
        return len(self.starts) - 1

    @property
    def common(self) -> float:
        """Weight of the first copy."""
        return float(np.sqrt(self.shared))

    @property
    def own(self) -> float:
        """Weight of the copy at the place of the class."""
        return float(np.sqrt(self.classwise))

    @property
    def stretch(self) -> float:
        """``||y'||^2 / ||y||^2``."""
        return self.shared + self.n_classes * self.classwise

    def gap(self, gap: FloatArray) -> FloatArray:
        """The gap for the problem of y, relative to ``||y||^2``, from that for y', relative to ``||y'||^2``.

        Weights and y' are rounded. That changes the root of the objective of any code by 2u times itself and
        2u ``||y'||`` at most, and the objective of the code is at most gap + 1 times ``||y'||^2``.
        """
        return self.stretch * (gap + 16 * U * (1 + gap)) if self.n_classes else gap

    @cached_property
    def places(self) -> IntArray:
        """Where each atom has its own copy, from 1 on; empty without classes."""
        return np.repeat(np.arange(1, len(self.starts)), np.diff(self.starts))

    def queries(self, queries: FloatArray) -> FloatArray:
        """The longer queries, in float64; entries must not be so small that weights round them away."""
        if not self.n_classes:
            return queries
        wide = queries.astype(np.float64, copy=False)
        return np.hstack([self.common * wide, *[self.own * wide] * self.n_classes])

    def atoms(self, rows: FloatArray, positions: Any, *, weighted: bool = True) -> FloatArray:
        """The longer atoms at some positions, from their rows, with their weights or without."""
        if not self.n_classes:
            return rows
        longer = np.zeros((len(rows), self.n_classes + 1, rows.shape[1]), rows.dtype)
        longer[:, 0] = self.common * rows if weighted else rows
        longer[np.arange(len(rows)), self.places[positions]] = self.own * rows if weighted else rows
        return longer.reshape(len(rows), (self.n_classes + 1) * rows.shape[1])

    def folded(self, vectors: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Slices of atoms, with the vectors whose products with rows are those of the longer atoms."""
        if not self.n_classes:
            yield slice(None), vectors
            return
        first, *others = np.split(vectors, self.n_classes + 1, axis=-1)
        for k, other in enumerate(others):
            yield slice(self.starts[k], self.starts[k + 1]), self.common * first + self.own * other

    def scale_gram(self, products: FloatArray, some: Any, others: Any) -> FloatArray:
        """Products of the longer atoms from those of their rows."""
        if not self.n_classes:
            return products
        places = self.places
        return products * np.where(places[some, None] == places[others], 1.0, self.shared)

    def together(self, some: IntArray, others: IntArray) -> npt.NDArray[np.bool_]:
        """Whether each atom is of the same class as the one beside it; without classes all are."""
        if not self.n_classes:
            return np.ones(len(some), dtype=bool)
        return self.places[some] == self.places[others]
