"""Whether the mean of samples was subtracted from them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

# Samples less their own mean have 0, up to rounding; 500 samples less the mean of others like them have 0.05;
# features of networks, scattering and pixels as they are have 0.6 and more.
_LARGEST_OF_CENTRED = 0.1


def looks_centred(X: npt.NDArray[Any]) -> bool:
    """``||sum_i x_i|| <= 0.1 sum_i ||x_i||``: whether the mean of the rows is small beside them.

    If they sum to zero, every negative multiple of a sample is a non-negative combination of the others:
    non-negative codes reach the whole span, just like codes of any sign. Exact NRC then uses all samples,
    cannot prove its codes, and is slow and often wrong. Where the sum is only small it is often much worse
    than on raw samples, but not always (docs/embeddings.md).

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
