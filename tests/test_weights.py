"""Weights of samples: a ridge for each, the same as repeating it, and refused where they mean nothing."""

from fractions import Fraction

import numpy as np
import pytest
from conftest import make_case
from oracles import weighted_code
from sklearn.base import clone
from sklearn.datasets import load_wine, make_blobs
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import has_fit_parameter

from residuum import (
    CRC,
    CRCCV,
    CRNRC,
    CROC,
    NRC,
    NSC,
    SRC,
    ConfidentClassifier,
    PipelineCV,
    ProCRC,
    SimplexRC,
    SoftNRC,
    load_model,
    save_model,
)
from residuum.dictionary import Dictionary
from residuum.errors import ModelFileError
from residuum.estimators.answers import concentration
from residuum.problem import CodingProblem, dense
from residuum.solvers import soft_solver

WEIGHTED = [
    NSC(l2=0.02),
    CRC(),
    CRC(l2=0.02, rule="residual"),
    CROC(),
    ProCRC(gamma=0.7),
    SoftNRC(),
    SoftNRC(neg_weight=np.inf),
    SoftNRC(neg_weight=0, rule="scaled_residual"),
]
# What the oracle takes for the same problem.
PROBLEMS = [
    (NSC(l2=0.02), {"l2": 0.02, "alone": True}),
    (CRC(l2=0.02), {"l2": 0.02}),
    (CROC(l2=0.02), {"l2": 0.02}),
    (ProCRC(gamma=0.7, l2=0.02), {"l2": 0.02, "gamma": 0.7}),
    (SoftNRC(l2=0.02, neg_weight=0.5), {"l2": 0.02, "neg_weight": 0.5}),
]


def some_weights(n, seed=0):
    return 10.0 ** np.random.default_rng(seed).uniform(-1, 1, n)


@pytest.mark.parametrize("kind", ["tall", "wide", "duplicates"])
@pytest.mark.parametrize(("model", "problem"), PROBLEMS, ids=lambda value: str(value)[:6])
def test_codes_and_scores_vs_oracle(model, problem, kind):
    case = make_case(kind)
    weights = some_weights(len(case.labels))
    fitted = clone(model).fit(case.samples, case.labels, weights)
    dictionary = fitted.dictionary_
    ordered = weights[dictionary.samples]
    np.testing.assert_allclose(dictionary.weights, ordered)
    codes = dictionary.coefficients(dense(fitted.encode(case.queries)))
    for y, code in zip(case.unit_queries, codes):
        expected = weighted_code(case.blocks, y, ordered, **problem)
        np.testing.assert_allclose(code, expected, atol=2e-6)
    fitted.set_params(**({"rule": "scaled_residual"} if "rule" in fitted.get_params() else {"weight": 1.0}))
    for y, code, scores in zip(case.unit_queries, codes, fitted.residuals(case.queries)):
        blocks = list(zip(case.blocks, dictionary.blocks))
        rest = np.array([np.linalg.norm(y - X @ code[block]) for X, block in blocks])
        size = np.array([np.sqrt(np.sum(code[block] ** 2 / ordered[block])) for _, block in blocks])
        quotient = rest / size if "rule" in fitted.get_params() else (rest / size) ** 2
        # Classes that tie up to rounding have one score.
        np.testing.assert_allclose(scores, quotient, rtol=1e-6)


@pytest.mark.parametrize("model", WEIGHTED, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [4, 60])
def test_a_whole_weight_is_as_good_as_repeating_the_sample(model, dtype, n_features):
    X, y = make_blobs(90, n_features, centers=3, cluster_std=9.0, random_state=0)
    weights = np.random.default_rng(1).integers(0, 4, len(X))
    X, Q, y, weights = X[:70].astype(dtype), X[70:].astype(dtype), y[:70], weights[:70]
    light = clone(model).fit(X, y, weights)
    heavy = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights))
    tol = {"rtol": 1e-9} if dtype == np.float64 else {"rtol": 2e-3, "atol": 1e-4}
    np.testing.assert_allclose(light.residuals(Q), heavy.residuals(Q), **tol)
    assert (light.predict(Q) == heavy.predict(Q)).all()
    found = [concentration(m.dictionary_, m.encode(Q)) for m in (light, heavy)]
    np.testing.assert_allclose(*found, atol=1e-8 if dtype == np.float64 else 1e-3)


