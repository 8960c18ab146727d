"""One split of the training data, prepared once for every candidate of a grid."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property, partial
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.rules import RULES, settle_ties


class Fold:
    """Training part as a dictionary, test part as unit-norm queries, and what all candidates share.

    Everything is float64, and `dictionary` has the eigenvectors of ``XX'`` as features, so that no candidate
    has to factor anything.
    """

    def __init__(self, X: FloatArray, y: np.ndarray, test_X: FloatArray) -> None:
        self.classes, index = np.unique(y, return_inverse=True)
        with warnings.catch_warnings():
            # Zero samples are reported once, when the chosen model is fitted to all the data.
            warnings.simplefilter("ignore", UserWarning)
            plain = Dictionary.from_samples(X.astype(np.float64, copy=False), index, len(self.classes))
        queries = unit_rows(test_X.astype(np.float64, copy=False))[0]
        self.dictionary, self.queries = plain.rotated(queries)

    def part(self, rows: slice) -> Fold:
        """The same training part with some of the queries; what belongs to the dictionary is shared."""
        fold = copy(self)
        for name in ("correlations", "energies"):
            vars(fold).pop(name, None)
        fold.queries = self.queries[rows]
        vars(fold)["class_grams"] = self.class_grams
        return fold

    @cached_property
    def correlations(self) -> FloatArray:
        """``X'y`` of every query, shape (n_queries, n_atoms)."""
        return self.queries @ self.dictionary.atoms.T

    @cached_property
    def energies(self) -> FloatArray:
        """``||y||^2`` of every query, as a column."""
        return np.sum(self.queries**2, axis=1)[:, None]

    @cached_property
    def class_grams(self) -> list[FloatArray]:
        """``X_k'X_k`` of every class."""
        atoms = self.dictionary.atoms
        return [atoms[block] @ atoms[block].T for block in self.dictionary.blocks]

    def class_sums(self, entries: FloatArray) -> FloatArray:
        """Sums over the atoms of each class, shape (n_queries, n_classes)."""
        starts = self.dictionary.starts
        occupied = np.flatnonzero(np.diff(starts))
        sums = np.zeros((len(entries), self.dictionary.n_classes))
        sums[:, occupied] = np.add.reduceat(entries, starts[occupied], axis=1)
        return sums

    def class_reach(self, codes: FloatArray) -> FloatArray:
        """``||X_k c_k||^2`` through the class Grams, shape (n_queries, n_classes)."""
        reach = np.empty_like(codes)
        for block, gram in zip(self.dictionary.blocks, self.class_grams, strict=True):
            np.matmul(codes[:, block], gram, out=reach[:, block])
        reach *= codes
        return self.class_sums(reach)

    def squared_residuals(self, codes: FloatArray, reach: FloatArray) -> FloatArray:
        """``||y - X_k c_k||^2 = ||y||^2 - 2 c_k'X_k'y + ||X_k c_k||^2``."""
        return np.maximum(self.energies - 2 * self.class_sums(codes * self.correlations) + reach, 0)

    def scores(self, codes: FloatArray, rules: Iterable[str]) -> dict[str, FloatArray]:
        """Class scores of dense codes by several rules, equal in their winners to `RULES` applied one by one.

        The expanded squares cost the size of a class instead of the number of features for each entry of the
        code, but lose half the digits of a small residual: queries with a close call are scored again.
        """
        reach = self.class_reach(codes)
        found = {}
        for rule in rules:
            if rule == "reconstruction":
                whole = codes @ self.dictionary.atoms
                mutual = self.class_sums(codes * (whole @ self.dictionary.atoms.T))
                squares = np.maximum(np.sum(whole**2, axis=1)[:, None] - 2 * mutual + reach, 0)
                scores = np.sqrt(squares)
            else:
                scores = np.sqrt(self.squared_residuals(codes, reach))
            if rule == "scaled_residual":
                norms = np.sqrt(self.class_sums(codes**2))
                scores = np.divide(scores, norms, out=np.full_like(scores, np.inf), where=norms > 0)
            elif rule == "relative_residual":
                norms = np.sqrt(np.maximum(reach, 0))
                scores = np.divide(scores, norms, out=np.full_like(scores, np.inf), where=norms > 0)
            found[rule] = self.recheck(scores, partial(self.direct, codes, rule))
        return found

    def direct(self, codes: Any, rule: str, rows: Any = slice(None)) -> FloatArray:
        """Class scores by the rule as the classifiers apply it."""
        return RULES[rule](self.dictionary, self.queries[rows], codes[rows])

    def settled(self, codes: Any, rule: str) -> FloatArray:
        """Class scores of sparse codes, whose rules cost little as they are."""
        return settle_ties(self.direct(codes, rule))

    @staticmethod
    def recheck(scores: FloatArray, direct: Callable[[np.ndarray], FloatArray]) -> FloatArray:
        """Replace the rows whose two smallest scores are too close to call by ``direct(rows)``."""
        if scores.shape[1] > 1:
            two = np.partition(scores, 1, axis=1)[:, :2]
            with np.errstate(invalid="ignore"):  # inf - inf: every class out of play, a close call too
                clear = two[:, 1] - two[:, 0] > 1e-6 * np.maximum(1, two[:, 0])
            close = np.flatnonzero(~clear)
            if len(close):
                scores[close] = direct(close)
        return settle_ties(scores)
