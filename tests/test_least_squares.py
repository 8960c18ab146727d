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
from joblib import parallel_config
from oracles import degrees_of_freedom
from sklearn.exceptions import ConvergenceWarning

from residuum import Tikhonov, choose_weight, least_squares, least_squares_from_gram, nnls, tikhonov_path
from residuum.solvers.tall import TallSolver
from residuum.solvers.tall import solver as tall_solver
from residuum.solvers.tall.careful import Descent, multiplier

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
    # Of products alone, a singular matrix without bounds cannot be certified: three of eight problems here.
    most = 0.4 if option == "gram" else 0.15
    assert counts.get("open", 0) <= most * counts["problems"]


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
        {"l2": Tikhonov(0.3, np.diff(np.eye(12), axis=0))},
        {"l1": 0.7, "bounds": (0.0, 0.5)},
        {"weights": np.linspace(0, 2, 40), "sum_to": 1.0, "l2": 0.1},
    ],
)
def test_objective_vs_cvxpy(given):
    cvxpy = pytest.importorskip("cvxpy")
    solution = least_squares(TALL, MANY, **given)
    assert solution.converged.all()
    assert solution.gap.max() <= 1e-12
    options = {"bounds": (0.0, np.inf), "l1": 0.0, "l2": 0.0, "weights": np.ones(40), **given}
    term = options["l2"] if isinstance(options["l2"], Tikhonov) else Tikhonov(options["l2"], np.eye(12))
    lower, upper = (np.broadcast_to(side, 12) for side in options["bounds"])
    root = np.sqrt(options["weights"])[:, None]
    for k in range(0, 60, 12):
        x = cvxpy.Variable(12)
        fit = cvxpy.sum_squares(root * TALL @ x - (root[:, 0] * MANY[:, k]))
        penalty = term.weight * cvxpy.sum_squares(term.regularizer @ x) + options["l1"] * cvxpy.sum(x)
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
    with parallel_config(n_jobs=1):
        together = least_squares(TALL, MANY, sum_to=1.0)
    alone = [least_squares(TALL, b, sum_to=1.0).x for b in MANY.T]
    assert (together.x == np.column_stack(alone)).all()
    assert (least_squares(TALL, np.asfortranarray(MANY), sum_to=1.0).x == together.x).all()
    monkeypatch.setattr(tall_solver, "BLOCK", 48)
    with parallel_config("threading", n_jobs=2):
        assert (least_squares(TALL, MANY, sum_to=1.0).x == together.x).all()


def test_weights_that_differ_by_next_to_nothing_are_told_apart():
    """Beside the other weights, those of the first row are lost to rounding; that row is enormous."""
    A, B = TALL.copy(), np.column_stack([MANY[:, 0]] * 2)
    A[0], B[0] = 1e15 * A[0], 1e15 * B[0]
    weights = np.ones((40, 2))
    weights[0] = 1e-32, 100e-32
    solution = least_squares(A, B, weights=weights)
    assert solution.converged.all()
    for k in (0, 1):
        scale = np.sqrt(weights[:, k])
        np.testing.assert_allclose(solution.x[:, k], nnls(scale[:, None] * A, scale * B[:, k]).x, atol=1e-9)
    assert np.abs(solution.x[:, 0] - solution.x[:, 1]).max() > 1e-3


def test_blocks_take_shared_weights_alone():
    with pytest.raises(
        ValueError, match=r"must have shape \(40,\) when B is an iterator.*each block with its"
    ):
        least_squares(TALL, iter([MANY]), weights=np.ones(MANY.shape))


def test_the_careful_descent_leaves_a_corner():
    A, b = TALL / np.linalg.norm(TALL, axis=0), MANY[:, 0]
    corner, bounds = np.zeros(12), (np.zeros(12), np.full(12, np.inf))
    found = Descent(A, bounds, np.ones(12)).solve(b, corner, False)
    np.testing.assert_allclose(found, nnls(A, b).x, atol=1e-10)