@pytest.mark.parametrize("model", [CRC(), CROC(), CRC(l2=1e-6), CROC(l2=1e-6)], ids=str)
@pytest.mark.parametrize("n_features", [6, 30])
def test_quotients_by_a_small_energy_keep_their_digits(model, n_features):
    # Queries that are samples leave other classes codes of the size of the ridge, and CRC divides by those.
    # The ridge is small where samples are few: products of atoms would lose the digits of such codes.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y, weights = rng.random((15, n_features)), rng.permutation(15) % 3, rng.integers(0, 5, 15)
        light = clone(model).fit(X, y, weights)
        heavy = clone(model).fit(X.repeat(weights, axis=0), y.repeat(weights))
        np.testing.assert_allclose(light.residuals(X), heavy.residuals(X), rtol=1e-7, err_msg=f"seed {seed}")


def test_explanations_tell_the_coefficient_of_the_sample():
    X, y = load_wine(return_X_y=True)
    weights = np.arange(len(X)) % 4
    light = SoftNRC().fit(X, y, weights).explain(X[1])
    heavy = SoftNRC().fit(X.repeat(weights, axis=0), y.repeat(weights)).explain(X[1])
    numbers = np.arange(len(X)).repeat(weights)
    for name in ("coefficient", "share"):
        total = np.zeros(len(X))
        for atom in heavy.atoms:
            total[numbers[atom.sample]] += getattr(atom, name)
        found = {atom.sample: getattr(atom, name) for atom in light.atoms}
        np.testing.assert_allclose([total[i] for i in found], list(found.values()), atol=1e-8)
    sizes = [abs(atom.coefficient) for atom in light.atoms]
    assert sizes == sorted(sizes, reverse=True)
    for ours, theirs in zip(light.classes, heavy.classes):
        assert (ours.label, ours.norm) == (theirs.label, pytest.approx(theirs.norm))


@pytest.mark.parametrize("model", WEIGHTED, ids=str)
def test_enrolling_and_forgetting_with_weights(model):
    X, y = make_blobs(240, 6, centers=4, random_state=0)
    weights = some_weights(240)
    weights[::7] = 0
    model = clone(model).fit(X[:100], y[:100])  # without weights, which is 1 for all
    model.predict(X[:3])
    model.partial_fit(X[100:], y[100:], sample_weight=weights[100:])
    model.predict(X[:3])
    kept = np.concatenate([np.arange(50, 100), 100 + np.flatnonzero(weights[100:])])
    model.forget(samples=np.arange(50))
    joined = np.concatenate([np.ones(100), weights[100:]])
    fresh = clone(model).fit(X[kept], y[kept], joined[kept])
    np.testing.assert_array_equal(model.dictionary_.samples, kept[fresh.dictionary_.samples])
    np.testing.assert_allclose(model.dictionary_.weights, fresh.dictionary_.weights)
    np.testing.assert_allclose(model.residuals(X), fresh.residuals(X), rtol=1e-8)
    # Samples without weights join with weight 1.
    model.partial_fit(X[:50], y[:50])
    fresh = clone(model).fit(X, y, joined)
    np.testing.assert_allclose(model.residuals(X), fresh.residuals(X), rtol=1e-8)


def test_a_heavy_sample_leaves_no_trace_in_the_moments():
    X, y = make_blobs(200, 3, centers=2, random_state=0)
    model = CRC(rule="residual").fit(X, y, np.ones(200))
    assert model.solver_.uses_moments
    model.partial_fit(X[:1] + 1, y[:1], sample_weight=[1e12])
    model.predict(X)
    model.forget(samples=[200])
    np.testing.assert_allclose(model.residuals(X), CRC(rule="residual").fit(X, y).residuals(X), rtol=1e-9)


def test_a_class_without_weight_is_left_out():
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    model = CRC().fit(X, labels, (y != 1).astype(float))
    assert model.classes_.tolist() == ["a", "c"]
    assert (model.residuals(X) == CRC().fit(X[y != 1], labels[y != 1]).residuals(X)).all()
    model.partial_fit(X[y == 1], labels[y == 1], sample_weight=[1.0] + [0.0] * (np.sum(y == 1) - 1))
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.dictionary_.sizes.tolist()[1] == 1


