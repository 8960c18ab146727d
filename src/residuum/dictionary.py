"""The dictionary X: unit-norm training samples sorted by class, and the moments of the classes.

A sample of weight w stands for w equal samples. They share one coefficient c, so the ridge takes
``l2 c^2 / w`` of them instead of ``l2 c^2``. With the atom ``sqrt(w) x`` in the place of the unit sample x
and ``d = c / sqrt(w)`` that is ``l2 d^2`` again: weights are in the atoms, and solvers need not know of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.blas import dgemm

FloatArray = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.int64]

_BLOCK = 2**22  # entries of the largest temporary array
_EPS = np.finfo(np.float64).eps


def unit_rows(samples: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve ``samples[i] = scale[i] * norm[i] * unit[i]`` with ``||unit[i]||_2 = 1``.

    The norm is split in two factors, the largest magnitude ``scale`` and the rest, because the squares of
    samples beyond 1e±154 (float32: 1e±19) overflow or vanish. All-zero rows stay zero, with ``scale`` 0.

    Returns
    -------
    unit, scale, norm : ndarrays of shape (n, n_features), (n,), (n,)
    """
    scale = np.maximum(samples.max(axis=1), -samples.min(axis=1))
    divisor = np.where(scale > 0, scale, 1).astype(samples.dtype)
    unit = np.divide(samples, divisor[:, None], order="C")  # another layout would give sums other bits
    norm = np.sqrt(squares(unit))
    unit /= np.where(norm > 0, norm, 1)[:, None]
    return unit, scale, norm


def squares(rows: FloatArray) -> FloatArray:
    """``||row||^2``, the same bits for a row whatever the others are."""
    if rows.shape[1] > np.getbufsize():  # einsum would sum one row in another order than several
        return np.array([row @ row for row in rows], dtype=rows.dtype)
    return np.einsum("ij,ij->i", rows, rows)


