"""Soft non-negative coding against literal oracles: L-BFGS on the objective, NNLS on the augmented system."""

from __future__ import annotations

import sys
import threading
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls
from threadpoolctl import threadpool_info, threadpool_limits

from residuum.dictionary import Dictionary
from residuum.problem import CodingProblem
from residuum.solvers.closed_form import ClosedForm
from residuum.solvers.newton import Newton, blocks, soft_solver, solver
from residuum.system import threads as _threads
from residuum.system.threads import single_threaded_blas


def one_class(atoms):
    return Dictionary(atoms, np.array([0, len(atoms)]), np.arange(len(atoms)))


def newton(atoms, l2=0.01, neg_weight=1.0, **options):
    return Newton(CodingProblem(l2=l2, neg_weight=neg_weight), one_class(atoms), **options)


def solve(atoms, queries, **options):
    return newton(atoms, **options).solve(queries)


def objective(atoms, query, code, l2, neg_weight):
    residual = query - atoms.T @ code
    return residual @ residual + l2 * code @ code + neg_weight * np.sum(np.minimum(code, 0) ** 2)


def lbfgs(atoms, query, l2, neg_weight):
    def both(code):
        residual = query - atoms.T @ code
        gradient = 2 * (-atoms @ residual + l2 * code + neg_weight * np.minimum(code, 0))
        return objective(atoms, query, code, l2, neg_weight), gradient

    start = np.zeros(len(atoms))
    options = {"maxiter": 20000, "maxfun": 40000, "ftol": 1e-16, "gtol": 1e-11, "maxcor": 30}
    return minimize(both, start, jac=True, method="L-BFGS-B", options=options).x


def augmented_nnls(atoms, query, l2, neg_weight):
    """Solve for c = u - v, u, v >= 0, with l2 ||u||^2 + (l2 + neg_weight) ||v||^2: u v = 0 at the optimum."""
    n = len(atoms)
    system = np.block(
        [
            [atoms.T, -atoms.T],
            [np.sqrt(l2) * np.eye(n), np.zeros((n, n))],
            [np.zeros((n, n)), np.sqrt(l2 + neg_weight) * np.eye(n)],
        ]
    )
    both, _ = nnls(system, np.concatenate([query, np.zeros(2 * n)]), maxiter=50 * n)
    return both[:n] - both[n:]


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make(kind, rng):
    if kind == "tall":
        return unit(rng.random((8, 30))), unit(rng.random((5, 30)))
    if kind == "wide":
        return unit(rng.random((60, 12))), unit(rng.random((5, 12)))
    if kind == "centred":
        return unit(rng.standard_normal((60, 12))), unit(rng.standard_normal((5, 12)))
    if kind == "rank-deficient":
        return unit(rng.random((40, 3)) @ rng.random((3, 20))), unit(rng.random((5, 20)))
    if kind == "duplicate":
        atoms = unit(rng.random((15, 20)))
        return np.repeat(atoms, 2, axis=0), unit(rng.random((5, 20)))
    if kind == "badly scaled":
        return rng.random((30, 20)) * np.logspace(-2, 2, 30)[:, None], rng.random((5, 20)) * 1e3
    if kind == "negative":
        return unit(rng.random((25, 10))), -unit(rng.random((5, 10)))
    if kind == "one atom":
        return unit(rng.random((1, 10))), unit(rng.standard_normal((5, 10)))
    assert kind == "one feature"
    return rng.choice([-1.0, 1.0], (9, 1)), rng.standard_normal((5, 1))


