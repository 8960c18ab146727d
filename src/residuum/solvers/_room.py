"""Arrays of atoms with room behind them, so that one more atom costs its own size and not that of all.

A solver that grows this way holds its atoms in the order of their arrival, the dictionary holds them class by
class; `places` leads from the one to the other.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from residuum.dictionary import FloatArray
from residuum.solvers._change import Change

Places = npt.NDArray[np.int64]

SQUARES = ("gram32",)  # arrays between atoms; all others have one row for each atom


def spare(n_atoms: int) -> int:
    """Room that a fresh preparation leaves behind its atoms."""
    return max(16, n_atoms // 32)


class Room:
    """Arrays with one row for each atom, and square ones with a column for each as well.

    Atoms are only put behind those there are: what was handed out before never changes. Of two that want to
    go on from the same state, the second gets a copy.

    Parameters
    ----------
    n_atoms : int
        Rows in use.
    arrays : dict
        Name -> array of shape (capacity, ...), or (capacity, capacity) for those in `SQUARES`.
    """

    def __init__(self, n_atoms: int, arrays: dict[str, Any]) -> None:
        self._n_atoms, self._arrays = n_atoms, arrays
        self._lock = threading.Lock()

    def arrays(self, n_atoms: int) -> dict[str, FloatArray]:
        """The arrays of the first `n_atoms`; square ones as they are, with what is behind."""
        return {name: array if name in SQUARES else array[:n_atoms] for name, array in self._arrays.items()}

    def extended(self, n_atoms: int, new: dict[str, FloatArray]) -> Room:
        """A room whose first `n_atoms` are those of this one, with the rows `new` behind them.

        Rows of square arrays have shape (n_new, n_atoms + n_new).
        """
        count = len(next(iter(new.values())))
        after = n_atoms + count
        with self._lock:
            fits = self._n_atoms == n_atoms and after <= min(map(len, self._arrays.values()))
            if fits:
                self._n_atoms = after
        room = self if fits else self._copied(n_atoms, after)
        for name, rows in new.items():
            array = room._arrays[name]
            if name in SQUARES:
                array[n_atoms:after, :after] = rows
                array[:after, n_atoms:after] = rows.T
            else:
                array[n_atoms:after] = rows
        return room

    def _copied(self, n_atoms: int, after: int) -> Room:
        capacity = after + spare(after)
        copies = {}
        for name, array in self._arrays.items():
            square = name in SQUARES
            copy = np.empty((capacity, capacity if square else array.shape[1]), dtype=array.dtype)
            used = (slice(n_atoms), slice(n_atoms)) if square else slice(n_atoms)
            copy[used] = array[used]
            copies[name] = copy
        return Room(after, copies)


class Roomy:
    """A preparation whose arrays can grow in a `room`; copies and pickles of it start without one."""

    n_atoms: Any
    gram32: Any
    room: Room | None

    def __getstate__(self) -> dict[str, Any]:
        gram32 = (
            None if self.gram32 is None else np.ascontiguousarray(self.gram32[: self.n_atoms, : self.n_atoms])
        )
        return {**self.__dict__, "gram32": gram32, "room": None}

    def own_room(self, names: Iterable[str]) -> Room:
        """The room, or one without anything behind the arrays of these names."""
        return self.room or Room(self.n_atoms, {name: getattr(self, name) for name in names})


def places_after(places: Places | None, change: Change) -> Places:
    """Positions in the dictionary of the atoms that stayed, in the order of arrival, then of the new ones.

    For changes that take nothing away.
    """
    stayed = np.flatnonzero(change.origin >= 0)
    moved_to = np.empty(change.before.n_atoms, dtype=np.int64)
    moved_to[change.origin[stayed]] = stayed
    return np.concatenate([moved_to if places is None else moved_to[places], change.added])


def checked_places(places: Places, n_atoms: int) -> Places:
    """The places themselves, if they are one for each atom."""
    if places.dtype.kind not in "iu" or not np.array_equal(np.sort(places), np.arange(n_atoms)):
        raise ValueError("the order in which its samples arrived is not an order of its samples")
    return places


def from_arrivals(places: Places | None, change: Change) -> Change:
    """The same change with the atoms before it in the order of their arrival."""
    if places is None:
        return change
    arrival = np.argsort(places)
    origin = np.where(change.origin >= 0, arrival[change.origin], -1)
    return Change(change.before, change.after, origin)


def sorted_codes(codes: Any, places: Places | None) -> Any:
    """Codes over atoms in the order of arrival as codes over the dictionary."""
    if places is None:
        return codes
    if not sp.issparse(codes):
        return np.take(codes, np.argsort(places), axis=1)  # in C order, as codes that keep their order are
    moved = sp.csr_array((codes.data, places[codes.indices], codes.indptr), shape=codes.shape)
    moved.sort_indices()
    return moved
