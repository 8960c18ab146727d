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
from scipy.linalg import cho_factor, cho_solve, qr, solve_triangular
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dpotri, dtrtri

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

    def shift(self, points: FloatArray, weight: float) -> FloatArray:
        """``weight * Q^{-1} v - v`` for every row v of points, shape (n_queries, n_atoms)."""
        result = points @ self._inverse
        result *= weight
        result -= points
        return result


class FeatureFactor:
    """``Q^{-1}`` through ``A = shared*XX' + ridge*I`` between features; classwise must be zero.

    A dictionary whose features are eigenvectors of XX' (`Dictionary.rotated`) needs no factorisation.
    """

    def __init__(self, dictionary: Dictionary, problem: CodingProblem, ridge: float) -> None:
        self._dictionary = dictionary
        self._shared, self._ridge = problem.shared, ridge
        self._diagonal = None if dictionary.spectrum is None else problem.shared * dictionary.spectrum + ridge

    @cached_property
    def _inverse(self) -> Inverse:
        return Inverse(self._dictionary.normal, self._ridge, self._shared)

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
            _ = self._inverse

    def features(self, queries: FloatArray) -> FloatArray:
        """``A^{-1} y`` for every query in float64, shape (n_queries, n_features)."""
        return queries / self._diagonal if self._diagonal is not None else self._inverse.apply(queries)

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y = X'A^{-1}y`` for every query, shape (n_queries, n_atoms)."""
        if self._narrow:
            return queries @ self._encoder.T
        return self.features(queries) @ self._dictionary.atoms.T

    def shift(self, points: FloatArray, weight: float) -> FloatArray:
        """``weight * Q^{-1} v - v`` for every row v of points, shape (n_queries, n_atoms)."""
        scale = weight / self._ridge
        reach: FloatArray = points @ self._dictionary.atoms  # (n_queries, n_features)
        reach *= -self._shared * scale
        result = self.encode(reach)
        if scale != 1:
            result += (scale - 1) * points
        return result


class StackedFactor:
    """``Q^{-1} X'`` from QR factors of the atoms with ``sqrt(ridge)*I`` below them; classwise must be zero.

    Rounding moves codes from products of atoms by up to eps/ridge, and these by up to eps/sqrt(ridge).
    """

    def __init__(self, dictionary: Dictionary, problem: CodingProblem, ridge: float) -> None:
        weight = problem.shared**0.5
        atoms = weight * dictionary.atoms.astype(np.float64, copy=False)
        tall = atoms if dictionary.n_atoms > dictionary.n_features else atoms.T
        below = ridge**0.5 * np.eye(tall.shape[1])
        columns, triangle = qr(np.vstack([tall, below]), mode="economic", check_finite=False)
        solution = solve_triangular(triangle, columns[: len(tall)].T, check_finite=False) / weight
        encoder = solution.T if tall is atoms else solution  # (n_atoms, n_features)
        self._encoder = encoder.astype(dictionary.dtype, copy=False)

    def prepare(self, *, codes: bool = True) -> None:
        """Nothing is left to do."""

    def encode(self, queries: FloatArray) -> FloatArray:
        """``Q^{-1} X'y`` for every query, shape (n_queries, n_atoms)."""
        return queries @ self._encoder.T


def quadratic_factor(
    dictionary: Dictionary, problem: CodingProblem, ridge: float
) -> AtomFactor | FeatureFactor:
    """The smaller of the two factorisations of Q; with classwise only the one between atoms exists."""
    small = dictionary.n_atoms <= dictionary.n_features and dictionary.spectrum is None
    kind = AtomFactor if problem.classwise or small else FeatureFactor
    return kind(dictionary, problem, ridge)


class Inverse:
    """``A^{-1}`` for ``A = weight*matrix + ridge*I`` (symmetric, float64)."""

    def __init__(self, matrix: FloatArray, ridge: float, weight: float = 1.0) -> None:
        self._factor = factored(matrix, ridge, weight)

    @cached_property
    def _matrix(self) -> FloatArray:
        return inverted(self._factor)

    def apply(self, rows: FloatArray) -> FloatArray:
        """``A^{-1} r`` for every row r, by the matrix itself where there are rows enough to pay for it."""
        if len(rows) < len(self._factor) // 4:
            return solved(self._factor, rows.T).T
        return rows @ self._matrix


def shifted(matrix: FloatArray, ridge: float, weight: float) -> FloatArray:
    """``weight*matrix + ridge*I`` (symmetric), in the order of LAPACK and for it to overwrite."""
    matrix = weight * matrix
    matrix.reshape(-1)[:: len(matrix) + 1] += ridge  # the diagonal
    return matrix.T


def factored(matrix: FloatArray, ridge: float, weight: float = 1.0) -> FloatArray:
    """Cholesky factor of ``weight*matrix + ridge*I`` (symmetric, float64), for `solved` and `inverted`."""
    return cho_factor(shifted(matrix, ridge, weight), lower=True, overwrite_a=True, check_finite=False)[0]


def solved(factor: FloatArray, right: FloatArray) -> FloatArray:
    """``matrix^{-1} right`` for the matrix behind a factor."""
    return cho_solve((factor, True), right, check_finite=False)


def inverted(factor: FloatArray) -> FloatArray:
    """``matrix^{-1}`` for the matrix behind a factor."""
    inverse, _ = dpotri(factor, lower=1)
    below = np.tril(inverse, -1)
    return np.tril(inverse) + below.T


def inverted_triangle(matrix: FloatArray, ridge: float, weight: float = 1.0) -> FloatArray:
    """``R^{-1}`` for ``weight*matrix + ridge*I = QR``, for `times_triangle`."""
    triangle = qr(shifted(matrix, ridge, weight), mode="r", overwrite_a=True, check_finite=False)[0]
    return dtrtri(triangle)[0]


def times_triangle(triangle: FloatArray, rows: FloatArray) -> FloatArray:
    """``rows @ triangle`` for an upper triangle."""
    return dtrmm(1.0, triangle, rows.T, trans_a=1).T
