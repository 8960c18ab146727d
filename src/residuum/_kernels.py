"""Compiled loops over sparse codes."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from residuum.dictionary import Dictionary, FloatArray


def sparse_class_distances(dictionary: Dictionary, targets: FloatArray, codes: Any) -> FloatArray:
    """``||t - X_k c_k||`` for codes in CSR form; the cost follows the support, not the number of atoms."""
    if not codes.has_sorted_indices:
        codes = codes.sorted_indices()
    squares = np.empty((len(targets), dictionary.n_classes), dtype=np.float64)
    base, joined, source = _in_memory(dictionary)
    _distances(
        base,
        joined,
        source,
        dictionary.atom_class,
        np.ascontiguousarray(targets, dtype=np.float64),
        codes.indptr.astype(np.int64),
        codes.indices.astype(np.int64),
        codes.data.astype(np.float64),
        squares,
    )
    return np.sqrt(squares, out=squares).astype(dictionary.dtype, copy=False)


def _in_memory(dictionary: Dictionary) -> tuple[FloatArray, FloatArray, npt.NDArray[np.int64]]:
    """Atoms in two pieces, and the row of each of the dictionary's among them."""
    parts = dictionary.parts
    if parts is None:
        return dictionary.atoms, dictionary.atoms[:0], np.arange(dictionary.n_atoms)
    return parts.base, parts.joined, parts.source


@numba.njit(cache=True, nogil=True)
def _distances(base, joined, source, atom_class, targets, indptr, indices, data, squares):
    n_features = base.shape[1]
    n_base = base.shape[0]
    difference = np.empty(n_features)
    for i in range(targets.shape[0]):
        energy = 0.0
        for d in range(n_features):
            energy += targets[i, d] * targets[i, d]
        for k in range(squares.shape[1]):
            squares[i, k] = energy
        position = indptr[i]
        while position < indptr[i + 1]:
            k = atom_class[indices[position]]
            for d in range(n_features):
                difference[d] = targets[i, d]
            while position < indptr[i + 1] and atom_class[indices[position]] == k:
                row, weight = source[indices[position]], data[position]
                if row < n_base:
                    for d in range(n_features):
                        difference[d] -= weight * base[row, d]
                else:
                    for d in range(n_features):
                        difference[d] -= weight * joined[row - n_base, d]
                position += 1
            square = 0.0
            for d in range(n_features):
                square += difference[d] * difference[d]
            squares[i, k] = square
