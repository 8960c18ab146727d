"""Decision rules: from the code of a query to one number per class; the smallest wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray

Rule = Callable[[Dictionary, FloatArray, Any], FloatArray]


def residual(dictionary: Dictionary, queries: FloatArray, codes: Any) -> FloatArray:
    """``||y - X_k c_k||``, Eq. 2 of the paper, shape (n_queries, n_classes)."""
    return class_distances(dictionary, queries, codes)


def scaled_residual(dictionary: Dictionary, queries: FloatArray, codes: Any) -> FloatArray:
    """``||y - X_k c_k|| / ||c_k||``, the rule of CRC's own paper; +inf where ``c_k = 0``."""
    distances = class_distances(dictionary, queries, codes)
    norms = np.sqrt(class_energies(dictionary, codes))
    return np.divide(distances, norms, out=np.full_like(distances, np.inf), where=norms > 0)


def reconstruction(dictionary: Dictionary, queries: FloatArray, codes: Any) -> FloatArray:
    """``||Xc - X_k c_k||``, ProCRC's rule, shape (n_queries, n_classes)."""
    return class_distances(dictionary, dictionary.combinations(codes), codes)


def relative_residual(dictionary: Dictionary, queries: FloatArray, codes: Any) -> FloatArray:
    """``||y - X_k c_k|| / ||X_k c_k||``, by which NSC was run for the paper; +inf where ``X_k c_k = 0``.

    For an exact projection it decides like the plain residual; with a ridge it does not favour a class only
    because its samples are more alike.
    """
    distances = class_distances(dictionary, queries, codes)
    reach = class_distances(dictionary, np.zeros_like(queries), codes)
    return np.divide(distances, reach, out=np.full_like(distances, np.inf), where=reach > 0)


RULES: dict[str, Rule] = {
    "residual": residual,
    "scaled_residual": scaled_residual,
    "reconstruction": reconstruction,
    "relative_residual": relative_residual,
}


def class_distances(dictionary: Dictionary, targets: FloatArray, codes: Any) -> FloatArray:
    """``||t - X_k c_k||`` for every target t and class k, shape (n_queries, n_classes).

    The differences are formed before they are squared: expanding the square would leave an error of 1e-8
    where a class reproduces its target exactly.
    """
    if sp.issparse(codes):
        from residuum._kernels import sparse_class_distances

        return sparse_class_distances(dictionary, targets, codes)
    distances = np.empty((len(targets), dictionary.n_classes), dtype=dictionary.dtype)
    rows = max(1, 2**17 // dictionary.n_features)  # a block of differences stays in the cache
    parts = [(block, dictionary.class_block(k)) for k, block in enumerate(dictionary.blocks)]
    for first in range(0, len(targets), rows):
        some = slice(first, first + rows)
        for k, (block, atoms) in enumerate(parts):
            difference = codes[some, block] @ atoms
            np.subtract(targets[some], difference, out=difference)
            distances[some, k] = np.einsum("ij,ij->i", difference, difference)
    return np.sqrt(distances, out=distances)


def class_energies(dictionary: Dictionary, codes: Any) -> FloatArray:
    """``||c_k||^2`` for every query and class, shape (n_queries, n_classes)."""
    energies = np.zeros((codes.shape[0], dictionary.n_classes), dtype=dictionary.dtype)
    if sp.issparse(codes):
        rows = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
        np.add.at(energies, (rows, dictionary.atom_class[codes.indices]), codes.data**2)
        return energies
    for k, block in enumerate(dictionary.blocks):
        energies[:, k] = np.einsum("ij,ij->i", codes[:, block], codes[:, block])
    return energies


def settle_ties(scores: FloatArray) -> FloatArray:
    """Set the scores of a row that equal its minimum up to rounding to that minimum.

    Classes that share a training sample leave the same residual but for rounding, which depends on the
    batch. Settled, they tie exactly, and the first class in sorted order wins whatever the batch.
    """
    lowest = scores.min(axis=1, keepdims=True)
    slack = 1e-10 if scores.dtype == np.float64 else 1e-5
    tied = scores <= lowest + slack * np.maximum(1, lowest)
    return np.where(tied, lowest, scores)
