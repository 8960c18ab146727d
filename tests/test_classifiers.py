"""What all representation classifiers promise."""

import warnings

import numpy as np
import pandas as pd
import polars
import pytest
import scipy.sparse as sp
from conftest import KINDS, make_case
from oracles import algorithm_3
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from residuum import CRC, CRNRC, CROC, NRC, NSC, SRC, ProCRC, SimplexRC, SoftNRC

CLASSIFIERS = [NSC(), SRC(), CRC(), CROC(), ProCRC(), NRC(), NRC(solver="exact"), SoftNRC(), SimplexRC()]
CLASSIFIERS += [CRNRC()]


# Minimisers that are not unique: the tie-break follows the order of the atoms.
NOT_UNIQUE = {
    ("SRC", "duplicates"),
    *((name, kind) for name in ("SimplexRC", "CRNRC") for kind in ("duplicates", "rank_deficient")),
    *(("exact NRC", kind) for kind in ("duplicates", "rank_deficient", "wide")),
}


def name(value):
    return "exact NRC" if getattr(value, "solver", "") == "exact" else type(value).__name__


@pytest.fixture(params=CLASSIFIERS, ids=name)
def classifier(request):
    return clone(request.param)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300], X[300:360], y[300:360]


def test_classifies_digits(classifier, digits):
    X, y, Q, truth = digits
    if name(classifier) == "NSC":
        classifier.set_params(l2=0.1)
    assert classifier.fit(X, y).score(Q, truth) > 0.85


@pytest.mark.parametrize("T", [1, 5])
def test_nrc_vs_algorithm_3(case, T):
    if not np.isfinite(np.linalg.norm(case.samples)) or case.queries.min() == case.queries.max():
        pytest.skip("the literal norm of Algorithm 3 overflows on these scales")
    fitted = NRC(rho=0.7, max_iter=T).fit(case.samples, case.labels)
    blocks = [case.samples[case.labels == k].T for k in range(3)]
    for query in case.queries:
        if not query.any():
            continue
        code, residuals, label = algorithm_3(blocks, query, 0.7, T)
        np.testing.assert_allclose(fitted.encode(query[None])[0], code, atol=1e-9)
        np.testing.assert_allclose(fitted.residuals(query[None])[0], residuals, atol=1e-9)
        if np.diff(np.sort(residuals))[0] > 1e-9:
            assert fitted.predict(query[None])[0] == label


def test_croc_vs_formula():
    case = make_case("tall")
    weight, l2, subspace_l2 = 0.3, 0.02, 1e-4
    fitted = CROC(weight=weight, l2=l2, subspace_l2=subspace_l2).fit(case.samples, case.labels)
    X = np.hstack(case.blocks)
    for y, scores in zip(case.unit_queries, fitted.residuals(case.queries), strict=True):
        code = np.linalg.solve(X.T @ X + l2 * np.eye(X.shape[1]), X.T @ y)
        parts = np.split(code, case.dictionary.starts[1:-1])
        for block, part, score in zip(case.blocks, parts, scores, strict=True):
            ridge = subspace_l2 * np.eye(block.shape[1])
            projected = block @ np.linalg.solve(block.T @ block + ridge, block.T @ y)
            mixture = (1 - weight) * np.sum((y - projected) ** 2) + weight * np.sum((y - block @ part) ** 2)
            assert score == pytest.approx(mixture / (part @ part), rel=1e-9)


def test_crc_default_ridge_follows_the_number_of_atoms():
    case = make_case("tall")
    fitted = CRC().fit(case.samples, case.labels)
    assert fitted.solver_.problem.l2 == pytest.approx(0.001 * 12 / 700)


def test_procrc_with_and_without_division_by_the_number_of_classes():
    case = make_case("tall")
    divided = ProCRC(gamma=0.6).fit(case.samples, case.labels)
    plain = ProCRC(gamma=0.2, per_class=False).fit(case.samples, case.labels)
    np.testing.assert_allclose(divided.encode(case.queries), plain.encode(case.queries), atol=1e-12)
    assert not np.allclose(
        divided.encode(case.queries),
        ProCRC(gamma=0.6, per_class=False).fit(case.samples, case.labels).encode(case.queries),
    )


