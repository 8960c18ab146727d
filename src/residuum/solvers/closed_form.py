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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache, cached_property
from typing import Any

import numpy as np

from residuum.dictionary import Change, Dictionary, FloatArray
from residuum.problem import CodingProblem
from residuum.rules import SAFETY, ClassParts, CodedParts
from residuum.solvers.base import Solution, certified
from residuum.solvers.factors import AtomFactor, FeatureFactor, factored, inverted, quadratic_factor, solved
from residuum.system.threads import single_threaded_blas

# Outside the span of the atoms v_k can be as large as 1/l2, and rounding grows with it. Below this l2 moments
# are not used. The error of the energies v_k'S_k v_k is at most about eps ||S_k|| ||v_k||^2: where that bound
# exceeds the second number, energies are computed from codes.
LEAST_L2, LARGEST_ERROR = 1e-6, 1e-7
EPS = float(np.finfo(np.float64).eps)


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
        cheaper = per_query <= 2 * dictionary.n_atoms and dictionary.n_atoms > dictionary.n_features
        return cheaper and dictionary.spectrum is None and self.problem.l2 >= LEAST_L2

    @property
    def entries_per_query(self) -> int:
        """Numbers that are held for each query while it is answered."""
        dictionary = self.dictionary
        # Blocks of some 200 queries are fastest: fewer make slow products, more leave the cache.
        by_moments = max(5000, dictionary.n_classes * dictionary.n_features)
        return by_moments if self.uses_moments else dictionary.n_atoms

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
        once, always = np.ones(len(queries), dtype=np.int64), np.ones(len(queries), dtype=bool)
        codes = self._form.encode(queries)
        return certified(self, queries, codes, n_iter=once, converged=always, certify=certify)

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and whether each query was solved (always)."""
        all_solved = np.ones(len(queries), dtype=bool)
        if not self.uses_moments:
            return self._coded(queries), all_solved
        parts = self._moment_parts(queries.astype(np.float64, copy=False))
        error = EPS * self.dictionary.sizes.max() / self.problem.l2**2
        if error > LARGEST_ERROR:
            parts.coded = cache(lambda: self._coded(queries))
        return parts, all_solved

    def _coded(self, queries: FloatArray) -> CodedParts:
        """The parts of codes, with the errors that `code_errors` would find."""
        vectors, encoder = self._vectors(queries), self._encoder
        codes = self._form.encode(queries) if encoder is None else vectors @ encoder.T
        return CodedParts(self.dictionary, queries, codes, **self._code_errors(vectors, codes))

    def code_errors(self, queries: FloatArray, codes: FloatArray) -> dict[str, Any]:
        """How far rounding has moved the codes of these queries, as `CodedParts` takes it."""
        return self._code_errors(self._vectors(queries), codes)

    def _vectors(self, queries: FloatArray) -> FloatArray:
        """The vectors v that the encoder turns into codes, ``c_k = E_k v``; larger ones without encoder."""
        form, dtype = self._form, self.dictionary.dtype
        if isinstance(form, ClasswiseForm):
            rest = form.unexplained(queries)
            return rest.astype(dtype, copy=False) if self._encoder is not None else rest / self.problem.l2
        if isinstance(form, FeatureFactor) and dtype == np.float64:
            return form.features(queries)
        return queries

    @cached_property
    def _encoder(self) -> FloatArray | None:
        """All E_k below each other; None where codes come from moments."""
        form, atoms = self._form, self.dictionary.atoms
        if isinstance(form, ClasswiseForm):
            return form.encoders if isinstance(form, EncoderForm) else None
        return atoms if isinstance(form, FeatureFactor) and atoms.dtype == np.float64 else form._encoder

    def _code_errors(self, vectors: FloatArray, codes: FloatArray) -> dict[str, Any]:
        """Rounding of the product ``E_k v`` and of the matrix moves c_k by about ``eps ||E_k||_F ||v||``.

        Factoring moves the residual of a class that codes alone by a share ``eps n_k / l2`` of it, and codes
        that a factor between all atoms gives by as much as ``eps N ||c|| / l2``: equal atoms of two classes
        differ in directions that only the ridge holds.
        """
        eps = np.finfo(self.dictionary.dtype).eps if self._encoder is not None else EPS
        norms = self._encoder_norms * np.linalg.norm(vectors, axis=1, keepdims=True)
        error = eps * norms
        if isinstance(self._form, AtomFactor):
            condition = self.dictionary.n_atoms / self.problem.l2
            error = error + EPS * condition * np.linalg.norm(codes, axis=1, keepdims=True)
        alone = 0.0 if self.problem.shared else EPS * self.dictionary.sizes / self.problem.l2
        return {"code_error": error, "relative_error": alone, "largest_norm": norms.max()}

    @cached_property
    def _encoder_norms(self) -> FloatArray:
        """``||E_k||_F`` of every class."""
        encoder = self.dictionary.atoms if self._encoder is None else self._encoder
        return np.array([np.linalg.norm(encoder[block]) for block in self.dictionary.blocks])

    def _moment_parts(self, queries: FloatArray) -> MomentParts:
        if isinstance(self._form, MomentForm):
            return self._form.parts(queries)
        assert isinstance(self._form, FeatureFactor)
        vectors = self._form.features(queries)  # v, the same for all classes: (n_queries, n_features)
        moments = self.dictionary.moments.matrices
        return MomentParts(
            queries,
            lambda: [vectors] * len(moments),
            cache(lambda: [vectors @ moment for moment in moments]),
            lambda: (queries - self.problem.l2 * vectors) / self.problem.shared,
            np.sqrt(np.einsum("qd,qd->q", vectors, vectors))[:, None],
            np.array([self.dictionary.n_atoms]),
        )


class ClasswiseForm(ABC):
    """Codes with ``classwise > 0``: one matrix for each class, and ``u = (I + s P)^{-1} y`` if s > 0."""

    def __init__(self, dictionary: Dictionary, problem: CodingProblem) -> None:
        self.dictionary, self.problem = dictionary, problem

    @abstractmethod
    def _term(self, k: int) -> FloatArray:
        """The term of one class in P, which turns u into ``X_k c_k``."""

    @cached_property
    def total(self) -> FloatArray:
        """``P``, the sum of the terms of all classes."""
        total = np.zeros((self.dictionary.n_features,) * 2)
        for k in range(self.dictionary.n_classes):
            total += self._term(k)
        return total

    @cached_property
    def _factor(self) -> FloatArray | None:
        """Cholesky factor of ``I + s P``."""
        shared = self.problem.shared
        return factored(self.total + self.total.T, 1.0, shared / 2) if shared else None

    def unexplained(self, queries: FloatArray) -> FloatArray:
        """``u = y - s Xc`` for every query."""
        return queries if self._factor is None else solved(self._factor, queries.T).T


class MomentForm(ClasswiseForm):
    """Codes from moments: each class has ``H_k = (w S_k + l2 I)^{-1}`` and, but for NSC, ``S_k H_k``."""

    def __init__(
        self, dictionary: Dictionary, problem: CodingProblem, known: dict[int, Any] | None = None
    ) -> None:
        super().__init__(dictionary, problem)
        self._known = known or {}  # class -> its matrices, where they are at hand

    @cached_property
    def _matrices(self) -> list[tuple[FloatArray, FloatArray | None]]:
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            moments = self.dictionary.moments.matrices
            return [self._known.get(k) or self._made(moment) for k, moment in enumerate(moments)]

    def _made(self, moment: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        inverse = inverted(factored(moment, self.problem.l2, self.problem.classwise))
        plain = not self.problem.shared and self.problem.classwise == 1  # NSC needs no S_k H_k
        return inverse, None if plain else moment @ inverse

    @property
    def inverses(self) -> list[FloatArray]:
        """H_k of every class."""
        return [inverse for inverse, _ in self._matrices]

    def _term(self, k: int) -> Any:
        return self._matrices[k][1]

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query."""
        _ = self._matrices, self._factor

    def after(self, change: Change) -> MomentForm:
        """The form after a change; classes that stayed the same keep their matrices."""
        same = np.flatnonzero(change.same_class).tolist()
        return MomentForm(
            change.after, self.problem, {k: self._matrices[change.class_origin[k]] for k in same}
        )

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        dictionary = self.dictionary
        rest = self.unexplained(queries)
        codes = np.empty((len(queries), dictionary.n_atoms), dtype=dictionary.dtype)
        for block, inverse in zip(dictionary.blocks, self.inverses, strict=True):
            codes[:, block] = (rest @ inverse) @ dictionary.atoms[block].astype(np.float64, copy=False).T
        return codes

    def parts(self, queries: FloatArray) -> MomentParts:
        """What each class contributes to every query (float64)."""
        problem, rest = self.problem, self.unexplained(queries)
        vectors = cache(lambda: [rest @ inverse for inverse in self.inverses])
        ridge = None if problem.shared or problem.classwise != 1 else problem.l2

        @cache
        def contributions() -> list[Any]:
            if ridge is None:
                return [rest @ self._term(k) for k in range(self.dictionary.n_classes)]
            return [queries - ridge * v for v in vectors()]

        def whole() -> FloatArray:
            return (queries - rest) / problem.shared if problem.shared else np.sum(contributions(), axis=0)

        reach = np.sqrt(np.einsum("qd,qd->q", rest, rest))[:, None] / problem.l2
        return MomentParts(queries, vectors, contributions, whole, reach, self.dictionary.sizes, ridge)


