"""Constrained least squares against brute force, cvxpy and SciPy; the tall path against the wide one."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp
import search_least_squares
from sklearn.exceptions import ConvergenceWarning

from residuum import least_squares, nnls
from residuum.solvers.tall import TallSolver
from residuum.solvers.tall import solver as tall_solver

RNG = np.random.default_rng(0)
TALL = RNG.random((40, 12))
MANY = TALL @ (RNG.random((12, 60)) * (RNG.random((12, 60)) < 0.4)) + 0.1 * RNG.standard_normal((40, 60))


@pytest.mark.parametrize("option", list(search_least_squares.OPTIONS))
def test_objectives_vs_brute_force(option):
    """All degenerate kinds of matrices; what cannot be proved is rare, and never called converged."""
    counts = search_least_squares.search(option, 480, seed=7)
    assert not counts.get("lies", 0)
    assert not counts.get("outside", 0)
    assert not counts.get("worse yet converged", 0)
    assert counts.get("open", 0) <= 0.15 * counts["problems"]


@pytest.mark.parametrize("lie", ["gap", "points", "outside"])
def test_the_search_finds_lies(lie, monkeypatch):
    def lying(*args, **options):
        solution = least_squares(*args, **options)
        if lie == "gap":
            return replace(solution, codes=solution.codes * 0.999, gap=0 * solution.gap)
        return replace(solution, codes=solution.codes * (0.9 if lie == "points" else -1.0))

    monkeypatch.setattr(search_least_squares, "least_squares", lying)
    counts = search_least_squares.search("plain", 160, seed=7)
    assert counts.get({"gap": "lies", "points": "worse yet converged", "outside": "outside"}[lie], 0) > 0


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"sum_to": 1.0},
        {"sum_at_most": 0.7},
        {"bounds": (-0.2, 0.4)},
        {"bounds": (np.where(np.arange(12) < 3, -np.inf, 0.0), np.inf), "sum_to": 2.0},
        {"l2": 0.3, "regularizer": np.diff(np.eye(12), axis=0)},
        {"weights": np.linspace(0, 2, 40), "sum_to": 1.0, "l2": 0.1},
    ],
)
def test_objective_vs_cvxpy(given):
    cvxpy = pytest.importorskip("cvxpy")
    solution = least_squares(TALL, MANY, **given)
    assert solution.converged.all()
    assert solution.gap.max() <= 1e-12
    options = {"bounds": (0.0, np.inf), "l2": 0.0, "weights": np.ones(40), "regularizer": np.eye(12), **given}
    lower, upper = (np.broadcast_to(side, 12) for side in options["bounds"])
    root = np.sqrt(options["weights"])[:, None]
    for k in range(0, 60, 12):
        x = cvxpy.Variable(12)
        fit = cvxpy.sum_squares(root * TALL @ x - (root[:, 0] * MANY[:, k]))
        penalty = options["l2"] * cvxpy.sum_squares(options["regularizer"] @ x)
        low, high = np.isfinite(lower), np.isfinite(upper)
        limits = [x[low] >= lower[low]] + ([x[high] <= upper[high]] if high.any() else [])
        limits += [cvxpy.sum(x) == given["sum_to"]] if "sum_to" in given else []
        limits += [cvxpy.sum(x) <= given["sum_at_most"]] if "sum_at_most" in given else []
        best = cvxpy.Problem(cvxpy.Minimize(fit + penalty), limits).solve(solver="CLARABEL")
        mine, scale = search_least_squares.objectives(
            TALL, MANY[:, k : k + 1], solution.x[:, k : k + 1], given
        )
        assert abs(mine[0] - best) <= 1e-7 * scale[0]


@pytest.mark.parametrize("shape", [(200, 10), (60, 50), (30, 80), (5, 5), (1, 1)])
@pytest.mark.parametrize("penalty", [{}, {"l1": 0.1}, {"l2": 0.01}])
def test_tall_vs_wide_vs_scipy(shape, penalty):
    rng = np.random.default_rng(shape)
    A = rng.random(shape) * 10.0 ** rng.uniform(-5, 5, shape[1])
    B = rng.standard_normal((shape[0], 20)) + 0.5
    tall, wide = (nnls(A, B, path=path, **penalty) for path in ("tall", "wide"))
    assert tall.converged.all()
    assert wide.converged.all()
    values = [s.residual_norm**2 + penalty.get("l2", 0) * np.sum(s.x**2, axis=0) for s in (tall, wide)]
    values = [v + penalty.get("l1", 0) * s.x.sum(axis=0) for v, s in zip(values, (tall, wide))]
    np.testing.assert_allclose(*values, rtol=1e-9, atol=1e-12)
    if not penalty:
        norms = [scipy.optimize.nnls(A, b)[1] for b in B.T]
        np.testing.assert_allclose(tall.residual_norm, norms, atol=1e-9)


def test_one_line_replaces_a_loop_of_scipy():
    expected = np.column_stack([scipy.optimize.nnls(TALL, b)[0] for b in MANY.T])
    solution = nnls(TALL, MANY)
    assert solution.x.shape == expected.shape
    np.testing.assert_allclose(solution.x, expected, atol=1e-12)
    assert sp.issparse(solution.codes)
    assert nnls(TALL, MANY[:, 0]).x.shape == (12,)
    x, norm = scipy.optimize.nnls(TALL, MANY[:, 0])
    np.testing.assert_allclose(nnls(TALL, MANY[:, 0]).x, x, atol=1e-12)
    np.testing.assert_allclose(nnls(TALL, MANY[:, 0]).residual_norm, norm, rtol=1e-12)


def test_answers_do_not_depend_on_the_others_or_on_threads(monkeypatch):
    together = least_squares(TALL, MANY, sum_to=1.0, n_jobs=1)
    alone = [least_squares(TALL, b, sum_to=1.0).x for b in MANY.T]
    assert (together.x == np.column_stack(alone)).all()
    assert (least_squares(TALL, np.asfortranarray(MANY), sum_to=1.0).x == together.x).all()
    monkeypatch.setattr(tall_solver, "BLOCK", 48)
    assert (least_squares(TALL, MANY, sum_to=1.0, n_jobs=2).x == together.x).all()


def test_weights_of_zero_leave_entries_out_even_nan():
    missing = np.random.default_rng(1).random(MANY.shape) < 0.3
    B = np.where(missing, np.nan, MANY)
    solution = least_squares(TALL, B, weights=np.isfinite(B))
    for k in range(60):
        some = ~missing[:, k]
        x, norm = scipy.optimize.nnls(TALL[some], MANY[some, k])
        np.testing.assert_allclose(solution.x[:, k], x, atol=1e-9)
        np.testing.assert_allclose(solution.residual_norm[k], norm, atol=1e-9)
    rows = np.arange(40) % 5 > 0
    masked = least_squares(TALL, MANY, weights=rows)
    np.testing.assert_allclose(masked.x, nnls(TALL[rows], MANY[rows]).x, atol=1e-12)


def test_columns_that_a_mask_empties_stay_zero():
    A = TALL.copy()
    A[5:, 3] = 0.0
    weights = np.ones(MANY.shape)
    weights[:5, ::2] = 0.0
    solution = least_squares(A, MANY, weights=weights)
    assert solution.converged.all()
    assert (solution.x[3, ::2] == 0).all()


def test_blocks_memory_maps_and_out(tmp_path):
    expected = least_squares(TALL, MANY).x
    stored = np.lib.format.open_memmap(tmp_path / "B.npy", "w+", np.float32, MANY.shape)
    stored[:] = MANY
    out = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, expected.shape)
    solution = least_squares(TALL, np.load(tmp_path / "B.npy", mmap_mode="r"), out=out)
    assert np.shares_memory(solution.x, out)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    out = np.full(expected.shape, np.nan)
    by_blocks = least_squares(TALL, (MANY[:, k : k + 25] for k in range(0, 60, 25)), out=out)
    assert (out == expected).all()
    assert by_blocks.converged.shape == (60,)
    assert (least_squares(TALL, iter([MANY[:, 0], MANY[:, 1:]])).x == expected).all()
    with pytest.raises(ValueError, match=r"'out' parameter .* one column for each"):
        least_squares(TALL, iter([MANY, MANY]), out=out)


def test_bounded_memory():
    """Half a million right-hand sides of 50 rows: beyond input and output at most 150 MB."""
    code = """
