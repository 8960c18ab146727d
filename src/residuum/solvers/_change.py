"""A dictionary before and after samples were enrolled or forgotten, and arrays carried over to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from residuum.dictionary import Dictionary, FloatArray
from residuum.grown_dictionary import stretches

# Rows added to or taken from a matrix product each leave a rounding error behind; after this many the
# solvers factor anew, so errors stay near those of a fresh fit and the cost of it is shared by that many.
MAX_CHANGES = 200


@dataclass(frozen=True, eq=False)
class Change:
    """Which atoms are new, which have gone; those that stay keep their order.

    Attributes
    ----------
    before, after : Dictionary
        The two dictionaries.
    origin : ndarray of shape (n_atoms after,)
        Position of each atom in `before`, or -1 for a new one.
    """

    before: Dictionary
    after: Dictionary
    origin: npt.NDArray[np.int64]

    @cached_property
    def added(self) -> npt.NDArray[np.int64]:
        """Positions in `after` of the new atoms."""
        return np.flatnonzero(self.origin < 0)

    @cached_property
    def removed(self) -> npt.NDArray[np.int64]:
        """Positions in `before` of the atoms that have gone."""
        gone = np.ones(self.before.n_atoms, dtype=bool)
        gone[self.origin[self.origin >= 0]] = False
        return np.flatnonzero(gone)

    def then(self, later: Change) -> Change:
        """Both changes as one; an atom that joined and left again never was."""
        origin = np.where(later.origin >= 0, self.origin[later.origin], -1)
        return Change(self.before, later.after, origin)

    @property
    def size(self) -> int:
        """Number of rows that differ."""
        return len(self.added) + len(self.removed)

    def runs(self) -> Iterator[tuple[slice, slice]]:
        """Pairs (rows of `after`, rows of `before`) of atoms that stayed side by side."""
        return stretches(self.origin, self.before.n_atoms)

    def carry(self, rows: FloatArray, new: FloatArray) -> FloatArray:
        """Rows of the atoms that stayed, with those of the new atoms put in their places."""
        carried = np.empty((len(self.origin), *rows.shape[1:]), dtype=rows.dtype)
        for to, source in self.runs():
            carried[to] = rows[source]
        carried[self.added] = new
        return carried

    def carry_square(self, square: FloatArray, new: FloatArray) -> FloatArray:
        """A symmetric matrix between atoms; `new` has the rows of the new atoms, (n_added, n_after)."""
        carried = np.empty((len(self.origin),) * 2, dtype=square.dtype)
        runs = list(self.runs())
        for to, source in runs:
            for to_column, from_column in runs:
                carried[to, to_column] = square[source, from_column]
        carried[self.added] = new
        carried[:, self.added] = new.T
        return carried
