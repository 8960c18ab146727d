"""``(shared*G + classwise*B + ridge*I)^{-1}``, factored once and applied to many right-hand sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.solvers._change import Change
from residuum.solvers._class_side import ClassSide
from residuum.solvers._lifted import factored, solved
from residuum.solvers._state import State, check_arrays
from residuum.solvers._updated import AtomSide, FeatureSide, UpdatedInverse, Weights
from residuum.system.threads import single_threaded_blas


class QuadraticInverse:
    """Inverse of ``Q = shared*G + classwise*B + ridge*I`` with ``ridge > 0``.

    With no more atoms than features, Q itself is factored by Cholesky. Otherwise the Woodbury identity
    moves the factorisation to the feature side: with the block-diagonal ``M = classwise*B + ridge*I``,

        Q^{-1} X' = M^{-1} X' (I + shared * X M^{-1} X')^{-1}
        Q^{-1} v  = M^{-1} v - shared * Q^{-1} X' (X M^{-1} v)

    which without classwise is ``Q^{-1} X' = X' (shared * XX' + ridge*I)^{-1}``.

    A dictionary whose features are eigenvectors of XX' (`Dictionary.rotated`) needs no factorisation at all.
    Factorisations are float64; what is applied to queries has the dictionary's precision.

    Parameters
    ----------
    matrix : bool
        Whether `apply` will be used, which for a factored Q needs its inverse.

    Attributes
    ----------
    encoder : ndarray of shape (n_atoms, n_features)
        ``Q^{-1} X'``: the codes of queries Y are ``Y @ encoder.T``.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        *,
        shared: float,
        classwise: float,
        ridge: float,
        matrix: bool = False,
    ) -> None:
        self._dictionary = dictionary
        self._shared, self._classwise, self._ridge = shared, classwise, ridge
        self._matrix: FloatArray | None = None
        self._by_atoms = False
        # Products over all atoms that `updated` corrects instead of computing them again.
        self._normal: FloatArray | None = None
        self._inner: FloatArray | None = None
        self._factor: FloatArray | None = None
        if dictionary.spectrum is not None and not classwise:
            self.encoder = self._cast(dictionary.atoms64 / (shared * dictionary.spectrum + ridge))
        elif (dictionary.n_atoms <= dictionary.n_features and shared) or (matrix and classwise):
            self._factor_atoms(matrix)
        else:
            self._factor_features()

    def _factor_atoms(self, matrix: bool) -> None:
        self._by_atoms = True
        atoms = self._dictionary.settled().atoms64
        quadratic = self._shared * self._dictionary.gram
        for block in self._dictionary.blocks if self._classwise else ():
            quadratic[block, block] += self._classwise * self._dictionary.gram[block, block]
        factor = factored(quadratic, self._ridge)
        self.encoder = self._cast(solved(factor, atoms.T).T)
        if matrix:
            self._matrix = self._cast(solved(factor, np.eye(len(atoms))))

    def _factor_features(self) -> None:
        atoms = self._dictionary.settled().atoms64
        if not self._classwise:
            self._normal = atoms.T @ atoms
            self._factor = factored(self._shared * self._normal, self._ridge)
            self.encoder = self._cast(solved(self._factor, atoms))
            return
        half = np.empty_like(atoms)  # M^{-1} X', class by class
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            for block in self._dictionary.blocks:
                half[block] = ridge_encoder(atoms[block], self._classwise, self._ridge)
        if self._shared:
            inner = half.T @ atoms
            inner = self._shared * (inner + inner.T) / 2
            inner[np.diag_indices_from(inner)] += 1.0
            self._inner, self._factor = inner, factored(inner.copy(), 0.0)
            half = solved(self._factor, half)
        self.encoder = self._cast(half)

    def _cast(self, array: FloatArray) -> FloatArray:
        return np.ascontiguousarray(array, dtype=self._dictionary.dtype)

    def updated(self, change: Change, weights: Weights) -> UpdatedInverse | None:
        """The inverse for the dictionary after a change, or None where a fresh factorisation is due."""
        dictionary = self._dictionary
        if dictionary.spectrum is not None:
            return None
        none = np.zeros(1, dtype=np.int64)
        kind: type[UpdatedInverse] = ClassSide
        if self._normal is not None and self._factor is not None:
            kind, state = FeatureSide, {"normal": self._normal, "factor": self._factor, "changes": none}
        elif self._by_atoms:
            kind, state = AtomSide, {"gram": dictionary.gram, "changes": none}
        else:
            state = ClassSide.fresh_state(dictionary, self.encoder, self._inner, self._factor)
        old = Weights(self._shared, self._classwise, self._ridge)
        return kind(dictionary, state, old).updated(change, weights)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query, shape (n_queries, n_atoms)."""
        return queries @ self.encoder.T

    def apply(self, points: FloatArray, weight: float = 1.0) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points, shape (n_queries, n_atoms)."""
        if self._matrix is not None:
            result = points @ self._matrix
            return result if weight == 1 else weight * result
        factor = weight / self._ridge
        reach = points @ self._dictionary.atoms  # (n_queries, n_features)
        reach *= -self._shared * factor
        result = reach @ self.encoder.T
        result += points if factor == 1 else factor * points
        return result


def ridge_encoder(atoms: FloatArray, weight: float, ridge: float) -> FloatArray:
    """``(weight*X'X + ridge*I)^{-1} X'`` for the atoms (rows) of one class, by the smaller factorisation."""
    if not len(atoms):  # a class of zero vectors
        return atoms
    if len(atoms) <= atoms.shape[1]:
        return solved(factored(weight * (atoms @ atoms.T), ridge), atoms.T).T
    return solved(factored(weight * (atoms.T @ atoms), ridge), atoms)


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


class Inverting:
    """What solvers share that go through such an inverse: one has a cached property `_inverse`."""

    dictionary: Dictionary
    _weights: Weights
    _inverse: Any

    def prepare(self) -> None:
        """Factor now rather than at the first query."""
        _ = self._inverse

    def adopt(self, old: Any, change: Change) -> None:
        """Take over the factors of the solver before a change of the dictionary, as far as they serve."""
        inverse = old._inverse.updated(change, self._weights)
        if inverse is not None:
            self.__dict__["_inverse"] = inverse
        self.prepare()

    def state(self) -> State:
        """Arrays that a fresh solver would not have; empty where nothing was taken over."""
        return self._inverse.state if isinstance(self._inverse, UpdatedInverse) else {}

    def restore(self, state: State) -> None:
        """Become the solver whose `state` was stored."""
        self.__dict__["_inverse"] = restored_inverse(self.dictionary, state, self._weights)
