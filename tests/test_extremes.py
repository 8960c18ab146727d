"""Parameters at the ends of the floating point numbers: refused, or answered with a true certificate."""

import math
import warnings

import numpy as np
import pytest

from residuum.estimators import METHODS
from residuum.problem import dense


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
@pytest.mark.parametrize("value", [1e-300, 1e-31, 1e31, 1e300, math.nan, -math.inf])
def test_weights_beyond_floating_point_are_refused(method, value):
    """Products of two such weights overflow or vanish; certificates of their codes would say nothing."""
    weights = set(method().get_params()) & {"l1", "l2", "gamma", "neg_weight", "rho", "subspace_l2", "tol"}
    for name in weights:
        with pytest.raises(ValueError, match=f"'{name}' parameter of {method.__name__} must be"):
            method(**{name: value}).fit(np.eye(3), [0, 1, 2])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
@pytest.mark.parametrize("value", [1e-30, 1e-16, 1e-8, 1e8, 1e16, 1e30])
def test_a_certificate_is_a_number_and_no_large_gap_counts_as_converged(method, value, dtype):
    rng = np.random.default_rng(0)
    samples = np.abs(rng.standard_normal((30, 8))).astype(dtype)
    samples[15:] *= rng.choice([-1, 1], (15, 8))
    queries = rng.standard_normal((5, 8)).astype(dtype)
    for name in set(method().get_params()) & {"l1", "l2", "neg_weight", "gamma"}:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            solution = method(**{name: value}).fit(samples, np.arange(30) % 3).solve(queries)
        assert np.isfinite(dense(solution.codes)).all()
        assert np.isfinite(solution.gap).all()
        assert np.isfinite(solution.violation).all()
        assert not (solution.converged & (solution.gap > np.finfo(dtype).eps ** 0.5)).any()