def test_softnrc_runs_from_crc_to_nonnegative():
    case = make_case("wide")
    crc = CRC(l2=0.05).fit(case.samples, case.labels).encode(case.queries)
    free = SoftNRC(l2=0.05, neg_weight=0).fit(case.samples, case.labels).encode(case.queries)
    np.testing.assert_allclose(free, crc, atol=1e-9)
    exact = SoftNRC(l2=0.05, neg_weight=np.inf).fit(case.samples, case.labels).encode(case.queries)
    nearly = SoftNRC(l2=0.05, neg_weight=1e7).fit(case.samples, case.labels).encode(case.queries)
    np.testing.assert_allclose(_dense(nearly), _dense(exact), atol=1e-5)
    assert _dense(exact).min() >= 0


# Invariances


@pytest.mark.parametrize("kind", KINDS)
def test_scaling_permuting_rotating_change_nothing(classifier, kind):
    case = make_case(kind)
    rng = np.random.default_rng(8)
    order = rng.permutation(len(case.samples))
    rotation = np.linalg.qr(rng.normal(size=(case.samples.shape[1],) * 2))[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = clone(classifier).fit(case.samples, case.labels)
        labels, codes = plain.predict(case.queries), _by_sample(plain, case.queries)
        scaled = clone(classifier).fit(
            case.samples * rng.uniform(0.1, 9, (len(case.samples), 1)), case.labels
        )
        permuted = clone(classifier).fit(case.samples[order], case.labels[order])
        rotated = clone(classifier).fit(case.samples @ rotation, case.labels)
        np.testing.assert_array_equal(scaled.predict(7 * case.queries), labels)
        if (name(classifier), kind) in NOT_UNIQUE:
            return
        np.testing.assert_array_equal(permuted.predict(case.queries), labels)
        np.testing.assert_array_equal(rotated.predict(case.queries @ rotation), labels)
        tol = 1e-10
        np.testing.assert_allclose(_by_sample(scaled, 7 * case.queries), codes, atol=tol)
        np.testing.assert_allclose(_by_sample(permuted, case.queries)[:, np.argsort(order)], codes, atol=tol)
        np.testing.assert_allclose(_by_sample(rotated, case.queries @ rotation), codes, atol=tol)


@pytest.mark.parametrize("scale", [1e-300, 1e-165, 1e-30, 1e30, 1e160, 1e300])
def test_extreme_scales_give_the_same_labels(classifier, digits, scale):
    X, y, Q, _ = digits
    X, y, Q = X[:80], y[:80], Q[:20]
    expected = clone(classifier).fit(X, y).predict(Q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(clone(classifier).fit(X * scale, y).predict(Q * scale), expected)
        if 1e-30 <= scale <= 1e30:
            small = clone(classifier).fit((X * scale).astype(np.float32), y)
            assert np.mean(small.predict((Q * scale).astype(np.float32)) == expected) >= 0.95


def test_batch_and_threads_do_not_matter(classifier, digits):
    X, y, Q, _ = digits
    fitted = classifier.fit(X, y)
    together, codes = fitted.predict(Q), _dense(fitted.encode(Q))
    for pieces in (2, 7, len(Q)):
        parts = np.array_split(Q, pieces)
        np.testing.assert_array_equal(np.concatenate([fitted.predict(p) for p in parts]), together)
        again = np.vstack([_dense(fitted.encode(p)) for p in parts])
        np.testing.assert_allclose(again, codes, atol=1e-10)
    with threadpool_limits(1):
        np.testing.assert_array_equal(fitted.predict(Q), together)
        np.testing.assert_allclose(_dense(fitted.encode(Q)), codes, atol=1e-10)


def test_samples_shared_by_two_classes_tie_for_the_first(classifier):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(8, 20)))
    fitted = classifier.fit(np.vstack([X, X]), np.repeat(["second", "first"], 8))
    Q = np.abs(rng.normal(size=(30, 20)))
    for part in (Q, Q[:1], Q[7:9]):
        assert set(fitted.predict(part)) == {"first"}


# Labels, containers, types


@pytest.mark.parametrize("labels", [["b", "a"], [7, -3], [True, False], [1.0, 0.0]])
def test_labels_of_any_type(classifier, labels):
    X = np.array([[5.0, 1, 0, 0], [4, 2, 0, 0], [0, 0, 3, 1], [0, 0, 2, 1]])
    y = np.array([labels[0], labels[0], labels[1], labels[1]])
    predicted = classifier.fit(X, y).predict([[9, 3, 0, 0], [0, 0, 1, 0.4]])
    np.testing.assert_array_equal(predicted, np.array(labels))
    assert predicted.dtype == y.dtype