def test_weights_are_in_the_model_file(tmp_path):
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    for model in (CRC(class_weight={"a": 2.0, "b": 1, "c": 0.5}), CRC(class_weight="balanced"), CRC()):
        model.fit(X, labels, None if model.class_weight else some_weights(len(X)))
        opened = load_model(save_model(model, tmp_path / "m.residuum"))
        assert opened.class_weight == model.class_weight
        assert (opened.residuals(X) == model.residuals(X)).all()
        np.testing.assert_array_equal(opened.dictionary_.weights, model.dictionary_.weights)
    vars(model)["dictionary_"] = Dictionary(
        *(getattr(model.dictionary_, name) for name in ("atoms", "starts", "samples")),
        weights=model.dictionary_.weights[::-1],
    )
    with pytest.raises(ModelFileError, match="do not fit together"):
        load_model(save_model(model, tmp_path / "wrong.residuum"))


@pytest.mark.parametrize("model", WEIGHTED, ids=str)
def test_class_weights_are_those_of_their_samples(model):
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    for class_weight in ("balanced", {"a": 3.0, "b": 0.2, "c": 1.0}):
        by_class = clone(model).set_params(class_weight=class_weight).fit(X, labels)
        by_sample = clone(model).fit(X, labels, compute_sample_weight(class_weight, labels))
        assert (by_class.residuals(X) == by_sample.residuals(X)).all()
    both = clone(model).set_params(class_weight=class_weight).fit(X, labels, np.full(len(X), 2.0))
    assert both.dictionary_.masses.tolist() == pytest.approx((2 * by_class.dictionary_.masses).tolist())


def test_calibration_knows_the_labels_of_the_class_weights():
    X, y = load_wine(return_X_y=True)
    labels = np.array(["a", "b", "c"])[y]
    weights = {"a": 3.0, "b": 0.2, "c": 1.0}
    by_name = ConfidentClassifier(CRC(class_weight=weights)).fit(X, labels)
    by_number = ConfidentClassifier(CRC(class_weight=dict(enumerate(weights.values())))).fit(X, y)
    assert by_name.temperature_ == by_number.temperature_
    assert by_name.temperature_ != ConfidentClassifier(CRC()).fit(X, labels).temperature_


def least_value(A, y, l2):
    """The minimum of ``||y - Ac||^2 + l2 ||c||^2`` in fractions: ``y'y - y'A (A'A + l2 I)^{-1} A'y``."""
    n = A.shape[1]
    columns = [[Fraction(float(v)) for v in column] for column in A.T]
    target = [Fraction(float(v)) for v in y]

    def dot(a, b):
        return sum(p * q for p, q in zip(a, b, strict=True))

    rows = [
        [dot(columns[i], columns[j]) + (Fraction(l2) if i == j else 0) for j in range(n)]
        + [dot(columns[i], target)]
        for i in range(n)
    ]
    right = [row[-1] for row in rows]
    for i in range(n):
        for k in range(i + 1, n):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
    code = [Fraction(0)] * n
    for i in reversed(range(n)):
        code[i] = (rows[i][-1] - dot(rows[i][i + 1 : n], code[i + 1 :])) / rows[i][i]
    return dot(target, target) - dot(right, code)


def exact_value(A, y, code, l2):
    columns = [[Fraction(float(v)) for v in row] for row in A]
    coefficients = [Fraction(float(c)) for c in code]
    rest = [
        Fraction(float(b)) - sum(p * q for p, q in zip(row, coefficients, strict=True))
        for b, row in zip(y, columns, strict=True)
    ]
    return sum(r * r for r in rest) + Fraction(l2) * sum(c * c for c in coefficients)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e11])
def test_the_gap_bounds_the_distance_from_the_minimum_with_weights(scale):
    """Values and minima in fractions: nothing is rounded but what the solver and its gap have rounded.

    Codes beside the best one show whether the gap knows how far its own prices are rounded.
    """
    l2, rng = 0.01, np.random.default_rng(0)
    problem = CodingProblem(l2=l2)
    for _ in range(10):
        X, y = rng.normal(size=(4, 5)), rng.normal(size=5)
        y /= np.linalg.norm(y)
        dictionary = Dictionary.from_samples(X, np.zeros(4, dtype=int), 1, scale * some_weights(4))
        solution = soft_solver(problem, dictionary).solve(y[None])
        assert solution.gap[0] < 1e-10
        least = least_value(dictionary.atoms.T, y, l2)
        energy = sum(Fraction(float(v)) ** 2 for v in y)
        moves = 1 + 1e-15 * rng.integers(-4, 5, size=(20, 4)) * (np.arange(20) > 0)[:, None]
        codes = solution.codes * moves
        gaps = problem.gap(dictionary, np.repeat(y[None], 20, axis=0), codes)
        for code, gap in zip(codes, gaps):
            above = exact_value(dictionary.atoms.T, y, code, l2) - least
            assert above <= Fraction(float(gap)) * energy


