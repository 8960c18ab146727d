"""One split of the training data, prepared once for every candidate of a grid."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.problem import Solution
from residuum.rules import RULES, CodedParts, quotient, settle_ties

# Share of the largest possible term that the rounding of an expanded square stays below. For float64 it also
# covers what counts as a tie.
ROUNDING = {"float32": 4e-6, "float64": 1e-9}

PADDING = 1.25  # most atoms, as a multiple of those there are, that making classes equally large may lead to


@dataclass(frozen=True)
class Codes:
    """Dense codes, perhaps in float32, and how to get them in float64.

    Attributes
    ----------
    values : ndarray of shape (n_queries, n_atoms)
        The codes.
    error : float or ndarray of shape (n_queries, 1)
        Bound of ``||X_k (values_k - c_k)||`` in units of the rounding of the scores.
    again : callable or None
        Codes of some rows in float64; None when `values` are that.
    shift : float or ndarray of shape (n_queries, 1)
        Bound of ``||values_k - c_k||``, where it is more than rounding.
    """

    values: FloatArray
    error: FloatArray | float = 0.0
    again: Callable[[Any], FloatArray] | None = None
    shift: FloatArray | float = 0.0

    def exact(self, rows: Any) -> FloatArray:
        """Codes of some rows in float64."""
        return self.values[rows] if self.again is None else self.again(rows)


class Fold:
    """Training part as a dictionary, test part as unit-norm queries, and what all candidates share.

    `dictionary` has the eigenvectors of ``XX'`` as features, so that no candidate has to factor anything, and
    where its classes are about as large, zero atoms make them equal, so that all of them go into one call.
    `plain` and `plain_queries` are as a classifier would have them: which one of several optimal codes is
    found depends on the features.

    Parameters
    ----------
    X, y, test_X
        Training samples with their labels, and queries.
    winners_only : bool
        Whether only the winners of the class scores matter, as they do for accuracy. Scores are then computed
        in float32 wherever its rounding cannot change the winner.
    """

    def __init__(self, X: FloatArray, y: np.ndarray, test_X: FloatArray, *, winners_only: bool) -> None:
        self.classes, index = np.unique(y, return_inverse=True)
        with warnings.catch_warnings():
            # Zero samples are reported once, when the chosen model is fitted to all the data.
            warnings.simplefilter("ignore", UserWarning)
            self.plain = Dictionary.from_samples(X.astype(np.float64, copy=False), index, len(self.classes))
        self.plain_queries = unit_rows(test_X.astype(np.float64, copy=False))[0]
        rotated, queries = self.plain.rotated(self.plain_queries)
        # float32 samples are coded in float32, as the classifiers do.
        precision = X.dtype if winners_only else np.dtype(np.float64)
        self.dictionary = _with_equal_classes(rotated, precision)
        self.queries = queries.astype(precision, copy=False)
        self.dtype = np.dtype(np.float32 if winners_only else np.float64)

    @property
    def settles_winners(self) -> bool:
        """Whether scores need only tell the winner, and can be computed more precisely to do so."""
        return self.dtype != self.dictionary.atoms.dtype

    def part(self, rows: slice) -> Fold:
        """The same training part with some of the queries; what belongs to the dictionary is shared."""
        _ = self.class_grams  # computed once, before it is copied
        fold = copy(self)
        for name in ("correlations", "energies"):
            vars(fold).pop(name, None)
        fold.queries, fold.plain_queries = self.queries[rows], self.plain_queries[rows]
        return fold

    @cached_property
    def atoms(self) -> FloatArray:
        """The atoms in the precision of the scores."""
        return self.dictionary.atoms.astype(self.dtype, copy=False)

    @cached_property
    def correlations(self) -> FloatArray:
        """``X'y`` of every query, shape (n_queries, n_atoms)."""
        return self.queries.astype(self.dtype, copy=False) @ self.atoms.T

    @cached_property
    def energies(self) -> FloatArray:
        """``||y||^2`` of every query, as a column."""
        return np.sum(self.queries**2, axis=1, dtype=self.dtype)[:, None]

    @cached_property
    def class_grams(self) -> list[FloatArray] | FloatArray:
        """``X_k'X_k`` of every class; one array of shape (n_classes, n, n) where all have n atoms."""
        grams: list[FloatArray] = [
            self.atoms[block] @ self.atoms[block].T for block in self.dictionary.blocks
        ]
        return np.stack(grams) if self.dictionary.sizes.min() == self.dictionary.sizes.max() else grams

    def class_products(self, codes: FloatArray, others: FloatArray) -> FloatArray:
        """``sum_{j in class k} c_j o_j``, shape (n_queries, n_classes)."""
        if isinstance(self.class_grams, np.ndarray):
            shape = len(codes), self.dictionary.n_classes, -1
            return np.einsum("qkn,qkn->qk", codes.reshape(shape), others.reshape(shape))
        starts = self.dictionary.starts
        occupied = np.flatnonzero(np.diff(starts))
        sums = np.zeros((len(codes), self.dictionary.n_classes), dtype=codes.dtype)
        sums[:, occupied] = np.add.reduceat(codes * others, starts[occupied], axis=1)
        return sums

    def class_reach(self, codes: FloatArray) -> FloatArray:
        """``||X_k c_k||^2`` through the class Grams, shape (n_queries, n_classes)."""
        reach = np.empty_like(codes)
        if isinstance(self.class_grams, np.ndarray):
            shape = len(codes), self.dictionary.n_classes, -1
            by_class = reach.reshape(shape).transpose(1, 0, 2)
            np.matmul(codes.reshape(shape).transpose(1, 0, 2), self.class_grams, out=by_class)
        else:
            for block, gram in zip(self.dictionary.blocks, self.class_grams, strict=True):
                np.matmul(codes[:, block], gram, out=reach[:, block])
        return self.class_products(codes, reach)

    def ridge_codes(self, l2: float) -> Codes:
        """``(G + l2 I)^{-1} X'y`` in the precision of the scores."""
        shrunk = self.queries / (np.asarray(self.dictionary.spectrum) + l2)
        values = shrunk.astype(self.dtype, copy=False) @ self.atoms.T
        if self.dtype == self.dictionary.atoms.dtype:
            return Codes(values)
        reach = np.sqrt(np.sum(shrunk**2, axis=1) * self.dictionary.sizes.max())
        return Codes(values, reach[:, None], lambda rows: shrunk[rows] @ self.dictionary.atoms.T)

    def nearly(self, solution: Solution, l2: float, again: Callable[[Any], FloatArray]) -> Codes:
        """Codes within ``||c - c*||^2 <= gap/l2`` of the optimum; `again` solves some rows to the end."""
        shift = np.sqrt(np.maximum(solution.gap, 0) / l2)[:, None]
        error = 2 * np.sqrt(self.dictionary.sizes.max()) * shift / ROUNDING[self.dtype.name]
        return Codes(solution.codes, error, again, shift)

    def scores(self, codes: Codes, index_of: dict[str, int]) -> Iterator[tuple[int, FloatArray]]:
        """Class scores of dense codes by every rule, equal in their winners to those of `rule_scores`.

        The expanded squares cost the size of a class instead of the number of features for each entry of the
        code, but lose digits. With ``a_k >= ||c_k||_1`` no term of a square exceeds ``(1 + a_k)^2``: queries
        whose winner hangs on a small part of that are scored again by the rule itself, in float64.
        """
        values = codes.values.astype(self.dtype, copy=False)
        reach = self.class_reach(values)
        energies = self.class_products(values, values)
        mass = np.sqrt(energies * self.dictionary.sizes.astype(self.dtype))  # at least ||c_k||_1
        for rule, index in index_of.items():
            if rule == "reconstruction":
                whole = values @ self.atoms
                mutual = self.class_products(values, whole @ self.atoms.T)
                squares = np.maximum(np.sum(whole**2, axis=1)[:, None] - 2 * mutual + reach, 0)
                size = mass.sum(axis=1, keepdims=True) + mass
                error = np.sqrt(self.dictionary.n_classes) * codes.error  # the codes of all classes are off
            else:
                # ||y - X_k c_k||^2 = ||y||^2 - 2 c_k'X_k'y + ||X_k c_k||^2
                mutual = self.class_products(values, self.correlations)
                squares = np.maximum(self.energies - 2 * mutual + reach, 0)
                size, error = 1 + mass, codes.error
            doubt = (ROUNDING[self.dtype.name] * size * (size + error)).astype(self.dtype, copy=False)
            if rule == "scaled_residual":
                squares, doubt = _divided(squares, doubt, energies, codes.shift)
            elif rule == "relative_residual":
                moved = codes.shift * np.sqrt(self.dictionary.sizes)
                squares, doubt = _divided(squares, doubt, np.maximum(reach, 0), moved)
            rows = _in_doubt(squares, doubt)
            scores = np.sqrt(squares)
            if len(rows):
                again = CodedParts(self.dictionary, self.queries[rows], codes.exact(rows))
                scores[rows] = self._exact(RULES[rule](again), again.rounding())
            yield index, scores

    def _exact(self, scores: FloatArray, rounding: FloatArray) -> FloatArray:
        """Exact scores of rows in doubt; in float32 as distances from the smallest, to avoid ties."""
        scores = settle_ties(scores, rounding)
        if self.dtype == np.float64:
            return scores
        with np.errstate(invalid="ignore"):  # inf - inf: no class in play
            above = scores - scores.min(axis=1, keepdims=True)
        return np.where(np.isfinite(scores), above, np.inf)