import resource, numpy as np
from residuum import least_squares
A = np.random.default_rng(0).random((50, 6))
least_squares(A, np.ones((50, 2)))
B = np.ones((50, 500_000))
out = np.zeros((6, 500_000))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
least_squares(A, B, out=out, n_jobs=1)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(run.stdout) <= 150


@pytest.mark.parametrize("power", [300, -300])
def test_extreme_right_hand_sides(power):
    scale = 10.0**power
    extreme = least_squares(TALL, MANY[:, :5] * scale, bounds=(-0.1 * scale, 0.4 * scale))
    plain = least_squares(TALL, MANY[:, :5], bounds=(-0.1, 0.4))
    assert extreme.converged.all()
    np.testing.assert_allclose(extreme.x / scale, plain.x, atol=1e-12)
    np.testing.assert_allclose(extreme.residual_norm / scale, plain.residual_norm, rtol=1e-9)


def test_cycling_blocks_are_finished_by_single_exchanges(monkeypatch):
    """Without block exchanges every program is solved by single ones, with the same answers."""
    from residuum.solvers.tall import exchanges

    rng = np.random.default_rng(3)
    basis = rng.standard_normal((40, 6))
    A = basis @ rng.standard_normal((6, 30)) + 0.05 * rng.standard_normal((40, 30))
    B = rng.standard_normal((40, 200))
    solution = nnls(A, B, path="tall")
    assert solution.converged.all()
    np.testing.assert_allclose(
        solution.residual_norm, [scipy.optimize.nnls(A, b)[1] for b in B.T], atol=1e-10
    )
    assert solution.n_iter.max() > exchanges.PATIENCE


