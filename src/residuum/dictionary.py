"""The dictionary X: unit-norm training samples, sorted by class."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    from residuum.grown_dictionary import Parts

FloatArray = npt.NDArray[np.floating[Any]]


def unit_rows(samples: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Solve ``samples[i] = scale[i] * norm[i] * unit[i]`` with ``||unit[i]||_2 = 1``.

    The norm is split in two factors, the largest magnitude ``scale`` and the rest, because the squares of
    samples beyond 1e±154 (float32: 1e±19) overflow or vanish. All-zero rows stay zero, with ``scale`` 0.

    Returns
    -------
    unit, scale, norm : ndarrays of shape (n, n_features), (n,), (n,)
    """
    scale = np.abs(samples).max(axis=1)
    divisor = np.where(scale > 0, scale, 1).astype(samples.dtype)
    unit = samples / divisor[:, None]
    norm = np.sqrt(np.einsum("ij,ij->i", unit, unit))
    unit /= np.where(norm > 0, norm, 1)[:, None]
    return unit, scale, norm


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Unit-norm atoms, one row per training sample, the rows of a class side by side.

    Attributes
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Training samples divided by their norms, float32 or float64.
    starts : ndarray of shape (n_classes + 1,)
        The atoms of class ``k`` are ``atoms[starts[k]:starts[k + 1]]``.
    samples : ndarray of shape (n_atoms,)
        Index of the training sample behind each atom, in the order given to `from_samples`.
    spectrum : ndarray of shape (n_features,) or None
        Diagonal of ``XX'`` when the features have been rotated so that it is diagonal.
    """

    atoms: FloatArray
    starts: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]
    spectrum: FloatArray | None = None

    @classmethod
    def from_samples(cls, samples: FloatArray, class_index: npt.NDArray[Any], n_classes: int) -> Dictionary:
        """Normalise and sort; an all-zero sample points nowhere, so it is dropped with a warning."""
        unit, scale, _ = unit_rows(samples)
        order = np.argsort(class_index, kind="stable")
        zero = scale[order] == 0
        if zero.any():
            if zero.all():
                raise ValueError(
                    f"All {len(samples)} training samples are zero vectors, so no class has a direction to "
                    "compare with. Pass samples with at least one non-zero feature."
                )
            warnings.warn(
                f"{int(zero.sum())} of {len(samples)} training samples are zero vectors and were dropped as "
                "atoms. Remove them from the training data to silence this warning.",
                UserWarning,
                stacklevel=2,
            )
            order = order[~zero]
        starts = np.searchsorted(class_index[order], np.arange(n_classes + 1))
        return cls(np.ascontiguousarray(unit[order]), starts.astype(np.int64), order.astype(np.int64))

    def rotated(self, queries: FloatArray) -> tuple[Dictionary, FloatArray]:
        """The same geometry with the eigenvectors of ``XX'`` as features, for the dictionary and queries.

        One decomposition then serves every ridge. Codes and class residuals are those of the original: what
        a query has outside the span of the atoms is kept as one more feature, in which every atom is zero.
        """
        atoms = self.atoms64
        if self.n_atoms >= self.n_features:
            spectrum, basis = np.linalg.eigh(atoms.T @ atoms)
            spectrum, turned = np.maximum(spectrum, 0), atoms @ basis
            return Dictionary(turned, self.starts, self.samples, spectrum), queries @ basis
        values, vectors = np.linalg.eigh(atoms @ atoms.T)
        kept = values > values[-1] * self.n_atoms * np.finfo(np.float64).eps
        spectrum, turned = values[kept], vectors[:, kept] * np.sqrt(values[kept])
        basis = (atoms.T @ vectors[:, kept]) / np.sqrt(spectrum)  # (n_features, rank)
        inside = queries @ basis
        outside = np.linalg.norm(queries - inside @ basis.T, axis=1)
        turned = np.column_stack([turned, np.zeros(self.n_atoms)])
        rotated = Dictionary(turned, self.starts, self.samples, np.append(spectrum, 0.0))
        return rotated, np.column_stack([inside, outside])

    @property
    def parts(self) -> Parts | None:
        """How the atoms lie in memory, where some joined later; None where they are `atoms`."""
        return None

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
    def blocks(self) -> list[slice]:
        """The rows of each class."""
        return [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the atoms."""
        return self.atoms.dtype

    def rows(self, positions: npt.NDArray[np.int64]) -> FloatArray:
        """The atoms at these positions, in float64."""
        return self.picked(positions).astype(np.float64)

    def picked(self, positions: npt.NDArray[np.int64]) -> FloatArray:
        """The atoms at these positions."""
        return self.atoms[positions]

    def settled(self) -> Dictionary:
        """Itself, its atoms in one piece."""
        return self

    def correlations(self, points: FloatArray) -> FloatArray:
        """``x_j'v`` for every row v of points, in their precision if that is higher: (n_points, n_atoms)."""
        return points @ self._as_precise_as(points).T

    def combinations(self, codes: Any) -> FloatArray:
        """``Xc`` for every code, in their precision if that is higher: (n_codes, n_features)."""
        return codes @ self._as_precise_as(codes)

    def _as_precise_as(self, array: Any) -> FloatArray:
        return self.atoms64 if array.dtype == np.float64 and not sp.issparse(array) else self.atoms

    def class_atoms(self, k: int) -> FloatArray:
        """The atoms of class k, in float64."""
        return self.class_block(k).astype(np.float64, copy=False)

    def class_block(self, k: int) -> FloatArray:
        """The atoms of class k, not to be written to."""
        return self.atoms[self.starts[k] : self.starts[k + 1]]

    @cached_property
    def atom_class(self) -> npt.NDArray[np.int64]:
        """Class index of each atom, shape (n_atoms,)."""
        return np.repeat(np.arange(self.n_classes), np.diff(self.starts))

    @cached_property
    def atoms64(self) -> FloatArray:
        """The atoms in float64, for factorisations and certificates."""
        return self.atoms.astype(np.float64, copy=False)

    @cached_property
    def gram(self) -> FloatArray:
        """``G = X'X`` in float64, shape (n_atoms, n_atoms)."""
        return self.atoms64 @ self.atoms64.T

    @cached_property
    def interior(self) -> FloatArray | None:
        """A direction u with ``min_j x_j'u = 1``, or None when the mean atom is not one.

        It exists when the atoms lie in an open half space, as images with non-negative pixels do, and turns
        any residual into a dual feasible point of non-negative least squares.
        """
        mean = self.atoms64.mean(axis=0)
        lowest = float((self.atoms64 @ mean).min())
        return mean / lowest if lowest > 1e-6 else None
