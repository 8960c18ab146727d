"""Calibrated probabilities, confidence and "none of these"."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits

from residuum import (
    CRC,
    CROC,
    NRC,
    NRCCV,
    NSC,
    SRC,
    ConfidentClassifier,
    ProCRC,
    SoftNRC,
    load_model,
    save_model,
)
from residuum.estimators.answers import concentration, labels_or_reject, margin, reject_label
from residuum.estimators.calibration import (
    FOLDS,
    distances_behind,
    expected_calibration_error,
    fit_temperature,
    held_out_folds,
    probabilities,
)
from residuum.estimators.confidence import reject_curve

CLASSIFIERS = [NSC(), SRC(), CRC(), CROC(), ProCRC(), NRC(), SoftNRC()]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300], X[900:1100], y[900:1100]


@pytest.fixture(params=CLASSIFIERS, ids=lambda c: type(c).__name__)
def classifier(request):
    return clone(request.param)


# Probabilities


def test_predict_proba_exists_only_on_request(classifier, digits):
    X, y, Q, _ = digits
    assert not hasattr(classifier, "predict_proba")
    model = ConfidentClassifier(classifier, probability=False).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert model.temperature_ is None
    model.set_params(probability=True)
    with pytest.raises(ValueError, match="fitted with probability=False"):
        model.predict_proba(Q)


def test_probabilities_agree_with_predictions(classifier, digits):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(classifier).fit(X, y)
    p = fitted.predict_proba(Q)
    assert p.shape == (len(Q), 10)
    assert (p > 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(Q))
    again = clone(fitted).fit(X, y)
    assert again.temperature_ == fitted.temperature_
    np.testing.assert_array_equal(again.predict_proba(Q), p)
    assert fitted.set_params(probability=False).fit(X, y).temperature_ is None


@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_calibrated_on_digits_of_other_writers(model):
    X, y = load_digits(return_X_y=True)
    half = len(y) // 2
    fitted = ConfidentClassifier(clone(model)).fit(X[:half], y[:half])
    p = fitted.predict_proba(X[half:])
    correct = fitted.classes_[p.argmax(axis=1)] == y[half:]
    # The classes of NSC span nearly everything here, and more so when the held-out fifth joins.
    assert expected_calibration_error(p.max(axis=1), correct) < (0.06 if type(model) is NSC else 0.035)


def test_temperature_is_from_samples_that_do_not_code_themselves(classifier, digits):
    X, y, _, _ = digits
    fitted = ConfidentClassifier(classifier).fit(X, y)
    residuals = np.empty((len(y), 10))
    for train, test in held_out_folds(y):
        plain = clone(classifier).fit(X[train], y[train])
        residuals[test] = plain.residuals(X[test])
    comparable = np.log if type(classifier) is NSC else np.asarray
    expected = fit_temperature(comparable(residuals), y)
    assert (fitted.temperature_, fitted.residual_cap_) == pytest.approx(expected, rel=1e-9)
    assert fitted.temperature_ != pytest.approx(
        fit_temperature(comparable(fitted.residuals(X)), y)[0], rel=0.01
    )


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(3, 60), st.sampled_from([1e-6, 1.0, 1e6]))
def test_fit_temperature_vs_plain_minimisation(seed, n_classes, n, scale):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n)
    residuals = rng.gamma(2.0, size=(n, n_classes))
    residuals[np.arange(n), truth] *= rng.uniform(0.2, 0.9)
    residuals *= scale
    temperature, cap = fit_temperature(residuals, truth)
    behind = distances_behind(residuals, cap) / scale
    left = 1 / (n + 2)
    target = np.full_like(behind, left / (n_classes - 1))
    target[np.arange(n), truth] = 1 - left

    def loss(log_b):
        b = math.exp(log_b)
        return b * np.sum(target * behind) + np.sum(logsumexp(-b * behind, axis=1))

    best = minimize_scalar(loss, bounds=(-12, 12), method="bounded", options={"xatol": 1e-10})
    assert loss(-math.log(temperature / scale)) <= best.fun + 1e-6 * n  # b has a floor


def test_fit_temperature_of_odd_residuals():
    truth = np.array([0, 1, 0, 1])
    right = np.array([[0.0, 1.0], [1.0, 0.0], [0.1, 0.9], [0.8, 0.2]])
    sharp, _ = fit_temperature(right, truth)
    assert 0 < sharp < 1  # all correct: still finite, so no probability is 1
    assert probabilities(right, sharp, 1.0).max() < 1
    useless, _ = fit_temperature(right, 1 - truth)
    assert useless > 1e4
    assert fit_temperature(np.ones((4, 2)), truth) == (1.0, 1.0)
    assert fit_temperature(np.ones((4, 1)), truth * 0) == (1.0, 1.0)
    infinite = np.where(right > 0.5, np.inf, right)
    t, cap = fit_temperature(infinite, truth)
    assert math.isfinite(t)
    p = probabilities(infinite, t, cap)
    # Three out of four held-out samples are not better known than Platt's targets say.
    np.testing.assert_allclose(p.max(axis=1), 1 - 1 / 6, rtol=1e-6)
    one_wrong = infinite.copy()
    one_wrong[3] = infinite[3, ::-1]  # the true class takes no part at all
    t, cap = fit_temperature(one_wrong, truth)
    assert 0.6 < probabilities(one_wrong, t, cap).max() < 0.8


def test_infinite_residuals_and_zero_queries(digits):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(SRC(rule="scaled_residual")).fit(X, y)
    assert np.isinf(fitted.residuals(Q)).any()
    assert np.isfinite(fitted.predict_proba(Q)).all()
    with pytest.warns(UserWarning, match="zero vectors"):
        np.testing.assert_allclose(fitted.predict_proba(np.zeros((1, 64))), 0.1)


def test_zero_samples_take_no_part_in_the_calibration(digits):
    X, y, _, _ = digits
    with_zero = np.concatenate([X, np.zeros((3, 64))]), np.concatenate([y, [0, 1, 2]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = ConfidentClassifier(CRC(l2=0.01)).fit(*with_zero)
    assert fitted.temperature_ == ConfidentClassifier(CRC(l2=0.01)).fit(X, y).temperature_


def test_folds_hold_out_every_sample_once_and_keep_every_class():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(6), [1, 2, 3, 5, 12, 1]))
    held = np.concatenate([test for _, test in held_out_folds(labels)])
    assert sorted(held) == np.flatnonzero(np.isin(labels, [1, 2, 3, 4])).tolist()
    folds = list(held_out_folds(labels))
    assert len(folds) == FOLDS
    for train, test in folds:
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(labels)
        assert set(labels[train]) == set(range(6))
    # Consecutive samples of a class stay together: neighbours in a file are often near copies.
    big = np.flatnonzero(labels == 4)
    fold_of = [next(i for i, (_, test) in enumerate(folds) if s in test) for s in big]
    assert fold_of == sorted(fold_of)


def test_classes_of_one_sample():
    X = np.random.default_rng(0).normal(size=(7, 5))
    fitted = ConfidentClassifier(CRC()).fit(X, [0, 0, 0, 1, 1, 1, 2])
    assert fitted.predict_proba(X).shape == (7, 3)
    with pytest.raises(ValueError, match="every class has only 1 sample"):
        ConfidentClassifier(CRC()).fit(X, range(7))
    assert ConfidentClassifier(CRC()).fit(X, [3] * 7).predict_proba(X).tolist() == [[1.0]] * 7


def test_expected_calibration_error_by_hand():
    assert expected_calibration_error([0.9, 0.9, 0.6, 0.6], [1, 1, 0, 1], n_bins=10) == pytest.approx(0.1)
    assert expected_calibration_error([1.0, 1.0], [True, True]) == 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        expected_calibration_error([3.0], [True])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        expected_calibration_error([0.5], [True, False])


# Confidence and rejection


def test_margin_and_concentration_by_hand(classifier, digits):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(classifier, probability=False).fit(X, y)
    ordered = np.sort(fitted.residuals(Q), axis=1)
    np.testing.assert_allclose(fitted.confidence(Q), ordered[:, 1] - ordered[:, 0])
    fitted.set_params(reject_by="concentration")
    codes = fitted.estimator_.encode(Q)
    codes = np.abs(codes.toarray() if hasattr(codes, "toarray") else codes)
    own = np.stack([codes[:, block].sum(axis=1) for block in fitted.dictionary_.blocks], axis=1)
    expected = (10 * own.max(axis=1) / own.sum(axis=1) - 1) / 9
    np.testing.assert_allclose(fitted.confidence(Q), expected, atol=1e-12)


def test_margin_and_concentration_at_their_ends():
    inf = np.inf
    np.testing.assert_array_equal(
        margin(np.array([[1.0, 3.0, 2.0], [inf, inf, inf], [inf, 1.0, inf], [2.0, 2.0, 5.0]])), [1, 0, inf, 0]
    )
    assert margin(np.array([[0.3]])).tolist() == [inf]
    fitted = ConfidentClassifier(NRC(solver="exact"), probability=False, reject_by="concentration").fit(
        np.eye(3), [0, 1, 2]
    )
    with pytest.warns(UserWarning, match="zero vectors"):
        found = fitted.confidence([[1.0, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 0]])
    np.testing.assert_allclose(found, [1, 0, 0.25, 0], atol=1e-12)
    assert concentration(NRC().fit(np.eye(2), [1, 1]).dictionary_, np.ones((1, 2))).tolist() == [1.0]


@pytest.mark.parametrize("by", ["margin", "concentration"])
def test_reject_exactly_below_the_threshold(classifier, digits, by):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(classifier, probability=False, reject_by=by).fit(X, y)
    plain, sure = fitted.predict(Q), fitted.confidence(Q)
    threshold = float(np.sort(sure)[len(sure) // 3])
    answers = fitted.set_params(reject_threshold=threshold).predict(Q)
    np.testing.assert_array_equal(answers == -1, sure < threshold)
    np.testing.assert_array_equal(answers[answers != -1], plain[answers != -1])
    np.testing.assert_array_equal(fitted.set_params(reject_threshold=0.0).predict(Q), plain)


LABELS = {
    "text": (np.array(["a", "b"]), "none of these"),
    "text that is taken": (np.array(["a", "none of these"]), "none of these!"),
    "objects": (np.array(["a", "b"], dtype=object), "none of these"),
    "bytes": (np.array([b"a", b"b"]), b"none of these"),
    "int64": (np.array([0, 7]), -1),
    "minus one is taken": (np.array([-2, -1, 4]), -3),
    "int8 at its end": (np.arange(-128, 3).astype(np.int8), -129),
    "uint8": (np.array([0, 255], dtype=np.uint8), -1),
    "uint64": (np.array([0, 2**63 + 1], dtype=np.uint64), -1),
    "small uint64": (np.array([0, 9], dtype=np.uint64), -1),
    "float": (np.array([1.0, 2.0]), -1.0),
    "bool": (np.array([False, True]), -1),
}


@pytest.mark.parametrize("kind", LABELS)
def test_reject_label_fits_every_type_of_label(kind):
    classes, expected = LABELS[kind]
    label = reject_label(classes)
    assert label == expected
    assert label not in classes.tolist()
    winners = np.arange(len(classes))
    rejected = winners == 0
    answers = labels_or_reject(classes, winners, rejected).tolist()
    assert answers == [expected, *classes.tolist()[1:]]
    assert labels_or_reject(classes, winners, rejected & False).tolist() == classes.tolist()


def test_predict_with_text_labels_and_reject():
    X = np.eye(3)
    model = ConfidentClassifier(NRC(solver="exact"), probability=False, reject_threshold=0.2)
    fitted = model.fit(X, ["a", "b", "c"])
    assert fitted.predict([[1, 0, 0], [1, 1, 1]]).tolist() == ["a", "none of these"]
    assert fitted.reject_label_ == "none of these"
    with pytest.warns(UserWarning, match="unless they are rejected"):
        assert fitted.predict([[0, 0, 0]]).tolist() == ["none of these"]


@pytest.mark.parametrize(
    ("parameters", "named"),
    [
        ({"reject_threshold": -0.1}, "reject_threshold"),
        ({"reject_threshold": "high"}, "reject_threshold"),
        ({"reject_threshold": math.nan}, "reject_threshold"),
        ({"reject_by": "entropy"}, "reject_by"),
        ({"probability": "yes"}, "probability"),
        ({"reject_threshold": 1.5, "reject_by": "concentration"}, "at most 1"),
    ],
)
def test_bad_parameters_are_named(classifier, parameters, named):
    with pytest.raises(ValueError, match=named):
        ConfidentClassifier(classifier, **parameters).fit(np.eye(3), [0, 1, 2])


def test_reject_curve_by_hand():
    thresholds, accept, reject = reject_curve(
        [0.1, 0.5, 0.5, 0.9, 0.3], [1, 1, 0, 1, 1], known=[1, 1, 1, 1, 0]
    )
    # Without a right answer: the third (misclassified) and the last (unknown).
    assert thresholds.tolist() == [0, 0.1, 0.3, 0.5, 0.9, math.inf]
    assert accept.tolist() == [1, 1, 1, 0.5, 0, 0]
    np.testing.assert_allclose(reject, [0, 0, 1 / 3, 1 / 3, 2 / 3, 1])
    _, accept, reject = reject_curve([math.inf, 0.2], [True, True])
    assert np.isnan(accept).all()
    assert reject.tolist() == [0, 0, 1]
    with pytest.raises(ValueError, match="'confidence' must have at least one value and no NaN"):
        reject_curve([math.nan], [True])


def test_unknown_classes_are_rejected_more_often(digits):
    X, y, Q, truth = digits
    old = y < 7
    for by in ("margin", "concentration"):
        fitted = ConfidentClassifier(NRC(solver="exact"), probability=False, reject_by=by).fit(X[old], y[old])
        correct, known = fitted.predict(Q) == truth, truth < 7
        _, accept, reject = reject_curve(fitted.confidence(Q), correct, known)
        at = np.abs(accept - reject).argmin()  # the equal error rate
        assert max(accept[at], reject[at]) < 0.3, by


def test_softmax_of_distances_is_softmax_of_residuals():
    residuals = np.random.default_rng(0).random((5, 4))
    np.testing.assert_allclose(probabilities(residuals, 0.3, np.inf), softmax(-residuals / 0.3, axis=1))


# With enrolment and the model file


def test_temperature_stays_as_fitted_when_samples_come_and_go(digits):
    X, y, Q, _ = digits
    fitted = ConfidentClassifier(SoftNRC()).fit(X[:200], y[:200])
    temperature = fitted.temperature_
    fitted.partial_fit(X[200:], y[200:])
    assert fitted.temperature_ == temperature
    fitted.forget(labels=[3])
    assert fitted.temperature_ == temperature
    assert fitted.predict_proba(Q).shape == (len(Q), 9)
    assert fitted.fit(X, y).temperature_ != temperature
    enrolled = ConfidentClassifier(NRC()).partial_fit(X, y)
    assert enrolled.temperature_ == ConfidentClassifier(NRC()).fit(X, y).temperature_


def test_reject_label_gives_way_to_an_enrolled_class():
    model = ConfidentClassifier(NRC(solver="exact"), probability=False, reject_threshold=0.2)
    fitted = model.fit(np.eye(3), [0, 1, 2])
    assert fitted.reject_label_ == -1
    fitted.partial_fit([[1.0, 1.0, 1.0]], [-1])
    assert fitted.reject_label_ == -2


def test_model_file_keeps_calibration_and_rejection(digits, tmp_path):
    X, y, Q, _ = digits
    model = ConfidentClassifier(NSC(), reject_threshold=0.05, reject_by="concentration").fit(X, y)
    again = load_model(save_model(model, tmp_path / "m.residuum"))
    np.testing.assert_array_equal(again.predict(Q), model.predict(Q))
    np.testing.assert_array_equal(again.predict_proba(Q), model.predict_proba(Q))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()


def test_around_a_search(digits):
    X, y, Q, truth = digits
    model = ConfidentClassifier(NRCCV(rhos=[1.0], max_iters=[5], cv=2), reject_threshold=0.01).fit(X, y)
    assert model.predict_proba(Q).shape == (len(Q), 10)
    answers = model.answer(Q)
    assert (answers.classes[answers.winners] == truth).mean() > 0.8
    assert model.explain(Q[0]).verdict.method == "NRC"


@pytest.mark.parametrize("by", ["margin", "concentration"])
def test_every_query_is_coded_once(classifier, digits, by, monkeypatch):
    X, y, Q, _ = digits
    model = ConfidentClassifier(classifier, reject_threshold=0.1, reject_by=by).fit(X, y)
    solver, coded = model.estimator_.solver_, []
    for name in ("solve", "class_parts"):
        method = getattr(solver, name, None)
        if method is not None:

            def counted(queries, *args, _method=method, **options):
                coded.append(len(queries))
                return _method(queries, *args, **options)

            monkeypatch.setattr(solver, name, counted)
    answers = model.answer(Q)
    assert answers.probabilities is not None
    assert answers.rejected is not None
    assert sum(coded) == len(Q)
