"""The exact engine against slow literal oracles, on random and adversarial problems."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import ElasticNet, Lasso

from residuum import lasso, nnls
from residuum.change import Change
from residuum.dictionary import Dictionary
from residuum.problem import CodingProblem
from residuum.solvers.active_set import ActiveSet, atoms, chunk, prepare_atoms, solve_active_set

quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def objective(atoms, query, code, l1=0.0, l2=0.0):
    residual = query - code @ atoms
    return residual @ residual + l2 * code @ code + l1 * np.abs(code).sum()


def violation(atoms, query, code, l1=0.0, l2=0.0, signed=False):
    """Literal optimality residual, half scale."""
    g = atoms @ (code @ atoms - query) + l2 * code
    if signed:
        v = code - g
        return np.abs(code - np.sign(v) * np.maximum(np.abs(v) - l1 / 2, 0)).max()
    return np.abs(np.minimum(code, g + l1 / 2)).max()


def unit(rows):
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)


def brute_force(atoms, query, l1, l2, signed):
    """Least objective over all supports and signs."""
    n = len(atoms)
    best = query @ query
    for size in range(1, n + 1):
        for support in map(list, itertools.combinations(range(n), size)):
            X = atoms[support]
            for signs in itertools.product((1.0, -1.0), repeat=size) if signed else [(1.0,) * size]:
                s = np.array(signs)
                c = np.linalg.lstsq(X @ X.T + l2 * np.eye(size), X @ query - l1 / 2 * s, rcond=None)[0]
                if (c * s >= 0).all():
                    full = np.zeros(n)
                    full[support] = c
                    best = min(best, objective(atoms, query, full, l1, l2))
    return best


@st.composite
def problems(draw, max_atoms=40):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_atoms, n_features = draw(st.integers(1, max_atoms)), draw(st.integers(1, 25))
    shift = draw(st.sampled_from([0.0, 0.5, 2.0]))
    atoms = unit(rng.standard_normal((n_atoms, n_features)) + shift)
    kind = draw(st.sampled_from(["noise", "mixture", "atom", "polar", "integers"]))
    queries = rng.standard_normal((4, n_features)) + shift
    if kind == "mixture":
        queries = rng.random((4, n_atoms)) @ atoms
    elif kind == "atom":
        queries = atoms[rng.integers(0, n_atoms, 4)]
    elif kind == "polar":
        queries = -rng.random((4, n_atoms)) @ atoms
    elif kind == "integers":
        atoms = unit(rng.integers(-1, 2, (n_atoms, n_features)).astype(float))
        queries = rng.integers(-2, 3, (4, n_features)).astype(float)
    return atoms, unit(queries)


@quick
@given(
    problems(), st.sampled_from([0.0, 0.01, 0.3]), st.sampled_from([0.0, 0.01]), st.booleans(), st.booleans()
)
def test_optimal(problem, l1, l2, signed, with_gram):
    atoms, queries = problem
    l1 = max(l1, 0.001) if signed else l1
    prepared = prepare_atoms(atoms, build_gram=with_gram)
    solution = solve_active_set(prepared, queries, l1=l1, l2=l2, signed=signed, n_jobs=1)
    codes = solution.codes.toarray()
    assert solution.converged.all()
    assert np.isfinite(codes).all()
    assert signed or (codes >= 0).all()
    assert (solution.gap <= 1e-12).all()
    for query, code in zip(queries, codes):
        assert violation(atoms, query, code, l1, l2, signed) <= 1e-9


@quick
@given(problems(max_atoms=60), st.booleans())
def test_objective_vs_scipy(problem, with_gram):
    atoms, queries = problem
    codes = solve_active_set(prepare_atoms(atoms, build_gram=with_gram), queries, n_jobs=1).codes.toarray()
    for query, code in zip(queries, codes):
        norm = scipy.optimize.nnls(atoms.T, query)[1]
        assert objective(atoms, query, code) <= norm**2 + 1e-12 * max(query @ query, 1e-300)


@settings(quick, max_examples=15)
@given(problems(max_atoms=6), st.sampled_from([0.0, 0.2]), st.sampled_from([0.0, 0.1]), st.booleans())
def test_objective_vs_brute_force(problem, l1, l2, signed):
    atoms, queries = problem
    if signed and l1 == 0:
        l1 = 0.05
    codes = solve_active_set(atoms, queries, l1=l1, l2=l2, signed=signed, n_jobs=1).codes.toarray()
    for query, code in zip(queries, codes):
        best = brute_force(atoms, query, l1, l2, signed)
        assert objective(atoms, query, code, l1, l2) == pytest.approx(best, abs=1e-11)


@pytest.fixture(scope="module")
def mixture():
    """Non-negative sparse parts, atoms and queries mixtures of them with noise; the optimum is unique."""
    rng = np.random.default_rng(7)
    parts = rng.random((40, 60)) * (rng.random((40, 60)) < 0.2)
    atoms = (rng.random((300, 40)) * (rng.random((300, 40)) < 0.15)) @ parts + 0.02 * rng.random((300, 60))
    queries = (rng.random((101, 40)) * (rng.random((101, 40)) < 0.15)) @ parts + 0.05 * rng.random((101, 60))
    return unit(atoms), unit(queries)


@pytest.mark.parametrize("options", [{}, {"l1": 0.02}, {"l2": 0.01}, {"l1": 0.02, "signed": True}])
@pytest.mark.parametrize("with_gram", [True, False])
def test_invariance(mixture, options, with_gram):
    """Permutation of atoms, rotation of the space, scales, batches, threads: the same codes."""
    atoms, queries = mixture
    rng = np.random.default_rng(0)

    def solve(a, q, **more):
        prepared = prepare_atoms(a, build_gram=with_gram)
        return solve_active_set(prepared, q, **options, **more).codes.toarray()

    codes = solve(atoms, queries, n_jobs=1)
    order = rng.permutation(len(atoms))
    assert solve(atoms[order], queries) == pytest.approx(codes[:, order], abs=1e-10)
    turn = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    assert solve(atoms @ turn, queries @ turn) == pytest.approx(codes, abs=1e-10)
    assert np.abs(solve(atoms, queries, n_jobs=2) - codes).max() <= 1e-13
    for cut in (1, 47, 48, 100):
        split = np.vstack([solve(atoms, queries[:cut]), solve(atoms, queries[cut:])])
        assert np.abs(split - codes).max() <= 1e-13
    back = rng.permutation(len(queries))
    assert np.abs(solve(atoms, queries[back]) - codes[back]).max() <= 1e-13


@pytest.mark.parametrize("scale", [1e-300, 1e-150, 1e-20, 1e20, 1e150, 1e300])
def test_any_scale(mixture, scale):
    atoms, queries = mixture
    plain = solve_active_set(atoms, queries[:9]).codes.toarray()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solution = solve_active_set(atoms, queries[:9] * scale)
        both = solve_active_set(atoms * scale, queries[:9] * scale)
    assert solution.converged.all()
    assert both.converged.all()
    assert solution.codes.toarray() / scale == pytest.approx(plain, rel=1e-9, abs=1e-10)
    assert both.codes.toarray() == pytest.approx(plain, rel=1e-9, abs=1e-10)


def test_badly_scaled_columns(mixture):
    atoms, queries = mixture
    factors = 10.0 ** np.random.default_rng(1).uniform(-8, 8, len(atoms))
    plain = solve_active_set(atoms, queries).codes.toarray()
    scaled = solve_active_set(atoms * factors[:, None], queries).codes.toarray()
    assert scaled * factors == pytest.approx(plain, abs=1e-9)


def test_l1_of_badly_scaled_columns():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((15, 30)) * 10.0 ** rng.uniform(-2, 2, 30)
    b = rng.standard_normal(15)
    for signed in (False, True):
        code = (lasso(A, b, 0.5) if signed else nnls(A, b, l1=0.5)).codes
        peer = (
            Lasso(alpha=0.5 / 30, fit_intercept=False, positive=not signed, tol=1e-14, max_iter=10**6)
            .fit(A, b)
            .coef_
        )
        assert objective(A.T, b, code, 0.5) <= objective(A.T, b, peer, 0.5) + 1e-10


@pytest.mark.parametrize("l2", [0.0, 0.05])
@pytest.mark.parametrize("positive", [False, True])
def test_lasso_vs_sklearn(l2, positive):
    rng = np.random.default_rng(3)
    A = rng.standard_normal((30, 80))
    B = rng.standard_normal((30, 5))
    l1 = 2.0
    alpha = l1 / 60 + l2 / 30
    solution = nnls(A, B, l1=l1, l2=l2) if positive else lasso(A, B, l1, l2=l2)
    peer = ElasticNet(
        alpha=alpha,
        l1_ratio=l1 / 60 / alpha,
        fit_intercept=False,
        positive=positive,
        tol=1e-14,
        max_iter=10**6,
    )
    for b, code in zip(B.T, solution.codes.toarray()):
        assert code == pytest.approx(peer.fit(A, b).coef_, abs=1e-7)


def hilbert(n):
    return scipy.linalg.hilbert(n)


def adversarial():
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6, 9))
    spread = rng.standard_normal((200, 8))
    near = np.repeat(x, 3, axis=0) + 1e-9 * rng.standard_normal((18, 9))
    return {
        "hilbert": (hilbert(10), np.vstack([hilbert(10)[3], np.ones(10), rng.standard_normal((3, 10))])),
        "hilbert 20": (hilbert(20), rng.standard_normal((4, 20))),
        "collinear": (np.vstack([x[:1], -x[:1], 2 * x[:1], x[1:]]), x),
        "duplicates": (np.vstack([x, x, x]), np.abs(rng.standard_normal((5, 6))) @ x),
        "near duplicates": (near, np.abs(rng.standard_normal((5, 6))) @ x),
        "rank one": (np.outer(np.arange(1, 8.0), x[0]), x),
        "one atom": (x[:1], x),
        "one feature": (np.array([[1.0], [-2.0], [3.0]]), np.array([[1.0], [-1.0], [0.0]])),
        "zero atoms": (np.vstack([np.zeros((2, 9)), x]), x),
        "all zero": (np.zeros((3, 4)), np.ones((2, 4))),
        "zero queries": (x, np.zeros((3, 9))),
        "tiny queries": (x, 1e-310 * x),
        "interpolating": (spread, rng.standard_normal((6, 8))),
        "polar": (np.abs(x), -np.abs(x)),
        "vandermonde": (np.vander(np.linspace(0, 1, 30), 12, increasing=True).T, rng.random((5, 30))),
        "ones": (np.ones((5, 4)), np.array([[1.0, 2, 3, 4], [-1, -1, -1, -1]])),
    }


@pytest.mark.parametrize("name", sorted(adversarial()))
@pytest.mark.parametrize("options", [{}, {"l1": 1e-3}, {"l2": 1e-3}, {"l1": 1e-3, "signed": True}], ids=str)
@pytest.mark.parametrize("with_gram", [True, False])
def test_adversarial(name, options, with_gram):
    atoms, queries = adversarial()[name]
    solution = solve_active_set(prepare_atoms(atoms, build_gram=with_gram), queries, **options)
    codes = solution.codes.toarray()
    assert np.isfinite(codes).all()
    assert np.isfinite(solution.gap).all()
    assert solution.converged.all()
    assert (solution.violation <= 1e-9).all()
    if options.get("signed"):  # codes of several hundreds carry the rounding of the gradient into the gap
        assert (solution.gap <= 1e-10).all()
        return
    assert (solution.gap <= 1e-12).all()
    assert (codes >= 0).all()
    l1, l2 = options.get("l1", 0.0), options.get("l2", 0.0)
    for query, code in zip(queries, codes):
        stacked = np.vstack([atoms.T, np.sqrt(l2) * np.eye(len(atoms))])
        if l1 == 0:
            peer = scipy.optimize.nnls(stacked, np.concatenate([query, np.zeros(len(atoms))]))[0]
            slack = 1e-12 * (query @ query)
            assert objective(atoms, query, code, l1, l2) <= objective(atoms, query, peer, l1, l2) + slack


def test_duplicates_tie_break():
    """The first of equal atoms carries the weight; with l1 the largest; with l2 they share it."""
    rng = np.random.default_rng(6)
    x = rng.random((4, 7))
    atoms = np.vstack([x, 2 * x, x])
    query = np.array([[1.0, 0.5, 0.0, 2.0]]) @ x
    first = solve_active_set(atoms, query).codes.toarray()[0]
    assert first == pytest.approx([1, 0.5, 0, 2] + [0] * 8, abs=1e-9)
    large = solve_active_set(atoms, query, l1=0.01).codes.toarray()[0]
    assert (large[:4] == 0).all()
    assert (large[8:] == 0).all()
    assert large[4] > 0
    shared = solve_active_set(atoms, query, l2=0.01).codes.toarray()[0]
    assert shared[:4] == pytest.approx(shared[8:], abs=1e-10)


def test_first_of_many_duplicates():
    rng = np.random.default_rng(12)
    x = rng.random((30, 41))
    atoms = np.vstack([x, 3 * x, 0.7 * x])
    codes = solve_active_set(atoms, rng.random((20, 30)) @ x + 0.1 * rng.random((20, 41))).codes
    assert codes[:, :30].nnz == codes.nnz


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_groups_of_duplicates_vs_comparing_all_pairs(kind):
    rng = np.random.default_rng(13)
    distinct = unit(rng.standard_normal((40, 5))).astype(kind)
    rows = (distinct * rng.choice([-1, 1], (40, 1)))[rng.integers(0, 40, 300)]
    flips = rng.choice([-1, 1], 300).astype(kind)
    rows = rows * flips[:, None]
    prepared = prepare_atoms(rows)
    for signed in (False, True):
        equal = (rows[:, None] == rows[None]).all(axis=2)
        if signed:
            equal |= (rows[:, None] == -rows[None]).all(axis=2)
        shared = np.flatnonzero(equal.sum(axis=1) > 1)
        assert (prepared.twins[signed][0] == shared).all()
        assert (prepared.twins[signed][1] == equal.argmax(axis=1)[shared]).all()


@pytest.mark.parametrize("with_gram", [True, False])
@pytest.mark.parametrize("small", [1e-7, 1e-8, 1e-10, 1e-12])
def test_violations_below_float32(small, with_gram):
    """What single precision cannot see is found in double precision."""
    queries = np.array([[1.0, small, 0.0], [1.0, -small, 0.0], [1.0, small, -small]])
    codes = solve_active_set(prepare_atoms(np.eye(3), build_gram=with_gram), queries).codes.toarray()
    assert codes == pytest.approx(np.maximum(queries, 0), rel=1e-6, abs=1e-15)


def test_interpolating_does_not_depend_on_the_batch():
    """Codes that are not unique are still the same in every batch."""
    rng = np.random.default_rng(8)
    atoms, queries = unit(rng.standard_normal((900, 120))), unit(rng.standard_normal((24, 120)))
    for with_gram in (True, False):
        prepared = prepare_atoms(atoms, build_gram=with_gram)
        together = solve_active_set(prepared, queries)
        assert (np.diff(together.codes.indptr) <= 120).all()
        assert together.converged.all()
        alone = sp.vstack([solve_active_set(prepared, q[None]).codes for q in queries])
        assert abs(together.codes - alone).max() <= 1e-10


def test_float32_input_is_certified_in_float64(mixture):
    atoms, queries = (part.astype(np.float32) for part in mixture)
    solution = solve_active_set(atoms, queries)
    exact = solve_active_set(atoms.astype(float), queries.astype(float))
    assert solution.codes.dtype == np.float64
    assert solution.violation.max() <= 1e-12
    assert np.abs((solution.codes - exact.codes).toarray()).max() <= 1e-12


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_unit_atoms_are_used_where_they_are(mixture, kind, tmp_path):
    """The array of a dictionary is read and not copied, also when it is a read-only memory map."""
    atoms, queries = (part.astype(kind) for part in mixture)
    np.save(tmp_path / "atoms.npy", atoms)
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    for build_gram in (True, False):
        prepared = prepare_atoms(mapped, build_gram=build_gram)
        assert np.shares_memory(prepared.rows, mapped)
        assert kind == np.float64 or np.shares_memory(prepared.rows32, mapped)
        expected = solve_active_set(prepare_atoms(atoms.copy(), build_gram=build_gram), queries)
        assert (solve_active_set(prepared, queries).codes != expected.codes).nnz == 0
    with pytest.raises(ValueError, match="read-only"):
        mapped[0] = 0


def test_rows_of_extreme_norm_are_scaled_first(mixture):
    atoms, queries = mixture
    for scale in (1e-30, 1e30):
        big = (scale * atoms).astype(np.float32)
        prepared = prepare_atoms(big, build_gram=False)
        assert prepared.rows.dtype == np.float64
        assert solve_active_set(prepared, queries).converged.all()


def test_gram_and_warm_start(mixture):
    atoms, queries = mixture
    atoms = 3 * atoms
    plain = solve_active_set(atoms, queries)
    given_gram = solve_active_set(atoms, queries, gram=atoms @ atoms.T)
    assert np.abs((plain.codes - given_gram.codes).toarray()).max() <= 1e-12
    for with_gram in (True, False):
        prepared = prepare_atoms(atoms, build_gram=with_gram)
        warm = solve_active_set(prepared, queries, x0=plain.codes)
        assert warm.n_iter.max() == 1
        assert np.abs((plain.codes - warm.codes).toarray()).max() <= 1e-12
        wild = np.random.default_rng(0).standard_normal((len(queries), len(atoms)))
        far = solve_active_set(prepared, queries, x0=wild)
        assert far.converged.all()
        assert np.abs((plain.codes - far.codes).toarray()).max() <= 1e-10
        absurd = solve_active_set(prepared, queries, x0=np.where(wild > 0, 1e200, np.inf))
        assert np.abs((plain.codes - absurd.codes).toarray()).max() <= 1e-10


def follower(mixture, keep, **problem):
    """A solver that followed a change in which only some atoms were there before, and a fresh one."""
    after = Dictionary(mixture[0], np.array([0, 100, 300]), np.arange(300))
    n_kept = keep.sum()
    rows = np.vstack([mixture[0][keep], mixture[1][:1]])  # the last of them has gone since
    before = Dictionary(rows, np.array([0, keep[:100].sum(), n_kept + 1]), np.arange(n_kept + 1))
    origin = np.full(300, -1)
    origin[keep] = np.arange(n_kept)
    problem = CodingProblem(**{"neg_weight": np.inf, **problem})
    old, new, fresh = ActiveSet(problem, before), ActiveSet(problem, after), ActiveSet(problem, after)
    return old, new, fresh, Change(before, after, origin, np.arange(2))


@pytest.mark.parametrize("problem", [{}, {"l1": 0.02, "neg_weight": 0}, {"l2": 0.01}], ids=str)
def test_following_a_change_vs_a_fresh_solver(mixture, problem, monkeypatch):
    """Some atoms are new and one has gone: the Gram matrix is carried over and nothing else is different."""
    keep = np.random.default_rng(0).random(300) < 0.9
    old, new, fresh, change = follower(mixture, keep, **problem)
    old.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(atoms, "_build_gram", lambda _: pytest.fail("the Gram matrix was built anew"))
        new.follow(old, change)
        followed = new.solve(mixture[1])
    expected = fresh.solve(mixture[1])
    assert np.abs((followed.codes - expected.codes).toarray()).max() <= 1e-13
    assert followed.converged.all()


def test_following_a_solver_that_has_not_prepared(mixture):
    old, new, fresh, change = follower(mixture, np.arange(300) % 7 > 0)
    new.follow(old, change)
    assert (new.solve(mixture[1]).codes != fresh.solve(mixture[1]).codes).nnz == 0


@pytest.mark.parametrize("l1", [0.0, 1e-3])
def test_supports_too_ill_conditioned_for_a_gram_matrix(l1, monkeypatch):
    """Decaying exponentials, as in relaxometry: neighbours are nearly equal."""
    rng = np.random.default_rng(0)
    atoms = np.exp(-np.linspace(5, 500, 60) / np.geomspace(10, 2000, 400)[:, None])
    queries = (rng.random((60, 400)) * (rng.random((60, 400)) < 0.03)) @ atoms
    solve, calls = chunk.solve_carefully, []
    monkeypatch.setattr(chunk, "solve_carefully", lambda *a, **k: calls.append(1) or solve(*a, **k))
    solution = solve_active_set(atoms, queries, l1=l1, signed=l1 > 0)
    assert calls
    assert solution.converged.all()
    if l1 == 0:
        for query, code in zip(queries, solution.codes.toarray()):
            norm = scipy.optimize.nnls(atoms.T, query, maxiter=10_000)[1]
            assert objective(atoms, query, code) <= norm**2 + 1e-12 * (query @ query)


def test_budget_exhausted(mixture):
    atoms, queries = mixture
    for with_gram in (True, False):
        solution = solve_active_set(prepare_atoms(atoms, build_gram=with_gram), queries, max_iter=1)
        assert not solution.converged.all()
        codes = solution.codes.toarray()
        assert (codes >= 0).all()
        values = [objective(atoms, q, c) for q, c in zip(queries, codes)]
        best = [scipy.optimize.nnls(atoms.T, q)[1] ** 2 for q in queries]
        assert (solution.gap + 1e-12 >= np.array(values) - best).all()
        assert solution.violation[~solution.converged].min() > 1e-10


def test_nnls_shapes_and_errors():
    rng = np.random.default_rng(9)
    A, B = rng.random((8, 5)), rng.random((8, 3))
    solution = nnls(A, B)
    assert isinstance(solution.codes, sp.csr_array)
    assert solution.codes.shape == (3, 5)
    one = nnls(A, B[:, 0])
    assert one.codes.shape == (5,)
    assert one.codes == pytest.approx(scipy.optimize.nnls(A, B[:, 0])[0], abs=1e-12)
    assert nnls(A, B, dense=True).codes == pytest.approx(solution.codes.toarray())
    assert nnls(A.tolist(), B.tolist(), x0=solution.codes, gram=A.T @ A).converged.all()
    assert nnls(A, np.empty((8, 0))).codes.shape == (0, 5)
    for bad, words in [
        (lambda: nnls(A, B.T), "'B' parameter of nnls.*as many rows as A"),
        (lambda: nnls(A, B * np.nan), "Input B contains NaN"),
        (lambda: nnls(A, B, l1=-1), "'l1' parameter of nnls must be a float in .* Got -1"),
        (lambda: lasso(A, B, 0), "'l1' parameter of lasso must be a float in"),
        (lambda: nnls(A[0], B), "Expected 2D array"),
        (lambda: nnls(A, B, gram=A), "'gram' parameter of nnls"),
        (lambda: nnls(A, B, x0=A), "'x0' parameter of nnls"),
        (lambda: nnls(A + 1j, B), "Complex data not supported"),
    ]:
        with pytest.raises(ValueError, match=words):
            bad()
    with pytest.raises(
        TypeError, match=r"'A' parameter of nnls must be a dense array.*Pass A\.toarray\(\)\."
    ):
        nnls(sp.csr_array(A), B)


def test_warning_says_what_to_do():
    with pytest.warns(ConvergenceWarning, match=r"Raise tol"):
        nnls(np.random.default_rng(0).random((20, 40)), np.ones(20), tol=1e-40)


CONCURRENT = """
import threading
import numpy as np
from threadpoolctl import threadpool_info
from residuum.solvers.active_set import solve_active_set
rng = np.random.default_rng(0)
atoms, queries = rng.random((300, 40)), rng.random((300, 40))
limits = [pool["num_threads"] for pool in threadpool_info()]
expected = solve_active_set(atoms, queries, n_jobs=1).codes.toarray()
wrong = []
def call(n_jobs):
    for _ in range(4):
        if np.abs(solve_active_set(atoms, queries, n_jobs=n_jobs).codes.toarray() - expected).max() > 1e-12:
            wrong.append(n_jobs)
threads = [threading.Thread(target=call, args=(1 + k % 3,)) for k in range(6)]
[t.start() for t in threads]; [t.join() for t in threads]
assert not wrong, wrong
assert [pool["num_threads"] for pool in threadpool_info()] == limits
print("done")
"""


def test_concurrent_calls():
    """Several Python threads at once: right answers, and the BLAS thread limit is given back."""
    out = subprocess.run(
        [sys.executable, "-c", CONCURRENT], capture_output=True, text=True, timeout=120, check=False
    )
    assert out.stdout.strip() == "done", out.stderr
