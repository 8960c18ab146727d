"""Sums of a matrix and a few products of rows, solved by whatever is known of them."""

import numpy as np
import pytest
from residuum.solvers._lifted import Lifted, factored

from residuum.solvers import _lifted

D = 12


def start(rng, scale, ridge, *, n_rows=30, with_factor=True):
    rows = rng.standard_normal((n_rows, D))
    matrix = rows.T @ rows
    factor = factored(scale * matrix, ridge) if with_factor else None
    return Lifted(matrix, np.empty((0, D)), factor, scale=scale, ridge=ridge), matrix


def assert_solves(lifted, matrix, scale, ridge, rng):
    points = rng.standard_normal((3, D))
    expected = np.linalg.solve(scale * matrix + ridge * np.eye(D), points.T).T
    np.testing.assert_allclose(lifted.solve(points), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("with_factor", [True, False])
@pytest.mark.parametrize("n_rows", [30, 4])  # definite by itself, and only by its ridge
def test_a_history_of_rows_that_join_and_go(with_factor, n_rows):
    rng = np.random.default_rng(n_rows)
    scale, ridge = 1.7, 0.3
    lifted, matrix = start(rng, scale, ridge, n_rows=n_rows, with_factor=with_factor)
    assert_solves(lifted, matrix, scale, ridge, rng)
    none, last = np.empty((0, D)), None
    for step in range(80):
        joined = rng.standard_normal((1 + step % 3, D))
        gone = none if step % 11 or last is None else last
        matrix = matrix + joined.T @ joined - gone.T @ gone
        if step % 17 == 16:
            ridge *= 1.1
        lifted, last = lifted.changed(joined, gone, scale=scale, ridge=ridge), joined
        if step % 5:
            assert_solves(lifted, matrix, scale, ridge, rng)
        assert len(lifted.lift) <= _lifted.MAX_LIFT
        np.testing.assert_allclose(
            lifted.matrix + lifted.lift.T @ lifted.lift, matrix, rtol=1e-10, atol=1e-10
        )


def test_the_factor_is_kept_while_rows_join():
    rng = np.random.default_rng(0)
    lifted, _ = start(rng, 1.0, 0.5)
    after = lifted.changed(rng.standard_normal((2, D)), np.empty((0, D)), scale=1.0, ridge=0.5)
    after.solve(rng.standard_normal((1, D)))
    assert after.factor is lifted.factor
    assert "_whole" not in after.__dict__


def test_a_factor_of_the_whole_serves_the_next_change():
    rng = np.random.default_rng(0)
    lifted, matrix = start(rng, 1.0, 0.5)
    rows = rng.standard_normal((2, D))
    other = lifted.changed(rows[:1], rows[:0], scale=1.0, ridge=0.6)
    assert other.factor is None
    assert_solves(other, matrix + rows[:1].T @ rows[:1], 1.0, 0.6, rng)
    later = other.changed(rows[1:], rows[:0], scale=1.0, ridge=0.6)
    assert later.factor is other._whole
    assert len(later.lift) == 1
    assert_solves(later, matrix + rows.T @ rows, 1.0, 0.6, rng)


def test_a_row_that_rises_too_far_is_factored_with_the_rest():
    # Nothing but a tiny ridge where the new row points: a correction would lose half of the digits.
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((D, D)))[0]
    matrix, row = basis[:, 1:] @ basis[:, 1:].T, basis[:, :1].T
    lifted = Lifted(matrix, row[:0], factored(matrix.copy(), 1e-8), scale=1.0, ridge=1e-8)
    after = lifted.changed(row, row[:0], scale=1.0, ridge=1e-8)
    points = rng.standard_normal((3, D))
    np.testing.assert_allclose(after.solve(points), points / (1 + 1e-8), rtol=0, atol=1e-13)
