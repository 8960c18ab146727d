"""``(shared*G + classwise*B + ridge*I)^{-1}`` for a dictionary that gained or lost atoms.

What took the time in a fresh factorisation (matrix products over all atoms) is carried over and corrected,
and so is the Cholesky factor of the smaller side where few rows differ. Each form computes in float64 and
never forms the encoder of a fresh fit: coding is the product with the atoms and a pair of triangular solves.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from residuum.dictionary import Dictionary, FloatArray
from residuum.solvers._change import MAX_CHANGES, Change
from residuum.solvers._lifted import Lifted, factored, solved
from residuum.solvers._state import State, check_arrays
from residuum.solvers._threads import single_threaded_blas

MAX_JOINED = 32  # atoms that join a class before it is factored by itself


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


def _counted(state: State, change: Change) -> np.ndarray:
    return state["changes"] + change.size


def _lifted(state: State, name: str, *, scale: float = 1.0, ridge: float = 0.0) -> Lifted:
    """The sum that a state holds, its matrix under `name`."""
    matrix = state[name]
    return Lifted(matrix, state.get("lift", matrix[:0]), state.get("factor"), scale=scale, ridge=ridge)


def _stored(lifted: Lifted, name: str) -> State:
    state = {name: lifted.matrix, "lift": lifted.lift}
    return state if lifted.factor is None else {**state, "factor": lifted.factor}


def restored_inverse(dictionary: Dictionary, state: State, weights: Weights) -> UpdatedInverse:
    """The form that a stored state belongs to."""
    kinds: dict[str, type[UpdatedInverse]] = {"normal": FeatureSide, "gram": AtomSide, "encoder": ClassSide}
    (kind,) = (form for key, form in kinds.items() if key in state)
    _check_state(dictionary, state, weights)
    return kind(dictionary, state, weights)


def _check_state(dictionary: Dictionary, state: State, weights: Weights) -> None:
    n_atoms, n_features, n_classes = dictionary.n_atoms, dictionary.n_features, dictionary.n_classes
    required = {"normal": (), "gram": (), "encoder": ("base", "inner", "first")}
    for name in [name for kind, names in required.items() if kind in state for name in ("changes", *names)]:
        if name not in state:
            raise ValueError(f"the {name!r} of its solver is missing")
    side = n_features if "normal" in state or weights.shared else 0
    square, of_classes = ("f", (side, side)), ("i", (n_classes,))
    expected = {
        **dict.fromkeys(("normal", "inner", "base", "factor"), square),
        **dict.fromkeys(("first", "kept"), of_classes),
        "gram": ("f", (n_atoms, n_atoms)),
        "lift": ("f", (len(state.get("lift", ())), side)),
        "encoder": ("f", (len(state.get("encoder", ())), n_features)),
        "changes": ("i", (1,)),
    }
    check_arrays(state, expected)
    if state["changes"][0] < 0:
        raise ValueError("its solver has followed less than no change")
    if "encoder" in state:
        served = state["first"] >= 0
        if (state["first"] < -1).any():
            raise ValueError("the 'first' of its solver does not fit its dictionary")
        first, sizes = state["first"][served], np.diff(dictionary.starts)
        kept = state.get("kept", sizes)[served]
        if (kept < 0).any() or (kept > sizes[served]).any() or (first + kept > len(state["encoder"])).any():
            raise ValueError("the 'encoder' of its solver does not fit its dictionary")


class FeatureSide(UpdatedInverse):
    """``Q = shared*G + ridge*I`` through ``S = XX'``: ``Q^{-1}X'y = X'(shared*S + ridge*I)^{-1} y``.

    A new atom adds ``xx'`` to S, one that goes subtracts it.
    """

    def __init__(self, dictionary: Dictionary, state: State, weights: Weights) -> None:
        super().__init__(dictionary, state, weights)
        self._inverse = _lifted(state, "normal", scale=weights.shared, ridge=weights.ridge)

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """Adds and subtracts ``xx'``; the weights may differ."""
        after, changes = change.after, _counted(self.state, change)
        if changes[0] > MAX_CHANGES or weights.classwise or after.n_atoms <= after.n_features:
            return None
        joined, gone = after.rows(change.added), change.before.rows(change.removed)
        inverse = self._inverse.changed(joined, gone, scale=weights.shared, ridge=weights.ridge)
        return FeatureSide(after, {**_stored(inverse, "normal"), "changes": changes}, weights)

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
        after, changes = change.after, _counted(self.state, change)
        if changes[0] > MAX_CHANGES or after.n_atoms > after.n_features:
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
        self._inner = _lifted(state, "inner") if weights.shared else None  # I + shared*T
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
        after, changes = change.after, _counted(self.state, change)
        fewer = bool(weights.shared) and after.n_atoms <= after.n_features
        # ProCRC of a single class may weigh the whole negatively: rows would have to be taken away.
        if changes[0] > MAX_CHANGES or weights != self._weights or fewer or weights.shared < 0:
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
            state.update(_stored(inner, "inner"))
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
        for start, stop, row in self._stretches():
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

    def _stretches(self) -> list[tuple[int, int, int]]:
        """(start, stop, row of the encoder) of neighbouring classes that never changed."""
        found: list[tuple[int, int, int]] = []
        kept = self._kept
        for k, block in enumerate(self._dictionary.blocks):
            row = int(self.state["first"][k])
            if block.stop == block.start or kept[k] != block.stop - block.start:
                continue
            if found and found[-1][1] == block.start and found[-1][2] + block.start - found[-1][0] == row:
                found[-1] = (found[-1][0], block.stop, found[-1][2])
            else:
                found.append((block.start, block.stop, row))
        return found


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
