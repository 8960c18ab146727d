"""Calibrated probabilities from class residuals, by one temperature.

``p_k = exp(-d_k / t) / sum_j exp(-d_j / t)`` with ``d_k = min(r_k - min_j r_j, cap)``, the class residuals r
measured from the winner's. The temperature t and the cap come from training samples that were held out, so
that no probability rests on a sample that codes itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_consistent_length, column_or_1d

from residuum.dictionary import FloatArray
from residuum.estimators.answers import Float64Array, margin

FOLDS = 5
# Quantiles of the runner-up's distance behind the winner that are tried as the cap. A class further behind is
# out of play; how much further says little, and by the scaled rules it may be any number up to infinity.
CAP_QUANTILES = (1.0, 0.95, 0.75, 0.5)


def probabilities(residuals: FloatArray, temperature: float, cap: float) -> Float64Array:
    """``softmax_k(-d_k / t)``, shape (n_queries, n_classes); the same for all classes in a tie of all."""
    return softmax(-distances_behind(residuals, cap) / temperature, axis=1)


def held_out_folds(class_index: npt.NDArray[Any]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Training and held-out samples of up to five stratified folds of consecutive samples of each class.

    A class of m < 5 samples is spread over m folds. The sample of a class that has only one is never held
    out, so every class has atoms in every fold.
    """
    counts = np.bincount(class_index)
    order = np.argsort(class_index, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    own = counts[class_index]
    fold = np.where(own > 1, place * np.minimum(own, FOLDS) // own, -1)
    for number in range(int(fold.max(initial=-1)) + 1):
        yield np.flatnonzero(fold != number), np.flatnonzero(fold == number)


def fit_temperature(residuals: FloatArray, truth: npt.NDArray[Any]) -> tuple[float, float]:
    """``min_{b, cap} sum_i [b * sum_k q_ik d_ik + log sum_k exp(-b * d_ik)]`` over ``b = 1/t > 0``.

    The targets q leave ``1/(n + 2)`` to the other classes (Platt 1999), without which held-out samples that
    are all classified correctly would ask for t = 0.

    Parameters
    ----------
    residuals : ndarray of shape (n, n_classes)
        Class residuals of held-out samples; may be infinite.
    truth : ndarray of int, shape (n,)
        Their classes.

    Returns
    -------
    temperature, cap : float
        The temperature is 1 where all classes tie for every sample, and large where the residuals say
        nothing, or the opposite of the truth.
    """
    n, n_classes = residuals.shape
    margins = margin(residuals)
    if n_classes == 1 or not margins.any():
        return 1.0, 1.0
    margins = margins[np.isfinite(margins) & (margins > 0)]
    # Where every runner-up is infinitely far behind, any cap will do: the temperature is in its units.
    caps = np.quantile(margins, CAP_QUANTILES, method="higher") if len(margins) else np.ones(1)
    left = 1 / (n + 2)
    target = np.full((n, n_classes), left / (n_classes - 1))
    target[np.arange(n), truth] = 1 - left
    best = (np.inf, 1.0, 1.0)
    for cap in caps:
        loss, temperature = _best_temperature(distances_behind(residuals, cap), target)
        if loss < best[0]:
            best = (loss, temperature, float(cap))
    return best[1:]


def _best_temperature(behind: Float64Array, target: Float64Array) -> tuple[float, float]:
    """Loss and temperature at ``min_b sum(b * q'd + log sum_k exp(-b * d_k))``.

    The first term is linear in b and the second a log-sum-exp of linear functions, so the sum is convex and
    its derivative, the sum of ``q'd - p(b)'d``, increases: one bracketed root.
    """
    aimed = float(np.sum(target * behind))

    def slope(log_b: float) -> float:
        return aimed - float(np.sum(softmax(-np.exp(log_b) * behind, axis=1) * behind))

    size = float(behind.mean())
    low = high = np.log(1e-6 / size)
    if slope(low) < 0:
        high = np.log(1 / size)
        while slope(high) < 0:
            high += 1.0
        high = brentq(slope, low, high, xtol=1e-12)
    b = float(np.exp(high))
    return b * aimed + float(np.sum(logsumexp(-b * behind, axis=1))), 1 / b


def distances_behind(residuals: FloatArray, cap: float) -> Float64Array:
    """``min(r_k - min_j r_j, cap)``; zeros where every class is infinite, shape (n_queries, n_classes)."""
    residuals = np.asarray(residuals, dtype=np.float64)
    lowest = residuals.min(axis=1, keepdims=True)
    behind = np.subtract(residuals, lowest, out=np.zeros_like(residuals), where=np.isfinite(lowest))
    return np.minimum(behind, cap)


def expected_calibration_error(confidence: Any, correct: Any, *, n_bins: int = 15) -> float:
    """``sum_b n_b/n * |mean correct in b - mean confidence in b|`` over bins of equal width.

    Parameters
    ----------
    confidence : array-like of shape (n,)
        Probability of the predicted class, ``predict_proba(X).max(axis=1)``.
    correct : array-like of bool, shape (n,)
        Whether the predicted class is the true one.
    n_bins : int, default=15
        Number of bins between 0 and 1.

    Returns
    -------
    error : float
        Between 0 (calibrated) and 1.
    """
    p, hits = aligned(confidence, correct)
    if p.min() < 0 or p.max() > 1 + 1e-9:
        raise ValueError(
            f"The 'confidence' must hold probabilities between 0 and 1. Got values from {p.min():g} to "
            f"{p.max():g}: pass predict_proba(X).max(axis=1)."
        )
    bins = np.minimum((p * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, hits, minlength=n_bins) - np.bincount(bins, p, minlength=n_bins)
    return float(np.abs(gaps).sum() / len(p))


def aligned(confidence: Any, *flags: Any) -> list[Any]:
    """Confidence without NaN and flags, one of each per query and at least one query."""
    columns = [column_or_1d(confidence, dtype=np.float64), *(column_or_1d(f, dtype=np.bool_) for f in flags)]
    check_consistent_length(*columns)
    if not len(columns[0]) or np.isnan(columns[0]).any():
        raise ValueError(
            "The 'confidence' must have at least one value and no NaN. Drop those queries first."
        )
    return columns
