"""Decision rules: from the code of a query to one number per class; the smallest wins.

A rule sees a coded query only through what each class contributes to it (`ClassParts`), so it does not matter
whether that was computed from codes over the atoms (`CodedParts`) or from class moments (`MomentParts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray


class ClassParts(Protocol):
    """What the classes contribute to each query: ``X_k c_k``; all results are (n_queries, n_classes)."""

    queries: FloatArray

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        ...

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        ...

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        ...

    def energies(self) -> FloatArray:
        """``||c_k||^2``."""
        ...

    def rounding(self) -> FloatArray:
        """How far rounding may have moved the distances of a query, shape (n_queries, 1)."""
        ...


Rule = Callable[[ClassParts], FloatArray]


def residual(parts: ClassParts) -> FloatArray:
    """``||y - X_k c_k||``, Eq. 2 of the paper, shape (n_queries, n_classes)."""
    return parts.residuals()


def scaled_residual(parts: ClassParts) -> FloatArray:
    """``||y - X_k c_k|| / ||c_k||``, the rule of CRC's own paper; +inf where ``c_k = 0``."""
    return quotient(parts.residuals(), np.sqrt(parts.energies()))


def reconstruction(parts: ClassParts) -> FloatArray:
    """``||Xc - X_k c_k||``, ProCRC's rule, shape (n_queries, n_classes)."""
    return parts.disagreements()


def relative_residual(parts: ClassParts) -> FloatArray:
    """``||y - X_k c_k|| / ||X_k c_k||``, by which NSC was run for the paper; +inf where ``X_k c_k = 0``.

    For an exact projection it decides like the plain residual; with a ridge it does not favour a class only
    because its samples are more alike.
    """
    return quotient(parts.residuals(), parts.lengths())


RULES: dict[str, Rule] = {
    "residual": residual,
    "scaled_residual": scaled_residual,
    "reconstruction": reconstruction,
    "relative_residual": relative_residual,
}


def quotient(scores: FloatArray, divisors: FloatArray) -> FloatArray:
    """``scores / divisors``; +inf where the divisor is zero, because that class takes no part."""
    return np.divide(scores, divisors, out=np.full_like(scores, np.inf), where=divisors > 0)


