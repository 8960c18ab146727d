"""``scale*(M + U'U) + ridge*I``, positive definite, solved with what is known of ``scale*M + ridge*I``."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.blas import dgemm

from residuum.dictionary import FloatArray

MAX_LIFT = 32  # rows of U before they become part of M
# Largest u'A^{-1}u of a row that is corrected for: the solution is a difference of vectors so much longer.
MAX_RISE = 100.0


class Lifted:
    """``A + scale*U'U`` with ``A = scale*M + ridge*I``.

    From the Cholesky factor of A, where it is given, by

        (A + scale*U'U)^{-1} = A^{-1} - scale A^{-1}U' (I + scale*UA^{-1}U')^{-1} U A^{-1}

    and otherwise from a factor of the whole, made when it is first needed.

    Parameters
    ----------
    matrix : ndarray of shape (d, d)
        Symmetric M.
    lift : ndarray of shape (n, d)
        The rows of U.
    factor : ndarray of shape (d, d) or None
        What `factored` made of A.
    scale, ridge : float
        As above.
    """

    def __init__(
        self,
        matrix: FloatArray,
        lift: FloatArray,
        factor: FloatArray | None,
        *,
        scale: float = 1.0,
        ridge: float = 0.0,
    ) -> None:
        self.matrix, self.lift, self.factor = matrix, lift, factor
        self._scale, self._ridge = scale, ridge

    @cached_property
    def _correction(self) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Factor of A, ``UA^{-1}`` and factor of ``I + scale*UA^{-1}U'``; None to factor the whole."""
        if self.factor is None:
            return None
        if not len(self.lift):  # which LAPACK refuses
            return self.factor, self.lift, self.lift
        reach = solved(self.factor, self.lift)
        rise = self._scale * (reach @ self.lift.T)
        if rise.diagonal().max() > MAX_RISE:
            return None
        return self.factor, reach, factored((rise + rise.T) / 2, 1.0)

    @cached_property
    def _whole(self) -> FloatArray:
        """Factor of all of it."""
        matrix = self._scale * self.matrix
        _add_product(matrix, self._scale, self.lift)
        return factored(matrix, self._ridge)

    def solve(self, rows: FloatArray) -> FloatArray:
        """The inverse times each row."""
        if self._correction is None:
            return solved(self._whole, rows)
        factor, reach, inside = self._correction
        found = solved(factor, rows)
        if len(reach):
            found -= self._scale * (solved(inside, found @ self.lift.T) @ reach)
        return found

    def changed(
        self, joined: FloatArray, gone: FloatArray, *, scale: float = 1.0, ridge: float = 0.0
    ) -> Lifted:
        """``scale*(M + U'U + J'J - G'G) + ridge*I`` for rows J that join and G that go."""
        matrix, lift, factor = self.matrix, self.lift, self.factor
        if (scale, ridge) != (self._scale, self._ridge):
            factor = None
        elif "_whole" in self.__dict__:
            matrix, lift, factor = _changed(matrix, lift, gone[:0]), lift[:0], self._whole
        lift = np.concatenate([lift, joined])
        if len(gone) or len(lift) > MAX_LIFT:
            matrix, lift, factor = _changed(matrix, lift, gone), lift[:0], None
        return Lifted(matrix, lift, factor, scale=scale, ridge=ridge)


def _changed(matrix: FloatArray, joined: FloatArray, gone: FloatArray) -> FloatArray:
    matrix = matrix.copy()
    _add_product(matrix, 1.0, joined)
    _add_product(matrix, -1.0, gone)
    return matrix


def _add_product(matrix: FloatArray, weight: float, rows: FloatArray) -> None:
    """``matrix += weight * rows'rows`` without a second matrix; both are symmetric."""
    if len(rows):
        # What is C order for numpy is the transpose for BLAS.
        dgemm(weight, rows.T, rows.T, beta=1.0, c=matrix.T, trans_b=True, overwrite_c=True)


def factored(matrix: FloatArray, ridge: float) -> FloatArray:
    """Cholesky factor of ``matrix + ridge*I``, for `solved`; the matrix is used up."""
    matrix[np.diag_indices_from(matrix)] += ridge
    # The transpose of a symmetric matrix in C order is what LAPACK factors without a copy.
    factor, _ = cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)
    return factor.T


def solved(factor: FloatArray, rows: FloatArray) -> FloatArray:
    """The factored symmetric matrix's inverse times each row."""
    return cho_solve((factor.T, True), np.asarray(rows, dtype=np.float64).T, check_finite=False).T