KINDS = [
    "tall",
    "wide",
    "centred",
    "rank-deficient",
    "duplicate",
    "badly scaled",
    "negative",
    "one atom",
    "one feature",
]
WEIGHTS = [(0.01, 1.0), (1.0, 0.5), (1e-3, 10.0), (1e3, 1.0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("l2", "neg_weight"), WEIGHTS)
def test_newton_vs_oracles(kind, l2, neg_weight):
    atoms, queries = make(kind, np.random.default_rng(0))
    solution = solve(atoms, queries, l2=l2, neg_weight=neg_weight)
    assert solution.converged.all()
    for query, code, gap in zip(queries, solution.codes, solution.gap):
        value = objective(atoms, query, code, l2, neg_weight)
        energy = query @ query
        best = min(
            objective(atoms, query, oracle(atoms, query, l2, neg_weight), l2, neg_weight)
            for oracle in (lbfgs, augmented_nnls)
        )
        assert value <= best + 1e-12 * energy
        assert value - best <= (gap + 1e-13) * energy
        exact = augmented_nnls(atoms, query, l2, neg_weight)
        np.testing.assert_allclose(code, exact, rtol=0, atol=1e-7 * np.abs(exact).max() + 1e-12)


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-10])
@pytest.mark.parametrize("kind", ["wide", "centred", "rank-deficient"])
def test_certificate_is_recomputed_from_the_code(kind, tol):
    atoms, queries = make(kind, np.random.default_rng(1))
    queries = 3.0 * queries
    solution = solve(atoms, queries, tol=tol)
    codes = solution.codes
    residuals = queries - codes @ atoms
    inner = residuals @ atoms.T
    half = -inner + 0.01 * codes + np.minimum(codes, 0)
    np.testing.assert_allclose(solution.violation, np.abs(half).max(axis=1), rtol=1e-6, atol=1e-14)
    primal = np.array([objective(atoms, q, c, 0.01, 1.0) for q, c in zip(queries, codes)])
    weights = np.where(inner >= 0, 0.01, 1.01)
    dual = 2 * (residuals * queries).sum(1) - (residuals**2).sum(1) - (inner**2 / weights).sum(1)
    np.testing.assert_allclose(solution.gap, (primal - dual) / 9.0, rtol=1e-6, atol=1e-14)
    best = np.array([objective(atoms, q, augmented_nnls(atoms, q, 0.01, 1.0), 0.01, 1.0) for q in queries])
    assert (primal - best <= 9.0 * (solution.gap + 1e-14)).all()
    assert (solution.gap <= tol).all()


def mixture(n_atoms, n_queries, n_features, seed=0):
    rng = np.random.default_rng(seed)
    parts = rng.random((20, n_features)) * (rng.random((20, n_features)) < 0.3)
    rows = rng.gamma(0.3, size=(n_atoms + n_queries, 20)) @ parts + 0.05 * rng.random(
        (n_atoms + n_queries, n_features)
    )
    return unit(rows[:n_atoms]), unit(rows[n_atoms:])


@pytest.mark.parametrize("path", ["conjugate gradients", "factored", "factored after a while"])
def test_codes_do_not_depend_on_batch_order_threads_or_path(path, monkeypatch):
    atoms, queries = mixture(300, 150, 40)
    whole = solve(atoms, queries, n_jobs=1)
    if path == "factored":
        monkeypatch.setattr(blocks, "_MOST_CONDITION", 0.5)
    if path == "factored after a while":
        monkeypatch.setattr(blocks, "_CG_ROUNDS", 1)
    order = np.random.default_rng(0).permutation(len(queries))
    shuffled = solve(atoms, queries[order], n_jobs=2)
    single = [solve(atoms, queries[i : i + 1], n_jobs=1).codes[0] for i in range(10)]
    assert whole.converged.all()
    assert shuffled.converged.all()
    np.testing.assert_allclose(shuffled.codes, whole.codes[order], rtol=0, atol=1e-8)
    np.testing.assert_allclose(single, whole.codes[:10], rtol=0, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_codes_depend_on_the_batch_within_their_certificates_only(dtype, tol):
    """The minimum is strongly convex: ``l2 ||c - c*||^2 <= gap ||y||^2`` for each of the two codes."""
    atoms, queries = (part.astype(dtype) for part in mixture(300, 150, 40))
    model = newton(atoms, tol=tol)
    whole = model.solve(queries)
    for rows in (slice(17, 30), slice(5, 6), slice(0, 39)):
        part = model.solve(queries[rows])
        apart = np.linalg.norm(part.codes - whole.codes[rows], axis=1)
        radius = np.sqrt(np.array([part.gap, whole.gap[rows]]) / model.problem.l2).sum(axis=0)
        rounding = 4 * np.finfo(dtype).eps / model.problem.l2
        assert (apart <= radius * np.linalg.norm(queries[rows], axis=1) + rounding).all()
        assert part.converged.all()


@pytest.mark.parametrize("kind", ["wide", "tall", "centred"])
def test_extreme_weights(kind):
    atoms, queries = make(kind, np.random.default_rng(2))
    for l2 in (1e-12, 1e-6, 1e-3, 1e3):
        for neg_weight in (1e-9, 1e-3, 1e6, 1e8):
            solution = solve(atoms, queries, l2=l2, neg_weight=neg_weight)
            assert solution.converged.all(), (l2, neg_weight)


def test_limits_ridge_and_nonnegative():
    atoms, queries = make("wide", np.random.default_rng(3))
    ridge = np.linalg.solve(atoms @ atoms.T + 0.01 * np.eye(len(atoms)), atoms @ queries.T).T
    np.testing.assert_allclose(solve(atoms, queries, neg_weight=1e-12).codes, ridge, atol=1e-9)
    system = np.vstack([atoms.T, 0.1 * np.eye(len(atoms))])
    hard = [nnls(system, np.concatenate([q, np.zeros(len(atoms))]))[0] for q in queries]
    np.testing.assert_allclose(solve(atoms, queries, neg_weight=1e8).codes, hard, atol=1e-6)


def test_zero_query_and_empty_batch():
    atoms, queries = make("wide", np.random.default_rng(4))
    queries[1] = 0
    solution = solve(atoms, queries)
    assert not solution.codes[1].any()
    assert solution.gap[1] == solution.violation[1] == 0
    assert solution.converged.all()
    assert solve(atoms, queries[:0]).codes.shape == (0, len(atoms))


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e100, 1e300])
def test_query_scale_carries_over(scale):
    atoms, queries = make("wide", np.random.default_rng(5))
    plain = solve(atoms, queries)
    scaled = solve(atoms, queries * scale)
    np.testing.assert_allclose(scaled.codes / scale, plain.codes, rtol=1e-9, atol=1e-11)
    assert scaled.converged.all()


