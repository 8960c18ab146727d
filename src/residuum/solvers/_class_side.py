"""``(shared*G + classwise*B + ridge*I)^{-1}`` class by class, for a dictionary that gained or lost atoms."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from residuum.dictionary import Dictionary, FloatArray
from residuum.solvers._change import Change
from residuum.solvers._lifted import factored, solved
from residuum.solvers._state import State
from residuum.solvers._updated import UpdatedInverse, Weights, counted, lifted, stored
from residuum.system.threads import single_threaded_blas

MAX_JOINED = 32  # atoms that join a class before it is factored by itself


class ClassSide(UpdatedInverse):
    """``Q^{-1}X'y = M^{-1}X'z`` with ``M = classwise*B + ridge*I`` and ``z = (I + shared*XM^{-1}X')^{-1}y``.

    Class by class: one that never changed takes its rows of the encoder of the last fresh factorisation,
    which hold ``M^{-1}X'`` times the inverse of that ``I + shared*T``, ``T = XM^{-1}X'``. Atoms P that joined
    a class whose other atoms are R are eliminated first, and one that lost atoms is factored by itself:

        V = X_P - X_R M_R^{-1} classwise X_R'X_P,   S = ridge*I + classwise X_P'V
        c_P = S^{-1}V'z,   c_R = M_R^{-1}X_R'(z - classwise X_P c_P)

    The same V and S say how T changes when atoms join or leave: by ``V S^{-1} V'``, added or subtracted.
    """

    def __init__(self, dictionary: Dictionary, state: State, weights: Weights) -> None:
        super().__init__(dictionary, state, weights)
        self._inner = lifted(state, "inner") if weights.shared else None  # I + shared*T
        self._made: dict[int, Any] = {}

    @cached_property
    def _kept(self) -> np.ndarray:
        """How many atoms of each class, the first ones, have rows of the encoder."""
        sizes = np.diff(self._dictionary.starts)
        return np.where(self.state["first"] < 0, 0, self.state.get("kept", sizes))

    @property
    def _changed_classes(self) -> list[int]:
        """The classes whose atoms do not all have rows of the encoder."""
        return np.flatnonzero(self._kept < np.diff(self._dictionary.starts)).tolist()

    def _alone(self, k: int) -> tuple[bool, FloatArray]:
        """Factor of a class that the encoder does not serve, made when it is first needed."""
        if k not in self._made:
            _, classwise, ridge = self._weights
            self._made[k] = _class_factor(self._dictionary.class_atoms(k), classwise, ridge)
        return self._made[k]

    def _joined(self, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Atoms that joined a class, their V' and the factor of their S, made when they are first needed."""
        if k not in self._made:
            _, classwise, ridge = self._weights
            atoms, kept = self._dictionary.class_atoms(k), int(self._kept[k])
            rest, joined = atoms[:kept], atoms[kept:]
            reach = joined - classwise * (self._by_encoder(k, joined) @ rest)
            schur = classwise * (reach @ joined.T)
            self._made[k] = (joined, reach, factored((schur + schur.T) / 2, ridge))
        return self._made[k]

    @staticmethod
    def fresh_state(
        dictionary: Dictionary, encoder: FloatArray, inner: FloatArray | None, factor: FloatArray | None
    ) -> State:
        """State of a factorisation that no atom has joined or left."""
        inner = np.empty((0, 0)) if inner is None else inner
        return {
            "encoder": encoder,
            "base": inner,
            "inner": inner,
            **({} if factor is None else {"factor": factor}),
            "first": dictionary.starts[:-1].copy(),
            "kept": np.diff(dictionary.starts),
            "changes": np.zeros(1, dtype=np.int64),
        }

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """Corrects T and marks the classes that changed; the weights must be the same."""
        after, changes = change.after, counted(self.state, change)
        fewer = bool(weights.shared) and after.n_atoms <= after.n_features
        # ProCRC of a single class may weigh the whole negatively: rows would have to be taken away.
        if changes is None or weights != self._weights or fewer or weights.shared < 0:
            return None
        state = {name: array for name, array in self.state.items() if name not in ("lift", "factor")}
        if self._inner is not None:
            none: FloatArray = np.empty((0, after.n_features))
            rows = {1: [none], -1: [none]}
            with single_threaded_blas():  # the matrices of one class are too small for threads
                for sign, old_class, rest, moved in _class_moves(change):
                    codes = None
                    if old_class is not None and self._serves(len(rest) + len(moved)):
                        codes = self._class_codes(old_class, moved)
                    rows[sign].append(_correction(rest, moved, weights, codes))
                inner = self._inner.changed(np.concatenate(rows[1]), np.concatenate(rows[-1]))
            state.update(stored(inner, "inner"))
        first, kept = self._served(change)
        return ClassSide(after, {**state, "first": first, "kept": kept, "changes": changes}, weights)

    def _served(self, change: Change) -> tuple[np.ndarray, np.ndarray]:
        """Row of the encoder where each class begins, -1 for those it does not serve, and rows of each."""
        after, old_class = change.after, change.before.atom_class
        first, kept = np.full((2, after.n_classes), -1, dtype=np.int64)
        occupied = np.flatnonzero(np.diff(after.starts))
        heads = change.origin[after.starts[occupied]]
        known, previous = occupied[heads >= 0], old_class[heads[heads >= 0]]
        lost = np.isin(previous, old_class[change.removed])
        size = np.diff(after.starts)[known]
        joined = size - self._kept[previous]
        served = ~lost & ((joined == 0) | ((joined <= MAX_JOINED) & self._serves(size)))
        first[known] = np.where(served, self.state["first"][previous], -1)
        kept[known] = np.where(served, self._kept[previous], 0)
        return first, kept

    def _serves(self, size: Any) -> Any:
        """Whether the encoder knows a class well enough for atoms to join it, up to so many in all.

        V is what the other atoms leave of a new one. With a small ridge, or when they span everything, it is
        a difference of nearly equal vectors, and S is as small.
        """
        _, classwise, ridge = self._weights
        precise = self.state["encoder"].dtype == np.float64 and ridge >= 1e-5 * classwise
        return precise & (size <= self._dictionary.n_features)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``M^{-1}X'z`` for every query, class by class."""
        dictionary, encoder = self._dictionary, self.state["encoder"]
        inner = queries if self._inner is None else self._inner.solve(queries)
        base = self._cast(inner if self._inner is None else inner @ self.state["base"])
        codes = np.empty((len(queries), dictionary.n_atoms), dtype=dictionary.dtype)
        for start, stop, row in self._stretches:
            codes[:, start:stop] = base @ encoder[row : row + stop - start].T
        blocks = dictionary.blocks
        for k in self._changed_classes:
            codes[:, blocks[k]] = self._class_codes(k, inner)
        return codes

    def _class_codes(self, k: int, points: FloatArray) -> FloatArray:
        """``M_k^{-1}X_k'v`` for every row v of points."""
        atoms = self._dictionary.class_block(k)
        if self._kept[k] == len(atoms):
            return self._by_encoder(k, points)
        if self.state["first"][k] < 0:
            by_atoms, factor = self._alone(k)
            atoms = self._dictionary.class_atoms(k)
            return solved(factor, points @ atoms.T) if by_atoms else solved(factor, points) @ atoms.T
        atoms, reach, factor = self._joined(k)
        joined = solved(factor, points @ reach.T)
        rest = self._by_encoder(k, points - self._weights.classwise * (joined @ atoms))
        return np.hstack([rest, joined])

    def _by_encoder(self, k: int, points: FloatArray) -> FloatArray:
        """The same for the atoms of class k that have rows of the encoder."""
        row, count = int(self.state["first"][k]), int(self._kept[k])
        through = points @ self.state["base"] if self._weights.shared else points
        return through @ self.state["encoder"][row : row + count].T

    @cached_property
    def _stretches(self) -> list[tuple[int, int, int]]:
        """(start, stop, row of the encoder) of neighbouring classes that never changed."""
        starts, sizes = self._dictionary.starts, np.diff(self._dictionary.starts)
        same = np.flatnonzero((sizes > 0) & (self._kept == sizes))
        start, row, size = starts[same], self.state["first"][same], sizes[same]
        apart = (start[1:] != start[:-1] + size[:-1]) | (row[1:] != row[:-1] + size[:-1])
        ends = np.flatnonzero(np.append(apart, True)) if len(same) else same
        begins = np.concatenate([[0], ends[:-1] + 1]) if len(same) else same
        stop = start + size
        return list(zip(start[begins].tolist(), stop[ends].tolist(), row[begins].tolist(), strict=True))


def _class_factor(atoms: FloatArray, weight: float, ridge: float) -> tuple[bool, FloatArray]:
    """Factor of the smaller side of one class, and whether that is the side of the atoms."""
    if len(atoms) <= atoms.shape[1]:
        return True, factored(weight * (atoms @ atoms.T), ridge)
    return False, factored(weight * (atoms.T @ atoms), ridge)


def _class_moves(change: Change) -> list[tuple[int, int | None, FloatArray, FloatArray]]:
    """(sign, class as it was, atoms of it that stay, atoms that join or leave it), one class at a time.

    Atoms leave first: what stays is then what the new ones join, and the class as it was is no more; it is
    None then.
    """
    moves: list[tuple[int, int | None, FloatArray, FloatArray]] = []
    gone_class = change.before.atom_class[change.removed]
    gone = np.zeros(change.before.n_atoms, dtype=bool)
    gone[change.removed] = True
    for k in np.unique(gone_class):
        block = slice(*change.before.starts[k : k + 2])
        atoms, leaving = change.before.class_atoms(k), gone[block]
        moves.append((-1, None, atoms[~leaving], atoms[leaving]))
    new_class = change.after.atom_class[change.added]
    for k in np.unique(new_class):
        block = slice(*change.after.starts[k : k + 2])
        atoms, origin = change.after.class_atoms(k), change.origin[block]
        head = None if origin[0] < 0 else int(change.before.atom_class[origin[0]])
        was = None if head is None or head in gone_class else head
        moves.append((1, was, atoms[origin >= 0], atoms[origin < 0]))
    return moves


def _correction(
    rest: FloatArray, moved: FloatArray, weights: Weights, codes: FloatArray | None
) -> FloatArray:
    """Rows U with ``U'U = shared * V S^{-1} V'``; `codes` are ``M_R^{-1}X_R'`` times the atoms that move."""
    shared, weight, ridge = weights
    reach = moved  # V', one row per atom that moves
    if codes is not None:
        reach = moved - weight * (codes @ rest)
    elif len(rest):
        by_atoms, factor = _class_factor(rest, weight, ridge)
        if by_atoms:
            reach = moved - weight * (solved(factor, moved @ rest.T) @ rest)
        else:
            reach = ridge * solved(factor, moved)
    schur = weight * (reach @ moved.T)
    lower = factored((schur + schur.T) / 2, ridge).T
    return np.sqrt(shared) * solve_triangular(lower, reach, lower=True, check_finite=False)
