"""``Q^{-1}`` for ``Q = shared*G + classwise*B + ridge*I`` with ``ridge > 0``, on the smaller side.

With no more atoms than features Q itself is factored (`AtomFactor`). With more atoms than features and
without `classwise`, the Woodbury identity moves the factorisation to the features (`FeatureFactor`):

    A = shared*XX' + ridge*I
    Q^{-1} X'y = X'A^{-1}y
    Q^{-1} v   = (v - shared * X'A^{-1}Xv) / ridge

Factorisations are float64; what is applied to queries has the precision of the dictionary.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem


class AtomFactor:
    """``Q^{-1}`` between atoms, shape (n_atoms, n_atoms)."""

    def __init__(self, dictionary: Dictionary, problem: CodingProblem, ridge: float) -> None:
        atoms = dictionary.atoms.astype(np.float64, copy=False)
        gram = atoms @ atoms.T
        quadratic = problem.shared * gram
        for block in dictionary.blocks if problem.classwise else ():
            quadratic[block, block] += problem.classwise * gram[block, block]
        self._factor = factored(quadratic, ridge)
        self._encoder = solved(self._factor, atoms).astype(
            dictionary.dtype, copy=False
        )  # (n_atoms, n_features)
        self._dtype = dictionary.dtype

    @cached_property
    def _inverse(self) -> FloatArray:
        return inverted(self._factor).astype(self._dtype, copy=False)

    def prepare(self, *, codes: bool = True) -> None:
        """Nothing is left to do."""

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query, shape (n_queries, n_atoms)."""
        return queries @ self._encoder.T

    def apply(self, points: FloatArray, weight: float) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points, shape (n_queries, n_atoms)."""
        return weight * (points @ self._inverse)


class FeatureFactor:
    """``Q^{-1}`` through ``A = shared*XX' + ridge*I`` between features; classwise must be zero.

    A dictionary whose features are eigenvectors of XX' (`Dictionary.rotated`) needs no factorisation.
    """

    def __init__(self, dictionary: Dictionary, problem: CodingProblem, ridge: float) -> None:
        self._dictionary = dictionary
        self._shared, self._ridge = problem.shared, ridge
        self._diagonal = None if dictionary.spectrum is None else problem.shared * dictionary.spectrum + ridge

    @cached_property
    def _factor(self) -> FloatArray:
        return factored(self._dictionary.normal, self._ridge, self._shared)

    @cached_property
    def _inverse(self) -> FloatArray:
        return inverted(self._factor)

    @cached_property
    def _encoder(self) -> FloatArray:
        """``Q^{-1} X'`` in the precision of the atoms: (n_atoms, n_features).

        ``A^{-1}y`` can be as large as ``||y||/ridge``, which float32 cannot afford; this matrix is not.
        """
        dictionary = self._dictionary
        encoder = np.empty_like(dictionary.atoms)
        for rows in dictionary.row_blocks:
            atoms = dictionary.atoms[rows].astype(np.float64, copy=False)
            encoder[rows] = self.features(atoms)
        return encoder

    @property
    def _narrow(self) -> bool:
        return self._dictionary.dtype == np.float32

    def prepare(self, *, codes: bool = True) -> None:
        """Factor now rather than at the first query; without `codes`, only for `features`."""
        if codes and self._narrow:
            _ = self._encoder
        elif self._diagonal is None:
            _ = self._factor

    def features(self, queries: FloatArray) -> FloatArray:
        """``A^{-1} y`` for every query in float64, shape (n_queries, n_features)."""
        if self._diagonal is not None:
            return queries / self._diagonal
        return solved(self._factor, queries.T).T

    def _solved(self, rows: FloatArray) -> FloatArray:
        """``A^{-1} r`` for every row r, by the inverse matrix where there are rows enough to pay for it."""
        if self._diagonal is not None or len(rows) < len(self._factor) // 4:
            return self.features(rows)
        return rows @ self._inverse

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y = X'A^{-1}y`` for every query, shape (n_queries, n_atoms)."""
        if self._narrow:
            return queries @ self._encoder.T
        return self.features(queries) @ self._dictionary.atoms.T

    def apply(self, points: FloatArray, weight: float) -> FloatArray:
        """``weight * Q^{-1} v`` for every row v of points, shape (n_queries, n_atoms)."""
        scale = weight / self._ridge
        reach: FloatArray = points @ self._dictionary.atoms  # (n_queries, n_features)
        reach *= -self._shared * scale
        if self._narrow:
            result = reach @ self._encoder.T
        else:
            reach = self._solved(reach)
            result = reach @ self._dictionary.atoms.T
        result += points if scale == 1 else scale * points
        return result


def quadratic_factor(
    dictionary: Dictionary, problem: CodingProblem, ridge: float
) -> AtomFactor | FeatureFactor:
    """The smaller of the two factorisations of Q; with classwise only the one between atoms exists."""
    small = dictionary.n_atoms <= dictionary.n_features and dictionary.spectrum is None
    kind = AtomFactor if problem.classwise or small else FeatureFactor
    return kind(dictionary, problem, ridge)


def factored(matrix: FloatArray, ridge: float, weight: float = 1.0) -> FloatArray:
    """Cholesky factor of ``weight*matrix + ridge*I`` (symmetric, float64), for `solved` and `inverted`."""
    matrix = weight * matrix
    matrix[np.diag_indices_from(matrix)] += ridge
    # LAPACK factors the transpose, which is in its own order, without another copy; the matrix is symmetric.
    return cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)[0]


def solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``matrix^{-1} right`` for the matrix behind a factor."""
    return cho_solve((factor, True), right, check_finite=False)


def inverted(factor: FloatArray) -> FloatArray:
    """``matrix^{-1}`` for the matrix behind a factor."""
    inverse, _ = dpotri(factor, lower=1)
    below = np.tril(inverse, -1)
    return np.tril(inverse) + below.T