def test_residuals_of_exact_fits():
    rng = np.random.default_rng(4)
    B = TALL @ rng.random((12, 30)) + 1e-9 * rng.standard_normal((40, 30))
    solution = least_squares(TALL, B)
    np.testing.assert_allclose(
        solution.residual_norm, np.linalg.norm(B - TALL @ solution.x, axis=0), rtol=1e-6
    )


def test_solutions_can_be_pickled():
    for path in ("tall", "wide"):
        solution = pickle.loads(pickle.dumps(nnls(TALL, MANY, path=path)))
        assert solution.residual_norm.shape == (60,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"bounds": (1.0, 0.0)}, r"'bounds' parameter of least_squares .*\[1, 0\] for variable 0"),
        ({"bounds": 3.0}, "'bounds' parameter of least_squares must be"),
        ({"bounds": (np.nan, 1.0)}, "'bounds' parameter"),
        ({"bounds": (np.inf, np.inf)}, "lower < inf"),
        ({"sum_to": 1.0, "sum_at_most": 1.0}, "Only one of"),
        ({"sum_to": -1.0}, "'sum_to' parameter .* Widen the bounds"),
        ({"sum_to": 20.0, "bounds": (0, 1)}, "from 0 to 12"),
        ({"sum_at_most": np.nan}, "'sum_at_most' parameter .* finite"),
        ({"weights": -np.ones(40)}, "'weights' parameter .* negative"),
        ({"weights": np.ones(3)}, "'weights' parameter .* as many rows"),
        ({"weights": np.ones((40, 2))}, "'weights' parameter .* that of B"),
        ({"regularizer": np.eye(3)}, "'regularizer' parameter .* as many columns"),
        ({"out": np.zeros((12, 3))}, "'out' parameter .* one column"),
        ({"out": np.zeros((60, 12))}, "'out' parameter .* shape"),
        ({"l2": -1.0}, "'l2' parameter"),
        ({"l2": 1.0, "regularizer": 1e200 * np.eye(12)}, "norms between"),
    ],
)
def test_bad_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        least_squares(TALL, MANY, **given)


def test_nan_without_weights_is_refused():
    B = MANY.copy()
    B[3, 7] = np.nan
    with pytest.raises(ValueError, match=r"weights=np\.isfinite"):
        least_squares(TALL, B)


def test_what_cannot_be_proved_is_said():
    base = np.random.default_rng(5).standard_normal((8, 2))
    A = np.hstack([base, -3 * base])
    with pytest.warns(ConvergenceWarning, match="least_squares: .* did not reach"):
        solution = least_squares(
            A, -base @ np.ones((2, 1)) + 0.1, bounds=(0.0, [np.inf, np.inf, np.inf, 1e3])
        )
    assert not solution.converged.any()
    assert (solution.gap > 1e-10).all()


def test_solver_is_prepared_once():
    from residuum.solvers.tall import BoundedLeastSquares

    solver = TallSolver(BoundedLeastSquares(TALL, np.zeros(12), np.full(12, np.inf)), tol=1e-10)
    assert solver.prepare() is solver.prepare()
    assert solver.is_regular
