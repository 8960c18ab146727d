"""Codes on the simplex: against brute force and exact arithmetic, on problems of every shape."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from families import FAMILIES, duplicates, of_any_sign, opposite, tall, wide
from oracles import simplex_by_brute_force
from search_for_lies import exact_value
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from residuum import NRC, SimplexRC, SimplexRCCV
from residuum.dictionary import Dictionary, unit_rows
from residuum.problem import CodingProblem
from residuum.solvers import Simplex, simplex

RNG_SEED = 5


def problem_of(family, dtype=np.float64, seed=RNG_SEED):
    """A dictionary of one class, and unit queries: random, an atom, a mixture of atoms, zero."""
    rng = np.random.default_rng([seed, FAMILIES.index(family)])
    atoms = unit_rows(family(rng))[0].astype(dtype)
    mixture = rng.dirichlet(np.ones(len(atoms))) @ atoms
    queries = np.vstack([rng.standard_normal((6, atoms.shape[1])), rng.random((4, atoms.shape[1]))])
    queries = np.vstack([unit_rows(queries)[0], atoms[:1], mixture, np.zeros((1, atoms.shape[1]))])
    dictionary = Dictionary(atoms, np.array([0, len(atoms)]), np.arange(len(atoms)))
    return dictionary, queries.astype(dtype)


def solved(dictionary, queries, l2=0.0, **options):
    return Simplex(CodingProblem(l2=l2, neg_weight=math.inf), dictionary, **options).solve(queries)


def exact_excess(atoms, query, code, rival, l2):
    """By how much a rival, divided by its sum so that it lies on the simplex, is better: in fractions."""
    rival = [Fraction(float(v)) for v in rival]
    total = sum(rival)
    columns = [[Fraction(float(v)) for v in atom] for atom in atoms]
    rest = [Fraction(float(v)) for v in query]
    for share, column in zip(rival, columns, strict=True):
        rest = [r - share / total * x for r, x in zip(rest, column, strict=True)]
    best = sum(r * r for r in rest) + Fraction(l2) * sum((v / total) ** 2 for v in rival)
    return exact_value(atoms.T.astype(np.float64), query.astype(np.float64), code, 0, l2) - best


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("l2", [0.0, 1e-6, 0.1, 10.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_vs_brute_force(family, l2, dtype):
    dictionary, queries = problem_of(family, dtype)
    solution = solved(dictionary, queries, l2)
    codes = solution.codes.toarray()
    assert (codes >= 0).all()
    np.testing.assert_allclose(codes.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert solution.converged.all()
    for query, code, gap in zip(queries, codes, solution.gap, strict=True):
        rival, _ = simplex_by_brute_force(dictionary.atoms.T.astype(float), query.astype(float), l2)
        ahead = exact_excess(dictionary.atoms, query, code, rival, l2)
        energy = float(np.sum(query.astype(float) ** 2)) or 1.0
        assert ahead <= Fraction(float(gap)) * Fraction(energy)  # a proved bound
        assert abs(ahead) <= 1e-12
        if l2 >= 0.1:  # then the code is unique
            np.testing.assert_allclose(code, rival, rtol=0, atol=1e-7)


@pytest.mark.parametrize("family", [tall, of_any_sign, opposite])
def test_a_code_that_was_stopped_early_says_how_far_it_may_be_off(family, monkeypatch):
    """After one step the sums are wrong by some per cent."""
    monkeypatch.setattr(simplex, "STEPS", 1)
    dictionary, queries = problem_of(family)
    solution = solved(dictionary, queries[:10])
    codes = solution.codes.toarray()
    missed = np.abs(codes.sum(axis=1) - 1)
    assert (missed > 1e-4).any()
    assert (solution.violation >= missed).all()
    assert not solution.converged[missed > 1e-4].any()
    for query, code, gap in zip(queries, codes, solution.gap, strict=False):
        rival, _ = simplex_by_brute_force(dictionary.atoms.T, query)
        assert exact_excess(dictionary.atoms, query, code, rival, 0.0) <= Fraction(float(gap))


def test_a_tolerance_that_rounding_cannot_meet_is_not_met():
    dictionary, queries = problem_of(wide)
    solution = solved(dictionary, queries, tol=1e-25)
    assert not solution.converged.any()
    assert solution.gap.max() < 1e-10


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_thousands_of_atoms_are_proved_by_their_prices(l2):
    """Another proof: no other code is better than ``2 max_j p_j - 2 c'p`` with the prices p = X'r - l2 c."""
    rng = np.random.default_rng(0)
    atoms = unit_rows(np.abs(rng.standard_normal((3000, 10)) @ rng.standard_normal((10, 60))))[0]
    queries = unit_rows(np.abs(rng.standard_normal((40, 10)) @ rng.standard_normal((10, 60))))[0]
    dictionary = Dictionary(atoms, np.array([0, 3000]), np.arange(3000))
    solution = solved(dictionary, queries, l2)
    codes = solution.codes.toarray()
    prices = (queries - codes @ atoms) @ atoms.T - l2 * codes
    assert (2 * (prices.max(axis=1) - np.sum(codes * prices, axis=1)) < 1e-12).all()
    assert (np.abs(codes.sum(axis=1) - 1) < 1e-12).all()
    assert solution.converged.all()
    assert solution.gap.max() < 1e-12
    assert solution.n_iter.max() <= 8  # secants, and not 15 steps that divide the error by 16


def test_no_code_depends_on_the_batch():
    dictionary, queries = problem_of(of_any_sign)
    together = solved(dictionary, queries).codes.toarray()
    alone = np.vstack([solved(dictionary, query[None]).codes.toarray() for query in queries])
    np.testing.assert_array_equal(together, alone)


def test_of_equal_atoms_the_first_takes_the_share():
    dictionary, queries = problem_of(duplicates)
    assert not solved(dictionary, queries).codes.toarray()[:, 4:].any()


def test_no_queries():
    dictionary, queries = problem_of(wide)
    solution = solved(dictionary, queries[:0])
    assert solution.codes.shape == (0, 8)
    assert solution.gap.shape == (0,)


@pytest.mark.parametrize("change", [{"l1": 0.1}, {"neg_weight": 1.0}, {"classwise": 0.5}, {"shared": 0.5}])
def test_other_problems_are_refused(change):
    with pytest.raises(ValueError, match="Codes that sum to one need shared=1"):
        Simplex(CodingProblem(**{"neg_weight": math.inf, **change}), problem_of(wide)[0])


def test_queries_inside_the_hull_are_reproduced():
    """Where the sum costs nothing, the code is also one of exact NRC."""
    rng = np.random.default_rng(0)
    X, y = rng.random((30, 50)), np.arange(30) % 3
    shares = rng.dirichlet(np.ones(30), 5)
    unit = unit_rows(X)[0]
    queries = unit_rows(shares @ unit)[0]
    model = SimplexRC().fit(X, y)
    np.testing.assert_allclose(model.encode(queries).sum(axis=1), 1, atol=1e-12)
    closer = NRC(solver="exact").fit(X, y).solve(queries)
    assert (np.linalg.norm(queries - closer.codes @ model.dictionary_.atoms, axis=1) < 1e-7).all()
    order = model.dictionary_.samples
    for scale in (1.0, 1e100):
        codes = model.encode(scale * unit[7:8]).toarray()
        np.testing.assert_allclose(codes[0], order == 7, atol=1e-7)


def test_a_ridge_spreads_the_shares():
    X, y = load_digits(return_X_y=True)
    support = [SimplexRC(l2=l2).fit(X[:200], y[:200]).encode(X[200:220]).nnz for l2 in (0, 0.1, 1)]
    assert support[0] < support[1] < support[2]


@pytest.mark.parametrize("rule", ["residual", "scaled_residual", "reconstruction"])
def test_every_class_ties_for_a_zero_query_as_in_other_classifiers(rule):
    """The code of zero is the point of the hull nearest to it, which says nothing of the classes."""
    X, y = np.array([[1.0, 0.1], [1, 0.2], [0.1, 1], [0.2, 1]]), ["a", "b", "c", "c"]
    model = SimplexRC(rule=rule).fit(X, y)
    with pytest.warns(UserWarning, match="Every class ties for them"):
        assert (model.residuals([[0, 0]]) == 1).all()
    queries = np.vstack([X, np.zeros((4, 2))])
    search = SimplexRCCV(l2s=[0], rules=[rule], cv=[(np.arange(4), np.arange(4, 8))])
    with pytest.warns(UserWarning, match="4 of 8 training samples are zero"):
        assert search.fit(queries, [*y, "a", "a", "a", "b"]).best_score_ == 0.75


def test_the_search_scores_like_grid_search_where_classes_differ_in_size():
    """Folds pad classes with zero atoms, which other codes leave at zero. On the simplex they take shares."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [15, 18, 20])
    X = rng.standard_normal((3, 4000))[y] + 6 * rng.standard_normal((53, 4000))  # nearly orthogonal samples
    search = SimplexRCCV(l2s=[0, 0.3], cv=3).fit(X, y)
    reference = GridSearchCV(SimplexRC(), {"l2": [0.3, 0]}, cv=3).fit(X, y)
    for fold in range(3):
        key = f"split{fold}_test_score"
        np.testing.assert_array_equal(search.cv_results_[key], reference.cv_results_[key])


def test_unconverged_codes_are_named():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="did not reach the tolerance of SimplexRC"):
        SimplexRC(tol=1e-25).fit(X[:50], y[:50]).predict(X[50:53])
