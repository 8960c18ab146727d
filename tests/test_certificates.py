"""No certificate lies: gaps against exact rational arithmetic, on problems made to deceive."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import search_for_lies
from search_for_lies import exact_value, search
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from residuum import NRC, SRC, lasso, nnls
from residuum.dictionary import Dictionary, inner_direction
from residuum.problem import CodingProblem
from residuum.solvers.active_set import exact

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def excess(A, b, code, rival, l1=0.0, l2=0.0):
    """By how much a rival is better, over ||b||^2, exactly."""
    energy = sum((Fraction(float(v)) ** 2 for v in b), Fraction(0))
    return (exact_value(A, b, code, l1, l2) - exact_value(A, b, rival, l1, l2)) / energy


def nearly_opposite(jitter, seed, n=12, d=8):
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    signs = rng.choice([-1.0, 1.0], n)
    A = np.outer(direction / np.linalg.norm(direction), signs) + jitter * rng.standard_normal((d, n))
    return A, rng.standard_normal(d)


def test_two_nearly_opposite_atoms():
    """Neither lowers the objective by more than 1e-16, both together make it vanish."""
    A, b = np.array([[1, -1], [1e-8, 1e-8]]), np.array([0.0, 1.0])
    for tol in (1e-6, 1e-10):
        solution = nnls(A, b, tol=tol)
        assert exact_value(A, b, solution.codes, 0, 0) < 1e-14
        assert solution.converged[0]


@pytest.mark.parametrize("jitter", [1e-4, 1e-6, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13])
def test_nearly_opposite_atoms_vs_scipy(jitter):
    for seed in range(8):
        A, b = nearly_opposite(jitter, seed)
        solution = nnls(A, b)
        worse = excess(A, b, solution.codes, scipy.optimize.nnls(A, b)[0])
        assert worse <= Fraction(float(solution.gap[0]))
        if jitter >= 1e-10:
            assert solution.converged[0]
            assert worse <= 1e-10


def test_what_cannot_be_proved_is_not_claimed():
    """The codes of the optimum, 5e16, are beyond what can be computed with: the gap is the objective."""
    A, b = np.array([[1, -1], [1e-17, 1e-17]]), np.array([0.0, 1.0])
    solution = nnls(A, b)
    assert excess(A, b, solution.codes, np.array([5e16, 5e16])) <= Fraction(float(solution.gap[0]))
    assert not solution.converged[0]


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_mirrored_columns_are_certified(kind, factor):
    """Free variables as differences of two: no direction lies inside such a cone."""
    rng = np.random.default_rng(0)
    half = rng.standard_normal((30, 12)).astype(kind)
    A, B = np.hstack([half, -factor * half]).astype(kind), rng.standard_normal((30, 20)).astype(kind)
    solution = nnls(A, B, dense=True)
    assert solution.converged.all()
    assert solution.gap.max() <= 1e-20
    A, B, half = (array.astype(np.float64) for array in (A, B, half))
    free = half @ np.linalg.lstsq(half, B, rcond=None)[0]
    fitted = A @ solution.codes.T
    assert fitted == pytest.approx(free, abs=1e-12)


def test_atoms_that_are_nearly_mirrored_are_not_taken_for_mirrored():
    """Three times a column is rounded, so that the cone has directions in which it is 1e-16 wide."""
    rng = np.random.default_rng(1)
    half = rng.standard_normal((9, 4))
    A, b = np.hstack([half, -3 * half]), rng.standard_normal(9)
    solution = nnls(A, b)
    assert solution.gap[0] >= 0.1
    assert not solution.converged[0]


def test_nearly_duplicates_are_looked_at():
    """Of the first two atoms only one may carry weight; with the third they reach everything."""
    A, b = np.array([[1.0, 1.0, -1.0], [0.0, 1e-16, 0.0]]), np.array([0.0, 1.0])
    solution = nnls(A, b)
    assert excess(A, b, solution.codes, np.array([0.0, 1e16, 1e16])) <= Fraction(float(solution.gap[0]))
    assert not solution.converged[0]


def test_scaled_duplicates_are_certified():
    """Three times a column is rounded here too, but the atoms lie in a half space."""
    rng = np.random.default_rng(2)
    half = rng.standard_normal((100, 90))
    solution = nnls(np.hstack([half, 3 * half]), rng.standard_normal((100, 10)))
    assert solution.converged.all()
    assert solution.gap.max() <= 1e-12


def test_ties_between_exactly_dependent_atoms_are_certified():
    """Integers: atoms off the support are in its span, their prices are zero, and no half space holds all."""
    base = np.array([[1, 2, 0, 1, -1], [0, 1, 1, 3, 2], [2, 0, 1, -1, 1]], dtype=float).T
    A = base @ np.array([[1, -1, 0, 0, 1, 2, -3], [0, 0, 1, -1, 1, -1, 1], [1, -1, 2, 1, -2, 0, -1]])
    solution = nnls(A, np.array([[1, 2, 3, 4, 5], [5, -1, 2, -2, 1]], dtype=float).T)
    assert solution.converged.all()
    assert solution.gap.max() <= 1e-20


def test_a_wrong_gram_is_refused():
    rng = np.random.default_rng(3)
    A, B = rng.random((20, 15)), rng.random((20, 4))
    gram = A.T @ A
    single = gram.copy()
    single[2, 7] += 0.5
    for wrong in (2 * gram, gram + np.eye(15), -gram, np.diag(np.diagonal(gram)), single, gram[::-1]):
        with pytest.raises(ValueError, match=r"'gram' parameter must be A\.T @ A"):
            nnls(A, B, gram=wrong)
        with pytest.raises(ValueError, match="'gram' parameter"):
            lasso(A, B, 0.1, gram=wrong)
    assert nnls(A, B, gram=gram.astype(np.float32)).converged.all()
    assert nnls(1e8 * A, B, gram=1e16 * gram).converged.all()


def test_a_slightly_wrong_gram_changes_no_answer():
    """Too little to be seen at once, but enough to hide the second atom."""
    gram = np.eye(3)
    gram[0, 1] = gram[1, 0] = 1.5e-5
    b = np.array([1.0, 1e-5, -1.0])
    solution = nnls(np.eye(3), b, gram=gram)
    assert solution.codes == pytest.approx([1.0, 1e-5, 0.0], abs=1e-14)
    assert solution.converged[0]


EXTREMES = {
    "overflow": (1e-310, 1.0, {}),
    "overflow with a large b": (1e-300, 1e200, {}),
    "underflow": (1e300, 1e-300, {}),
    "both tiny": (1e-310, 1e-310, {}),
    "both huge": (1e300, 1e300, {}),
    "subnormal": (1.0, 5e-324, {}),
    "huge l2": (1.0, 1.0, {"l2": 1e300}),
    "larger l2": (1e-100, 1.0, {"l2": 1e300}),
    "tiny l2": (1.0, 1.0, {"l2": 1e-320}),
    "huge l1": (1.0, 1.0, {"l1": 1e308}),
    "tiny l1": (1.0, 1.0, {"l1": 5e-324}),
    "tiny tol": (1.0, 1.0, {"tol": 1e-300}),
}
HOPELESS = {"overflow", "overflow with a large b", "underflow", "subnormal", "tiny tol"}


@pytest.mark.parametrize("name", sorted(EXTREMES))
@pytest.mark.parametrize("signed", [False, True])
def test_extremes(name, signed):
    size, length, options = EXTREMES[name]
    rng = np.random.default_rng(5)
    A, b = rng.standard_normal((9, 6)), rng.standard_normal(9)
    A, b = A * size, np.full(9, length) if length < 1e-310 else b * length
    options = {"l1": min(1e-3 * size * length, 1e300) if signed else 0.0, **options}
    solution = lasso(A, b, max(options.pop("l1"), 5e-324), **options) if signed else nnls(A, b, **options)
    assert np.isfinite(solution.codes).all()
    assert np.isfinite([solution.gap, solution.violation]).all()
    assert not solution.converged[0] or solution.gap[0] <= options.get("tol", 1e-10)
    assert solution.converged[0] == (name not in HOPELESS)
    if name != "subnormal":
        assert solution.gap[0] <= 1 + 1e-12  # zero is a feasible code


def test_overflowing_codes_are_shortened():
    A, b = np.diag([1e-310, 1e-309]), np.array([1.0, 1.0])
    solution = nnls(A, b)
    assert solution.codes.max() > 1e307
    assert solution.codes[0] / solution.codes[1] == pytest.approx(10)
    true = [1 - float(Fraction(A[i, i]) * Fraction(solution.codes[i])) for i in range(2)]
    assert sum(v * v for v in true) / 2 <= solution.gap[0]
    with pytest.warns(ConvergenceWarning, match=r"largest gap 9\.\de-01"):
        nnls(A, b)


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize("tol", [1e-10, 1e-30])
@pytest.mark.parametrize("make", [lambda tol: SRC(tol=tol), lambda tol: NRC(solver="exact", tol=tol)])
def test_classifiers_end_and_certify(make, tol, kind):
    X, labels = load_digits(return_X_y=True)
    X = X.astype(kind)
    solution = make(tol).fit(X[:200], labels[:200]).solve(X[200:210])
    assert (solution.converged == (tol == 1e-10)).all()
    assert solution.gap.max() <= 1e-13


@pytest.mark.parametrize("kind", [np.float64, np.float32])
@pytest.mark.parametrize(
    "problem",
    [
        CodingProblem(neg_weight=math.inf),
        CodingProblem(l1=0.05),
        CodingProblem(l1=0.05, neg_weight=math.inf),
        CodingProblem(l2=0.01),
        CodingProblem(neg_weight=3.0),
        CodingProblem(l1=0.02, neg_weight=3.0),
        CodingProblem(l2=0.01, neg_weight=0.5),
    ],
    ids=str,
)
def test_gap_of_a_problem_vs_better_codes(problem, kind):
    """Codes at any distance from the minimum; the minimum by coordinate descent, compared exactly."""
    rng = np.random.default_rng(6)
    atoms = rng.random((7, 5)) + 0.1
    atoms = (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(kind)
    dictionary = Dictionary(atoms, np.array([0, 7]), np.arange(7))
    queries = rng.standard_normal((6, 5)).astype(kind)
    best = np.zeros((6, 7))
    X = atoms.astype(float)
    own = np.sum(X**2, axis=1)
    for _, j in itertools.product(range(3000), range(7)):
        slope = (queries - best @ X) @ X[j] + own[j] * best[:, j]
        best[:, j] = _least(problem, slope, own[j])
    for size in (0.0, 1e-14, 1e-9, 1e-4, 1.0):
        codes = best + size * rng.standard_normal(best.shape)
        codes = np.maximum(codes, 0) if math.isinf(problem.neg_weight) else codes
        gaps = problem.gap(dictionary, queries, codes)
        for q, code, least, gap in zip(queries, codes, best, gaps, strict=True):
            energy = sum((Fraction(float(v)) ** 2 for v in q), Fraction(0))
            better = _exact_objective(problem, X.T, q, code) - _exact_objective(problem, X.T, q, least)
            assert better / energy <= Fraction(float(gap))
        if size == 0 and (problem.l2 or problem.l1 or math.isinf(problem.neg_weight)):
            assert gaps.max() <= 1e-10


def _least(problem, slope, own):
    """argmin_c own c^2 - 2 slope c + penalty of one code."""
    up = np.maximum(slope - problem.l1 / 2, 0) / (own + problem.l2)
    down = np.minimum(slope + problem.l1 / 2, 0) / (own + problem.l2 + problem.neg_weight)
    return up + down


def _exact_objective(problem, A, b, code):
    below = sum((Fraction(float(c)) ** 2 for c in code if c < 0), Fraction(0))
    value = exact_value(A, b, code, problem.l1, problem.l2)
    return value + (Fraction(problem.neg_weight) * below if below else 0)


@pytest.mark.parametrize("l2", [0.0, 1e-300, 1e-20, 1.0, 1e300])
@pytest.mark.parametrize("neg_weight", [0.0, 1e-300, 1.0, 1e300, math.inf])
@pytest.mark.parametrize("size", [0.0, 1e-300, 1.0, 1e160, 1e300, np.inf, np.nan])
def test_gap_of_a_problem_is_always_a_number(l2, neg_weight, size):
    rng = np.random.default_rng(7)
    dictionary = Dictionary(np.eye(4), np.array([0, 4]), np.arange(4))
    codes = size * np.abs(rng.standard_normal((3, 4)))
    for queries in (rng.standard_normal((3, 4)), np.zeros((3, 4)), np.full((3, 4), 1e-200)):
        gaps = CodingProblem(l2=l2, neg_weight=neg_weight).gap(dictionary, queries, codes)
        assert not np.isnan(gaps).any()
        assert np.isinf(gaps).all() or np.isfinite(size)


def test_inner_direction_really_lies_inside():
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((40, 50)).astype(np.float32) + np.float32(0.6)
    scale = 1 / np.linalg.norm(rows, axis=1)
    inner = inner_direction(rows, scale)
    products = [
        sum(map(Fraction.__mul__, map(Fraction, row.tolist()), map(Fraction, inner.tolist()))) for row in rows
    ]
    assert min(Fraction(s) * product for s, product in zip(scale.tolist(), products, strict=True)) >= 1
    assert len(inner_direction(np.vstack([rows, -rows]), np.concatenate([scale, scale]))) == 0


def test_exact_dependence_vs_rational_arithmetic():
    rng = np.random.default_rng(9)
    basis = rng.standard_normal((3, 6))
    whole = np.round(rng.standard_normal((3, 6)) * 2**20) / 2**20  # sums and products of these are exact
    combination = 3 * whole[0] - 5 * whole[1] + 0.25 * whole[2]
    assert exact.are_combinations(np.vstack([combination, 1e300 * whole[:1]]), whole).tolist() == [
        True,
        False,
    ]
    assert not exact.are_combinations((combination * (1 + 2.0**-40 * np.eye(6)[0]))[None], whole).any()
    assert not exact.are_combinations(basis[:2].sum(axis=0)[None], basis).any()  # rounded
    assert exact.are_combinations(-basis * 2.0**-900, basis).all()
    rows = np.vstack([basis, basis])
    factors = np.array([2.0, -(2.0**-500), 1.0, 3.0, 0.1, -1.0])
    scaled = rows * factors[:, None]
    proportional = [
        len({Fraction(a) / Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)}) == 1
        for x, y in zip(scaled, rows, strict=True)
    ]
    assert exact.are_multiples(scaled, rows).tolist() == proportional
    assert proportional == [True, True, True, False, False, True]


def test_search_finds_no_lie():
    report = search(2000, seed=1)
    assert not report["lies"]
    assert report["counts"]["converged"] >= 1800


@pytest.mark.parametrize("lie", ["gap", "converged", "number"])
def test_search_finds_lies(lie, monkeypatch):
    """A certificate that promises a little too much is found out."""

    def lying(*args, **options):
        solution = nnls(*args, **options)
        if lie == "gap":
            return replace(solution, gap=np.zeros_like(solution.gap), converged=solution.converged & False)
        if lie == "converged":
            return replace(solution, converged=solution.converged | True)
        return replace(solution, violation=solution.violation * np.nan, converged=solution.converged & False)

    monkeypatch.setattr(search_for_lies, "nnls", lying)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = search(800, seed=2)
    assert report["counts"][f"lies: {lie}"] > 0
