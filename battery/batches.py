"""However queries are divided and however many threads work on them: the same labels and codes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from battery import Case, Scope
from battery.subjects import CLASSIFIERS, classifier, dense
from residuum.system.threads import limit_threads

THREADS = [(n_jobs, blas) for n_jobs in (1, 2) for blas in (1, 2)]
QUERIES = 500


def cases(scope: Scope) -> Iterator[Case]:
    """200 splits of 500 queries for every classifier, in float64 and float32, with all threads."""
    for name in CLASSIFIERS:
        for dtype in (np.float64, np.float32):
            for split in range(scope.count(8, 200)):
                seed = 1000 * scope.seed + split
                yield Case(f"{name}, {dtype.__name__}, split {seed}", partial(check, name, dtype, seed))


def check(name: str, dtype: type, seed: int) -> None:
    """Random pieces in random order; the threads take turns with the seeds."""
    fitted, Q, labels, codes = reference(name, dtype)
    n_jobs, blas = THREADS[seed % len(THREADS)]
    rng = np.random.default_rng(seed)
    order = rng.permutation(QUERIES)
    cuts = np.sort(rng.choice(np.arange(1, QUERIES), size=rng.integers(1, 40), replace=False))
    found = np.empty_like(labels)
    with limit_threads(n_jobs), threadpool_limits(blas, user_api="blas"):
        for part in np.split(order, cuts):
            found[part] = fitted.predict(Q[part])
        some = order[: cuts[0]][:60]
        again = dense(fitted.encode(Q[some]))
    np.testing.assert_array_equal(found, labels)
    close = 1e-8 if name == "SoftNRC" else 1e-10  # SoftNRC polishes what products in float32 have found
    np.testing.assert_allclose(again, codes[some], atol=close if dtype is np.float64 else 1e-4)


@cache
def reference(name: str, dtype: type) -> tuple[Any, Any, Any, Any]:
    """A fitted classifier, the queries, and its labels and codes for all of them at once.

    Half of the queries lie between two samples of different classes, so that many are close calls.
    """
    X, y = load_digits(return_X_y=True)
    samples, labels = X[:300].astype(dtype), y[:300]
    rng = np.random.default_rng(0)
    between = (X[rng.integers(300, size=250)] + X[rng.integers(300, size=250)]) / 2
    Q = np.vstack([X[300:550], between]).astype(dtype)
    fitted = classifier(name).fit(samples, labels)
    return fitted, Q, fitted.predict(Q), dense(fitted.encode(Q))
