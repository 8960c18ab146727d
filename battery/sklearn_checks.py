"""Every scikit-learn check for every public estimator, with array API dispatch on, none expected to fail.

The tests run the same in CI, with the oldest libraries that are promised as well.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from functools import partial

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported; a group has a process of its own

from sklearn.utils.estimator_checks import check_estimator
from test_sklearn_checks import ESTIMATORS, SMALL

import residuum
from battery import Case, Scope


def cases(scope: Scope) -> Iterator[Case]:
    """One case for each estimator, which counts its checks."""
    for name in ESTIMATORS:
        yield Case(name, partial(check, name))


def check(name: str) -> int:
    """All checks of one estimator; returns how many there are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = eval(f"residuum.{name}({SMALL.get(name, '')})", {"residuum": residuum})
        results = check_estimator(estimator, on_fail=None)
    failed = [(r["check_name"], r["exception"]) for r in results if r["status"] != "passed"]
    assert not failed, failed
    assert len(results) >= 45, f"only {len(results)} checks"
    return len(results)
