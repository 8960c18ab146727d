"""``(shared*G + classwise*B + ridge*I)^{-1}`` for a dictionary that gained or lost atoms.

What took the time in a fresh factorisation (matrix products over all atoms) is carried over and corrected;
what is left is a Cholesky factor of the smaller side. Each form computes in float64 and never forms the
encoder of a fresh fit: coding is the product with the atoms and a pair of triangular solves.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dgemm

from residuum.dictionary import Dictionary, FloatArray
from residuum.solvers._change import MAX_CHANGES, Change
from residuum.solvers._threads import single_threaded_blas

# Arrays from which a form can be built again, bit for bit.
State = dict[str, np.ndarray]


class Weights(NamedTuple):
    """The numbers of ``shared*G + classwise*B + ridge*I``."""

    shared: float
    classwise: float
    ridge: float


class UpdatedInverse:
    """What the forms share: a state, the dictionary and the weights it stands for."""

    def __init__(self, dictionary: Dictionary, state: State, weights: Weights) -> None:
        self._dictionary, self.state, self._weights = dictionary, state, weights

    @classmethod
    def changed(cls, state: State, old: Weights, change: Change, new: Weights) -> UpdatedInverse | None:
        """The form after a change, from the state before it; None where a fresh factorisation is due."""
        raise TypeError(f"{cls.__name__} does not say how it follows a change: define changed.")

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """The form for the dictionary after a change, or None where a fresh factorisation is due."""
        return self.changed(self.state, self._weights, change, weights)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query, shape (n_queries, n_atoms)."""
        raise TypeError(f"{type(self).__name__} does not encode: define encode.")

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points, shape (n_queries, n_atoms)."""
        raise TypeError(f"{type(self).__name__} cannot apply the inverse: define apply.")

    def _cast(self, codes: FloatArray) -> FloatArray:
        return codes.astype(self._dictionary.atoms.dtype, copy=False)


def _counted(state: State, change: Change) -> np.ndarray:
    return state["changes"] + change.size


def restored_inverse(dictionary: Dictionary, state: State, weights: Weights) -> UpdatedInverse:
    """The form that a stored state belongs to."""
    kinds: dict[str, type[UpdatedInverse]] = {"normal": FeatureSide, "gram": AtomSide, "encoder": ClassSide}
    (kind,) = (form for key, form in kinds.items() if key in state)
    return kind(dictionary, state, weights)


def _solved(factor: Any, rows: FloatArray) -> FloatArray:
    """The factored symmetric matrix's inverse times each row."""
    return cho_solve(factor, np.asarray(rows, dtype=np.float64).T, check_finite=False).T


def _add_product(matrix: FloatArray, weight: float, rows: FloatArray, others: FloatArray) -> None:
    """``matrix += weight * rows'others``, which is symmetric like the matrix, without a second matrix."""
    if len(rows):
        # What is C order for numpy is the transpose for BLAS.
        dgemm(weight, others.T, rows.T, beta=1.0, c=matrix.T, trans_b=True, overwrite_c=True)


def _ridged(matrix: FloatArray, ridge: float) -> Any:
    """Cholesky factor of ``matrix + ridge*I``; the matrix is used up."""
    matrix[np.diag_indices_from(matrix)] += ridge
    # The transpose of a symmetric matrix in C order is what LAPACK factors without a copy.
    return cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)


