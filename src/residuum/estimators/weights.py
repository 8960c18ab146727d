"""Weights of samples as they are given: checked, times those of the classes, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import _check_sample_weight

from residuum.dictionary import FloatArray
from residuum.errors import UsageError

Method = TypeVar("Method", bound=Callable[..., Any])

# Squares and quotients of weights stay within float32.
LEAST, MOST = 1e-12, 1e12


def checked_weights(
    X: FloatArray, y: np.ndarray, sample_weight: Any, class_weight: Any, owner: str
) -> FloatArray | None:
    """``sample_weight[i] * class_weight[y[i]]`` in float64, shape (n_samples,); None where both are None.

    Parameters
    ----------
    X, y : ndarray
        Samples and labels, checked.
    sample_weight : array-like of shape (n_samples,), number or None
        Weight of every sample.
    class_weight : dict, "balanced" or None
        Weight of every class, as scikit-learn's `compute_sample_weight` takes it.
    owner : str
        Who takes the weights, for the error.
    """
    if sample_weight is None and class_weight is None:
        return None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if class_weight is not None:
        weights = weights * compute_sample_weight(class_weight, y)
    wrong = ~((weights == 0) | ((weights >= LEAST) & (weights <= MOST)))
    if wrong.any():
        raise UsageError(
            f"The weights of {owner} must be 0 or from {LEAST:g} to {MOST:g}. Got {weights[wrong][0]:g}. "
            "Divide them by their mean, and set those that are next to nothing to 0."
        )
    if not weights.any():
        raise UsageError(
            f"The weights of {owner} must not all be 0: no sample would be left. Give one a weight above 0."
        )
    return weights


def without_weights(method: Method) -> Method:
    """Let a method without `sample_weight` say why it has none, and what to do instead, as its class knows.

    The signature stays that of the method, by which scikit-learn tells whether it takes weights.
    """

    @wraps(method)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        if "sample_weight" in options:
            raise TypeError(
                f"{type(self).__name__}.{method.__name__} takes no sample_weight: {self._no_weights}. "
                f"Leave it out, or {self._instead_of_weights}."
            )
        return method(self, *args, **options)

    return called  # type: ignore[return-value]
