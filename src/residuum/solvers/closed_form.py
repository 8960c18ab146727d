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
from dataclasses import replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from residuum.change import Change
from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem, Solution
from residuum.rules import ClassParts, CodedParts, MomentParts, norms
from residuum.solvers.factors import (
    AtomFactor,
    FeatureFactor,
    Inverse,
    StackedFactor,
    factored,
    inverted,
    inverted_triangle,
    quadratic_factor,
    solved,
    times_triangle,
)
from residuum.system.threads import single_threaded_blas

# Outside the span of the atoms v_k can be as large as 1/l2, and rounding grows with it. Below this l2 moments
# are not used. The error of the energies v_k'S_k v_k is at most about eps ||S_k|| ||v_k||^2: where that bound
# exceeds the second number, energies are computed from codes.
LEAST_L2, LARGEST_ERROR = 1e-6, 1e-7
# The matrix from a query to its code has a norm of up to 1/(2 sqrt(l2)), by which it magnifies rounding.
# Below this l2 codes over float32 atoms are computed in float64, and those of CRC over a small dictionary
# without products of atoms.
LEAST_SINGLE_L2 = 1e-4
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
        return (
            cheaper
            and dictionary.spectrum is None
            and self.problem.l2 >= LEAST_L2
            and not self._avoids_products
        )

    @property
    def _avoids_products(self) -> bool:
        """Whether codes come from QR factors of the atoms, which take a few copies of a small dictionary."""
        small = len(self.dictionary.row_blocks) == 1 and self.dictionary.spectrum is None
        return small and not self.problem.classwise and self.problem.l2 < LEAST_SINGLE_L2

    @property
    def entries_per_query(self) -> int:
        """Numbers that are held for each query while it is answered."""
        dictionary = self.dictionary
        # Blocks of some 400 queries are fastest: fewer make slow products, more leave the cache.
        by_moments = max(2500, dictionary.n_classes * dictionary.n_features // 2)
        return by_moments if self.uses_moments else dictionary.n_atoms

    @cached_property
    def _coding(self) -> Dictionary:
        """The dictionary over which codes are computed: in float64 where float32 would lose their digits."""
        enough = self.uses_moments or self.problem.l2 >= LEAST_SINGLE_L2
        return self.dictionary if enough else self.dictionary.in_float64

    @cached_property
    def _form(self) -> AtomFactor | FeatureFactor | StackedFactor | EncoderForm | MomentForm:
        problem, dictionary = self.problem, self._coding
        if self._avoids_products:
            return StackedFactor(dictionary, problem, problem.l2)
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
        if same and isinstance(form, EncoderForm | MomentForm) and self._coding is self.dictionary:
            self._form = form.after(change)

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query; `certify=False` leaves violation and gap as NaN and saves two products.

        A certified query has converged where rounding left its gap below the root of the precision.
        """
        once, always = np.ones(len(queries), dtype=np.int64), np.ones(len(queries), dtype=bool)
        codes = self._form.encode(queries)
        solution = self.problem.certified(
            self.dictionary, queries, codes, n_iter=once, converged=always, certify=certify
        )
        return replace(solution, converged=~(solution.gap > np.finfo(codes.dtype).eps ** 0.5))

    def class_parts(self, queries: FloatArray) -> tuple[ClassParts, np.ndarray]:
        """What each class contributes to every query, and whether each query was solved (always)."""
        all_solved = np.ones(len(queries), dtype=bool)
        if isinstance(self._form, ClasswiseForm):
            parts = self._form.parts(queries)
        elif self.uses_moments:
            parts = self._moment_parts(queries.astype(np.float64, copy=False))
        else:
            condition = self.dictionary.masses.sum() / self.problem.l2
            parts = CodedParts(self._coding, queries, self._form.encode(queries), condition=condition)
        error = np.finfo(np.float64).eps * self.dictionary.masses.max() / self.problem.l2**2
        if isinstance(parts, MomentParts) and error > LARGEST_ERROR:
            parts.coded_over = self.dictionary
        return parts, all_solved

    def _moment_parts(self, queries: FloatArray) -> MomentParts:
        assert isinstance(self._form, FeatureFactor)
        vectors = self._form.features(queries)  # v, the same for all classes: (n_queries, n_features)
        moments = self.dictionary.moments.matrices
        return MomentParts(
            queries,
            lambda: [vectors] * len(moments),
            cache(lambda: [vectors @ moment for moment in moments]),
            lambda: (queries - self.problem.l2 * vectors) / self.problem.shared,
            lambda: EPS * (1 + self.dictionary.masses.max() * norms([vectors])),
        )


class ClasswiseForm(ABC):
    """Codes with ``classwise > 0``: one matrix for each class, and ``u = (I + s P)^{-1} y`` if s > 0."""

    def __init__(self, dictionary: Dictionary, problem: CodingProblem) -> None:
        self.dictionary, self.problem = dictionary, problem

    @abstractmethod
    def parts(self, queries: FloatArray) -> MomentParts | CodedParts:
        """What each class contributes to every query."""

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
    def _inverse(self) -> Inverse | None:
        """``(I + s P)^{-1}``."""
        shared = self.problem.shared
        return Inverse(self.total + self.total.T, 1.0, shared / 2) if shared else None

    def unexplained(self, queries: FloatArray) -> FloatArray:
        """``u = y - s Xc`` for every query."""
        return queries if self._inverse is None else self._inverse.apply(queries)


class ClassSystem:
    """``A_k = w S_k + l2 I`` of one class, and what follows from it, each when it is first asked for."""

    def __init__(self, moment: FloatArray, problem: CodingProblem) -> None:
        self._moment, self._weight, self._ridge = moment, problem.classwise, problem.l2

    @cached_property
    def inverse(self) -> FloatArray:
        """``H_k = A_k^{-1}``, which codes and energies need."""
        return self._inverted()

    @cached_property
    def term(self) -> FloatArray:
        """``S_k H_k``."""
        return self._moment @ self._inverted()

    @cached_property
    def triangle(self) -> FloatArray:
        """The upper triangle ``R^{-1}`` with ``||R^{-T} y|| = ||H_k y||``, from ``A_k = QR``.

        ``H_k^2 = (A_k'A_k)^{-1} = R^{-1}R^{-T}``; a product with a triangle takes half the operations.
        """
        return inverted_triangle(self._moment, self._ridge, self._weight)

    def _inverted(self) -> FloatArray:
        return inverted(factored(self._moment, self._ridge, self._weight))


class MomentForm(ClasswiseForm):
    """Codes from moments, ``c_k = X_k'H_k u``, and what each class contributes."""

    def __init__(
        self, dictionary: Dictionary, problem: CodingProblem, known: dict[int, ClassSystem] | None = None
    ) -> None:
        super().__init__(dictionary, problem)
        moments = enumerate(dictionary.moments.matrices)
        self.classes = [(known or {}).get(k) or ClassSystem(moment, problem) for k, moment in moments]
        # Then y - X_k c_k = l2 v_k.
        self._plain = not problem.shared and problem.classwise == 1

    def _term(self, k: int) -> FloatArray:
        return self.classes[k].term

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query."""
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            _ = [one.triangle if self._plain else one.term for one in self.classes]
        _ = self._inverse

    def after(self, change: Change) -> MomentForm:
        """The form after a change; classes that stayed the same keep their matrices."""
        same = np.flatnonzero(change.same_class).tolist()
        return MomentForm(change.after, self.problem, {k: self.classes[change.class_origin[k]] for k in same})

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        dictionary = self.dictionary
        rest = self.unexplained(queries)
        codes = np.empty((len(queries), dictionary.n_atoms), dtype=dictionary.dtype)
        for block, one in zip(dictionary.blocks, self.classes, strict=True):
            codes[:, block] = (rest @ one.inverse) @ dictionary.atoms[block].astype(np.float64, copy=False).T
        return codes

    def parts(self, queries: FloatArray) -> MomentParts:
        """What each class contributes to every query."""
        queries = queries.astype(np.float64, copy=False)
        problem, rest = self.problem, self.unexplained(queries)
        vectors = cache(lambda: [rest @ one.inverse for one in self.classes])

        @cache
        def contributions() -> list[Any]:
            if self._plain:
                return [queries - problem.l2 * v for v in vectors()]
            return [rest @ one.term for one in self.classes]

        def whole() -> FloatArray:
            return (queries - rest) / problem.shared if problem.shared else np.sum(contributions(), axis=0)

        @cache
        def residuals() -> FloatArray:
            return problem.l2 * norms(times_triangle(one.triangle, queries) for one in self.classes)

        def rounding() -> FloatArray:
            # Of S_k v_k, where ||v_k|| is at most ||u||/l2; nothing is subtracted from l2 v_k.
            sizes = residuals().min(axis=1, keepdims=True) if self._plain else norms([rest])
            return EPS * (not self._plain) + EPS * self.dictionary.masses.max() / problem.l2 * sizes

        known = residuals if self._plain else None
        return MomentParts(queries, vectors, contributions, whole, rounding, known)


class EncoderForm(ClasswiseForm):
    """Codes from atoms: ``c_k = E_k u`` with ``E_k = (w G_k + l2 I)^{-1} X_k'``.

    The E_k of consecutive classes lie below each other in one array: with fewer rows products are slow, with
    more a change of one class has to copy more.
    """

    GROUP_ROWS = 1024  # about so many rows in each array

    def __init__(
        self, dictionary: Dictionary, problem: CodingProblem, old: tuple[EncoderForm, Change] | None = None
    ) -> None:
        super().__init__(dictionary, problem)
        firsts = np.flatnonzero(np.diff(dictionary.starts[:-1] // self.GROUP_ROWS, prepend=-1)).tolist()
        groups = zip(firsts, [*firsts[1:], dictionary.n_classes], strict=True)
        # Threads of BLAS wait for each other longer than these small matrices take.
        with single_threaded_blas():
            # (first class, class after the last) -> their E_k
            self._encoders = {group: self._encoded(*group, old) for group in groups}

    def _encoded(self, first: int, stop: int, old: tuple[EncoderForm, Change] | None) -> FloatArray:
        if old is None:
            return np.concatenate([self._made(k) for k in range(first, stop)])
        form, change = old
        origin, same = change.class_origin.tolist(), change.same_class
        before = (origin[first], origin[stop - 1] + 1)
        if same[first:stop].all() and before in form._encoders and before[1] - before[0] == stop - first:
            return form._encoders[before]
        return np.concatenate(
            [form._encoder(origin[k]) if same[k] else self._made(k) for k in range(first, stop)]
        )

    def _made(self, k: int) -> FloatArray:
        encoder = ridge_encoder(self._atoms(k), self.problem.classwise, self.problem.l2)
        return encoder.astype(self.dictionary.dtype, copy=False)

    def _atoms(self, k: int) -> FloatArray:
        first, stop = self.dictionary.starts[k : k + 2]
        return self.dictionary.atoms[first:stop].astype(np.float64, copy=False)

    def _encoder(self, k: int) -> FloatArray:
        first, stop = next((first, stop) for first, stop in self._encoders if first <= k < stop)
        rows = self.dictionary.starts - self.dictionary.starts[first]
        return self._encoders[first, stop][rows[k] : rows[k + 1]]

    def _term(self, k: int) -> FloatArray:
        return self._atoms(k).T @ self._encoder(k)

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query."""
        _ = self._inverse

    def after(self, change: Change) -> EncoderForm:
        """The form after a change; classes that stayed the same keep their matrices."""
        form = EncoderForm(change.after, self.problem, (self, change))
        if self.problem.shared:
            same = change.same_class
            total = self.total.copy()
            for k in set(range(self.dictionary.n_classes)) - set(change.class_origin[same].tolist()):
                total -= self._term(k)
            for k in np.flatnonzero(~same).tolist():
                total += form._term(k)
            form.total = total
        return form

    def encode(self, queries: FloatArray) -> FloatArray:
        """Codes of every query, shape (n_queries, n_atoms)."""
        return self._codes(self.unexplained(queries))

    def _codes(self, rest: FloatArray) -> FloatArray:
        dictionary = self.dictionary
        rest = rest.astype(dictionary.dtype, copy=False)
        codes = np.empty((len(rest), dictionary.n_atoms), dtype=dictionary.dtype)
        for (first, stop), encoders in self._encoders.items():
            rows = slice(dictionary.starts[first], dictionary.starts[stop])
            np.matmul(rest, encoders.T, out=codes[:, rows])
        return codes

    def parts(self, queries: FloatArray) -> CodedParts:
        """What each class contributes to every query."""
        rest = self.unexplained(queries)
        whole = (queries - rest) / self.problem.shared if self.problem.shared else None
        return CodedParts(self.dictionary, queries, self._codes(rest), whole)


def ridge_encoder(atoms: FloatArray, weight: float, ridge: float) -> FloatArray:
    """``(weight*X'X + ridge*I)^{-1} X'`` for the atoms (rows) of one class, by the smaller factorisation."""
    if not len(atoms):  # a class of zero vectors
        return atoms
    if len(atoms) <= atoms.shape[1]:
        return solved(factored(atoms @ atoms.T, ridge, weight), atoms)
    return solved(factored(atoms.T @ atoms, ridge, weight), atoms.T).T