def test_the_price_of_a_sum_at_a_corner_lies_between_what_its_neighbours_ask():
    gradient, x, bounds = np.array([3.0, 1.0, 2.0]), np.array([1.0, 0.0, 0.0]), (np.zeros(3), np.ones(3))
    price = multiplier(gradient, np.ones(3), np.zeros(3, bool), x, bounds)
    assert gradient[1:].max() <= price <= gradient[0]
    assert multiplier(gradient, np.ones(3), np.zeros(3, bool), np.ones(3), bounds) <= gradient.min()


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
least_squares(A, B, out=out)
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
        ({"l2": Tikhonov(1.0, np.eye(3))}, "'regularizer' of Tikhonov .* as many columns"),
        ({"l2": Tikhonov(-1.0)}, "'weight' of Tikhonov"),
        ({"l1": 1.0, "bounds": (-1.0, 1.0)}, "'l1' parameter .* residuum.lasso"),
        ({"out": np.zeros((12, 3))}, "'out' parameter .* one column"),
        ({"out": np.zeros((60, 12))}, "'out' parameter .* shape"),
        ({"l2": -1.0}, "'l2' parameter"),
        ({"l2": Tikhonov(1.0, 1e200 * np.eye(12))}, "norms between"),
    ],
)
def test_bad_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        least_squares(TALL, MANY, **given)


@pytest.mark.parametrize("shared", [None, np.linspace(0.0, 2.0, 40)])
def test_nan_is_a_missing_entry(shared):
    """The same as without the row; complete right-hand sides do not notice, and infinity is refused."""
    B = MANY.copy()
    B[3, 7], B[5:20, 8], B[:, 9] = np.nan, np.nan, np.nan
    solution, complete = (least_squares(TALL, b, weights=shared) for b in (B, MANY))
    others = np.delete(np.arange(60), [7, 8, 9])
    assert (solution.x[:, others] == complete.x[:, others]).all()
    assert solution.converged.all()
    for k, rows in ((7, np.arange(40) != 3), (8, ~((np.arange(40) >= 5) & (np.arange(40) < 20)))):
        alone = least_squares(TALL[rows], MANY[rows, k], weights=None if shared is None else shared[rows])
        np.testing.assert_allclose(solution.x[:, k], alone.x, atol=1e-12)
        np.testing.assert_allclose(solution.residual_norm[k], alone.residual_norm[0], rtol=1e-9)
    assert (solution.x[:, 9] == 0).all()
    assert solution.residual_norm[9] == 0
    B[3, 7] = np.inf
    with pytest.raises(ValueError, match="Got infinity"):
        least_squares(TALL, B, weights=shared)


LIMITS = [{}, {"sum_to": 1.0}, {"sum_at_most": 0.7}, {"bounds": (-0.2, 0.4)}]
SMOOTH = np.diff(np.eye(12), axis=0)


@pytest.mark.parametrize("limits", [*LIMITS, {"l1": 0.3, "l2": Tikhonov(0.2, SMOOTH)}])
def test_products_alone_vs_the_matrix(limits):
    given = least_squares(TALL, MANY, **limits)
    squares = np.sum(MANY**2, axis=0)
    solution = least_squares_from_gram(TALL.T @ TALL, TALL.T @ MANY, squared_norms=squares, **limits)
    assert solution.converged.all()
    np.testing.assert_allclose(solution.x, given.x, atol=1e-10)
    np.testing.assert_allclose(solution.residual_norm, given.residual_norm, rtol=1e-8)
    alone = least_squares_from_gram(TALL.T @ TALL, (TALL.T @ MANY)[:, 3], **limits)
    assert (alone.x == solution.x[:, 3]).all()
    assert np.isnan(alone.residual_norm).all()


