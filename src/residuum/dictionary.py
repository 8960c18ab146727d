"""The dictionary X: unit-norm training samples, sorted by class."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

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
        return self.atoms[positions].astype(np.float64)

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


class GrownDictionary(Dictionary):
    """A dictionary with atoms put in or left out, copied together when the atoms are first asked for.

    Factors can be brought up to date from the few rows that differ, and samples that are enrolled one by one
    are copied once.

    Parameters
    ----------
    before : Dictionary
        The dictionary that was.
    source : ndarray of shape (n_atoms,)
        Row of each atom among those of `before` followed by the rows of `new`.
    new : ndarray of shape (n_new, n_features)
        Unit-norm atoms that join.
    starts, samples
        As of any dictionary.
    """

    def __init__(
        self,
        before: Dictionary,
        source: npt.NDArray[np.int64],
        new: FloatArray,
        starts: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
    ) -> None:
        parts = before.__dict__.get("_parts")
        if parts is not None:  # not copied yet: skip it, so that nothing is copied twice
            before, earlier, rows = parts
            joined = np.arange(len(new)) + before.n_atoms + len(rows)
            source, new = np.concatenate([earlier, joined])[source], np.concatenate([rows, new])
        values = {"starts": starts, "samples": samples, "spectrum": None, "_parts": (before, source, new)}
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        # Reached only while there are no atoms yet.
        parts = self.__dict__.get("_parts")
        if name == "atoms" and parts is None and name in self.__dict__:  # another thread was quicker
            return self.__dict__[name]
        if name != "atoms" or parts is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        before, source, new = parts
        atoms = np.empty((len(source), new.shape[1]), dtype=new.dtype)
        for to, stretch in stretches(source, before.n_atoms):
            atoms[to] = before.atoms[stretch]
        joined = np.flatnonzero(source >= before.n_atoms)
        atoms[joined] = new[source[joined] - before.n_atoms]
        self.__dict__["atoms"] = atoms
        self.__dict__.pop("_parts", None)
        return atoms

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the atoms."""
        parts = self.__dict__.get("_parts")
        return self.atoms.dtype if parts is None else parts[2].dtype

    @property
    def n_features(self) -> int:
        """Number of features D."""
        parts = self.__dict__.get("_parts")
        return self.atoms.shape[1] if parts is None else parts[2].shape[1]

    def rows(self, positions: npt.NDArray[np.int64]) -> FloatArray:
        """The atoms at these positions, in float64."""
        parts = self.__dict__.get("_parts")
        return super().rows(positions) if parts is None else _picked(parts, positions).astype(np.float64)

    def class_block(self, k: int) -> FloatArray:
        """The atoms of class k, without those of the others being copied together."""
        parts = self.__dict__.get("_parts")
        if parts is None:
            return super().class_block(k)
        before, source, _ = parts
        positions = np.arange(self.starts[k], self.starts[k + 1])
        wanted = source[positions]
        if len(wanted) and wanted[-1] < before.n_atoms and wanted[-1] - wanted[0] == len(wanted) - 1:
            return before.atoms[wanted[0] : wanted[-1] + 1]
        # Once as many rows have been put together for single classes as there are, all may as well be.
        self.__dict__["_put_together"] = self.__dict__.get("_put_together", 0) + len(wanted)
        if self.__dict__["_put_together"] > self.n_atoms:
            return self.atoms[self.starts[k] : self.starts[k + 1]]
        return _picked(parts, positions)


def _picked(parts: Any, positions: npt.NDArray[np.int64]) -> FloatArray:
    before, source, new = parts
    wanted = source[positions]
    old = wanted < before.n_atoms
    rows = np.empty((len(wanted), new.shape[1]), dtype=new.dtype)
    rows[old] = before.atoms[wanted[old]]
    rows[~old] = new[wanted[~old] - before.n_atoms]
    return rows


def stretches(source: npt.NDArray[np.int64], stop: int) -> Iterator[tuple[slice, slice]]:
    """Pairs (positions, rows) of neighbours whose rows, from 0 up to `stop`, are neighbours too."""
    if not len(source):
        return
    inside = (source >= 0) & (source < stop)
    cut = np.flatnonzero((np.diff(source) != 1) | ~inside[1:] | ~inside[:-1]) + 1
    for first, end in zip([0, *cut.tolist()], [*cut.tolist(), len(source)], strict=True):
        if inside[first]:
            yield slice(first, end), slice(int(source[first]), int(source[first]) + end - first)
