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

    def error(self, quantity: str, value: FloatArray) -> FloatArray:
        """Bound of the absolute rounding error of the value that the method of this name gives."""
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
    """

    def __init__(
        self,
        dictionary: Dictionary,
        queries: FloatArray,
        codes: Any,
        *,
        code_error: Any = 0.0,
        relative_error: Any = 0.0,
    ) -> None:
        self.dictionary, self.queries, self.codes = dictionary, queries, codes
        self.code_error, self.relative_error = code_error, relative_error
        self.precision = float(np.finfo(codes.dtype).eps)

    @cached_property
    def _norms(self) -> FloatArray:
        """``||c_k||``."""
        return np.sqrt(self.energies())

    def error(self, quantity: str, value: FloatArray) -> FloatArray:
        """Bound of the absolute rounding error of the value that the method of this name gives."""
        eps, sizes = self.precision, self.dictionary.sizes
        if quantity == "energies":
            moved = eps * self._norms + self.code_error
            return SAFETY * moved * (2 * self._norms + SAFETY * moved)
        own = eps * np.sqrt(sizes) * self._norms + self.code_error  # of X_k c_k
        if quantity == "residuals":
            own = own + eps + self.relative_error * value
        elif quantity == "disagreements":
            own = own + np.sqrt(np.sum(own**2, axis=1, keepdims=True))
        return SAFETY * own

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
        codes, dictionary = self.codes, self.dictionary
        energies = np.zeros((codes.shape[0], dictionary.n_classes), dtype=codes.dtype)
        if sp.issparse(codes):
            rows = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
            np.add.at(energies, (rows, dictionary.atom_class[codes.indices]), codes.data**2)
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
    tied : ndarray of bool, shape (n_queries, n_classes)
        Which classes may have the smallest score; at least one for every query.
    """

    scores: FloatArray
    tied: npt.NDArray[np.bool_]

    @property
    def undecided(self) -> npt.NDArray[np.bool_]:
        """Queries with more than one class that may have the smallest score, shape (n_queries,)."""
        return self.tied.sum(axis=1) > 1

    def settled(self, dtype: Any) -> FloatArray:
        """The scores in this precision; classes that tie have the same score, all others a larger one.

        Rounding depends on the batch. Settled, classes that share their training samples tie exactly, and
        the first class in sorted order wins whatever the batch.
        """
        with np.errstate(over="ignore"):  # beyond the range of float32 is infinite
            scores = self.scores.astype(dtype, copy=False)
        lowest = scores.min(axis=1, keepdims=True)
        return np.where(self.tied, lowest, np.maximum(scores, np.nextafter(lowest, dtype.type(np.inf))))


class Known:
    """`ClassParts` of which every quantity is computed once, when it is asked for."""

    def __init__(self, parts: Any, known: dict[str, FloatArray] | None = None) -> None:
        self.parts, self.known = parts, {} if known is None else known

    @property
    def precision(self) -> float:
        """The rounding unit of the least precise numbers that the parts are computed from."""
        return self.parts.precision

    def error(self, quantity: str, value: FloatArray) -> FloatArray:
        """Bound of the absolute rounding error of the value that the method of this name gives."""
        return self.parts.error(quantity, value)

    def __getattr__(self, quantity: str) -> Callable[[], FloatArray]:
        def value() -> FloatArray:
            if quantity not in self.known:
                self.known[quantity] = getattr(self.parts, quantity)()
            return self.known[quantity]

        return value


def compared(rule: Rule, parts: Any) -> Compared:
    """Class scores by a rule, and which classes their rounding errors leave in play.

    The error of a score is what remains of the error of each quantity behind it: the rule is applied once
    more for every quantity, moved by its error. That costs no product with atoms.
    """
    known = parts if isinstance(parts, Known) else Known(parts)
    parts, quantities = known.parts, known.known
    scores = rule(known)
    error = SAFETY * parts.precision * scores
    lowest = scores
    with np.errstate(invalid="ignore"):  # inf - inf: a class that takes no part
        for quantity, value in list(quantities.items()):
            moved = rule(Known(parts, {**quantities, quantity: value + parts.error(quantity, value)}))
            error = error + np.abs(moved - scores)
            lowest = np.minimum(lowest, moved)
        low = np.where(np.isfinite(scores), scores - error, lowest)
        everyone, winner = np.arange(len(scores)), scores.argmin(axis=1)
        tied = low <= (scores + error)[everyone, winner][:, None]
    tied[everyone, winner] = True
    tied |= ~np.isfinite(scores.min(axis=1, keepdims=True))
    return Compared(scores, tied)
