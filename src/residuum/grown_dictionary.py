"""A dictionary that samples joined or left, without its atoms being copied for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray

Rows = npt.NDArray[np.int64]

# Rows that joined are copied at each change: beyond this share of the others all are copied together.
MAX_JOINED_SHARE = 1 / 32


class Parts:
    """Atoms as they lie in memory: those of an earlier dictionary, and behind them those that joined.

    Parameters
    ----------
    base, joined : ndarrays of shape (n, n_features)
        Unit-norm atoms; neither is written to.
    source : ndarray of shape (n_atoms,)
        Row of each atom of the dictionary among those of `base` followed by those of `joined`.
    base64 : ndarray or None
        The base in float64, where it is known.
    """

    def __init__(
        self, base: FloatArray, joined: FloatArray, source: Rows, base64: FloatArray | None = None
    ) -> None:
        self.base, self.joined, self.source, self._base64 = base, joined, source, base64

    @classmethod
    def of(cls, dictionary: Dictionary) -> Parts:
        """All atoms of a dictionary as the base."""
        atoms, atoms64 = dictionary.atoms, dictionary.__dict__.get("atoms64")
        return cls(atoms, atoms[:0], np.arange(len(atoms)), atoms64)

    def followed_by(self, new: FloatArray, source: Rows) -> Parts:
        """The atoms these make and then the rows of `new`, taken in the order `source`."""
        behind = np.arange(len(new)) + len(self.base) + len(self.joined)
        rows = np.concatenate([self.source, behind])[source]
        return Parts(self.base, np.concatenate([self.joined, new]), rows, self._base64)

    @property
    def none_gone(self) -> bool:
        """Whether every row is an atom."""
        return len(self.source) == len(self.base) + len(self.joined)

    @cached_property
    def arrival(self) -> Rows:
        """Position in the dictionary of each row, if none has gone."""
        return np.argsort(self.source)

    def _as_precise_as(self, array: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Base and joined rows in float64 for an array in float64, else in their own precision."""
        if array.dtype != np.float64:
            return self.base, self.joined
        if self._base64 is None:
            self._base64 = self.base.astype(np.float64, copy=False)
        return self._base64, self.joined.astype(np.float64, copy=False)

    def picked(self, positions: Any) -> FloatArray:
        """The atoms at these positions of the dictionary, copied together."""
        wanted = self.source[positions]
        rows = np.empty((len(wanted), self.base.shape[1]), dtype=self.base.dtype)
        for to, stretch in stretches(wanted, len(self.base)):
            rows[to] = self.base[stretch]
        new = np.flatnonzero(wanted >= len(self.base))
        rows[new] = self.joined[wanted[new] - len(self.base)]
        return rows

    def blocks(self, starts: npt.NDArray[np.int64]) -> list[FloatArray | None]:
        """The atoms of each class, None where they do not lie side by side in the base."""
        # Later samples of a class stand behind earlier ones, so its rows ascend.
        first, last = self.source[np.minimum(starts[:-1], len(self.source) - 1)], self.source[starts[1:] - 1]
        together = (last - first == np.diff(starts) - 1) & (last < len(self.base))
        spans = zip(together.tolist(), first.tolist(), (last + 1).tolist(), strict=True)
        return [self.base[start:stop] if one else None for one, start, stop in spans]

    def correlations(self, points: FloatArray) -> FloatArray:
        """``x_j'v`` for every row v of points, if no row has gone."""
        base, joined = self._as_precise_as(points)
        by_arrival = np.empty((len(points), len(self.source)), dtype=base.dtype)
        np.matmul(points, base.T, out=by_arrival[:, : len(base)])
        np.matmul(points, joined.T, out=by_arrival[:, len(base) :])
        return np.take(by_arrival, self.source, axis=1)

    def combinations(self, codes: FloatArray) -> FloatArray:
        """``Xc`` for every code, if no row has gone."""
        base, joined = self._as_precise_as(codes)
        by_arrival = np.take(codes, self.arrival, axis=1)
        whole = by_arrival[:, : len(base)] @ base
        whole += by_arrival[:, len(base) :] @ joined
        return whole


