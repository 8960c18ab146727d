"""Whether the mean of samples was subtracted from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Samples less their own mean have about 1e-16 (float32: 1e-7); those less another mean about 1/sqrt(n).
_LARGEST_OF_CENTRED = 1e-4


def looks_centred(X: npt.NDArray[Any]) -> bool:
    """``||sum_i x_i|| <= 1e-4 sum_i ||x_i||``: whether the rows sum to zero, up to rounding.

    If they do, and a subset does not, every negative multiple of a sample is a non-negative combination of
    the others: non-negative codes then reach the whole span, just like codes of any sign. Exact NRC uses all
    samples, cannot prove its codes, and is slow and often wrong (docs/embeddings.md). It works on samples
    less the mean of other samples.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Training samples as a classifier gets them.

    Returns
    -------
    centred : bool
        False for a single sample and for zeros only.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((20, 50))
    >>> looks_centred(X), looks_centred(X - X.mean(axis=0))
    (False, True)
    """
    whole, length = np.zeros(X.shape[1]), 0.0
    for first in range(0, len(X), 4096):
        rows = X[first : first + 4096].astype(np.float64)
        whole += rows.sum(axis=0)
        length += float(np.linalg.norm(rows, axis=1).sum())
    return len(X) > 1 and length > 0 and float(np.linalg.norm(whole)) <= _LARGEST_OF_CENTRED * length