def test_float32_stays_float32_and_is_certified():
    atoms, queries = mixture(300, 50, 40)
    solution = solve(atoms.astype(np.float32), queries.astype(np.float32), tol=1e-6)
    assert solution.codes.dtype == np.float32
    assert solution.converged.all()
    exact = solve(atoms, queries).codes
    # The objective exceeds its minimum by at least l2 times the squared distance to the minimiser.
    assert (np.linalg.norm(solution.codes - exact, axis=1) <= np.sqrt(solution.gap / 0.01) + 1e-5).all()


def test_float32_reaches_its_tolerance_where_one_direction_dominates():
    """As with very many unit atoms, whose mean gives X X' an eigenvalue of about their number."""
    atoms, queries = mixture(300, 50, 40)
    solution = solve((60 * atoms).astype(np.float32), queries.astype(np.float32))
    assert solution.converged.all()


def test_unreached_tolerance_is_reported_with_a_gap_that_holds():
    atoms, queries = mixture(300, 5, 40)
    solution = solve(atoms, queries, l2=1e-4, max_iter=1)
    assert not solution.converged.any()
    assert (solution.n_iter == 1).all()
    best = solve(atoms, queries, l2=1e-4)
    for query, code, gap, optimum in zip(queries, solution.codes, solution.gap, best.codes):
        excess = objective(atoms, query, code, 1e-4, 1.0) - objective(atoms, query, optimum, 1e-4, 1.0)
        assert 0 <= excess <= gap


@pytest.mark.parametrize("kind", ["centred", "wide"])
@pytest.mark.parametrize("neg_weight", [1.0, 1e6])
def test_many_atoms_few_features_and_a_tiny_ridge(kind, neg_weight):
    rng = np.random.default_rng(0)
    draw = rng.standard_normal if kind == "centred" else rng.random
    atoms, queries = unit(draw((1200, 10))), unit(rng.standard_normal((20, 10)))
    solution = solve(atoms, queries, l2=1e-4, neg_weight=neg_weight)
    assert solution.converged.all()
    assert solution.n_iter.max() <= 20
    problem = CodingProblem(l2=1e-4, neg_weight=neg_weight)
    assert (problem.gap(one_class(atoms), queries, solution.codes) <= 1e-10).all()


def test_float64_queries_of_a_float32_dictionary_are_solved_in_float64():
    atoms, queries = mixture(300, 20, 40)
    atoms = atoms.astype(np.float32)
    solution = solve(atoms, queries)
    assert solution.codes.dtype == np.float64
    assert solution.converged.all()
    np.testing.assert_allclose(solution.codes, solve(atoms.astype(np.float64), queries).codes, atol=1e-8)


def test_features_that_are_eigenvectors_already_give_the_same_codes():
    atoms, queries = mixture(100, 10, 20)
    rotated, turned = one_class(atoms).rotated(queries)
    found = Newton(CodingProblem(l2=0.01, neg_weight=1.0), rotated).solve(turned)
    np.testing.assert_allclose(found.codes, solve(atoms, queries).codes, rtol=0, atol=1e-8)


def test_work_is_divided_so_that_memory_does_not_grow_with_the_queries(monkeypatch):
    atoms, queries = mixture(300, 60, 40)
    expected = solve(atoms, queries).codes
    rows = []
    original = blocks.solve_block

    def counted(prepared, block, *rest):
        rows.append(len(block))
        return original(prepared, block, *rest)

    monkeypatch.setattr(blocks, "solve_block", counted)
    monkeypatch.setattr(solver, "_WORK_ENTRIES", 300 * 2 * 9)
    codes = solve(atoms, queries, n_jobs=2).codes
    assert max(rows) == 8
    np.testing.assert_allclose(codes, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "wrong",
    [{"l2": 0.0}, {"l2": -1.0}, {"neg_weight": 0.0}, {"neg_weight": np.inf}, {"l1": 0.1}, {"shared": 0.5}],
    ids=str,
)
def test_problems_of_another_kind_are_refused(wrong):
    problem = CodingProblem(**{"l2": 1.0, "neg_weight": 1.0, **wrong})
    with pytest.raises(ValueError, match=r"Newton solver needs.*Got"):
        Newton(problem, one_class(np.eye(3)))