def inner_direction(rows: FloatArray, scale: FloatArray, start: FloatArray | None = None) -> FloatArray:
    """A direction u with ``x_j'u >= 1`` for every unit atom ``x_j = scale[j] * rows[j]`` that is not zero.

    It exists when the atoms lie in an open half space, as images with non-negative pixels do, and turns any
    residual into a dual feasible point of non-negative least squares. Empty when none was found: `start`, by
    default the mean atom, is turned towards the atom that it is farthest from, a few dozen times.
    """
    present = scale > 0
    if not present.any():
        return np.empty(0)
    u = (scale.astype(rows.dtype) @ rows).astype(np.float64) if start is None else start
    best, most = u, -np.inf
    for _ in range(30):
        u = u / max(float(np.linalg.norm(u)), 1e-300)
        products = np.where(present, (rows @ u.astype(rows.dtype)) * scale, np.inf)
        worst = int(products.argmin())
        if products[worst] > most:
            best, most = u, products[worst]
        if most > 1e-3:
            break
        u = u + 0.5 * scale[worst] * rows[worst]
    products = np.concatenate([rows[some].astype(np.float64) @ best for some in _row_blocks(*rows.shape)])
    # The products are rounded, so they could be a little smaller than they seem.
    lowest = float((products * scale)[present].min()) - (len(u) + 8) * np.finfo(np.float64).eps
    return best / lowest if lowest > 1e-6 else np.empty(0)


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Unit-norm atoms, one row per training sample, the rows of a class side by side.

    Samples with weights have atoms of the norms ``sqrt(weights)``.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Training samples divided by their norms, times the roots of their weights, float32 or float64.
    starts : ndarray of shape (n_classes + 1,)
        The atoms of class ``k`` are ``atoms[starts[k]:starts[k + 1]]``.
    samples : ndarray of shape (n_atoms,)
        Index of the training sample behind each atom, in the order given to `from_samples`.
    spectrum : ndarray of shape (n_features,) or None
        Diagonal of ``XX'`` when the features have been rotated so that it is diagonal.
    weights : ndarray of float64, shape (n_atoms,), or None
        Weights of the samples; None where all are 1.
    """

    atoms: FloatArray
    starts: Integers
    samples: Integers
    spectrum: FloatArray | None = None
    weights: FloatArray | None = None

    @classmethod
    def from_samples(
        cls,
        samples: FloatArray,
        class_index: npt.NDArray[Any],
        n_classes: int,
        weights: FloatArray | None = None,
    ) -> Dictionary:
        """Normalise and sort; an all-zero sample has no direction, so it is dropped with a warning.

        A sample of weight zero is dropped without one; its class index does not matter.
        """
        order = np.argsort(class_index, kind="stable")
        if weights is not None:
            order = order[weights[order] > 0]
        nonzero = np.asarray(samples.any(axis=1))[order]
        if not nonzero.all():
            if not nonzero.any():
                raise ValueError(
                    f"All {len(nonzero)} training samples are zero vectors, so no class has a direction to "
                    "compare with. Pass samples with at least one non-zero feature."
                )
            warnings.warn(
                f"{int((~nonzero).sum())} of {len(nonzero)} training samples are zero vectors and were "
                "dropped as atoms. Remove them from the training data to silence this warning.",
                UserWarning,
                stacklevel=2,
            )
            order = order[nonzero]
        atoms = np.empty((len(order), samples.shape[1]), dtype=samples.dtype)
        for rows in _row_blocks(*atoms.shape):
            atoms[rows] = unit_rows(samples[order[rows]])[0]
        starts = np.searchsorted(class_index[order], np.arange(n_classes + 1))
        kept = None if weights is None else weights[order].astype(np.float64)
        if kept is not None:
            atoms *= column_of_roots(kept, atoms.dtype)
        return cls(atoms, starts.astype(np.int64), order.astype(np.int64), weights=kept)

    def rotated(self, queries: FloatArray) -> tuple[Dictionary, FloatArray]:
        """The dictionary of `rotation`, and the queries in its features."""
        rotated, turn = self.rotation()
        return rotated, turn(queries)

    def rotation(self) -> tuple[Dictionary, Callable[[FloatArray], FloatArray]]:
        """The same geometry with the eigenvectors of ``XX'`` as features, and what turns queries to them.

        One decomposition then serves every ridge. Codes and class residuals are those of the original: what
        a query has outside the span of the atoms is kept as one more feature, in which every atom is zero.
        Coordinates of a kernel are eigenvectors already and stay as they are.
        """
        atoms = self.atoms.astype(np.float64, copy=False)
        if self.n_atoms + 1 >= self.n_features:
            products = atoms.T @ atoms
            spectrum = np.diagonal(products).copy()
            if np.abs(products - np.diag(spectrum)).max() <= 4 * self.n_atoms * _EPS * spectrum.max():
                return replace(self, atoms=atoms, spectrum=spectrum), lambda queries: queries
            spectrum, basis = np.linalg.eigh(products)
            spectrum, turned = np.maximum(spectrum, 0), atoms @ basis
            return replace(self, atoms=turned, spectrum=spectrum), lambda queries: queries @ basis
        values, vectors = np.linalg.eigh(atoms @ atoms.T)
        kept = values > values[-1] * self.n_atoms * np.finfo(np.float64).eps
        spectrum, turned = values[kept], vectors[:, kept] * np.sqrt(values[kept])
        basis = (atoms.T @ vectors[:, kept]) / np.sqrt(spectrum)  # (n_features, rank)

        def turn(queries: FloatArray) -> FloatArray:
            inside = queries @ basis
            outside = np.linalg.norm(queries - inside @ basis.T, axis=1)
            return np.column_stack([inside, outside])

        turned = np.column_stack([turned, np.zeros(self.n_atoms)])
        return replace(self, atoms=turned, spectrum=np.append(spectrum, 0.0)), turn

    @property
    def n_atoms(self) -> int:
        """Number of atoms N."""
        return len(self.samples)

    @property
    def n_features(self) -> int:
        """Number of features D."""
        return self.atoms.shape[1]

    @property
    def n_classes(self) -> int:
        """Number of classes K."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> Integers:
        """Number of atoms of each class, shape (n_classes,)."""
        return np.diff(self.starts)

    @cached_property
    def masses(self) -> FloatArray:
        """Sum of the weights of each class, shape (n_classes,): the number of its atoms without weights.

        ``sum_j |c_j| ||x_j|| <= sqrt(mass) ||c_k||`` over the atoms of a class.
        """
        if self.weights is None:
            return self.sizes.astype(np.float64)
        return np.bincount(self.atom_class, self.weights, minlength=self.n_classes).astype(np.float64)

    @cached_property
    def longest(self) -> float:
        """Largest norm of an atom, which is 1 without weights."""
        return 1.0 if self.weights is None else float(np.sqrt(self.weights.max()))

    def unit(self, positions: Any) -> FloatArray:
        """Some atoms as unit-norm samples, without the roots of their weights."""
        atoms = self.atoms[positions]
        if self.weights is None:
            return atoms
        return atoms / column_of_roots(self.weights[positions], atoms.dtype)

    def coefficients(self, codes: Any) -> Any:
        """Codes over the unit-norm samples, ``sqrt(w_j) c_j``, from codes over the atoms, dense or sparse."""
        if self.weights is None:
            return codes
        roots = np.sqrt(self.weights)
        return sp.csr_array(codes.multiply(roots[None])) if sp.issparse(codes) else codes * roots

    @property
    def blocks(self) -> list[slice]:
        """The rows of each class."""
        return [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    @property
    def row_blocks(self) -> list[slice]:
        """Consecutive rows, few enough that a float64 copy of them takes little memory."""
        return _row_blocks(*self.atoms.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the atoms."""
        return self.atoms.dtype

    @cached_property
    def atom_class(self) -> Integers:
        """Class index of each atom, shape (n_atoms,)."""
        return np.repeat(np.arange(self.n_classes), self.sizes)

    def correlations(self, points: FloatArray) -> FloatArray:
        """``x_j'v`` for every row v of points, in their precision if that is higher: (n_points, n_atoms)."""
        if points.dtype == self.dtype:
            return points @ self.atoms.T
        found = np.empty((len(points), self.n_atoms), dtype=np.result_type(points, self.atoms))
        for rows in self.row_blocks:
            found[:, rows] = points @ self.atoms[rows].astype(found.dtype).T
        return found

    def combinations(self, codes: Any) -> FloatArray:
        """``Xc`` for every code, in their precision if that is higher: (n_codes, n_features)."""
        if sp.issparse(codes) or codes.dtype == self.dtype:
            return codes @ self.atoms
        found = np.zeros((len(codes), self.n_features), dtype=np.result_type(codes, self.atoms))
        for rows in self.row_blocks:
            found += codes[:, rows] @ self.atoms[rows].astype(found.dtype)
        return found

    @cached_property
    def normal(self) -> FloatArray:
        """``XX'``, the sum of all x_j x_j', in float64: (n_features, n_features)."""
        if "moments" in vars(self):
            return np.sum(self.moments.matrices, axis=0)
        return outer_products(self.atoms)

    @cached_property
    def moments(self) -> ClassMoments:
        """``S_k = X_k X_k'`` of every class."""
        return ClassMoments([outer_products(self.atoms[block]) for block in self.blocks], self.sizes)

    @cached_property
    def in_float64(self) -> Dictionary:
        """The same atoms in float64."""
        return replace(self, atoms=self.atoms.astype(np.float64, copy=False))

    @cached_property
    def interior(self) -> FloatArray:
        """A direction u with ``x_j'u >= 1`` for every atom, or an empty array when none was found."""
        return inner_direction(self.atoms, np.ones(self.n_atoms))


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """``S_k = sum of x_j x_j'`` over the atoms of each class: all that the closed forms need of a class.

    Attributes
    ----------
    matrices : list of ndarrays of shape (n_features, n_features)
        One per class, in float64.
    terms : ndarray of shape (n_classes,)
        Number of atoms added to or subtracted from each since it was last summed from its atoms. Every term
        has norm 1 and leaves a rounding error of at most eps, so the error is at most ``terms * eps``. With
        weights terms have other norms, and a class that changes is always summed anew.
    """

    matrices: list[FloatArray]
    terms: Integers


def column_of_roots(weights: FloatArray, dtype: Any) -> FloatArray:
    return np.sqrt(weights).astype(dtype)[:, None]


def _row_blocks(n_rows: int, n_features: int) -> list[slice]:
    step = max(1, _BLOCK // n_features)
    return [slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step)]


def outer_products(rows: FloatArray) -> FloatArray:
    """The sum of xx' over the rows x, in float64, in bounded memory."""
    total = np.zeros((rows.shape[1],) * 2)
    for some in _row_blocks(*rows.shape):
        block = rows[some].astype(np.float64, copy=False)
        total += block.T @ block
    return total


def corrected(matrix: FloatArray, rows: FloatArray, weight: float = 1.0) -> FloatArray:
    """A symmetric matrix plus `weight` times the sum of xx' over the rows x; itself without rows.

    For a few rows this takes half the time of a product and a sum, which need fresh memory each.
    """
    for some in _row_blocks(*rows.shape):
        block = rows[some].astype(np.float64, copy=False)
        matrix = dgemm(weight, block.T, block.T, 1.0, matrix.T, trans_b=True).T
    return matrix
