"""`ClassParts` from sums over the shards: ``X_k c_k`` and ``||c_k||^2`` of every class."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.rules import norms
from residuum.scale.dictionary import ShardedDictionary

_EPS = float(np.finfo(np.float32).eps)  # of the products behind the codes


class SummedParts:
    """What each class contributes, given as ``{("class", k): X_k c_k, ("energy", k): ||c_k||^2}``.

    Classes without an atom are missing and contribute nothing.
    """

    def __init__(
        self, dictionary: ShardedDictionary, queries: FloatArray, sums: dict[Any, FloatArray]
    ) -> None:
        self.queries, self._dictionary = queries, dictionary
        nothing = np.zeros(queries.shape)
        self._contributions = [sums.get(("class", k), nothing) for k in range(dictionary.n_classes)]
        none = np.zeros(len(queries))
        energies = [sums.get(("energy", k), none) for k in range(dictionary.n_classes)]
        self._energies = np.stack(energies, axis=1)

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        return norms(self.queries - part for part in self._contributions)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        whole = np.sum(self._contributions, axis=0)
        return norms(whole - part for part in self._contributions)

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return norms(self._contributions)

    def energies(self) -> FloatArray:
        """``||c_k||^2``."""
        return self._energies

    def rounding(self) -> FloatArray:
        """``eps (1 + max_k sqrt(n_k) ||c_k||)`` from summing n_k terms in float32."""
        return _EPS * (1 + np.sqrt((self._energies * self._dictionary.masses).max(axis=1, keepdims=True)))
