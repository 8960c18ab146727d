"""Whether a mean was subtracted from features, as far as they show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows

# Centred features have at most 0.02 (0.06 where there are only 25 rows), raw ones 0.38 and more; see
# docs/embeddings.md. Features that have no common direction by nature look centred too, and are as good as.
LARGEST_OF_CENTRED = 0.1


def mean_cosine(X: npt.NDArray[Any]) -> float:
    """``(||sum_i u_i||^2 - n) / (n (n - 1))``: the mean cosine of all pairs of different rows.

    Here u_i are the rows with norm 1. It is the same for few rows and for many, up to chance. Rows that are
    zero count as orthogonal to all others.
    """
    n = len(X)
    if n < 2:
        return 1.0
    whole, squares = np.zeros(X.shape[1]), 0.0
    for first in range(0, n, 4096):
        unit = unit_rows(X[first : first + 4096].astype(np.float64))[0]
        whole += unit.sum(axis=0)
        squares += float(np.einsum("ij,ij->", unit, unit))
    return float((whole @ whole - squares) / (n * (n - 1)))


def looks_centred(X: npt.NDArray[Any]) -> bool:
    """Whether the rows point in all directions alike, as they do once their mean is subtracted.

    Non-negative codes are often much worse there (docs/embeddings.md): half of the samples point away from a
    query, and without negative coefficients they cannot help to represent it.
    """
    return mean_cosine(X) < LARGEST_OF_CENTRED
