"""Closed forms from class moments against the same from atoms, and against literal oracles."""

import numpy as np
import pytest
from conftest import KINDS, make_case
from oracles import crc_code, nsc_code, procrc_code

from residuum import CRC, CROC, NSC, ProCRC
from residuum.dictionary import Dictionary
from residuum.problem import CodingProblem
from residuum.rules import RULES, CodedParts
from residuum.solvers import ClosedForm

PROBLEMS = {
    "CRC": CodingProblem(l2=0.02),
    "CRC, least l2": CodingProblem(l2=1e-4),
    "NSC": CodingProblem(shared=0, classwise=1, l2=0.02),
    "NSC, least l2": CodingProblem(shared=0, classwise=1, l2=1e-4),
    "class by class with another weight": CodingProblem(shared=0, classwise=0.3, l2=0.02),
    "ProCRC": ProCRC(gamma=0.7, l2=0.02).problem(3),
    "ProCRC, little agreement": ProCRC(gamma=1e-3, l2=1e-3).problem(3),
}


def both(problem, dictionary, monkeypatch):
    """The solver that uses moments, and the one that uses atoms."""
    solvers = []
    for uses_moments in (True, False):
        with monkeypatch.context() as patch:
            patch.setattr(ClosedForm, "uses_moments", uses_moments)
            solver = ClosedForm(problem, dictionary)
            solver.prepare()
        vars(solver)["uses_moments"] = uses_moments
        solvers.append(solver)
    return solvers


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "tall"])
def test_moments_vs_atoms(kind, name, rule, monkeypatch):
    case = make_case(kind)
    by_moments, by_atoms = both(PROBLEMS[name], case.dictionary, monkeypatch)
    queries = case.unit_queries[np.abs(case.unit_queries).max(axis=1) > 0]
    scores = [RULES[rule](solver.class_parts(queries)[0]) for solver in (by_moments, by_atoms)]
    tol = 1e-7 if rule == "scaled_residual" else 1e-9  # of energies that are not computed from codes
    np.testing.assert_allclose(scores[0], scores[1], rtol=tol, atol=tol)
    codes = [solver.solve(queries).codes for solver in (by_moments, by_atoms)]
    np.testing.assert_allclose(codes[0], codes[1], atol=1e-8)


@pytest.mark.parametrize("name", ["CRC", "NSC", "ProCRC"])
def test_moments_vs_oracle(name, monkeypatch):
    case = make_case("wide")
    problem = PROBLEMS[name]
    by_moments, _ = both(problem, case.dictionary, monkeypatch)
    parts, converged = by_moments.class_parts(case.unit_queries)
    assert converged.all()
    X = np.hstack(case.blocks)
    for i, y in enumerate(case.unit_queries):
        code = {
            "CRC": lambda y=y: crc_code(X, y, problem.l2),
            "NSC": lambda y=y: nsc_code(case.blocks, y, problem.l2),
            "ProCRC": lambda y=y: procrc_code(case.blocks, y, problem.l2, 0.7),
        }[name]()
        pieces = np.split(code, case.dictionary.starts[1:-1])
        own = [block @ piece for block, piece in zip(case.blocks, pieces, strict=True)]
        tol = 1e-6 if name == "ProCRC" else 1e-10  # BFGS stops at a small gradient
        np.testing.assert_allclose(parts.residuals()[i], [np.linalg.norm(y - p) for p in own], atol=tol)
        np.testing.assert_allclose(parts.energies()[i], [piece @ piece for piece in pieces], atol=tol)
        np.testing.assert_allclose(
            parts.disagreements()[i], [np.linalg.norm(X @ code - p) for p in own], atol=tol
        )


def test_the_choice_follows_the_cost():
    rng = np.random.default_rng(0)
    few = CRC().fit(rng.random((30, 20)), np.arange(30) % 10)
    many = CRC().fit(rng.random((300, 20)), np.arange(300) % 10)
    assert not few.solver_.uses_moments
    assert many.solver_.uses_moments
    # In float32 the products with atoms take half the time.
    assert not CRC().fit(rng.random((150, 20)).astype(np.float32), np.arange(150) % 10).solver_.uses_moments


@pytest.mark.parametrize("classifier", [NSC(), CRC(), CROC(), ProCRC()], ids=lambda c: type(c).__name__)
def test_answers_touch_no_atom(classifier):
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 20)), np.arange(300) % 10
    model = classifier.fit(X, y)
    expected = model.residuals(X[:5])
    dictionary = model.dictionary_
    gone = Dictionary(np.full_like(dictionary.atoms, np.nan), dictionary.starts, dictionary.samples)
    vars(gone).update(
        {name: vars(dictionary)[name] for name in ("moments", "normal") if name in vars(dictionary)}
    )
    model.dictionary_ = gone
    for name in model._solver_names:
        getattr(model, name).dictionary = gone
    assert (model.residuals(X[:5]) == expected).all()


def test_a_perfect_fit_leaves_a_residual_without_cancellation():
    """The residual of NSC is l2 v, so it keeps its digits where y - X_k c_k would have lost them."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 10))
    model = NSC(l2=1e-6).fit(np.concatenate([X, rng.random((300, 10))]), np.repeat([0, 1], 300))
    atoms = model.dictionary_.atoms[:300]
    query = X[0] / np.linalg.norm(X[0])
    moment = atoms.T @ atoms
    values, vectors = np.linalg.eigh(moment)
    expected = np.linalg.norm(1e-6 / (values + 1e-6) * (vectors.T @ query))
    assert model.residuals(query[None])[0, 0] == pytest.approx(expected, rel=1e-6)
    parts = CodedParts(model.dictionary_, query[None], model.encode(query[None]))
    assert parts.residuals()[0, 0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("l2", [1e-2, 1e-3, 1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [CRC, NSC, ProCRC], ids=lambda c: c.__name__)
def test_small_ridges_outside_the_span_of_the_atoms(kind, rule, l2):
    """There v is as large as 1/l2, and its rounding must not decide."""
    rng = np.random.default_rng(0)
    span = rng.standard_normal((10, 30))
    X, y = rng.standard_normal((400, 10)) @ span, np.arange(400) % 3
    Q = rng.standard_normal((20, 10)) @ span + 0.5 * rng.standard_normal((20, 30))
    model = kind(l2=l2, rule=rule).fit(X, y)
    unit = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    expected = RULES[rule](CodedParts(model.dictionary_, unit, model.encode(Q)))
    np.testing.assert_allclose(model.residuals(Q), expected, rtol=1e-6, atol=1e-8)
