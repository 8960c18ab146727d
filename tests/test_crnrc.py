"""Class-wise residuals in the exact engine: against SciPy on stacked matrices and exact arithmetic."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from families import FAMILIES, of_any_sign, rank_deficient, tall, wide
from scipy.optimize import nnls as scipy_nnls
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from residuum import CRNRC, NRC
from residuum.dictionary import Dictionary, unit_rows
from residuum.problem import CodingProblem
from residuum.solvers import ActiveSet
from residuum.solvers.active_set import atoms as engine_atoms
from residuum.solvers.active_set import chunk

GAMMAS = [1e-6, 0.1, 1.0, 100.0]


def problem_of(family, dtype=np.float64):
    """Atoms in up to three classes, and unit queries: random, an atom, a mixture of atoms, zero."""
    rng = np.random.default_rng([7, FAMILIES.index(family)])
    atoms = unit_rows(family(rng))[0].astype(dtype)
    queries = np.vstack([rng.standard_normal((6, atoms.shape[1])), rng.random((4, atoms.shape[1]))])
    mixture = rng.dirichlet(np.ones(len(atoms))) @ atoms
    queries = np.vstack([unit_rows(queries)[0], atoms[:1], mixture, np.zeros((1, atoms.shape[1]))])
    starts = np.unique([0, len(atoms) // 3, len(atoms) // 2, len(atoms)])
    return Dictionary(atoms, starts, np.arange(len(atoms))), queries.astype(dtype)


def weights(gamma):
    return CodingProblem(shared=1 / (1 + gamma), classwise=gamma * (1 / (1 + gamma)), neg_weight=math.inf)


def solved(dictionary, queries, gamma, **options):
    return ActiveSet(weights(gamma), dictionary, **options).solve(queries)


def stacked(dictionary, query, gamma):
    """The slow oracle: rows whose squares sum to the objective."""
    problem, X = weights(gamma), dictionary.atoms.T.astype(np.float64)
    rows, right = [math.sqrt(problem.shared) * X], [math.sqrt(problem.shared) * query]
    for block in dictionary.blocks:
        only = np.zeros_like(X)
        only[:, block] = X[:, block]
        rows.append(math.sqrt(problem.classwise) * only)
        right.append(math.sqrt(problem.classwise) * query)
    return np.vstack(rows), np.concatenate(right)


def exact_value(dictionary, query, code, gamma):
    """The objective in fractions: ``shared ||y - Xc||^2 + classwise sum_k ||y - X_k c_k||^2``."""
    problem = weights(gamma)
    y, whole, total = [Fraction(float(v)) for v in query], [Fraction(0)] * len(query), Fraction(0)
    for block in dictionary.blocks:
        part = [Fraction(0)] * len(y)
        for c, atom in zip(code[block], dictionary.atoms[block], strict=True):
            if c:
                part = [p + Fraction(float(c)) * Fraction(float(x)) for p, x in zip(part, atom, strict=True)]
        total += Fraction(problem.classwise) * sum((a - p) ** 2 for a, p in zip(y, part, strict=True))
        whole = [w + p for w, p in zip(whole, part, strict=True)]
    return total + Fraction(problem.shared) * sum((a - w) ** 2 for a, w in zip(y, whole, strict=True))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("family", FAMILIES)
def test_vs_scipy_on_stacked_matrices(family, gamma, dtype):
    dictionary, queries = problem_of(family, dtype)
    solution = solved(dictionary, queries, gamma)
    codes = solution.codes.toarray()
    assert (codes >= 0).all()
    np.testing.assert_array_less(weights(gamma).violation(dictionary, queries, codes), 1e-7)
    for query, code, gap in zip(queries, codes, solution.gap, strict=True):
        rival, _ = scipy_nnls(*stacked(dictionary, query.astype(np.float64), gamma), maxiter=1000)
        ahead = exact_value(dictionary, query, code, gamma) - exact_value(dictionary, query, rival, gamma)
        energy = sum(Fraction(float(v)) ** 2 for v in query)
        assert ahead <= Fraction(float(gap)) * energy  # a proved bound
        assert ahead <= 1e-12
    if family is not rank_deficient:  # its atoms depend on each other up to rounding, as in exact NRC
        assert solution.converged.all()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_gram_matrix_classes_are_priced_one_by_one(family, monkeypatch):
    dictionary, queries = problem_of(family)
    expected = solved(dictionary, queries, 1.0)
    monkeypatch.setattr(engine_atoms, "GRAM_BYTES", 0)
    found = solved(dictionary, queries, 1.0)
    values = [weights(1.0).value(dictionary, queries, each.codes.toarray()) for each in (found, expected)]
    np.testing.assert_allclose(*values, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.converged, expected.converged)


@pytest.mark.parametrize("gram_bytes", [0, 1 << 30])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_thousands_of_atoms_are_proved_by_their_prices(dtype, gram_bytes, monkeypatch):
    """By the violation from the formula of the problem, on both ways to price atoms."""
    monkeypatch.setattr(engine_atoms, "GRAM_BYTES", gram_bytes)
    rng = np.random.default_rng(0)
    made = np.abs(rng.standard_normal((1540, 10)) @ rng.standard_normal((10, 60)))
    made = unit_rows(made)[0].astype(dtype)
    dictionary = Dictionary(made[:1500], np.arange(0, 1501, 75), np.arange(1500))
    solution = solved(dictionary, made[1500:], 1.0)
    codes = solution.codes.toarray()
    assert weights(1.0).violation(dictionary, made[1500:], codes).max() < 1e-10
    assert solution.converged.all()
    assert solution.gap.max() < 1e-10
    alone = np.vstack([solved(dictionary, query[None], 1.0).codes.toarray() for query in made[1500:]])
    np.testing.assert_allclose(codes, alone, atol=1e-10)  # no code depends on the batch


@pytest.mark.parametrize("gamma", [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1.0])
def test_duplicates_in_two_classes_are_proved_where_atoms_span_the_plane(gamma):
    """Two atoms without weight depend on one with weight, and the duplicates nearly on each other."""
    atoms = unit_rows(np.array([[-1.0, 0], [0, -1], [1, 1], [1, 1]]))[0]
    solution = solved(Dictionary(atoms, np.array([0, 3, 4]), np.arange(4)), atoms[3:], gamma)
    assert solution.converged.all()
    assert solution.gap.max() < 1e-13
    np.testing.assert_allclose(solution.codes.toarray()[0, :2], 0)


@pytest.mark.parametrize("n_alone", [1, 3])
def test_long_atoms_give_the_same_code_alone(n_alone, monkeypatch):
    """NumPy's einsum sums one row of more than 8,192 entries in another order than several."""
    monkeypatch.setattr(engine_atoms, "GRAM_BYTES", 0)
    rng = np.random.default_rng(1)
    atoms = unit_rows(np.abs(rng.standard_normal((60, 5)) @ rng.standard_normal((5, 900))))[0]
    dictionary = Dictionary(atoms, np.arange(0, 61, 6), np.arange(60))
    queries = unit_rows(rng.random((6, 900)))[0]
    together = solved(dictionary, queries, 1.0).codes.toarray()
    alone = solved(dictionary, queries[:n_alone], 1.0).codes.toarray()
    np.testing.assert_array_equal(together[:n_alone], alone)