def test_the_gap_knows_how_far_prices_of_heavy_samples_are_rounded():
    """Nearly equal heavy atoms: where codes differ alone, the ridge is the only curvature.

    The codes are those that the rounded prices call optimal, so the gap is what it adds for their rounding.
    """
    l2, n = 0.01, 16
    problem = CodingProblem(l2=l2)
    for seed in range(16):
        rng = np.random.default_rng(seed)
        base, y = rng.uniform(size=3), rng.normal(size=3)
        y /= np.linalg.norm(y)
        X = base * (1 + 1e-15 * rng.integers(-2, 3, size=(n, 3)))
        dictionary = Dictionary.from_samples(X, np.zeros(n, dtype=int), 1, np.full(n, 1e11))
        codes = np.zeros((1, n))
        for _ in range(6):
            slopes = dictionary.correlations(y[None] - dictionary.combinations(codes)) - l2 * codes
            common = slopes.mean()
            codes += (slopes - common) / l2 + common / (n * 1e11 + l2)
        above = exact_value(dictionary.atoms.T, y, codes[0], l2) - least_value(dictionary.atoms.T, y, l2)
        energy = sum(Fraction(float(v)) ** 2 for v in y)
        assert above <= Fraction(float(problem.gap(dictionary, y[None], codes)[0])) * energy


@pytest.mark.parametrize("model", WEIGHTED, ids=str)
def test_classes_that_share_heavy_samples_tie(model):
    X, y = make_blobs(60, 12, centers=2, cluster_std=6.0, random_state=0)
    twice, labels = np.concatenate([X, X]), np.concatenate([y, y + 2])
    fitted = clone(model).fit(twice, labels, np.full(120, 1e10))
    assert fitted.predict(X + 1).max() <= 1


def test_newton_reaches_its_tolerance_with_weights():
    X, y = make_blobs(300, 40, centers=5, cluster_std=8.0, random_state=0)
    for scale in (1e-6, 1.0, 1e6):
        solution = SoftNRC().fit(X, y, scale * some_weights(300)).solve(X[:40] + 1)
        assert solution.converged.all()
        assert solution.gap.max() <= 1e-10


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (NRC(), "without a ridge"),
        (SimplexRC(), "without a ridge"),
        (CRNRC(), "without a ridge"),
        (SRC(), "1-norm of a code"),
        (CRCCV(), "candidates share codes.*GridSearchCV over"),
        (PipelineCV(), "candidates share codes.*GridSearchCV over"),
        (ConfidentClassifier(CRC()), "held-out samples.*class_weight"),
    ],
)
def test_who_takes_no_weights_says_why(model, reason):
    X, y = load_wine(return_X_y=True)
    for method in (getattr(model, name) for name in ("fit", "partial_fit") if hasattr(model, name)):
        with pytest.raises(TypeError, match=f"{type(model).__name__}.* takes no sample_weight: .*{reason}"):
            method(X, y, sample_weight=np.ones(len(X)))
    assert not has_fit_parameter(model, "sample_weight")
    assert has_fit_parameter(CRC(), "sample_weight")
    assert "class_weight" not in model.get_params()
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        model.fit(X, y, weights=np.ones(len(X)))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0, 1.0], "[Nn]egative"),
        ([1.0, np.nan, 1.0], "NaN"),
        ([1.0, 1.0], "sample_weight.shape"),
        ([1.0, 1e20, 1.0], "must be 0 or from 1e-12 to 1e.12. Got 1e.20. Divide them by their mean"),
        ([0.0, 0.0, 0.0], "zero|all be 0"),
    ],
)
def test_bad_weights_are_refused_and_change_nothing(weights, message):
    X, y = np.eye(3), [0, 0, 1]
    model = CRC().fit(X, y)
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X, y, sample_weight=weights)
    assert model.dictionary_.n_atoms == 3


def test_weights_of_classes_must_leave_a_sample():
    with pytest.raises(ValueError, match=r"weights of CRC.* must not all be 0: no sample would be left"):
        CRC(class_weight={0: 0.0, 1: 0.0}).fit(np.eye(3), [0, 0, 1])


def test_balanced_weights_cannot_be_enrolled():
    with pytest.raises(ValueError, match="must not be 'balanced' with partial_fit"):
        CRC(class_weight="balanced").partial_fit(np.eye(3), [0, 0, 1])
