"""Samples and queries times any number that their type can hold: the same labels, and no warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from battery import Case, Scope
from battery.subjects import CLASSIFIERS, classifier, digits

WIDE = [10.0**power for power in range(-300, 301, 10)]
NARROW = [10.0**power for power in range(-36, 37, 6)]
assert (len(WIDE), len(NARROW)) == (61, 13)


def cases(scope: Scope) -> Iterator[Case]:
    """61 scales in float64, 13 in float32, and random scales of every row."""
    for name in CLASSIFIERS:
        for scale in WIDE:
            yield Case(f"{name}, float64 x {scale:.0e}", partial(one_scale, name, scale, np.float64))
        for scale in NARROW:
            yield Case(f"{name}, float32 x {scale:.0e}", partial(one_scale, name, scale, np.float32))
        for seed in range(scope.seed, scope.seed + scope.count(5, 50)):
            yield Case(
                f"{name}, every row its own, float64, seed {seed}", partial(own_scales, name, seed, 150)
            )
            yield Case(
                f"{name}, every row its own, float32, seed {seed}",
                partial(own_scales, name, seed, 17, np.float32),
            )


def one_scale(name: str, scale: float, dtype: type) -> None:
    """Everything times one number."""
    same_labels(name, np.full(80, scale), np.full(20, scale), dtype)


def own_scales(name: str, seed: int, power: int, dtype: type = np.float64) -> None:
    """Every row times a number of its own, from 10^-power to 10^power."""
    rng = np.random.default_rng(seed)
    same_labels(name, 10 ** rng.uniform(-power, power, 80), 10 ** rng.uniform(-power, power, 20), dtype)


def same_labels(name: str, of_samples: np.ndarray, of_queries: np.ndarray, dtype: type) -> None:
    """Fit and predict with and without the scales, all warnings being errors."""
    X, y, Q = digits()
    expected = unscaled_labels(name, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled, queries = (X * of_samples[:, None]).astype(dtype), (Q * of_queries[:, None]).astype(dtype)
        found = classifier(name).fit(scaled, y).predict(queries)
    np.testing.assert_array_equal(found, expected)


@cache
def unscaled_labels(name: str, dtype: type) -> np.ndarray:
    """What every scale must give."""
    X, y, Q = digits()
    return classifier(name).fit(X.astype(dtype), y).predict(Q.astype(dtype))