@pytest.mark.parametrize(
    "convert",
    [
        list,
        np.asfortranarray,
        pd.DataFrame,
        lambda X: polars.DataFrame(X, schema=[f"f{i}" for i in range(X.shape[1])]),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X[::-1][::-1],
        lambda X: X.astype(np.uint8),
        lambda X: X.astype(object),
        lambda X: X.astype(np.float16),
    ],
)
def test_containers_give_the_same_labels(classifier, digits, convert):
    X, y, Q, _ = digits
    X, y, Q = X[:80], y[:80], Q[:20]
    expected = clone(classifier).fit(X, y).predict(Q)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(classifier.fit(convert(X), y).predict(convert(Q)), expected)


def test_inputs_are_read_only_and_stay_as_they_were(classifier, digits):
    X, y, Q, _ = (a.copy() for a in digits)
    before = X.copy(), Q.copy()
    X.flags.writeable = y.flags.writeable = Q.flags.writeable = False
    classifier.fit(X, y).predict(Q)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(Q, before[1])


def test_float32_stays_float32(classifier, digits):
    X, y, Q, _ = digits
    wide, narrow = clone(classifier).fit(X, y), clone(classifier).fit(X.astype(np.float32), y)
    assert narrow.residuals(Q.astype(np.float32)).dtype == np.float32
    assert narrow.dictionary_.atoms.dtype == np.float32
    assert np.mean(narrow.predict(Q.astype(np.float32)) == wide.predict(Q)) > 0.95


def test_pipeline_and_grid_search(digits):
    X, y, Q, truth = digits
    search = GridSearchCV(make_pipeline(StandardScaler(), NRC()), {"nrc__rho": [0.5, 2.0]}, cv=3).fit(X, y)
    assert search.score(Q, truth) > 0.8


# Zero vectors


def test_zero_sample_is_dropped_with_a_warning(classifier):
    X = np.array([[1.0, 0, 0], [0, 0, 0], [0, 1, 1], [0, 2, 1]])
    with pytest.warns(UserWarning, match="1 of 4 training samples are zero"):
        fitted = classifier.fit(X, [0, 0, 1, 1])
    assert fitted.dictionary_.samples.tolist() == [0, 2, 3]
    assert fitted.predict([[3, 0.1, 0]])[0] == 0


def test_class_of_zero_samples_only_never_wins(classifier):
    X = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 1], [0, 2, 1]])
    with pytest.warns(UserWarning, match="zero"):
        fitted = classifier.fit(X, ["void", "x", "y", "y"])
    assert fitted.predict([[2, 0, 0.1], [0, 1, 1]]).tolist() == ["x", "y"]


def test_all_zero_training_data_is_refused(classifier):
    with pytest.raises(ValueError, match="All 2 training samples are zero"):
        classifier.fit(np.zeros((2, 3)), [0, 1])


def test_zero_query_gets_the_first_class_with_a_warning(classifier, digits):
    X, y, Q, _ = digits
    fitted = classifier.fit(X, y)
    with pytest.warns(UserWarning, match="1 of 2 queries are zero vectors"):
        labels = fitted.predict(np.vstack([Q[0], 0 * Q[0]]))
    assert labels[1] == fitted.classes_[0]
    assert labels[0] == fitted.predict(Q[:1])[0]


# Small and bad input


def test_one_class_and_one_sample(classifier):
    assert classifier.fit([[1.0, 2.0]], ["only"]).predict([[3.0, 1.0]]).tolist() == ["only"]


BAD_FIT = {
    "nan": (np.array([[1.0, np.nan], [2, 3]]), [0, 1], ValueError, "NaN"),
    "inf": (np.array([[1.0, np.inf], [2, 3]]), [0, 1], ValueError, "infinity"),
    "complex": (np.array([[1 + 1j, 2], [2, 3]]), [0, 1], ValueError, "[Cc]omplex"),
    "one_dimension": (np.array([1.0, 2]), [0, 1], ValueError, "2D array"),
    "empty": (np.empty((0, 3)), [], ValueError, "0 sample"),
    "no_features": (np.empty((3, 0)), [0, 1, 1], ValueError, "0 feature"),
    "text": (np.array([["a", "b"], ["c", "d"]]), [0, 1], ValueError, "could not convert|numeric"),
    "sparse": (sp.csr_array(np.eye(3)), [0, 1, 2], TypeError, "toarray"),
    "lengths": (np.eye(3), [0, 1], ValueError, "inconsistent"),
    "continuous_labels": (np.eye(3), [0.1, 0.2, 0.7], ValueError, "continuous"),
    "missing_labels": (np.eye(3), None, ValueError, "y"),
}


@pytest.mark.parametrize("case_name", BAD_FIT)
def test_bad_training_data_gets_one_clear_error(classifier, case_name):
    X, y, error, message = BAD_FIT[case_name]
    with pytest.raises(error, match=message):
        classifier.fit(X, y)


