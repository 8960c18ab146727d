"""``c = (shared*G + classwise*B + l2*I)^{-1} X'y``: NSC, CRC and ProCRC.

The blocks of the optimality condition say that every code is a combination of vectors between features: with
``s = shared``, ``w = classwise`` and the class moments ``S_k = X_k X_k'``,

    c_k = X_k' v_k,    v_k = (w S_k + l2 I)^{-1} u,    u = y - s Xc,
    X_k c_k = S_k v_k,    ||c_k||^2 = v_k' S_k v_k.

Summed over the classes, ``Xc = P u`` with ``P = sum_k S_k (w S_k + l2 I)^{-1}``, so ``u = (I + s P)^{-1} y``.
Special cases:

    CRC  (w = 0)         v_k = v = (s S + l2 I)^{-1} y  for all k,   S = sum_k S_k
    NSC  (s = 0, w = 1)  u = y,   y - X_k c_k = l2 v_k, without cancellation

So a query can be answered from K matrices (n_features x n_features), without any atom: K D^2 operations
instead of the 2 N D that codes and their class parts take. `MomentParts` does that where it is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from residuum.dictionary import Change, Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.rules import ClassParts, CodedParts
from residuum.solvers.base import Solution, certified
from residuum.solvers.factors import AtomFactor, FeatureFactor, factored, inverted, quadratic_factor, solved
from residuum.system.threads import single_threaded_blas


class ClosedForm:
    """``c = (shared*G + classwise*B + l2*I)^{-1} X'y`` for problems with l1 = 0, neg_weight = 0, l2 > 0."""

    has_threads = False

    def __init__(self, problem: CodingProblem, dictionary: Dictionary) -> None:
        if not problem.is_linear or problem.l2 <= 0:
            raise ValueError(
                f"The closed form needs l1=0, neg_weight=0 and l2 > 0. Got {problem} instead. "
                "Use the solver 'admm' or 'exact'."
            )
        self.problem, self.dictionary = problem, dictionary

    @cached_property
    def uses_moments(self) -> bool:
        """Whether queries are answered from class moments: where that takes fewer operations.

        Moments are float64, in which an operation takes as long as two in float32.
        """
        dictionary = self.dictionary
        per_query = dictionary.n_classes * dictionary.n_features * (8 // dictionary.dtype.itemsize)
        cheaper = per_query <= 2 * dictionary.n_atoms
        return cheaper and dictionary.n_atoms > dictionary.n_features and dictionary.spectrum is None

    @property
    def entries_per_query(self) -> int:
        """Numbers that are held for each query while it is answered."""
        dictionary = self.dictionary
        return 2 * dictionary.n_classes * dictionary.n_features if self.uses_moments else dictionary.n_atoms

    @cached_property
    def _form(self) -> AtomFactor | FeatureFactor | EncoderForm | MomentForm:
        problem, dictionary = self.problem, self.dictionary
        by_atoms = problem.shared and dictionary.n_atoms <= dictionary.n_features
        if not problem.classwise or by_atoms:
            return quadratic_factor(dictionary, problem, problem.l2)
        if self.uses_moments:
            return MomentForm(dictionary, problem)
        return EncoderForm(dictionary, problem)

    def prepare(self) -> None:
        """Sum and factor now rather than at the first query."""
        if self.uses_moments:
            _ = self.dictionary.moments
        self._form.prepare(codes=not self.uses_moments)

    def follow(self, old: ClosedForm, change: Change) -> None:
        """Reuse what `old` had prepared for the classes that `change` leaves as they are."""
        form = vars(old).get("_form")
        same = (old.problem, old.uses_moments) == (self.problem, self.uses_moments)
        if same and isinstance(form, EncoderForm | MomentForm):
            self._form = form.after(change)

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; `certify=False` leaves violation and gap as NaN and saves two products."""
        codes = self._form.encode(queries)
        return certified(
            self.problem,
            self.dictionary,
            queries,
            codes,
            n_iter=np.ones(len(queries), dtype=np.int64),
            converged=np.ones(len(queries), dtype=bool),
            certify=certify,
        )

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and whether each query was solved (always)."""
        all_solved = np.ones(len(queries), dtype=bool)
        if not self.uses_moments:
            return CodedParts(self.dictionary, queries, self._form.encode(queries)), all_solved
        queries = queries.astype(np.float64, copy=False)
        if isinstance(self._form, MomentForm):
            return self._form.parts(queries), all_solved
        assert isinstance(self._form, FeatureFactor)
        vectors = self._form.features(queries)  # v, the same for all classes: (n_queries, n_features)
        moments = self.dictionary.moments.matrices
        parts = MomentParts(
            queries,
            vectors=lambda: [vectors] * len(moments),
            contributions=lambda _: [vectors @ moment for moment in moments],
            whole=lambda _: (queries - self.problem.l2 * vectors) / self.problem.shared,
        )
        return parts, all_solved


class MomentForm:
    """Codes with ``classwise > 0`` from moments: each class has ``H_k = (w S_k + l2 I)^{-1}``.

    Parameters
    ----------
    dictionary, problem
        What is coded, and how.
    known : dict, optional
        Class -> H_k and ``S_k H_k``, where they are at hand.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: CodingProblem,
        known: dict[int, tuple[FloatArray, FloatArray | None]] | None = None,
    ) -> None:
        self.dictionary, self.problem = dictionary, problem
        self._known = known or {}

    @cached_property
    def _matrices(self) -> list[tuple[FloatArray, FloatArray | None]]:
        """H_k of every class and, where the classes share, ``S_k H_k``, which turns u into ``X_k c_k``."""
        moments = self.dictionary.moments.matrices
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            return [self._known.get(k) or self._made(moment) for k, moment in enumerate(moments)]

    def _made(self, moment: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        inverse = inverted(factored(self.problem.classwise * moment, self.problem.l2))
        return inverse, moment @ inverse if self.problem.shared else None

    @property
    def inverses(self) -> list[FloatArray]:
        """H_k of every class."""
        return [inverse for inverse, _ in self._matrices]

    @property
    def _reaches(self) -> list[Any]:
        return [reach for _, reach in self._matrices]

    @cached_property
    def _factor(self) -> FloatArray | None:
        if not self.problem.shared:
            return None
        total = np.zeros((self.dictionary.n_features,) * 2)
        for reach in self._reaches:
            total += reach
        return shared_factor(self.problem, total)

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query."""
        _ = self._matrices, self._factor

    def after(self, change: Change) -> MomentForm:
        """The form after a change; classes that stayed the same keep their matrices."""
        origin = change.class_origin
        kept = {k: self._matrices[origin[k]] for k in range(len(origin)) if change.same_class[k]}
        return MomentForm(change.after, self.problem, kept)

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        dictionary = self.dictionary
        rest = unexplained(self._factor, queries)
        codes = np.empty((len(queries), dictionary.n_atoms), dtype=dictionary.dtype)
        for block, inverse in zip(dictionary.blocks, self.inverses, strict=True):
            codes[:, block] = (rest @ inverse) @ dictionary.atoms[block].astype(np.float64, copy=False).T
        return codes

    def parts(self, queries: FloatArray) -> MomentParts:
        """What each class contributes to every query (float64)."""
        problem, rest = self.problem, unexplained(self._factor, queries)

        def vectors() -> list[FloatArray]:
            return [rest @ inverse for inverse in self.inverses]

        if problem.shared:
            return MomentParts(
                queries,
                vectors=vectors,
                contributions=lambda _: [rest @ reach for reach in self._reaches],
                whole=lambda _: (queries - rest) / problem.shared,
            )
        return MomentParts(
            queries,
            vectors=vectors,
            contributions=lambda parts: [
                (queries - problem.l2 * v) / problem.classwise for v in parts.vectors
            ],
            whole=lambda parts: np.sum(parts.contributions, axis=0),
            # y - X_k c_k = l2 v_k, without cancellation, where the weight of the residual is 1.
            ridge=problem.l2 if problem.classwise == 1 else None,
        )


class EncoderForm:
    """Codes with ``classwise > 0`` from atoms: ``c_k = E_k u`` with ``E_k = (w G_k + l2 I)^{-1} X_k'``.

    Parameters
    ----------
    dictionary, problem
        What is coded, and how.
    known : dict, optional
        Class -> E_k, where it is at hand.
    total : ndarray of shape (n_features, n_features), optional
        ``P``, the sum of ``X_k E_k``, where it is at hand.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: CodingProblem,
        known: dict[int, FloatArray] | None = None,
        total: FloatArray | None = None,
    ) -> None:
        self.dictionary, self.problem = dictionary, problem
        self._stacked: FloatArray | None = (
            None  # all E_k as one array, in which one product codes all classes
        )
        if known is None:
            self._stacked = np.empty_like(dictionary.atoms)
        with single_threaded_blas():  # as in MomentForm
            self.encoders: list[FloatArray] = []
            for k, block in enumerate(dictionary.blocks):
                if self._stacked is not None:
                    self._stacked[block] = self._encoder(block)
                    self.encoders.append(self._stacked[block])
                else:
                    self.encoders.append(known[k] if known and k in known else self._encoder(block))
        self._total = total

    def _encoder(self, block: slice) -> FloatArray:
        atoms = self.dictionary.atoms[block].astype(np.float64, copy=False)
        encoder = ridge_encoder(atoms, self.problem.classwise, self.problem.l2)
        return encoder.astype(self.dictionary.dtype, copy=False)

    def _term(self, k: int) -> FloatArray:
        """``X_k E_k`` of one class."""
        atoms = self.dictionary.atoms[self.dictionary.blocks[k]].astype(np.float64, copy=False)
        return atoms.T @ self.encoders[k]

    @cached_property
    def total(self) -> FloatArray:
        """``P``, the sum of ``X_k E_k``."""
        if self._total is not None:
            return self._total
        total = np.zeros((self.dictionary.n_features,) * 2)
        for k in range(self.dictionary.n_classes):
            total += self._term(k)
        return total

    @cached_property
    def _factor(self) -> FloatArray | None:
        return shared_factor(self.problem, self.total) if self.problem.shared else None

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query."""
        _ = self._factor

    def after(self, change: Change) -> EncoderForm:
        """The form after a change; classes that stayed the same keep their matrices."""
        origin, same = change.class_origin, change.same_class
        kept = {k: self.encoders[origin[k]] for k in range(len(origin)) if same[k]}
        form = EncoderForm(change.after, self.problem, kept)
        if self.problem.shared:
            gone = set(range(self.dictionary.n_classes)) - {int(o) for o in origin[same]}
            total = self.total.copy()
            for k in gone:
                total -= self._term(k)
            for k in np.flatnonzero(~same).tolist():
                total += form._term(k)
            form._total = total
        return form

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        rest = unexplained(self._factor, queries).astype(self.dictionary.dtype, copy=False)
        if self._stacked is not None:
            return rest @ self._stacked.T
        codes = np.empty((len(queries), self.dictionary.n_atoms), dtype=self.dictionary.dtype)
        for block, encoder in zip(self.dictionary.blocks, self.encoders, strict=True):
            codes[:, block] = rest @ encoder.T
        return codes


def shared_factor(problem: CodingProblem, total: Any) -> FloatArray:
    """Cholesky factor of ``I + s P``."""
    return factored(problem.shared * (total + total.T) / 2, 1.0)


def unexplained(factor: FloatArray | None, queries: FloatArray) -> FloatArray:
    """``u = y - s Xc = (I + s P)^{-1} y`` for every query; without a factor nothing is shared and u = y."""
    return queries if factor is None else solved(factor, queries.T).T


def ridge_encoder(atoms: FloatArray, weight: float, ridge: float) -> FloatArray:
    """``(weight*X'X + ridge*I)^{-1} X'`` for the atoms (rows) of one class, by the smaller factorisation."""
    if not len(atoms):  # a class of zero vectors
        return atoms
    if len(atoms) <= atoms.shape[1]:
        return solved(factored(weight * (atoms @ atoms.T), ridge), atoms)
    return solved(factored(weight * (atoms.T @ atoms), ridge), atoms.T).T


class MomentParts:
    """`ClassParts` from vectors between features, in float64, one array (n_queries, n_features) per class.

    What a rule does not ask for is not computed: the arguments are functions, called at most once.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        The queries y.
    vectors : callable
        Gives the list of v_k with ``c_k = X_k' v_k``.
    contributions : callable
        Gives the list of ``X_k c_k`` from these parts.
    whole : callable
        Gives ``Xc`` from these parts.
    ridge : float, optional
        The number with ``y - X_k c_k = ridge * v_k``, where there is one.
    """

    def __init__(
        self,
        queries: FloatArray,
        *,
        vectors: Callable[[], list[FloatArray]],
        contributions: Callable[[MomentParts], list[Any]],
        whole: Callable[[MomentParts], FloatArray],
        ridge: float | None = None,
    ) -> None:
        self.queries = queries
        self._vectors, self._contributions, self._whole, self._ridge = vectors, contributions, whole, ridge

    @cached_property
    def vectors(self) -> list[FloatArray]:
        """The v_k with ``c_k = X_k' v_k``."""
        return self._vectors()

    @cached_property
    def contributions(self) -> list[FloatArray]:
        """``X_k c_k``."""
        return self._contributions(self)

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        if self._ridge is not None:
            return self._ridge * np.sqrt(_products(self.vectors, self.vectors))
        return self._distances(self.queries)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        return self._distances(self._whole(self))

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return np.sqrt(_products(self.contributions, self.contributions))

    def energies(self) -> FloatArray:
        """``||c_k||^2 = v_k'X_k c_k``."""
        return np.maximum(_products(self.vectors, self.contributions), 0)

    def _distances(self, targets: FloatArray) -> FloatArray:
        squares = np.empty((len(targets), len(self.contributions)))
        difference = np.empty_like(targets)
        for k, part in enumerate(self.contributions):
            np.subtract(targets, part, out=difference)
            np.einsum("qd,qd->q", difference, difference, out=squares[:, k])
        return np.sqrt(squares, out=squares)


def _products(left: list[FloatArray], right: list[FloatArray]) -> FloatArray:
    """Inner products of the rows of two arrays for every class, shape (n_queries, n_classes)."""
    return np.stack([np.einsum("qd,qd->q", a, b) for a, b in zip(left, right, strict=True)], axis=1)
