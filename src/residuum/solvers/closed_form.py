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
        """Whether queries are answered from class moments, which is cheaper with many atoms per class."""
        dictionary = self.dictionary
        cheaper = dictionary.n_classes * dictionary.n_features <= 2 * dictionary.n_atoms
        return cheaper and dictionary.n_atoms > dictionary.n_features and dictionary.spectrum is None

    @property
    def entries_per_query(self) -> int:
        """Numbers that are held for each query while it is answered."""
        dictionary = self.dictionary
        return dictionary.n_classes * dictionary.n_features if self.uses_moments else dictionary.n_atoms

    @cached_property
    def _form(self) -> AtomFactor | FeatureFactor | ClassForm:
        problem, dictionary = self.problem, self.dictionary
        by_atoms = problem.shared and dictionary.n_atoms <= dictionary.n_features
        if problem.classwise and not by_atoms:
            return ClassForm(dictionary, problem, self.uses_moments)
        return quadratic_factor(dictionary, problem, problem.l2)

    def prepare(self) -> None:
        """Sum and factor now rather than at the first query."""
        if self.uses_moments:
            _ = self.dictionary.moments
        self._form.prepare()

    def follow(self, old: ClosedForm, change: Change) -> None:
        """Reuse what `old` had prepared for the classes that `change` leaves as they are."""
        form = vars(old).get("_form")
        if isinstance(form, ClassForm) and (old.problem, old.uses_moments) == (
            self.problem,
            self.uses_moments,
        ):
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
        form = self._form
        if isinstance(form, ClassForm):
            return _parts_of_classes(self.problem, queries, form), all_solved
        assert isinstance(form, FeatureFactor)
        vectors = form.features(queries)  # v, the same for all classes: (n_queries, n_features)
        contributions = np.stack([vectors @ moment for moment in self.dictionary.moments.matrices])
        whole = (queries - self.problem.l2 * vectors) / self.problem.shared
        return MomentParts(queries, contributions, whole, vectors[None]), all_solved


