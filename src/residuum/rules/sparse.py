"""``||t - X_k c_k||`` for sparse codes, compiled: the cost follows the support, not the number of atoms."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.system.compiling import KEPT


def sparse_distances(dictionary: Dictionary, targets: FloatArray, codes: Any) -> FloatArray:
    """Distances of codes in CSR form, shape (n_queries, n_classes)."""
    if not codes.has_sorted_indices:
        codes = codes.sorted_indices()
    squares = np.empty((len(targets), dictionary.n_classes), dtype=np.float64)
    _squared_distances(
        dictionary.atoms,
        dictionary.atom_class,
        np.ascontiguousarray(targets, dtype=np.float64),
        codes.indptr.astype(np.int64),
        codes.indices.astype(np.int64),
        codes.data.astype(np.float64),
        squares,
    )
    return np.sqrt(squares, out=squares).astype(dictionary.dtype, copy=False)


@numba.njit(cache=KEPT, nogil=True)
def _squared_distances(atoms, atom_class, targets, indptr, indices, data, squares):
    n_features = atoms.shape[1]
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
                row, weight = indices[position], data[position]
                for d in range(n_features):
                    difference[d] -= weight * atoms[row, d]
                position += 1
            square = 0.0
            for d in range(n_features):
                square += difference[d] * difference[d]
            squares[i, k] = square