def test_no_copy_of_the_atoms_is_made(monkeypatch):
    """With 40 classes the stacked atoms would take 41 times the memory of the atoms."""
    monkeypatch.setattr(engine_atoms, "GRAM_BYTES", 0)
    rng = np.random.default_rng(0)
    atoms = unit_rows(rng.random((4000, 50)))[0]
    dictionary = Dictionary(atoms, np.arange(0, 4001, 100), np.arange(4000))
    solved(dictionary, atoms[:1], 1.0)  # compiles
    tracemalloc.start()
    solver = ActiveSet(weights(1.0), dictionary)
    solver.solve(atoms[:20] + 0.1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * atoms.nbytes


@pytest.mark.parametrize("family", [tall, wide, of_any_sign])
def test_between_exact_nrc_and_every_class_alone(family):
    dictionary, queries = problem_of(family)
    nothing = ActiveSet(CodingProblem(neg_weight=math.inf), dictionary).solve(queries).codes.toarray()
    residuals = [queries - solved(dictionary, queries, 1e-12).codes @ dictionary.atoms]
    residuals += [queries - nothing @ dictionary.atoms]
    np.testing.assert_allclose(*residuals, atol=1e-7)
    codes = solved(dictionary, queries, 1e12).codes.toarray()
    for block in dictionary.blocks:
        X = dictionary.atoms[block].T
        for query, code in zip(queries, codes[:, block], strict=True):
            np.testing.assert_allclose(X @ code, X @ scipy_nnls(X, query)[0], atol=1e-7)


def test_of_equal_atoms_of_a_class_the_first_is_used_and_every_class_has_its_own():
    half = np.random.default_rng(0).random((3, 5))
    atoms = unit_rows(np.vstack([half, half, half]))[0]
    queries = unit_rows(np.random.default_rng(1).random((8, 5)))[0]
    codes = solved(Dictionary(atoms, np.array([0, 6, 9]), np.arange(9)), queries, 1.0).codes.toarray()
    assert not codes[:, 3:6].any()
    np.testing.assert_allclose(codes[:, :3], codes[:, 6:], atol=1e-9)


@pytest.mark.parametrize("change", [{"shared": 1.0}, {"classwise": 0.6}, {"neg_weight": 1.0}])
def test_other_problems_are_refused(change):
    problem = {"shared": 0.5, "classwise": 0.5, "neg_weight": math.inf, **change}
    with pytest.raises(ValueError, match=r"needs weights shared \+ classwise = 1"):
        ActiveSet(CodingProblem(**problem), problem_of(wide)[0])


def test_the_classifier_solves_its_problem():
    X, y = load_digits(return_X_y=True)
    model = CRNRC(gamma=3.0).fit(X[:200], y[:200])
    query = X[200] / np.linalg.norm(X[200])
    expected = scipy_nnls(*stacked(model.dictionary_, query, 3.0))[0]
    np.testing.assert_allclose(model.encode(X[200:201]).toarray()[0], expected, atol=1e-8)
    assert model.score(X[200:400], y[200:400]) >= NRC(solver="exact").fit(X[:200], y[:200]).score(
        X[200:400], y[200:400]
    )


def test_unconverged_codes_are_named():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="did not reach the tolerance of CRNRC"):
        CRNRC(tol=1e-25).fit(X[:50], y[:50]).predict(X[50:53])


def test_many_classes_of_many_features_are_proved_by_the_kernels(monkeypatch):
    """The error of a price goes with the features, not with features times classes."""
    monkeypatch.setattr(chunk, "solve_carefully", lambda *_, **__: pytest.fail("more digits"))
    rng = np.random.default_rng(0)
    X, y = np.abs(rng.standard_normal((400, 1500))), np.repeat(np.arange(200), 2)
    model = CRNRC(gamma=0.1, n_jobs=1).fit(X, y)
    assert model.solve(np.abs(rng.standard_normal((1, 1500)))).converged.all()
