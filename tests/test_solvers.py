"""Solvers against slow literal oracles, on every shape."""

import math
from itertools import islice

import numpy as np
import pytest
from oracles import (
    algorithm_2,
    crc_code,
    nsc_code,
    procrc_code,
    soft_code,
    src_code,
)
from scipy.optimize import nnls
from sklearn.linear_model import Lasso, Ridge

from residuum.problem import CodingProblem
from residuum.solvers import ADMM, ClosedForm

RIDGE = 0.05


def assert_codes(solution, expected, tol=1e-8):
    np.testing.assert_allclose(solution.codes, np.array(expected), atol=tol, rtol=0)


def test_crc_vs_normal_equations_and_ridge(case):
    X, Y = case.dictionary.atoms.T, case.unit_queries
    solution = ClosedForm(CodingProblem(l2=RIDGE), case.dictionary).solve(Y)
    assert_codes(solution, [crc_code(X, y, RIDGE) for y in Y])
    sklearn_ridge = Ridge(alpha=RIDGE, fit_intercept=False, solver="svd").fit(X, Y.T)
    assert_codes(solution, sklearn_ridge.coef_)
    assert solution.violation.max() < 1e-12
    assert solution.gap.max() < 1e-12


def test_nsc_vs_lstsq_per_class(case):
    solution = ClosedForm(CodingProblem(shared=0, classwise=1, l2=RIDGE), case.dictionary).solve(
        case.unit_queries
    )
    assert_codes(solution, [nsc_code(case.blocks, y, RIDGE) for y in case.unit_queries])
    assert solution.violation.max() < 1e-12


def test_procrc_vs_bfgs_on_literal_objective(case):
    gamma = 0.7
    problem = CodingProblem(shared=1 + gamma * (3 - 2) / 3, classwise=gamma / 3, l2=RIDGE)
    solution = ClosedForm(problem, case.dictionary).solve(case.unit_queries)
    assert_codes(solution, [procrc_code(case.blocks, y, RIDGE, gamma) for y in case.unit_queries], 1e-6)
    assert solution.violation.max() < 1e-12


@pytest.mark.parametrize(
    "problem",
    [
        CodingProblem(l2=RIDGE),
        CodingProblem(shared=0, classwise=1, l2=RIDGE),
        CodingProblem(shared=1.2, classwise=0.3, l2=RIDGE),
    ],
)
def test_many_queries_at_once_vs_one_by_one(case, problem):
    """Many rows go through the inverse of a matrix, few through its Cholesky factor."""
    Y = np.concatenate([case.unit_queries] * 20)
    solver = ClosedForm(problem, case.dictionary)
    one_by_one = [solver.solve(y[None]).codes[0] for y in case.unit_queries]
    assert_codes(solver.solve(Y), one_by_one * 20, 1e-12)


@pytest.mark.parametrize("rho", [0.1, 1.0, 10.0])
def test_admm_vs_algorithm_2(case, rho):
    X, Y = case.dictionary.atoms.T, case.unit_queries
    steps = ADMM(CodingProblem(neg_weight=math.inf), case.dictionary, rho=rho).steps(Y)
    found = list(islice(steps, 6))
    for i, y in enumerate(Y):
        for (c, z), pair in zip(algorithm_2(X, y, rho, 6), found, strict=True):
            np.testing.assert_allclose([pair[0][i], pair[1][i]], [c, z], atol=1e-9)


def test_admm_makes_exactly_the_steps_asked_for(case):
    problem = CodingProblem(neg_weight=math.inf)
    solution = ADMM(problem, case.dictionary, rho=0.5, max_iter=3).solve(case.unit_queries)
    X = case.dictionary.atoms.T
    assert_codes(solution, [algorithm_2(X, y, 0.5, 3)[-1][1] for y in case.unit_queries])
    assert (solution.n_iter == 3).all()


def test_admm_to_convergence_vs_scipy_nnls(case):
    X, Y = case.dictionary.atoms.T, case.unit_queries
    solver = ADMM(CodingProblem(neg_weight=math.inf), case.dictionary, rho=0.5, tol=1e-11, max_iter=200_000)
    solution = solver.solve(Y)
    assert solution.converged.all()
    assert solution.violation.max() < 1e-9
    for y, code in zip(Y, solution.codes, strict=True):
        # Codes need not be unique; what they reach is.
        assert np.linalg.norm(y - X @ code) == pytest.approx(nnls(X, y)[1], abs=1e-8)


def test_admm_l1_vs_lasso(case):
    l1 = 0.1
    X, Y = case.dictionary.atoms.T, case.unit_queries
    problem = CodingProblem(l1=l1)
    solution = ADMM(problem, case.dictionary, rho=0.5, tol=1e-12, max_iter=200_000).solve(Y)
    lasso = Lasso(alpha=l1 / (2 * len(X)), fit_intercept=False, tol=1e-14, max_iter=10**6)
    for i, y in enumerate(Y):
        ours = np.sum((y - X @ solution.codes[i]) ** 2) + l1 * np.abs(solution.codes[i]).sum()
        for code in (src_code(X, y, l1), lasso.fit(X, y).coef_):
            assert ours <= np.sum((y - X @ code) ** 2) + l1 * np.abs(code).sum() + 1e-10
    assert solution.gap.max() < 1e-9


@pytest.mark.parametrize("neg_weight", [0.0, 0.3, 1.0, 100.0])
def test_admm_neg_weight_vs_newton_on_literal_objective(case, neg_weight):
    X, Y = case.dictionary.atoms.T, case.unit_queries
    problem = CodingProblem(l2=RIDGE, neg_weight=neg_weight)
    solution = ADMM(problem, case.dictionary, rho=0.3, tol=1e-12, max_iter=200_000).solve(Y)
    assert_codes(solution, [soft_code(X, y, RIDGE, neg_weight) for y in Y])
    assert solution.gap.max() < 1e-12


def test_admm_with_classwise_part_vs_closed_form(case):
    problem = CodingProblem(shared=1.2, classwise=0.4, l2=RIDGE)
    linear = ClosedForm(problem, case.dictionary).solve(case.unit_queries)
    iterated = ADMM(problem, case.dictionary, rho=0.3, tol=1e-12, max_iter=200_000).solve(case.unit_queries)
    assert_codes(iterated, linear.codes, 1e-9)


def test_admm_stops_each_query_on_its_own(case):
    solver = ADMM(CodingProblem(neg_weight=math.inf), case.dictionary, rho=0.5, tol=1e-7, max_iter=100_000)
    together = solver.solve(case.unit_queries)
    for i, query in enumerate(case.unit_queries):
        alone = solver.solve(query[None])
        assert alone.n_iter[0] == together.n_iter[i]
        np.testing.assert_allclose(alone.codes[0], together.codes[i], atol=1e-12)


def test_admm_out_of_budget_is_not_converged(case):
    solver = ADMM(CodingProblem(neg_weight=math.inf), case.dictionary, rho=0.5, tol=1e-14, max_iter=2)
    solution = solver.solve(case.unit_queries)
    moving = np.abs(case.unit_queries).max(axis=1) > 0
    assert not solution.converged[moving].any()
    assert (solution.n_iter[moving] == 2).all()


def test_closed_form_refuses_what_it_cannot_solve(case):
    with pytest.raises(ValueError, match="l2 > 0"):
        ClosedForm(CodingProblem(l1=0.1, l2=1), case.dictionary)
    with pytest.raises(ValueError, match="l2 > 0"):
        ClosedForm(CodingProblem(), case.dictionary)