def test_soft_solver_takes_the_solver_of_each_end_of_the_continuum():
    atoms, queries = make("wide", np.random.default_rng(3))
    dictionary = one_class(atoms)
    assert isinstance(soft_solver(CodingProblem(l2=0.1), dictionary), ClosedForm)
    assert isinstance(soft_solver(CodingProblem(l2=0.1, neg_weight=1e6), dictionary), Newton)
    hard = soft_solver(CodingProblem(l2=0.1, neg_weight=np.inf), dictionary).solve(queries)
    system = np.vstack([atoms.T, np.sqrt(0.1) * np.eye(len(atoms))])
    expected = [nnls(system, np.concatenate([q, np.zeros(len(atoms))]))[0] for q in queries]
    np.testing.assert_allclose(hard.codes.toarray(), expected, atol=1e-8)


def test_tol_is_the_gap_for_an_infinite_weight_too():
    atoms, queries = make("wide", np.random.default_rng(3))
    problem = CodingProblem(l2=0.1, neg_weight=np.inf)
    reached = soft_solver(problem, one_class(atoms), tol=1e-10).solve(queries)
    assert reached.converged.all()
    asked_too_much = soft_solver(problem, one_class(atoms), tol=1e-300).solve(queries)
    np.testing.assert_array_equal(asked_too_much.converged, asked_too_much.gap <= 1e-300)


def blas_threads():
    return sorted((i["filepath"], i["num_threads"]) for i in threadpool_info() if i["user_api"] == "blas")


def test_concurrent_calls_agree_and_restore_the_blas_limit():
    atoms, queries = mixture(200, 60, 30)
    expected = solve(atoms, queries, n_jobs=1).codes
    before = blas_threads()
    results = [None] * 4

    def call(k):
        results[k] = solve(atoms, queries, n_jobs=2).codes

    threads = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blas_threads() == before
    for codes in results:
        np.testing.assert_allclose(codes, expected, rtol=0, atol=1e-8)


def test_blas_limit_lasts_until_the_last_user_leaves():
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert any(count == 2 for _, count in before)
        with single_threaded_blas():
            with single_threaded_blas():
                pass
            assert all(count == 1 for _, count in blas_threads())
        assert blas_threads() == before


def test_blas_libraries_are_looked_for_again_after_an_import(monkeypatch):
    first = _threads._blas()
    assert _threads._blas() is first
    monkeypatch.setitem(sys.modules, "a_module_with_a_blas_of_its_own", None)
    assert _threads._blas() is not first


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_atoms=st.integers(1, 12),
    n_features=st.integers(1, 12),
    shift=st.sampled_from([0.0, 1.0]),
    l2=st.sampled_from([1e-6, 1e-4, 1e-2, 1.0, 1e3]),
    neg_weight=st.sampled_from([1e-9, 1e-6, 1e-2, 1.0, 1e3, 1e6]),
)
def test_properties(seed, n_atoms, n_features, shift, l2, neg_weight):
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_atoms, n_features)) + shift
    atoms[rng.integers(n_atoms)] = atoms[0]
    queries = rng.standard_normal((3, n_features)) + shift
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = solve(atoms, queries, l2=l2, neg_weight=neg_weight, n_jobs=1)
    order = rng.permutation(n_atoms)
    permuted = solve(atoms[order], queries, l2=l2, neg_weight=neg_weight, n_jobs=1)
    # Codes are polished to within about 1e-8 of the optimum.
    np.testing.assert_allclose(
        permuted.codes, solution.codes[:, order], atol=max(1e-8, 1e-12 / l2), rtol=1e-7
    )
    for query, code in zip(queries, solution.codes):
        half = -atoms @ (query - atoms.T @ code) + l2 * code + neg_weight * np.minimum(code, 0)
        assert np.abs(half).max() <= 1e-7 * (1 + np.abs(atoms @ query).max())
        oracle = augmented_nnls(atoms, query, l2, neg_weight)
        best = objective(atoms, query, oracle, l2, neg_weight)
        assert objective(atoms, query, code, l2, neg_weight) <= best + 1e-9 * (query @ query)
