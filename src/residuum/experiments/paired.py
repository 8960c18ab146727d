"""Is one method better than another on the same queries, or is the lead within chance?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

LEVEL = 0.05
MCNEMAR = "exact McNemar test on the test samples"
T_TEST = "paired t-test over the trials"
RESAMPLED = "t-test over the trials, corrected for their overlap"

Hits = npt.NDArray[np.bool_]  # which queries of a trial a method gets right


def mcnemar(first: Hits, second: Hits) -> float:
    """Two-sided exact test of McNemar: a binomial test on the queries that only one of the two gets right."""
    only_first, only_second = int((first & ~second).sum()), int((~first & second).sum())
    both = only_first + only_second
    return float(stats.binomtest(only_first, both).pvalue) if both else 1.0


def paired_test(first: Sequence[Hits], second: Sequence[Hits], *, overlap: float = 0.0) -> tuple[float, str]:
    """Two-sided p-value of equal accuracy of two methods, and the name of the test.

    For one trial it is the exact test of McNemar. For J trials it is a t-test of the differences d of the
    accuracies with J - 1 degrees of freedom, ``t = mean(d) / sqrt((1/J + overlap) var(d))``. Where the
    difference is the same in every trial there is no variance to go by, and the first trial decides.

    Parameters
    ----------
    first, second : sequence of bool arrays
        For each trial, which queries each method gets right.
    overlap : float, default=0.0
        Test samples per training sample where the trials are random splits of the same samples: such trials
        are not independent, and the plain test finds too much (Nadeau and Bengio, 2003).
    """
    if len(first) == 1:
        return mcnemar(first[0], second[0]), MCNEMAR
    gaps = np.array([a.mean() - b.mean() for a, b in zip(first, second, strict=True)])
    if np.ptp(gaps) < 1e-12:
        return mcnemar(first[0], second[0]), MCNEMAR
    t = gaps.mean() / math.sqrt((1 / len(gaps) + overlap) * gaps.var(ddof=1))
    return float(2 * stats.t.sf(abs(t), len(gaps) - 1)), RESAMPLED if overlap else T_TEST


def p_text(p: float) -> str:
    """``p = 0.03``, or ``p < 0.001``."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.2g}"