def test_singular_products_are_certified_only_within_bounds():
    """Only x + y is determined, and rounding has made the matrix a little concave along x - y."""
    gram = np.array([[1.0, 1.0], [1.0, 1.0 - 2e-16]])
    boxed = least_squares_from_gram(gram, np.array([1.0, 1.0]), bounds=(0.0, 1.0))
    assert boxed.converged.all()
    assert 0 < boxed.gap[0] < 1e-10
    with pytest.warns(ConvergenceWarning, match="least_squares_from_gram"):
        free = least_squares_from_gram(gram, np.array([1.0, 1.0]), bounds=(-np.inf, np.inf))
    assert not free.converged.any()


@pytest.mark.parametrize(
    ("gram", "given", "message"),
    [
        (np.ones((2, 3)), {}, "square"),
        ([[1.0, 0.5], [0.4, 1.0]], {}, "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], {}, "semi-definite.*-1.0e"),
        ([[1.0, 0.0], [0.0, -1.0]], {}, "semi-definite"),
        ([[1.0, 0.1], [0.1, 0.0]], {}, "semi-definite"),
        (np.diag([1.0, 0.0]), {}, "'correlations' .* zero where"),
        (np.eye(3), {}, "'correlations' .* must have 3 rows"),
        (1e-220 * np.eye(2), {}, "'correlations' .* with norms between 1e-100 and 1e.100. Got others"),
        (np.eye(2), {"squared_norms": 0.5}, "'squared_norms' .* at least 1"),
        (np.eye(2), {"squared_norms": np.ones(2)}, "'squared_norms' .* one number"),
    ],
)
def test_bad_products(gram, given, message):
    with pytest.raises(ValueError, match=message):
        least_squares_from_gram(gram, np.array([1.0, 1.0]), **given)


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("L", [None, SMOOTH])
def test_path_vs_single_weights(limits, L):
    weights = [10.0, 1e-3, 0.1]
    path = tikhonov_path(TALL, MANY, weights, regularizer=L, **limits)
    for weight, solution, residual, penalty in zip(
        path.weights, path.solutions, path.residual_norm, path.penalty_norm, strict=True
    ):
        single = least_squares(TALL, MANY, l2=Tikhonov(weight, L), **limits)
        assert solution.converged.all()
        np.testing.assert_allclose(solution.x, single.x, atol=1e-11)
        np.testing.assert_allclose(residual, np.linalg.norm(MANY - TALL @ single.x, axis=0), rtol=1e-8)
        expected = np.linalg.norm(single.x if L is None else L @ single.x, axis=0)
        np.testing.assert_allclose(penalty, expected, rtol=1e-8, atol=1e-12)
    assert list(path.weights) == [1e-3, 0.1, 10.0]


def test_a_path_multiplies_once(monkeypatch):
    multiplied = []
    product = tall_solver._padded_product
    monkeypatch.setattr(
        tall_solver, "_padded_product", lambda B, A: multiplied.append(B.shape[1]) or product(B, A)
    )
    tikhonov_path(TALL, MANY, np.geomspace(1e-3, 1, 9))
    assert sum(multiplied) == MANY.shape[1]  # in blocks, one for each thread


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("L", [None, SMOOTH])
def test_cross_validation_vs_derivatives(limits, L):
    """Degrees of freedom by finite differences of the fit."""
    path = tikhonov_path(TALL, MANY[:, :3], [0.01, 0.3], regularizer=L, **limits)
    choice = choose_weight(path)
    for k, weight in enumerate(path.weights):
        for r in range(3):
            left = 40 - degrees_of_freedom(
                lambda b, w=weight: TALL @ least_squares(TALL, b, l2=Tikhonov(w, L), **limits).x, MANY[:, r]
            )
            expected = 40 * path.residual_norm[k, r] ** 2 / left**2
            np.testing.assert_allclose(choice.score[k, r], expected, rtol=1e-6)
    assert (choice.weight == path.weights[choice.score.argmin(axis=0)]).all()


def _blurred():
    """A smooth density behind a blur: too small weights give noise, too large ones a flat line."""
    rng = np.random.default_rng(8)
    at = np.linspace(0, 1, 60)
    A = np.exp(-0.5 * ((at[:, None] - at[None, ::2]) / 0.05) ** 2)
    x = np.exp(-0.5 * ((at[::2] - 0.4) / 0.12) ** 2)[:, None] * rng.uniform(0.5, 2, 20)
    noise = 0.05 * rng.standard_normal((60, 20))
    return A, A @ x + noise, x, np.linalg.norm(noise, axis=0)


def test_chosen_weights_recover_a_density():
    A, B, x, noise = _blurred()
    L = np.diff(np.eye(30), n=2, axis=0)
    path = tikhonov_path(A, B, np.geomspace(1e-6, 1e6, 25), regularizer=L)
    errors = np.array([np.linalg.norm(s.x - x, axis=0) for s in path.solutions])
    best, worst = np.median(errors.min(axis=0)), np.median(errors.max(axis=0))
    assert worst > 5 * best
    for given in ({"by": "gcv"}, {"by": "l-curve"}, {"by": "discrepancy", "noise": noise}):
        choice = choose_weight(path, **given)
        assert np.median(np.linalg.norm(choice.solution.x - x, axis=0)) < 2.5 * best
        for r in (0, 7):
            assert (choice.solution.codes[r] == path.solutions[choice.index[r]].codes[r]).all()
    chosen = choose_weight(path, by="discrepancy", noise=noise)
    assert (chosen.solution.residual_norm <= noise).all()
    after = np.minimum(chosen.index + 1, 24)
    assert (path.residual_norm[after, np.arange(20)] > noise).all()
    assert (choose_weight(path, by="discrepancy", noise=1e-9).index == 0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"by": "discrepancy"}, "'noise' parameter of choose_weight must be given"),
        ({"noise": 1.0}, "only there"),
        ({"by": "discrepancy", "noise": -1.0}, "'noise' parameter .* positive"),
        ({"by": "discrepancy", "noise": [1.0, 2.0]}, "one for each of 60"),
        ({"by": "eye"}, "'by' parameter"),
        ({"by": "l-curve"}, "at least 3 weights"),
    ],
)
def test_bad_choices(given, message):
    path = tikhonov_path(TALL, MANY, [0.1, 1.0])
    with pytest.raises(ValueError, match=message):
        choose_weight(path, **given)