class GrownDictionary(Dictionary):
    """A dictionary with atoms put in or left out, copied together when the atoms are first asked for.

    One that only gained atoms keeps its parts and computes with them, so that its results do not depend on
    whether the atoms were ever asked for; once they were, it holds them twice. One that lost atoms copies
    what is left before it computes and lets go of its parts: what was forgotten is not kept.

    Parameters
    ----------
    parts : Parts
        The atoms.
    starts, samples
        As of any dictionary.
    """

    def __init__(self, parts: Parts, starts: npt.NDArray[np.int64], samples: npt.NDArray[np.int64]) -> None:
        # As cached properties do: the fields of a dictionary are not to be set.
        self.__dict__.update(starts=starts, samples=samples, spectrum=None, _parts=parts)

    def __getstate__(self) -> dict[str, Any]:
        if self.parts is None:
            self.settled()  # what was forgotten is not written
        # Views of the atoms would be written as atoms of their own.
        return {name: value for name, value in self.__dict__.items() if name != "_blocks"}

    @classmethod
    def changed(
        cls,
        before: Dictionary,
        source: Rows,
        new: FloatArray,
        starts: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
    ) -> GrownDictionary:
        """The atoms of `before` and then the rows of `new`, taken in the order `source`."""
        parts = before.__dict__.get("_parts")
        copied = "atoms" in before.__dict__
        if parts is None or copied or len(parts.joined) > MAX_JOINED_SHARE * len(parts.base):
            parts = Parts.of(before)
        return cls(parts.followed_by(new, source), starts, samples)

    @property
    def parts(self) -> Parts | None:
        """The atoms as they lie in memory, to compute with; None where that is to be done with `atoms`."""
        held = self._held
        return held if held is not None and held.none_gone else None

    @property
    def _held(self) -> Parts | None:
        """The parts, also those from which atoms have gone; None once they were let go."""
        return self.__dict__["_parts"]

    @cached_property
    def atoms(self) -> FloatArray:
        """The atoms, class by class."""
        parts = self._held
        if parts is None:  # another thread was quicker
            return self.__dict__["atoms"]
        atoms = self.__dict__["atoms"] = parts.picked(slice(None))
        if not parts.none_gone:
            self.__dict__["_parts"] = None
        self.__dict__.pop("_blocks", None)
        return atoms

    def settled(self) -> GrownDictionary:
        """Itself, in one piece from now on: for those who need all atoms, before anything was computed."""
        _ = self.atoms
        self.__dict__["_parts"] = None
        return self

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the atoms."""
        return self._some_atoms.dtype

    @property
    def n_features(self) -> int:
        """Number of features D."""
        return self._some_atoms.shape[1]

    @property
    def _some_atoms(self) -> FloatArray:
        held = self._held
        return self.atoms if held is None else held.base

    def picked(self, positions: Rows) -> FloatArray:
        """The atoms at these positions."""
        held = self._held
        return super().picked(positions) if held is None else held.picked(positions)

    def correlations(self, points: FloatArray) -> FloatArray:
        """``x_j'v`` for every row v of points, in their precision if that is higher: (n_points, n_atoms)."""
        parts = self.parts
        return super().correlations(points) if parts is None else parts.correlations(points)

    def combinations(self, codes: Any) -> FloatArray:
        """``Xc`` for every code, in their precision if that is higher: (n_codes, n_features)."""
        parts = self.parts
        if parts is None or sp.issparse(codes):
            return super().combinations(codes)
        return parts.combinations(codes)

    def class_block(self, k: int) -> FloatArray:
        """The atoms of class k, without those of the others being copied together."""
        parts = self.parts
        if parts is None or "atoms" in self.__dict__:
            return super().class_block(k)
        blocks = self.__dict__.get("_blocks")
        if blocks is None:
            blocks = self.__dict__["_blocks"] = parts.blocks(self.starts)
        block = blocks[k]
        if block is None:
            block = blocks[k] = parts.picked(slice(self.starts[k], self.starts[k + 1]))
        return block


def stretches(source: Rows, stop: int) -> Iterator[tuple[slice, slice]]:
    """Pairs (positions, rows) of neighbours whose rows, from 0 up to `stop`, are neighbours too."""
    if not len(source):
        return
    inside = (source >= 0) & (source < stop)
    cut = np.flatnonzero((np.diff(source) != 1) | ~inside[1:] | ~inside[:-1]) + 1
    for first, end in zip([0, *cut.tolist()], [*cut.tolist(), len(source)], strict=True):
        if inside[first]:
            yield slice(first, end), slice(int(source[first]), int(source[first]) + end - first)
