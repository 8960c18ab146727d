"""CodingProblem: value, gradient, violation, gap and prox against their definitions."""

import math

import numpy as np
import pytest
from conftest import make_case
from oracles import crc_code, src_code
from scipy.optimize import check_grad, minimize_scalar, nnls

from residuum.problem import CodingProblem

PROBLEMS = [
    CodingProblem(l2=0.1),
    CodingProblem(shared=0, classwise=1, l2=0.1),
    CodingProblem(shared=1.3, classwise=0.2, l2=0.1),
    CodingProblem(l2=0.1, neg_weight=2.0),
    CodingProblem(l1=0.2),
    CodingProblem(l1=0.2, l2=0.1, neg_weight=math.inf),
    CodingProblem(neg_weight=math.inf),
]


def literal_value(problem, case, query, code):
    X = case.dictionary.atoms.T
    G = X.T @ X
    B = np.zeros_like(G)
    for block in case.dictionary.blocks:
        B[block, block] = G[block, block]
    quadratic = problem.shared * G + problem.classwise * B + problem.l2 * np.eye(len(G))
    value = code @ quadratic @ code - 2 * code @ X.T @ query + problem.l1 * np.abs(code).sum()
    below = np.sum(np.minimum(code, 0) ** 2)
    return value + (problem.neg_weight * below if below else 0.0)


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_value_vs_literal_formula(case, problem):
    rng = np.random.default_rng(3)
    codes = rng.normal(size=(len(case.queries), case.dictionary.n_atoms))
    codes[::2] = np.abs(codes[::2])
    expected = [literal_value(problem, case, q, c) for q, c in zip(case.unit_queries, codes, strict=True)]
    np.testing.assert_allclose(problem.value(case.dictionary, case.unit_queries, codes), expected, rtol=1e-10)


@pytest.mark.parametrize("problem", PROBLEMS[:4], ids=str)
def test_gradient_vs_finite_differences(case, problem):
    dictionary, query = case.dictionary, case.unit_queries[:1]
    code = np.random.default_rng(4).normal(size=dictionary.n_atoms)
    error = check_grad(
        lambda c: problem.value(dictionary, query, c[None])[0],
        lambda c: problem.gradient(dictionary, query, c[None])[0],
        code,
    )
    assert error < 1e-4


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("point", [-2.0, -0.05, 0.0, 0.05, 0.7])
def test_prox_vs_scalar_search(problem, point):
    rho = 0.8

    def objective(z):
        below = min(z, 0) ** 2
        price = problem.neg_weight * below if below else 0.0
        return problem.l1 * abs(z) + price + rho / 2 * (z - point) ** 2

    lowest = 0 if math.isinf(problem.neg_weight) else -3
    best = minimize_scalar(objective, bounds=(lowest, 3), method="bounded", options={"xatol": 1e-10}).x
    assert problem.prox(np.array([point]), rho)[0] == pytest.approx(best, abs=1e-6)


def test_violation_is_the_kkt_violation_of_nnls():
    case = make_case("wide")
    X, Y = case.dictionary.atoms.T, case.unit_queries
    codes = np.abs(np.random.default_rng(5).normal(size=(len(Y), X.shape[1])))
    expected = [np.abs(np.minimum(c, X.T @ (X @ c - y))).max() for c, y in zip(codes, Y, strict=True)]
    np.testing.assert_allclose(
        CodingProblem(neg_weight=math.inf).violation(case.dictionary, Y, codes), expected
    )


@pytest.mark.parametrize("kind", ["tall", "wide", "duplicates", "zero_query"])
def test_gap_bounds_the_distance_to_the_minimum(kind):
    case = make_case(kind)
    if kind == "zero_query":
        case.samples, case.queries = np.abs(case.samples), np.abs(case.queries)  # an interior direction exists
    X, Y = case.dictionary.atoms.T, case.unit_queries
    rng = np.random.default_rng(6)
    minima = {
        CodingProblem(neg_weight=math.inf): lambda y: nnls(X, y)[0],
        CodingProblem(l2=0.1): lambda y: crc_code(X, y, 0.1),
        CodingProblem(l1=0.2): lambda y: src_code(X, y, 0.2),
    }
    for problem, minimiser in minima.items():
        best = np.array([minimiser(y) for y in Y])
        at_best = problem.value(case.dictionary, Y, best)
        energy = np.maximum(np.sum(Y**2, axis=1), 1e-300)
        for size in (1e-6, 1e-3, 1.0):
            codes = np.abs(best + size * rng.normal(size=best.shape))
            true_gap = (problem.value(case.dictionary, Y, codes) - at_best) / energy
            moving = np.sum(Y**2, axis=1) > 0
            assert (problem.gap(case.dictionary, Y, codes) >= true_gap - 1e-12)[moving].all()


def test_gap_vanishes_at_the_minimum_of_nnls_with_an_interior_direction():
    case = make_case("wide")
    case.samples, case.queries = np.abs(case.samples), np.abs(case.queries)
    X, Y = case.dictionary.atoms.T, case.unit_queries
    best = np.array([nnls(X, y)[0] for y in Y])
    assert CodingProblem(neg_weight=math.inf).gap(case.dictionary, Y, best).max() < 1e-12


def test_gap_is_refused_where_no_bound_is_known():
    case = make_case("tall")
    with pytest.raises(ValueError, match="No certificate"):
        CodingProblem(shared=2.0).gap(
            case.dictionary, case.unit_queries, np.zeros((7, case.dictionary.n_atoms))
        )