@pytest.mark.parametrize("weights", [[], [-1.0], [np.nan]])
def test_bad_paths(weights):
    with pytest.raises(ValueError, match="'weights' parameter of tikhonov_path"):
        tikhonov_path(TALL, MANY, weights)
    with pytest.raises(ValueError, match="'B' parameter of tikhonov_path"):
        tikhonov_path(TALL, np.full((40, 1), np.nan), [1.0])


def test_what_cannot_be_proved_is_said():
    base = np.random.default_rng(5).standard_normal((8, 2))
    A = np.hstack([base, -3 * base])
    with pytest.warns(ConvergenceWarning, match="least_squares: .* did not reach"):
        solution = least_squares(
            A, -base @ np.ones((2, 1)) + 0.1, bounds=(0.0, [np.inf, np.inf, np.inf, 1e3])
        )
    assert not solution.converged.any()
    assert (solution.gap > 1e-10).all()


def _smooth(n):
    """Columns that are nearly dependent, as spectra without noise are, and mixtures of them."""
    rng = np.random.default_rng(n)
    at = np.linspace(0, 1, 60)[:, None]
    A = 0.5 + np.exp(-0.5 * ((at - rng.random(n)) / rng.uniform(0.1, 0.3, n)) ** 2)
    clean = A @ (rng.random((n, 40)) * (rng.random((n, 40)) < 0.4))
    return A, clean + 0.01 * rng.standard_normal(clean.shape)