@pytest.mark.parametrize(
    ("queries", "error", "message"),
    [
        (np.array([[1.0, np.nan, 0]]), ValueError, "NaN"),
        (np.ones((2, 5)), ValueError, "expecting 3 features"),
        (np.ones(3), ValueError, "2D array"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        (sp.csr_array(np.eye(3)), TypeError, "toarray"),
        (np.array([["a", "b", "c"]]), ValueError, "could not convert|numeric"),
    ],
)
def test_bad_queries_get_one_clear_error(classifier, queries, error, message):
    fitted = classifier.fit(np.eye(3), [0, 1, 2])
    with pytest.raises(error, match=message):
        fitted.predict(queries)


@pytest.mark.parametrize(
    "bad",
    [
        NRC(rho=-1),
        NRC(rho=0),
        NRC(rho="1"),
        NRC(max_iter=0),
        NRC(max_iter=2.5),
        NRC(max_iter=10**30),
        NRC(step_tol=0),
        NRC(solver="fista"),
        NRC(rule="nearest"),
        CRC(l2=-0.1),
        CRC(l2=0),
        CROC(weight=1.5),
        ProCRC(gamma=-1),
        SRC(l1=0),
        NSC(l2=np.nan),
        SoftNRC(neg_weight=-1),
        SoftNRC(l2=np.inf),
    ],
    ids=str,
)
def test_bad_parameter_is_named_with_what_is_allowed(bad):
    with pytest.raises(ValueError, match=rf"The '\w+' parameter of {name(bad)} must be .* Got .* instead"):
        bad.fit(np.eye(3), [0, 1, 2])


# Codes, reconstructions, explanations


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_reconstruct_is_in_the_units_of_the_query(classifier, digits, scale):
    X, y, Q, _ = digits
    fitted = classifier.fit(X, y)
    Q = Q * scale
    expected = (_dense(fitted.encode(Q)) @ fitted.dictionary_.atoms) * np.linalg.norm(Q / scale, axis=1)[
        :, None
    ]
    np.testing.assert_allclose(fitted.reconstruct(Q) / scale, expected, rtol=1e-9, atol=1e-9)


def test_explain_adds_up(classifier, digits):
    X, y, Q, _ = digits
    fitted = classifier.fit(X, y)
    why = fitted.explain(Q[0])
    assert why.label == fitted.predict(Q[:1])[0]
    assert list(why.residuals.values()) == pytest.approx(fitted.residuals(Q[:1])[0])
    assert sum(a.share for a in why.atoms) == pytest.approx(1, abs=1e-6)
    assert why.margin >= 0
    code = _dense(fitted.encode(Q[:1]))[0]
    assert len(why.atoms) == np.count_nonzero(code)
    biggest = why.atoms[0]
    assert abs(biggest.coefficient) == pytest.approx(np.abs(code).max())
    assert y[biggest.sample] == biggest.label
    assert len(fitted.explain(Q[0], max_atoms=3).atoms) == 3
    with pytest.raises(ValueError, match="One query"):
        fitted.explain(Q[:2])


def test_certificate_of_five_steps_is_honest(digits):
    X, y, Q, _ = digits
    five = NRC(rho=0.1).fit(X, y).solve(Q)
    exact = NRC(solver="exact").fit(X, y).solve(Q)
    assert five.violation.min() > 1e-4
    assert exact.violation.max() < 1e-9
    assert exact.gap.max() < 1e-12 < five.gap.min()


def test_unconverged_queries_are_warned_about(digits):
    from sklearn.exceptions import ConvergenceWarning

    X, y, Q, _ = digits
    with pytest.warns(ConvergenceWarning, match="60 of 60 queries did not reach the tolerance of NRC"):
        NRC(step_tol=1e-12, max_iter=3).fit(X, y).predict(Q)


def _dense(codes):
    return codes.toarray() if sp.issparse(codes) else codes


def _by_sample(fitted, queries):
    codes = _dense(fitted.encode(queries))
    ordered = np.zeros_like(codes)
    ordered[:, fitted.dictionary_.samples] = codes
    return ordered


@pytest.mark.parametrize("make", [SRC, NRC, SoftNRC])
def test_no_threads_at_all_are_refused_when_fitting(make):
    with pytest.raises(ValueError, match="'n_jobs' parameter"):
        make(n_jobs=0).fit(np.eye(3), [0, 1, 2])
    assert make(n_jobs=-1).fit(np.eye(3), [0, 1, 2]).predict(np.eye(3)).tolist() == [0, 1, 2]
