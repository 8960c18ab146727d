"""The optimum over a working set against an exhaustive search over supports."""

from __future__ import annotations

import numpy as np
import pytest
from families import FAMILIES, badly_scaled, with_zeros
from test_active_set import brute_force, objective, unit, violation

from residuum.solvers.active_set.working_set import minimise_over

UNIT = [family for family in FAMILIES if family not in (with_zeros, badly_scaled)]  # as shards keep atoms
DEPENDENT = ("rank_deficient", "nearly_equal", "opposite")  # where it may leave the work to the engine


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.01), (0.05, 0.01)])
@pytest.mark.parametrize("family", UNIT, ids=lambda family: family.__name__)
def test_working_set_vs_brute_force(family, l1, l2, signed):
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(2):
        rows = unit(family(rng)[:5]).astype(np.float32)
        atoms, y = rows.astype(np.float64), unit(rng.standard_normal((1, rows.shape[1])))[0]
        for start in (np.zeros(len(rows)), rng.random(len(rows)) * (rng.random(len(rows)) < 0.5)):
            found = minimise_over(rows, y, start, l1=l1, l2=l2, signed=signed)
            if found is None:
                continue
            solved += 1
            code, residual = found
            assert signed or (code >= 0).all()
            best = brute_force(atoms, y, l1, l2, signed)
            assert objective(atoms, y, code, l1, l2) <= best + 1e-12
            np.testing.assert_allclose(
                residual, y - code @ atoms, rtol=0, atol=1e-14 * (1 + np.abs(code).sum())
            )
            assert violation(atoms, y, code, l1, l2, signed) <= 1e-12 * (1 + np.abs(code).sum())
    assert solved == 4 or (l2 == 0 and family.__name__ in DEPENDENT)


def test_the_start_changes_nothing_but_rounding():
    rng = np.random.default_rng(1)
    rows = unit(rng.random((60, 80))).astype(np.float32)
    y = unit(rng.random((1, 80)))[0]
    cold, _ = minimise_over(rows, y, np.zeros(60), l1=0.0, l2=0.0, signed=False)
    again, _ = minimise_over(rows, y, np.zeros(60), l1=0.0, l2=0.0, signed=False)
    warm, _ = minimise_over(rows, y, rng.random(60), l1=0.0, l2=0.0, signed=False)
    assert np.array_equal(cold, again)
    assert np.count_nonzero(cold) > 5
    np.testing.assert_allclose(warm, cold, rtol=0, atol=1e-14)