@pytest.mark.parametrize("n", [24, 40])
def test_nearly_dependent_columns_on_one_side_are_certified_by_the_kernels(n, monkeypatch):
    """No eigenvalue proves anything here, and nothing is left for the careful path."""
    A, B = _smooth(n)
    assert np.linalg.cond(A) > 1e9

    def careful(*args):
        raise AssertionError("a right-hand side was left to the careful path")

    monkeypatch.setattr(tall_solver, "Difficult", careful)
    solution = nnls(A, B)
    assert solution.converged.all()
    norms = [scipy.optimize.nnls(A, b)[1] for b in B.T]
    np.testing.assert_allclose(solution.residual_norm, norms, atol=1e-9)


def test_inner_directions():
    """They exist where the unbounded columns lie on one side, and only there."""
    from residuum.solvers.tall import BoundedLeastSquares
    from residuum.solvers.tall.matrices import prepare

    base = np.random.default_rng(6).random((8, 2))
    dependent = np.hstack([base, base @ np.array([[1.0, 0.3], [0.5, 2.0]])])
    for A, low, exists in (
        (dependent, 0.0, True),
        (dependent * [1, 1, -1, -1], [0.0, 0.0, -np.inf, -np.inf], True),
        (dependent * [1, 1, -1, -1], 0.0, False),
        (dependent, -np.inf, False),
    ):
        lower = np.broadcast_to(low, 4).astype(float)
        upper = np.where(lower == 0, np.inf, 0.0) if exists else np.full(4, np.inf)
        problem = BoundedLeastSquares(A, lower, upper)
        matrices = prepare(problem, problem.gram()[None])
        assert (matrices.length[0] > 0) == exists
        if exists:
            assert (matrices.slope[0] * np.where(lower == 0, 1, -1) > 0.1 * matrices.alpha[0]).all()


def test_lanes_vs_numpy():
    from numba import njit

    from residuum.solvers.tall.lanes import dot, subtract, subtract_four
    from residuum.solvers.tall.layout import aligned

    @njit
    def both(X, Y):
        subtract(X, 0, 2.0, Y, 1, 8, 24)
        subtract_four(X, 1, (1.0, -2.0, 3.0, 4.0), Y, 0, 0, 16)
        return dot(X, 2, Y, 3, 8, 32)

    X, Y = aligned((4, 32)), aligned((4, 32))
    X[:], Y[:] = np.random.default_rng(7).random((2, 4, 32))
    expected = X.copy()
    expected[0, 8:24] -= 2 * Y[1, 8:24]
    expected[1, :16] -= np.array([1.0, -2.0, 3.0, 4.0]) @ Y[:, :16]
    product = both(X, Y)
    np.testing.assert_allclose(X, expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(product, X[2, 8:] @ Y[3, 8:], rtol=1e-14)


def test_l1_and_exactly_dependent_columns():
    """The longer of two parallel columns costs less, so that the shorter one alone must not be proved."""
    from residuum.solvers.tall import BoundedLeastSquares
    from residuum.solvers.tall.proof import Point, Prover

    A, b = np.column_stack([np.ones(4), 2 * np.ones(4)]), np.full(4, 3.0)
    solution = least_squares(A, b, l1=1.0)
    assert solution.converged.all()
    np.testing.assert_allclose(solution.x, [0.0, 1.5 - 1.0 / 32], atol=1e-10)
    problem = BoundedLeastSquares(A, np.zeros(2), np.full(2, np.inf), l1=1.0)
    prover = Prover(problem, np.sqrt(np.diagonal(problem.gram())), None)
    shorter = np.array([3.0 - 1.0 / 8, 0.0])
    values = [np.sum((b - A @ x) ** 2) + x.sum() for x in (shorter, solution.x)]
    point = Point(np.ldexp(shorter, problem.exponents), 0.0, prover.target(b))
    assert prover.gap(point, 1e-14) >= values[0] - values[1] > 1.0


def test_solver_is_prepared_once():
    from residuum.solvers.tall import BoundedLeastSquares

    solver = TallSolver(BoundedLeastSquares(TALL, np.zeros(12), np.full(12, np.inf)), tol=1e-10)
    assert solver.prepare() is solver.prepare()
    assert solver.is_regular
