"""What enrolling and forgetting do to a dictionary: which atoms and classes stay, come and go."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from residuum.dictionary import (
    ClassMoments,
    Dictionary,
    FloatArray,
    Integers,
    column_of_roots,
    corrected,
    outer_products,
)


@dataclass(frozen=True, eq=False)
class Change:
    """A dictionary before and after samples were enrolled or forgotten; atoms that stay keep their order.

    Attributes
    ----------
    before, after : Dictionary
        The two dictionaries.
    origin : ndarray of shape (n_atoms of `after`,)
        Position of each atom in `before`, or -1 for a new one.
    class_origin : ndarray of shape (n_classes of `after`,)
        Position of each class in `before`, or -1 for a new one.
    """

    before: Dictionary
    after: Dictionary
    origin: Integers
    class_origin: Integers

    @classmethod
    def of(
        cls,
        before: Dictionary,
        origin: Integers,
        new: FloatArray,
        starts: Integers,
        samples: Integers,
        class_origin: Integers,
        new_weights: FloatArray | None = None,
    ) -> Change:
        """Build the dictionary after the change: `new` are the unit samples where `origin` is -1, in order.

        What was summed over all atoms of `before` is corrected instead of being computed again.
        """
        weights = None
        if before.weights is not None or new_weights is not None:
            old = np.ones(before.n_atoms) if before.weights is None else before.weights
            some = np.ones(len(new)) if new_weights is None else new_weights
            weights, new = _carried(old, origin, some), new * column_of_roots(some, new.dtype)
        after = Dictionary(_carried(before.atoms, origin, new), starts, samples, weights=weights)
        change = cls(before, after, origin, class_origin)
        if "moments" in vars(before):
            vars(after)["moments"] = _moments_after(before.moments, change)
        if "normal" in vars(before) and not len(change.removed):
            vars(after)["normal"] = corrected(before.normal, new)
        return change

    @classmethod
    def none(cls, dictionary: Dictionary) -> Change:
        """No change: what was prepared for the dictionary serves another problem over it."""
        return cls(dictionary, dictionary, np.arange(dictionary.n_atoms), np.arange(dictionary.n_classes))

    @cached_property
    def added(self) -> Integers:
        """Positions in `after` of the new atoms."""
        return np.flatnonzero(self.origin < 0)

    @cached_property
    def removed(self) -> Integers:
        """Positions in `before` of the atoms that have gone."""
        gone = np.ones(self.before.n_atoms, dtype=bool)
        gone[self.origin[self.origin >= 0]] = False
        return np.flatnonzero(gone)

    @cached_property
    def same_class(self) -> npt.NDArray[np.bool_]:
        """Which classes of `after` have exactly the atoms that they had in `before`."""
        touched = np.zeros(self.after.n_classes, dtype=bool)
        touched[self.after.atom_class[self.added]] = True
        lost = self.before.atom_class[self.removed]
        return ~touched & (self.class_origin >= 0) & ~np.isin(self.class_origin, lost)

    def carry_square(self, square: FloatArray, new: FloatArray) -> FloatArray:
        """A symmetric matrix between atoms; `new` has the rows of the new atoms, (n_added, n_after)."""
        kept = np.flatnonzero(self.origin >= 0)
        carried = np.empty((len(self.origin),) * 2, dtype=square.dtype)
        runs = list(_runs(self.origin))
        for to, source in runs:
            for to_column, from_column in runs:
                carried[to, to_column] = square[source, from_column]
        if len(kept) < len(carried):
            carried[self.added] = new
            carried[:, self.added] = new.T
        return carried


def _moments_after(moments: ClassMoments, change: Change) -> ClassMoments:
    """The moments after samples came or went: those of other classes are shared, not copied.

    A class is summed anew when its error could exceed four times that of a fresh sum.
    """
    before, after = change.before, change.after
    matrices: list[FloatArray] = []
    terms = np.zeros(after.n_classes, dtype=np.int64)
    for k, (block, origin) in enumerate(zip(after.blocks, change.class_origin, strict=True)):
        if change.same_class[k]:
            matrices.append(moments.matrices[origin])
            terms[k] = moments.terms[origin]
            continue
        came = block.start + np.flatnonzero(change.origin[block] < 0)
        went = change.removed[before.atom_class[change.removed] == origin]
        size = block.stop - block.start
        terms[k] = (moments.terms[origin] if origin >= 0 else 0) + len(came) + len(went)
        if origin < 0 or terms[k] > 4 * size or after.weights is not None:
            matrices.append(outer_products(after.atoms[block]))
            terms[k] = size
        else:
            more = corrected(moments.matrices[origin], after.atoms[came])
            matrices.append(corrected(more, before.atoms[went], -1.0))
    return ClassMoments(matrices, terms)


def _carried(rows: FloatArray, origin: Integers, new: FloatArray) -> FloatArray:
    carried = np.empty((len(origin), *rows.shape[1:]), dtype=rows.dtype)
    for to, source in _runs(origin):
        carried[to] = rows[source]
    carried[origin < 0] = new
    return carried


def _runs(origin: Integers) -> list[tuple[slice, slice]]:
    """Pairs (rows after, rows before) of atoms that stayed side by side; a copy of slices is fast."""
    kept = np.flatnonzero(origin >= 0)
    if not len(kept):
        return []
    breaks = np.flatnonzero((np.diff(kept) != 1) | (np.diff(origin[kept]) != 1)) + 1
    firsts, lasts = np.append(0, breaks), np.append(breaks, len(kept)) - 1
    return [
        (slice(int(kept[a]), int(kept[b]) + 1), slice(int(origin[kept[a]]), int(origin[kept[b]]) + 1))
        for a, b in zip(firsts, lasts, strict=True)
    ]