def rule_scores(
    dictionary: Dictionary, queries: FloatArray, codes: Any, index_of: dict[str, int]
) -> Iterator[tuple[int, FloatArray]]:
    """Class scores by every rule as the classifiers apply it; cheap where codes are sparse."""
    parts = CodedParts(dictionary, queries, codes)
    for rule, index in index_of.items():
        yield index, settle_ties(RULES[rule](parts), parts.rounding())


def _divided(
    squares: FloatArray, doubt: FloatArray, divisors: FloatArray, moved: Any
) -> tuple[FloatArray, FloatArray]:
    """Quotients and their doubt, when also the vectors of squared norms `divisors` may move by so much."""
    squares, doubt = quotient(squares, divisors), quotient(doubt, divisors)
    ratio = np.divide(moved, np.sqrt(divisors), out=np.zeros_like(divisors), where=divisors > 0)
    part = np.where(ratio < 0.2, 2 * ratio * (2 + ratio), 1e6)
    finite = np.isfinite(squares)
    more = (np.where(finite, squares, 0) + np.where(finite, doubt, 0)) * part
    return squares, (doubt + more).astype(squares.dtype)


def _with_equal_classes(dictionary: Dictionary, precision: Any) -> Dictionary:
    """The dictionary with zero atoms that make all classes equally large, unless that takes many.

    A zero atom has a zero coefficient in every code, so no score changes.
    """
    largest, n_classes = int(dictionary.sizes.max()), dictionary.n_classes
    if largest * n_classes > PADDING * dictionary.n_atoms:
        return replace(dictionary, atoms=dictionary.atoms.astype(precision, copy=False))
    places = np.arange(dictionary.n_atoms) - dictionary.starts[dictionary.atom_class]
    places += largest * dictionary.atom_class
    atoms = np.zeros((largest * n_classes, dictionary.n_features), dtype=precision)
    samples = np.full(len(atoms), -1)
    atoms[places], samples[places] = dictionary.atoms, dictionary.samples
    return Dictionary(atoms, largest * np.arange(n_classes + 1), samples, dictionary.spectrum)


def _in_doubt(scores: FloatArray, doubt: FloatArray) -> np.ndarray:
    """Rows of ``scores`` +- ``doubt`` (n_queries, n_classes) that leave open which class is the smallest."""
    everyone, winner = np.arange(len(scores)), scores.argmin(axis=1)
    with np.errstate(invalid="ignore"):  # inf - inf: a class out of play
        low = np.where(np.isfinite(scores), scores - doubt, np.inf)
    low[everyone, winner] = np.inf
    certain = scores[everyone, winner] + doubt[everyone, winner] < low.min(axis=1)
    return np.flatnonzero(~certain)