class ClassForm:
    """Codes with ``classwise > 0``: ``c_k = X_k' v_k`` with ``v_k = (w S_k + l2 I)^{-1} u``, class by class.

    Each class keeps one matrix. From moments it is ``H_k = (w S_k + l2 I)^{-1}``, between features; from
    atoms it is ``E_k = (w G_k + l2 I)^{-1} X_k'``, which gives ``c_k = E_k u`` at once.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        problem: CodingProblem,
        by_moments: bool,
        known: dict[int, tuple[FloatArray, FloatArray | None]] | None = None,
    ) -> None:
        self.dictionary, self.problem, self.by_moments = dictionary, problem, by_moments
        self._known = known or {}  # class -> its matrix and its term of P, where they are at hand

    def after(self, change: Change) -> ClassForm:
        """The form after a change of the dictionary; classes that stayed the same keep their matrices."""
        kept = {
            int(k): (self.maps[origin], self.terms[origin])
            for k, origin in enumerate(change.class_origin)
            if change.same_class[k]
        }
        return ClassForm(change.after, self.problem, self.by_moments, kept)

    def prepare(self) -> None:
        """Factor now rather than at the first query."""
        _ = self._factor

    @cached_property
    def _classes(self) -> list[tuple[FloatArray, FloatArray | None]]:
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            return [self._known.get(k) or self._class(k) for k in range(self.dictionary.n_classes)]

    def _class(self, k: int) -> tuple[FloatArray, FloatArray | None]:
        """The matrix of one class and, where the classes share, its term ``S_k (w S_k + l2 I)^{-1}`` of P."""
        weight, l2 = self.problem.classwise, self.problem.l2
        if self.by_moments:
            moment = self.dictionary.moments.matrices[k]
            inverse = inverted(factored(weight * moment, l2))
            return inverse, moment @ inverse if self.problem.shared else None
        atoms = self.dictionary.atoms[self.dictionary.blocks[k]].astype(np.float64, copy=False)
        encoder = ridge_encoder(atoms, weight, l2)
        term = atoms.T @ encoder if self.problem.shared else None
        return encoder.astype(self.dictionary.dtype, copy=False), term

    @property
    def maps(self) -> list[FloatArray]:
        """H_k or E_k of every class."""
        return [matrix for matrix, _ in self._classes]

    @property
    def terms(self) -> list[Any]:
        """Terms of P, or None for each class where the classes share nothing."""
        return [term for _, term in self._classes]

    @cached_property
    def _factor(self) -> FloatArray | None:
        """Cholesky factor of ``I + s P``."""
        if not self.problem.shared:
            _ = self._classes
            return None
        whole = np.sum(self.terms, axis=0)
        return factored(self.problem.shared * (whole + whole.T) / 2, 1.0)

    def unexplained(self, queries: FloatArray) -> FloatArray:
        """``u = y - s Xc`` for every query."""
        return queries if self._factor is None else solved(self._factor, queries.T).T

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        dictionary = self.dictionary
        rest = self.unexplained(queries)
        if not self.by_moments:
            rest = rest.astype(dictionary.dtype, copy=False)
        codes = np.empty((len(queries), dictionary.n_atoms), dtype=dictionary.dtype)
        for block, matrix in zip(dictionary.blocks, self.maps, strict=True):
            if self.by_moments:
                codes[:, block] = (rest @ matrix) @ dictionary.atoms[block].astype(np.float64, copy=False).T
            else:
                codes[:, block] = rest @ matrix.T
        return codes


def ridge_encoder(atoms: FloatArray, weight: float, ridge: float) -> FloatArray:
    """``(weight*X'X + ridge*I)^{-1} X'`` for the atoms (rows) of one class, by the smaller factorisation."""
    if not len(atoms):  # a class of zero vectors
        return atoms
    if len(atoms) <= atoms.shape[1]:
        return solved(factored(weight * (atoms @ atoms.T), ridge), atoms)
    return solved(factored(weight * (atoms.T @ atoms), ridge), atoms.T).T


def _parts_of_classes(problem: CodingProblem, queries: FloatArray, form: ClassForm) -> MomentParts:
    """``X_k c_k = S_k v_k`` with ``v_k = H_k u``; where nothing is shared, ``(y - l2 v_k)/w``."""
    rest = form.unexplained(queries)
    vectors = np.stack([rest @ matrix for matrix in form.maps])  # (n_classes, n_queries, n_features)
    if not problem.shared:
        contributions = (queries - problem.l2 * vectors) / problem.classwise
        exact = problem.l2 * vectors if problem.classwise == 1 else None
        return MomentParts(queries, contributions, contributions.sum(axis=0), vectors, exact)
    contributions = np.stack([rest @ term for term in form.terms])
    return MomentParts(queries, contributions, (queries - rest) / problem.shared, vectors)


class MomentParts:
    """`ClassParts` from vectors between features, in float64.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        The queries y.
    contributions : ndarray of shape (n_classes, n_queries, n_features)
        ``X_k c_k``.
    whole : ndarray of shape (n_queries, n_features)
        ``Xc``.
    vectors : ndarray of shape (n_classes or 1, n_queries, n_features)
        v_k with ``c_k = X_k' v_k``.
    differences : ndarray like `contributions`, optional
        ``y - X_k c_k`` where it is known without subtracting.
    """

    def __init__(
        self,
        queries: FloatArray,
        contributions: FloatArray,
        whole: FloatArray,
        vectors: FloatArray,
        differences: FloatArray | None = None,
    ) -> None:
        self.queries, self._contributions, self._whole = queries, contributions, whole
        self._vectors, self._differences = vectors, differences

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        if self._differences is not None:
            return _norms(self._differences)
        return _norms(self.queries - self._contributions)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        return _norms(self._whole - self._contributions)

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return _norms(self._contributions)

    def energies(self) -> FloatArray:
        """``||c_k||^2 = v_k'X_k c_k``."""
        products = np.einsum(
            "kqd,kqd->qk", np.broadcast_to(self._vectors, self._contributions.shape), self._contributions
        )
        return np.maximum(products, 0)


def _norms(vectors: FloatArray) -> FloatArray:
    """Norms of (n_classes, n_queries, n_features) as (n_queries, n_classes)."""
    return np.sqrt(np.einsum("kqd,kqd->qk", vectors, vectors))
