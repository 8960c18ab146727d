"""Decision rules: from the code of a query to one number per class; the smallest wins.

A rule sees a coded query only through what each class contributes to it (`ClassParts`), so it does not matter
whether that was computed from codes over the atoms (`CodedParts`) or from class moments
(`residuum.solvers.closed_form.MomentParts`).

Two classes tie when the rounding errors of their scores leave open which one is smaller; the first class in
sorted order then wins. The errors come from the numbers at hand: the parts bound the error of every quantity
that a rule asks for, and `compared` finds out what each of them can do to the score.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray


class ClassParts(Protocol):
    """What the classes contribute to each query: ``X_k c_k``; all results are (n_queries, n_classes)."""

    @property
    def precision(self) -> float:
        """The rounding unit of the least precise numbers that the parts are computed from."""
        ...

    def error(self, quantity: str, value: FloatArray, rows: Any) -> FloatArray:
        """Bound of the absolute rounding error of what the method of this name gives for some queries.

        `rows` are those queries, `value` what it gives for them.
        """
        ...

    def share(self, quantity: str, value: FloatArray) -> Any:
        """Bound of the relative rounding error for all classes, a number or a column, that costs little."""
        ...

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


# The estimates of rounding errors below are for errors of random sign. In trials with all classifiers and
# shapes the errors stayed within this multiple of them (tests/test_trust.py).
SAFETY = 4.0


class CodedParts:
    """`ClassParts` of codes over the atoms, dense or sparse.

    Summing the n_k terms of ``X_k c_k`` leaves an error of about ``eps sqrt(n_k) ||c_k||``; subtracting it
    from a unit query one of eps.

    Parameters
    ----------
    dictionary, queries, codes
        Atoms, unit-norm queries and their codes.
    code_error : float or ndarray of shape (n_classes,) or (n_queries, n_classes), default=0
        How far rounding may have moved c_k already, as ``||c_k - exact c_k||``. Such errors have random
        signs, so that ``X_k c_k`` moves about as far.
    relative_error : float or ndarray of shape (n_classes,), default=0
        The same as a share of the residual of class k.
    largest_norm : float or None, default=None
        A bound of all ``||c_k||``, where one is known without looking at the codes.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        queries: FloatArray,
        codes: Any,
        *,
        code_error: Any = 0.0,
        relative_error: Any = 0.0,
        largest_norm: float | None = None,
    ) -> None:
        self.dictionary, self.queries, self.codes = dictionary, queries, codes
        self.code_error, self.relative_error, self._largest_norm = code_error, relative_error, largest_norm
        self.precision = float(np.finfo(codes.dtype).eps)

    @cached_property
    def _norm_bound(self) -> float:
        return np.sqrt(self.energies().max()) if self._largest_norm is None else self._largest_norm

    def error(self, quantity: str, value: FloatArray, rows: Any) -> FloatArray:
        """Bound of the absolute rounding error of a quantity for some queries, of which `value` is given."""
        eps, norms = self.precision, np.sqrt(self._energies(self.codes[rows]))
        moved = self.code_error[rows] if np.ndim(self.code_error) == 2 else self.code_error
        if quantity == "energies":
            moved = eps * norms + moved
            return SAFETY * moved * (2 * norms + SAFETY * moved)
        own = eps * np.sqrt(self.dictionary.sizes) * norms + moved  # of X_k c_k
        if quantity == "residuals":
            own = own + eps + self.relative_error * value
        elif quantity == "disagreements":
            own = own + np.sqrt(np.sum(own**2, axis=1, keepdims=True))
        return SAFETY * own

    def share(self, quantity: str, value: FloatArray) -> Any:
        """Bound of the relative rounding error of a quantity for all classes: a number or a column."""
        norm, moved = self._norm_bound, np.max(self.code_error)
        if quantity == "energies":
            moved += self.precision * norm
            error = moved * (2 * norm + SAFETY * moved)
        else:
            error = self.precision * (1 + np.sqrt(self.dictionary.sizes.max()) * norm) + moved
            error *= 1 + np.sqrt(self.dictionary.n_classes) * (quantity == "disagreements")
        return SAFETY * (error / value.min(axis=1, keepdims=True) + np.max(self.relative_error))

    def residuals(self) -> FloatArray:
        """``||y - X_k c_k||``."""
        return self._distances(self.queries)

    def disagreements(self) -> FloatArray:
        """``||Xc - X_k c_k||``."""
        return self._distances(self.dictionary.combinations(self.codes))

    def lengths(self) -> FloatArray:
        """``||X_k c_k||``."""
        return self._distances(np.zeros_like(self.queries))

    def energies(self) -> FloatArray:
        """``||c_k||^2``."""
        return self._energies(self.codes)

    def _energies(self, codes: Any) -> FloatArray:
        dictionary = self.dictionary
        energies = np.zeros((codes.shape[0], dictionary.n_classes), dtype=codes.dtype)
        if sp.issparse(codes):
            first = np.repeat(np.arange(codes.shape[0]) * dictionary.n_classes, np.diff(codes.indptr))
            place = first + dictionary.atom_class[codes.indices]
            energies += np.bincount(place, codes.data**2, energies.size).reshape(energies.shape)
            return energies
        if dictionary.n_atoms < 32 * dictionary.n_classes:  # many small classes make a long loop
            occupied = np.flatnonzero(dictionary.sizes)
            energies[:, occupied] = np.add.reduceat(codes * codes, dictionary.starts[occupied], axis=1)
            return energies
        for k, block in enumerate(dictionary.blocks):
            energies[:, k] = np.einsum("ij,ij->i", codes[:, block], codes[:, block])
        return energies

    def _distances(self, targets: FloatArray) -> FloatArray:
        """``||t - X_k c_k||`` for every target t and class k.

        The differences are formed before they are squared: expanding the square would leave an error of 1e-8
        where a class reproduces its target exactly.
        """
        dictionary, codes = self.dictionary, self.codes
        if sp.issparse(codes):
            from residuum.rules.sparse import sparse_distances

            return sparse_distances(dictionary, targets, codes)
        squares = np.empty((len(targets), dictionary.n_classes), dtype=dictionary.dtype)
        step = max(1, 2**17 // dictionary.n_features)  # a block of differences stays in the cache
        for first in range(0, len(targets), step):
            some = slice(first, first + step)
            for k, block in enumerate(dictionary.blocks):
                difference = codes[some, block] @ dictionary.atoms[block]
                np.subtract(targets[some], difference, out=difference)
                squares[some, k] = np.einsum("ij,ij->i", difference, difference)
        return np.sqrt(squares, out=squares)


class Compared(NamedTuple):
    """Class scores with what their rounding errors leave open.

    Attributes
    ----------
    scores : ndarray of shape (n_queries, n_classes)
        As the rule gives them.
    rows : ndarray of int, shape (n_undecided,)
        The queries for which more than one class may have the smallest score.
    tied : ndarray of bool, shape (n_undecided, n_classes)
        Those classes.
    """

    scores: FloatArray
    rows: npt.NDArray[np.intp]
    tied: npt.NDArray[np.bool_]

    def settled(self, dtype: Any) -> FloatArray:
        """The scores in this precision; classes that tie have the same score, all others a larger one.

        Rounding depends on the batch. Settled, classes that share their training samples tie exactly, and
        the first class in sorted order wins whatever the batch.
        """
        scores = self.scores
        if dtype == scores.dtype and not len(self.rows):
            return scores
        lowest = scores.min(axis=1, keepdims=True)
        if dtype != scores.dtype:
            narrow = lowest.astype(dtype)
            with np.errstate(over="ignore"):  # beyond the range of float32 is infinite
                above = np.maximum(scores.astype(dtype), np.nextafter(narrow, dtype.type(np.inf)))
            scores, lowest = np.where(scores > lowest, above, narrow), narrow
        if len(self.rows):
            scores = scores.copy() if scores is self.scores else scores
            scores[self.rows] = np.where(self.tied, lowest[self.rows], scores[self.rows])
        return scores


class Known:
    """`ClassParts` of which every quantity is computed once, when it is asked for."""

    def __init__(self, parts: Any, known: dict[str, FloatArray] | None = None) -> None:
        self.parts, self.known = parts, {} if known is None else known

    @property
    def precision(self) -> float:
        """The rounding unit of the least precise numbers that the parts are computed from."""
        return self.parts.precision

    def error(self, quantity: str, value: FloatArray, rows: Any) -> FloatArray:
        """Bound of the absolute rounding error of a quantity for some queries."""
        return self.parts.error(quantity, value, rows)

    def share(self, quantity: str, value: FloatArray) -> Any:
        """Bound of the relative rounding error for all classes, a number or a column."""
        return self.parts.share(quantity, value)

    def __getattr__(self, quantity: str) -> Callable[[], FloatArray]:
        def value() -> FloatArray:
            if quantity not in self.known:
                self.known[quantity] = getattr(self.parts, quantity)()
            return self.known[quantity]

        return value


def compared(rule: Rule, parts: Any) -> Compared:
    """Class scores by a rule, and which classes their rounding errors leave in play.

    The error of a score is what remains of the error of each quantity behind it: the rule is applied once
    more for every quantity, moved by its error. That is done for the queries whose two best classes are
    closer than a coarse bound of the errors.
    """
    known = parts if isinstance(parts, Known) else Known(parts)
    parts, quantities = known.parts, known.known
    scores = rule(known)
    rows = _close(scores, parts, quantities)
    some = {quantity: value[rows] for quantity, value in quantities.items()}
    low = high = scores[rows]
    error = SAFETY * parts.precision * low
    with np.errstate(invalid="ignore"):  # inf - inf: a class that takes no part
        for quantity, value in some.items() if len(rows) else ():
            moved = rule(Known(parts, {**some, quantity: value + parts.error(quantity, value, rows)}))
            error = error + np.abs(moved - scores[rows])
            low = np.minimum(low, moved)
        low = np.where(np.isfinite(high), high - error, low)
        winner = high.argmin(axis=1)[:, None]
        tied = low <= np.take_along_axis(high + error, winner, axis=1)
    tied |= ~np.isfinite(high.min(axis=1, keepdims=True, initial=np.inf))
    np.put_along_axis(tied, winner, True, axis=1)
    open_rows = tied.sum(axis=1) > 1
    return Compared(scores, rows[open_rows], tied[open_rows])


def _close(scores: FloatArray, parts: Any, quantities: dict[str, FloatArray]) -> npt.NDArray[np.intp]:
    """Queries whose two best classes are closer than a coarse bound of the errors of their scores.

    No rule is of a higher degree than two in any quantity, so the relative error of a score is at most about
    twice the sum of theirs, and three times where they are not small.
    """
    if scores.shape[1] == 1:
        return np.empty(0, dtype=np.intp)
    with np.errstate(divide="ignore", invalid="ignore"):  # a quantity of zero makes the bound infinite or NaN
        share = SAFETY * parts.precision
        for quantity, value in quantities.items():
            share = share + 3 * parts.share(quantity, value)
        winner = scores.argmin(axis=1)[:, None]
        others = scores.copy()
        np.put_along_axis(others, winner, np.inf, axis=1)
        best, second = np.take_along_axis(scores, winner, axis=1), others.min(axis=1, keepdims=True)
        apart = second * (1 - share) > best * (1 + share)
    return np.flatnonzero(~apart)
