"""``(shared*G + classwise*B + ridge*I)^{-1}`` for a dictionary that gained or lost atoms.

What took the time in a fresh factorisation (matrix products over all atoms) is carried over and corrected,
and so is the Cholesky factor of the smaller side where few rows differ. Each form computes in float64 and
never forms the encoder of a fresh fit: coding is the product with the atoms and a pair of triangular solves.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.solvers._change import MAX_CHANGES, Change
from residuum.solvers._lifted import Lifted, factored, solved
from residuum.solvers._state import State


class Weights(NamedTuple):
    """The numbers of ``shared*G + classwise*B + ridge*I``."""

    shared: float
    classwise: float
    ridge: float


class UpdatedInverse:
    """What the forms share: a state, the dictionary and the weights it stands for."""

    def __init__(self, dictionary: Dictionary, state: State, weights: Weights) -> None:
        self._dictionary, self.state, self._weights = dictionary, state, weights

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """The form for the dictionary after a change, or None where a fresh factorisation is due."""
        raise TypeError(f"{type(self).__name__} does not say how it follows a change: define updated.")

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query, shape (n_queries, n_atoms)."""
        raise TypeError(f"{type(self).__name__} does not encode: define encode.")

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points, shape (n_queries, n_atoms)."""
        raise TypeError(f"{type(self).__name__} cannot apply the inverse: define apply.")

    def _cast(self, codes: FloatArray) -> FloatArray:
        return codes.astype(self._dictionary.dtype, copy=False)


def counted(state: State, change: Change) -> np.ndarray | None:
    """How many atoms have joined and left after a change; None where that is too many."""
    changes = state["changes"] + change.size
    return None if changes[0] > MAX_CHANGES else changes


def lifted(state: State, name: str, *, scale: float = 1.0, ridge: float = 0.0) -> Lifted:
    """The sum that a state holds, its matrix under `name`."""
    matrix = state[name]
    return Lifted(matrix, state.get("lift", matrix[:0]), state.get("factor"), scale=scale, ridge=ridge)


def stored(total: Lifted, name: str) -> State:
    """The state of a sum, its matrix under `name`."""
    state = {name: total.matrix, "lift": total.lift}
    return state if total.factor is None else {**state, "factor": total.factor}


class FeatureSide(UpdatedInverse):
    """``Q = shared*G + ridge*I`` through ``S = XX'``: ``Q^{-1}X'y = X'(shared*S + ridge*I)^{-1} y``.

    A new atom adds ``xx'`` to S, one that goes subtracts it.
    """

    def __init__(self, dictionary: Dictionary, state: State, weights: Weights) -> None:
        super().__init__(dictionary, state, weights)
        self._inverse = lifted(state, "normal", scale=weights.shared, ridge=weights.ridge)

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """Adds and subtracts ``xx'``; the weights may differ."""
        after, changes = change.after, counted(self.state, change)
        if changes is None or weights.classwise or after.n_atoms <= after.n_features:
            return None
        joined, gone = after.rows(change.added), change.before.rows(change.removed)
        inverse = self._inverse.changed(joined, gone, scale=weights.shared, ridge=weights.ridge)
        return FeatureSide(after, {**stored(inverse, "normal"), "changes": changes}, weights)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``X'(shared*S + ridge*I)^{-1} y`` for every query."""
        return self._cast(self._dictionary.correlations(self._inverse.solve(queries)))

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight/ridge * (v - shared*X'(shared*S + ridge*I)^{-1} Xv)`` for every row v of points."""
        dictionary, points = self._dictionary, np.asarray(points, dtype=np.float64)
        result = dictionary.correlations(self._inverse.solve(dictionary.combinations(points)))
        result *= -self._weights.shared
        result += points
        result *= weight / self._weights.ridge
        return self._cast(result)


class AtomSide(UpdatedInverse):
    """``Q = shared*G + classwise*B + ridge*I`` itself, for no more atoms than features.

    The rows of G that belong to new atoms are computed, the others carried over.
    """

    @cached_property
    def _factor(self) -> FloatArray:
        """Made at the next query, once for all changes until then."""
        gram, (shared, classwise, ridge) = self.state["gram"], self._weights
        quadratic = shared * gram
        for block in self._dictionary.blocks if classwise else ():
            quadratic[block, block] += classwise * gram[block, block]
        return factored(quadratic, ridge)

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """Carries G over; the weights may differ."""
        after, changes = change.after, counted(self.state, change)
        if changes is None or after.n_atoms > after.n_features:
            return None
        joined = after.rows(change.added)
        gram = change.carry_square(self.state["gram"], joined @ after.atoms64.T)
        return AtomSide(after, {"gram": gram, "changes": changes}, weights)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query."""
        return self._cast(solved(self._factor, queries @ self._dictionary.atoms64.T))

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points."""
        return self._cast(weight * solved(self._factor, points))