class EncoderForm(ClasswiseForm):
    """Codes from atoms: ``c_k = E_k u`` with ``E_k = (w G_k + l2 I)^{-1} X_k'``.

    Parameters
    ----------
    dictionary, problem
        What is coded, and how.
    encoders : ndarray of shape (n_atoms, n_features), optional
        All E_k below each other; without it they are computed.
    """

    def __init__(
        self, dictionary: Dictionary, problem: CodingProblem, encoders: FloatArray | None = None
    ) -> None:
        super().__init__(dictionary, problem)
        self.encoders = np.empty_like(dictionary.atoms) if encoders is None else encoders
        if encoders is None:
            self._encode_classes(range(dictionary.n_classes))

    def _encode_classes(self, classes: Iterable[int]) -> None:
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            for k in classes:
                block = self.dictionary.blocks[k]
                atoms = self.dictionary.atoms[block].astype(np.float64, copy=False)
                self.encoders[block] = ridge_encoder(atoms, self.problem.classwise, self.problem.l2)

    def _term(self, k: int) -> FloatArray:
        block = self.dictionary.blocks[k]
        return self.dictionary.atoms[block].astype(np.float64, copy=False).T @ self.encoders[block]

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query."""
        _ = self._factor

    def after(self, change: Change) -> EncoderForm:
        """The form after a change; classes that stayed the same keep their matrices."""
        same = change.same_class
        changed = np.flatnonzero(~same).tolist()
        placeholder = np.zeros_like(change.after.atoms[change.added])
        form = EncoderForm(change.after, self.problem, change.carry(self.encoders, placeholder))
        form._encode_classes(changed)
        if self.problem.shared:
            total = self.total.copy()
            for k in set(range(self.dictionary.n_classes)) - set(change.class_origin[same].tolist()):
                total -= self._term(k)
            for k in changed:
                total += form._term(k)
            form.total = total
        return form

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        return self.unexplained(queries).astype(self.dictionary.dtype, copy=False) @ self.encoders.T


def ridge_encoder(atoms: FloatArray, weight: float, ridge: float) -> FloatArray:
    """``(weight*X'X + ridge*I)^{-1} X'`` for the atoms (rows) of one class, by the smaller factorisation."""
    if not len(atoms):  # a class of zero vectors
        return atoms
    if len(atoms) <= atoms.shape[1]:
        return solved(factored(atoms @ atoms.T, ridge, weight), atoms)
    return solved(factored(atoms.T @ atoms, ridge, weight), atoms.T).T


class MomentParts:
    """`ClassParts` from vectors between features, in float64, one array (n_queries, n_features) per class.

    What a rule does not ask for is not computed: all arguments but the queries and `ridge` are functions.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        The queries y.
    vectors, contributions : callable
        Give the list of v_k with ``c_k = X_k' v_k``, and the list of ``X_k c_k``.
    whole : callable
        Gives ``Xc``.
    reach : ndarray of shape (n_queries, 1)
        A bound of all ``||v_k||``.
    terms : ndarray of shape (n_classes,) or (1,)
        Numbers of atoms in the matrices that are applied to v_k: they bound their norms.
    ridge : float, optional
        The number with ``y - X_k c_k = ridge * v_k``, where there is one.
    """

    def __init__(
        self,
        queries: FloatArray,
        vectors: Callable[[], list[Any]],
        contributions: Callable[[], list[Any]],
        whole: Callable[[], FloatArray],
        reach: FloatArray,
        terms: np.ndarray,
        ridge: float | None = None,
    ) -> None:
        self.queries, self.reach, self.terms, self.precision = queries, reach, terms, EPS
        self.vectors, self.contributions, self._whole, self._ridge = vectors, contributions, whole, ridge
        self.coded: Callable[[], CodedParts] | None = None  # set where energies need the digits of codes

    def error(self, quantity: str, value: FloatArray, rows: Any) -> FloatArray:
        """Bound of the absolute rounding error of a quantity for some queries, of which `value` is given."""
        if quantity == "energies" and self.coded is not None:
            return self.coded().error(quantity, value, rows)
        reach: Any = self.reach[rows]
        if self._ridge is not None:  # ||v_k|| itself
            reach = (value if quantity == "residuals" else self.residuals()[rows]) / self._ridge
            if quantity == "residuals":  # nothing is subtracted
                return SAFETY * EPS * self.terms * reach * self._ridge
        own = EPS * self.terms * reach
        return SAFETY * (own * reach if quantity == "energies" else own + EPS)

    def share(self, quantity: str, value: FloatArray) -> Any:
        """Bound of the relative rounding error of a quantity for all classes: a number or a column."""
        own = SAFETY * EPS * self.terms.max()
        if quantity == "energies" and self.coded is not None:
            return self.coded().share(quantity, value)
        if quantity == "residuals" and self._ridge is not None:
            return own / self._ridge
        error = own * self.reach**2 if quantity == "energies" else own * self.reach + SAFETY * EPS
        return error / value.min(axis=1, keepdims=True)

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        if self._ridge is not None:
            return self._ridge * np.sqrt(_products(self.vectors(), self.vectors()))
        return self._distances(self.queries)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        return self._distances(self._whole())

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return np.sqrt(_products(self.contributions(), self.contributions()))

    def energies(self) -> FloatArray:
        """``||c_k||^2 = v_k'X_k c_k``."""
        if self.coded is not None:
            self.precision = self.coded().precision
            return self.coded().energies()
        return np.maximum(_products(self.vectors(), self.contributions()), 0)

    def _distances(self, targets: FloatArray) -> FloatArray:
        contributions = self.contributions()
        squares = np.empty((len(targets), len(contributions)))
        difference = np.empty_like(targets)
        for k, part in enumerate(contributions):
            np.subtract(targets, part, out=difference)
            np.einsum("qd,qd->q", difference, difference, out=squares[:, k])
        return np.sqrt(squares, out=squares)


def _products(left: list[FloatArray], right: list[FloatArray]) -> FloatArray:
    """Inner products of the rows of two arrays for every class, shape (n_queries, n_classes)."""
    return np.stack([np.einsum("qd,qd->q", a, b) for a, b in zip(left, right, strict=True)], axis=1)