class CodedParts:
    """`ClassParts` of codes over the atoms, dense or sparse; `whole` is ``Xc`` where it is known already.

    Codes that come from a factorisation in float64 may be wrong by its `condition` times the precision.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        queries: FloatArray,
        codes: Any,
        whole: FloatArray | None = None,
        condition: float = 0.0,
    ) -> None:
        self._condition = condition
        self.dictionary, self.queries, self.codes, self._whole = dictionary, queries, codes, whole
        self._dtype = dictionary.dtype if sp.issparse(codes) else np.result_type(codes, dictionary.atoms)

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        return self._distances(self.queries)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        whole = self.dictionary.combinations(self.codes) if self._whole is None else self._whole
        return self._distances(whole.astype(self._dtype, copy=False))

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return self._distances(np.zeros_like(self.queries))

    def energies(self) -> FloatArray:
        """``||c_k||^2``."""
        codes, dictionary = self.codes, self.dictionary
        energies = np.zeros((codes.shape[0], dictionary.n_classes), dtype=self._dtype)
        if sp.issparse(codes):
            rows = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
            np.add.at(energies, (rows, dictionary.atom_class[codes.indices]), codes.data**2)
            return energies
        for k, block in enumerate(dictionary.blocks):
            energies[:, k] = np.einsum("ij,ij->i", codes[:, block], codes[:, block])
        return energies

    def rounding(self) -> FloatArray:
        """``eps (1 + max_k sqrt(n_k) ||c_k||)`` from summing n_k terms, and what the factor adds.

        With weights, n_k is their sum.
        """
        energies = self.energies()
        sums = np.sqrt((energies * self.dictionary.masses).max(axis=1, keepdims=True))
        factor = np.finfo(np.float64).eps * self._condition * np.sqrt(energies.max(axis=1, keepdims=True))
        return np.finfo(self._dtype).eps * (1 + sums) + factor

    def _distances(self, targets: FloatArray) -> FloatArray:
        """``||t - X_k c_k||`` for every target t and class k.

        The differences are formed before they are squared: expanding the square would leave an error of 1e-8
        where a class reproduces its target exactly.
        """
        dictionary, codes = self.dictionary, self.codes
        if sp.issparse(codes):
            from residuum.rules.sparse import sparse_distances

            return sparse_distances(dictionary, targets, codes)
        squares = np.empty((len(targets), dictionary.n_classes), dtype=self._dtype)
        step = max(1, 2**17 // dictionary.n_features)  # a block of differences stays in the cache
        for first in range(0, len(targets), step):
            some = slice(first, first + step)
            for k, block in enumerate(dictionary.blocks):
                difference = codes[some, block] @ dictionary.atoms[block]
                np.subtract(targets[some], difference, out=difference)
                squares[some, k] = np.einsum("ij,ij->i", difference, difference)
        return np.sqrt(squares, out=squares)


class MomentParts:
    """`ClassParts` from vectors between features, in float64, one array (n_queries, n_features) per class.

    What a rule does not ask for is not computed: all arguments but the queries are functions.

    Parameters
    ----------
    queries : ndarray of shape (n_queries, n_features)
        The queries y.
    vectors, contributions : callable
        Give the list of v_k with ``c_k = X_k' v_k``, and the list of ``X_k c_k``.
    whole : callable
        Gives ``Xc``.
    rounding : callable
        Gives how far rounding may have moved the distances, shape (n_queries, 1).
    residuals : callable, optional
        Gives ``||y - X_k c_k||``, where there is a way without contributions.
    """

    def __init__(
        self,
        queries: FloatArray,
        vectors: Callable[[], list[Any]],
        contributions: Callable[[], list[Any]],
        whole: Callable[[], FloatArray],
        rounding: Callable[[], FloatArray],
        residuals: Callable[[], FloatArray] | None = None,
    ) -> None:
        self.queries = queries
        self.vectors, self.contributions, self._whole = vectors, contributions, whole
        self.rounding, self._residuals = rounding, residuals
        self.coded_over: Dictionary | None = None  # set where energies need the digits of codes

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        return self._residuals() if self._residuals is not None else self._distances(self.queries)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        return self._distances(self._whole())

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return norms(self.contributions())

    def energies(self) -> FloatArray:
        """``||c_k||^2 = v_k'X_k c_k``."""
        if self.coded_over is not None:
            atoms = (self.coded_over.atoms[block].astype(np.float64) for block in self.coded_over.blocks)
            return norms(v @ some.T for v, some in zip(self.vectors(), atoms, strict=True)) ** 2
        pairs = zip(self.vectors(), self.contributions(), strict=True)
        return np.maximum(np.stack([np.einsum("qd,qd->q", v, part) for v, part in pairs], axis=1), 0)

    def _distances(self, targets: FloatArray) -> FloatArray:
        contributions = self.contributions()
        squares = np.empty((len(targets), len(contributions)))
        difference = np.empty_like(targets)
        for k, part in enumerate(contributions):
            np.subtract(targets, part, out=difference)
            np.einsum("qd,qd->q", difference, difference, out=squares[:, k])
        return np.sqrt(squares, out=squares)


def norms(parts: Iterable[FloatArray]) -> FloatArray:
    """2-norms of the rows of one array for every class, shape (n_queries, n_classes)."""
    return np.sqrt(np.stack([np.einsum("qd,qd->q", part, part) for part in parts], axis=1))


def settle_ties(scores: FloatArray, rounding: FloatArray) -> FloatArray:
    """Set the scores of a row that equal its minimum up to rounding to that minimum.

    Classes that share a training sample leave the same residual but for rounding, which depends on the
    batch. Settled, they tie exactly, and the first class in sorted order wins whatever the batch.

    Parameters
    ----------
    scores : ndarray of shape (n_queries, n_classes)
        Scores by a rule.
    rounding : ndarray of shape (n_queries, 1)
        How far rounding may have moved the distances behind them (`ClassParts.rounding`). Codes that a factor
        gives for equal samples differ by more, in proportion to the scores.
    """
    lowest = scores.min(axis=1, keepdims=True)
    share = 1e-10 if scores.dtype == np.float64 else 1e-5
    slack = share * lowest + 4 * rounding * np.clip(lowest, 1, 1e30)
    return np.where(scores <= lowest + slack, lowest, scores)