class FeatureSide(UpdatedInverse):
    """``Q = shared*G + ridge*I`` through ``S = XX'``: ``Q^{-1}X'y = X'(shared*S + ridge*I)^{-1} y``.

    A new atom adds ``xx'`` to S, one that goes subtracts it.
    """

    @cached_property
    def _factor(self) -> Any:
        """Made at the next query, once for all changes until then."""
        return _ridged(self._weights.shared * self.state["normal"], self._weights.ridge)

    @classmethod
    def changed(cls, state: State, old: Weights, change: Change, new: Weights) -> UpdatedInverse | None:
        """Adds and subtracts ``xx'``; the weights may differ."""
        after, changes = change.after, _counted(state, change)
        if changes[0] > MAX_CHANGES or new.classwise or after.n_atoms <= after.n_features:
            return None
        normal = state["normal"].copy()
        joined, gone = after.rows(change.added), change.before.rows(change.removed)
        _add_product(normal, 1.0, joined, joined)
        _add_product(normal, -1.0, gone, gone)
        return cls(after, {"normal": normal, "changes": changes}, new)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``X'(shared*S + ridge*I)^{-1} y`` for every query."""
        return self._cast(_solved(self._factor, queries) @ self._dictionary.atoms64.T)

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight/ridge * (v - shared*X'(shared*S + ridge*I)^{-1} Xv)`` for every row v of points."""
        atoms = self._dictionary.atoms64
        result = _solved(self._factor, points @ atoms) @ atoms.T
        result *= -self._weights.shared
        result += points
        result *= weight / self._weights.ridge
        return self._cast(result)


class AtomSide(UpdatedInverse):
    """``Q = shared*G + classwise*B + ridge*I`` itself, for no more atoms than features.

    The rows of G that belong to new atoms are computed, the others carried over.
    """

    def __init__(self, dictionary: Dictionary, state: State, weights: Weights) -> None:
        super().__init__(dictionary, state, weights)
        gram = state["gram"]
        quadratic = weights.shared * gram
        for block in dictionary.blocks if weights.classwise else ():
            quadratic[block, block] += weights.classwise * gram[block, block]
        self._factor = _ridged(quadratic, weights.ridge)

    @classmethod
    def changed(cls, state: State, old: Weights, change: Change, new: Weights) -> UpdatedInverse | None:
        """Carries G over; the weights may differ."""
        after, changes = change.after, _counted(state, change)
        if changes[0] > MAX_CHANGES or after.n_atoms > after.n_features:
            return None
        joined = after.rows(change.added)
        gram = change.carry_square(state["gram"], joined @ after.atoms64.T)
        return cls(after, {"gram": gram, "changes": changes}, new)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query."""
        return self._cast(_solved(self._factor, queries @ self._dictionary.atoms64.T))

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points."""
        return self._cast(weight * _solved(self._factor, points))


class ClassSide(UpdatedInverse):
    """``Q^{-1}X'y = M^{-1}X'z`` with ``M = classwise*B + ridge*I`` and ``z = (I + shared*XM^{-1}X')^{-1}y``.

    Class by class: one that never changed takes its rows of the encoder of the last fresh factorisation,
    which hold ``M^{-1}X'`` times the inverse of that ``I + shared*T``, ``T = XM^{-1}X'``; one that did is
    factored by itself. Atoms P that join or leave a class whose other atoms are R change T by
    ``±V S^{-1} V'`` with

        V = X_P - X_R M_R^{-1} classwise X_R'X_P,   S = ridge*I + classwise X_P'V
    """

    @cached_property
    def _factor(self) -> Any:
        """Of ``I + shared*T``, made at the next query, once for all changes until then."""
        return _ridged(self.state["inner"].copy(), 0.0) if self._weights.shared else None

    @cached_property
    def _own(self) -> dict[int, tuple[bool, Any]]:
        """Factors of the classes that changed, made at the next query, once for all changes until then."""
        dictionary, (_, classwise, ridge) = self._dictionary, self._weights
        own = np.flatnonzero((self.state["first"] < 0) & (np.diff(dictionary.starts) > 0))
        return {k: _class_factor(dictionary.class_atoms(k), classwise, ridge) for k in own.tolist()}

    @staticmethod
    def fresh_state(dictionary: Dictionary, encoder: FloatArray, inner: FloatArray | None) -> State:
        """State of a factorisation that no atom has joined or left."""
        inner = np.empty((0, 0)) if inner is None else inner
        first = dictionary.starts[:-1].copy()
        changes = np.zeros(1, dtype=np.int64)
        return {"encoder": encoder, "base": inner, "inner": inner, "first": first, "changes": changes}

    @classmethod
    def changed(cls, state: State, old: Weights, change: Change, new: Weights) -> UpdatedInverse | None:
        """Corrects T and marks the classes that changed; the weights must be the same."""
        after, changes = change.after, _counted(state, change)
        fewer = bool(new.shared) and after.n_atoms <= after.n_features
        if changes[0] > MAX_CHANGES or old != new or fewer:
            return None
        inner = state["inner"].copy()
        if new.shared:
            with single_threaded_blas():  # the matrices of one class are too small for threads
                for sign, rest, moved in _class_moves(change):
                    _correct(inner, sign * new.shared, rest, moved, new.classwise, new.ridge)
        first = _unchanged(state["first"], change)
        return cls(after, {**state, "inner": inner, "first": first, "changes": changes}, new)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``M^{-1}X'z`` for every query, class by class."""
        dictionary, encoder = self._dictionary, self.state["encoder"]
        inner = queries if self._factor is None else _solved(self._factor, queries)
        base = self._cast(inner if self._factor is None else inner @ self.state["base"])
        codes = np.empty((len(queries), dictionary.n_atoms), dtype=dictionary.atoms.dtype)
        for start, stop, row in self._stretches():
            codes[:, start:stop] = base @ encoder[row : row + stop - start].T
        blocks = dictionary.blocks
        for k, (by_atoms, factor) in self._own.items():
            atoms = dictionary.atoms[blocks[k]].astype(np.float64, copy=False)
            own = _solved(factor, inner @ atoms.T) if by_atoms else _solved(factor, inner) @ atoms.T
            codes[:, blocks[k]] = own
        return codes

    def _stretches(self) -> list[tuple[int, int, int]]:
        """(start, stop, row of the encoder) of neighbouring classes that never changed."""
        found: list[tuple[int, int, int]] = []
        for row, block in zip(self.state["first"].tolist(), self._dictionary.blocks, strict=True):
            if row < 0 or block.stop == block.start:
                continue
            if found and found[-1][1] == block.start and found[-1][2] + block.start - found[-1][0] == row:
                found[-1] = (found[-1][0], block.stop, found[-1][2])
            else:
                found.append((block.start, block.stop, row))
        return found


def _unchanged(first: np.ndarray, change: Change) -> np.ndarray:
    """Row of the encoder where each class begins that no atom has joined or left, -1 for the others."""
    after, old_class = change.after, change.before.atom_class
    rows = np.full(after.n_classes, -1, dtype=np.int64)
    same = np.diff(after.starts) > 0
    same[after.atom_class[change.added]] = False
    previous = old_class[change.origin[after.starts[:-1][same]]]
    lost = np.isin(previous, old_class[change.removed])
    rows[same] = np.where(lost, -1, first[previous])
    return rows


def _class_factor(atoms: FloatArray, weight: float, ridge: float) -> tuple[bool, Any]:
    """Factor of the smaller side of one class, and whether that is the side of the atoms."""
    if len(atoms) <= atoms.shape[1]:
        return True, _ridged(weight * (atoms @ atoms.T), ridge)
    return False, _ridged(weight * (atoms.T @ atoms), ridge)


def _class_moves(change: Change) -> list[tuple[int, FloatArray, FloatArray]]:
    """(sign, atoms of the class that stay, atoms that join or leave it), one class at a time.

    Atoms leave first: what stays is then what the new ones join.
    """
    moves = []
    gone_class = change.before.atom_class[change.removed]
    gone = np.zeros(change.before.n_atoms, dtype=bool)
    gone[change.removed] = True
    for k in np.unique(gone_class):
        block = slice(*change.before.starts[k : k + 2])
        atoms, leaving = change.before.class_atoms(k), gone[block]
        moves.append((-1, atoms[~leaving], atoms[leaving]))
    new_class = change.after.atom_class[change.added]
    for k in np.unique(new_class):
        block = slice(*change.after.starts[k : k + 2])
        atoms, joining = change.after.class_atoms(k), change.origin[block] < 0
        moves.append((1, atoms[~joining], atoms[joining]))
    return moves


def _correct(
    inner: FloatArray, sign: float, rest: FloatArray, moved: FloatArray, weight: float, ridge: float
) -> None:
    """``inner += sign * V S^{-1} V'``."""
    reach = moved  # V', one row per atom that moves
    if len(rest):
        by_atoms, factor = _class_factor(rest, weight, ridge)
        if by_atoms:
            reach = moved - weight * (_solved(factor, moved @ rest.T) @ rest)
        else:
            reach = ridge * _solved(factor, moved)
    schur = weight * (reach @ moved.T)
    factor = _ridged((schur + schur.T) / 2, ridge)
    _add_product(inner, sign, reach, cho_solve(factor, reach, check_finite=False))
