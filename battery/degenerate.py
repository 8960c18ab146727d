"""Geometry at its limits: codes are optimal by the literal conditions, and ties are settled one way.

The conditions are computed here from the formula of each problem and from nothing that the solvers report.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg import hilbert
from scipy.optimize import nnls

from battery import Case, Scope
from battery.optimality import literal_problem, unit, value, violations, wide_blocks
from battery.properties import stacked_rows
from battery.subjects import CLASSIFIERS, classifier, dense

Data = tuple[np.ndarray, np.ndarray, np.ndarray]  # samples, labels, queries


def random(rng: Any, n: int, d: int, k: int, *, positive: bool = True) -> Data:
    """Samples of k classes around directions of their own."""
    centres = rng.normal(size=(k, d))
    labels = np.arange(n) % k
    samples = centres[labels] + 0.7 * rng.normal(size=(n, d))
    queries = centres[rng.integers(k, size=6)] + 0.7 * rng.normal(size=(6, d))
    return (np.abs(samples), labels, np.abs(queries)) if positive else (samples, labels, queries)


def duplicates(rng: Any, across: bool) -> Data:
    X, y, Q = random(rng, 18, 12, 3)
    twice = np.concatenate([y, (y + 1) % 3]) if across else np.concatenate([y, y])
    return np.vstack([X, X]), twice, Q


def collinear(rng: Any, sign: float) -> Data:
    X, y, Q = random(rng, 15, 8, 3, positive=False)
    return np.vstack([X, sign * 2.5 * X]), np.concatenate([y, y]), Q


def with_zero(rng: Any, *, atom: bool) -> Data:
    X, y, Q = random(rng, 15, 8, 3)
    (X if atom else Q)[2] = 0
    return X, y, Q


def in_cone(rng: Any, *, inside: bool) -> Data:
    X, y, _ = random(rng, 10, 20, 2)
    Q = rng.uniform(0.1, 1, size=(6, 10)) @ X
    return X, y, Q if inside else Q - 3 * X.mean(axis=0)


GEOMETRIES: dict[str, Callable[[Any], Data]] = {
    "duplicates within classes": partial(duplicates, across=False),
    "duplicates across classes": partial(duplicates, across=True),
    "rank 1": lambda rng: (np.outer(rng.uniform(1, 2, 9), np.arange(1, 6.0)), np.arange(9) % 3, np.eye(5)),
    "rank 3 of 12": lambda rng: (
        rng.normal(size=(18, 3)) @ rng.normal(size=(3, 12)), np.arange(18) % 3, rng.normal(size=(6, 12))
    ),
    "collinear": partial(collinear, sign=1.0),
    "collinear, opposite": partial(collinear, sign=-1.0),
    "zero atom": partial(with_zero, atom=True),
    "zero query": partial(with_zero, atom=False),
    "one sample": lambda rng: (rng.normal(size=(1, 4)), np.zeros(1, int), rng.normal(size=(3, 4))),
    "one class": lambda rng: random(rng, 10, 6, 1),
    "as many classes as samples": lambda rng: random(rng, 12, 6, 12),
    "one feature": lambda rng: random(rng, 9, 1, 3),
    "one feature, both signs": lambda rng: random(rng, 9, 1, 3, positive=False),
    "10,000 samples of 20 features": lambda rng: random(rng, 10_000, 20, 5, positive=False),
    "20 samples of 10,000 features": lambda rng: random(rng, 20, 10_000, 5, positive=False),
    "query equals a sample": lambda rng: (lambda X, y, Q: (X, y, X[:6].copy()))(*random(rng, 18, 12, 3)),
    "query inside the cone": partial(in_cone, inside=True),
    "query outside the cone": partial(in_cone, inside=False),
    "query opposite to all samples": lambda rng: (lambda X, y, Q: (X, y, -Q))(*random(rng, 18, 12, 3)),
    "Hilbert matrix": lambda rng: (hilbert(12), np.arange(12) % 3, np.abs(rng.normal(size=(6, 12)))),
    "nearly equal samples": lambda rng: (
        1 + 1e-9 * rng.normal(size=(12, 8)), np.arange(12) % 3, 1 + rng.normal(size=(6, 8))
    ),
}  # fmt: skip


# Where atoms depend on each other up to rounding and their cone holds a line, codes of 1e16 could still lower
# the objective of the numbers as they are. No proof is known then, and the solver says so; its objective must
# be as good as SciPy's all the same.
HONEST = {("NRC exact", "rank 3 of 12"), ("CRNRC", "rank 3 of 12"), ("CRNRC", "collinear, opposite")}


def cases(scope: Scope) -> Iterator[Case]:
    """Every geometry for every classifier, with several random draws."""
    for name in CLASSIFIERS:
        for kind, make in GEOMETRIES.items():
            for seed in range(scope.seed, scope.seed + scope.count(1, 5)):
                yield Case(f"{name}, {kind}, seed {seed}", partial(check, name, kind, make, seed))


def check(name: str, kind: str, make: Callable[[Any], Data], seed: int) -> None:
    """Finite scores, optimal codes, and the same answers however the queries arrive."""
    X, y, Q = make(np.random.default_rng(seed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # zero vectors are named
        fitted = classifier(name).fit(X, y)
        labels, residuals = fitted.predict(Q), fitted.residuals(Q)
        assert not np.isnan(residuals).any(), "a score is NaN"
        solution = fitted.solve(Q)
        for i, query in enumerate(Q):
            assert fitted.predict(query[None])[0] == labels[i], "alone, a query gets another label"
        again = classifier(name).fit(X, y)
        np.testing.assert_array_equal(again.predict(Q[::-1])[::-1], labels)
        ties = residuals == residuals.min(axis=1, keepdims=True)
        np.testing.assert_array_equal(labels, fitted.classes_[ties.argmax(axis=1)])
    if kind == "zero query":
        assert labels[2] == fitted.classes_[0]
    if name != "NRC":  # five steps of ADMM are not the minimiser, and say so
        found = violations(fitted, Q, solution)
        assert found.max() <= 1e-6, f"the conditions of optimality are violated by {found.max():.1e}"
        if (name, kind) in HONEST:
            no_worse_than_scipy(fitted, Q, solution)
        else:
            assert solution.converged.all(), f"{np.count_nonzero(~solution.converged)} did not converge"
    claimed = np.where(np.isfinite(solution.violation), solution.violation, math.inf)
    literal = violations(fitted, Q, solution)
    assert (literal <= 10 * claimed + 1e-9).all(), f"claimed {claimed.max():.1e}, found {literal.max():.1e}"


def no_worse_than_scipy(fitted: Any, queries: Any, solution: Any) -> None:
    """Non-negative codes of exact NRC and CRNRC reach the objective of an independent solver."""
    problem, blocks = literal_problem(fitted), wide_blocks(fitted)
    for query, code in zip(queries, dense(solution.codes), strict=True):
        target = unit(query)
        theirs = nnls(*(part.astype(float) for part in stacked_rows(problem, blocks, target)))[0]
        ours, best = (value(problem, blocks, target, c.astype(np.longdouble)) for c in (code, theirs))
        assert ours <= best * (1 + 1e-9) + 1e-12, f"SciPy reaches {best:.17g}, we {ours:.17g}"
