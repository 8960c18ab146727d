"""What every estimator promises about its labels, whatever the precision, the batch or the thread."""

import datetime
import sys
import threading
import warnings

import numpy as np
import pandas as pd
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris

import residuum
from residuum import CRC, CROC, NRC, NSC, NSCCV, ConfidentClassifier, ProCRC, SoftNRC, lasso, nnls
from residuum.dictionary import unit_rows
from residuum.errors import UsageError
from residuum.estimators import METHODS
from residuum.features import EigenfacePCA, Scattering2D
from residuum.solvers import ActiveSet

CLASSIFIERS = {
    **{name: method() for name, method in METHODS.items()},
    "NRC, exact": NRC(solver="exact"),
    "SoftNRC, free": SoftNRC(neg_weight=0.0),
    "SoftNRC, non-negative": SoftNRC(neg_weight=np.inf),
}
SEARCHES = {
    "NRCCV": {"rhos": [1.0], "max_iters": [2, 5]},
    "SoftNRCCV": {"l2s": [0.01], "neg_weights": [1.0]},
    "SRCCV": {"l1s": [0.1, 0.01]},
    "CRCCV": {"l2s": [0.1, 0.01]},
    "CROCCV": {"l2s": [0.1], "weights": [0, 1]},
    "ProCRCCV": {"gammas": [1.0], "l2s": [0.1]},
    "NSCCV": {"l2s": [0.1, 0.01]},
    "SimplexRCCV": {"l2s": [0, 0.1]},
    "CRNRCCV": {"gammas": [0.1, 1.0]},
}
ESTIMATORS = {
    **CLASSIFIERS,
    **{name: getattr(residuum, name)(cv=2, **grid) for name, grid in SEARCHES.items()},
    "ConfidentClassifier": ConfidentClassifier(NRC(), reject_threshold=0.01),
    "ConfidentClassifier of a search": ConfidentClassifier(NSCCV(l2s=[0.1], cv=2)),
}
# Ridges so small that float32 has no digit of the residuals left, and settings that keep some.
DELICATE = {
    **CLASSIFIERS,
    **{f"NSC, l2={l2:g}": NSC(l2=l2) for l2 in (1e-3, 1e-6, 1e-8)},
    "NSC, relative": NSC(l2=1e-7, rule="relative_residual"),
    "NSC, scaled": NSC(l2=1e-7, rule="scaled_residual"),
    "CRC, l2=1e-9": CRC(l2=1e-9),
    "CROC, small": CROC(l2=1e-6, subspace_l2=1e-8),
    "ProCRC, l2=1e-9": ProCRC(l2=1e-9),
    "NRC, small rho": NRC(rho=0.01),
}


def test_every_method_has_its_search_here():
    assert set(SEARCHES) == {f"{name}CV" for name in METHODS}


def blobs(shape, seed=0, noise=0.6):
    """Samples around one non-negative direction for each class, and labels."""
    n_samples, n_features, n_classes = shape
    rng = np.random.default_rng(seed)
    centres = np.abs(rng.standard_normal((n_classes, n_features)))
    y = np.arange(n_samples) % n_classes
    return np.abs(centres[y] + noise * rng.standard_normal((n_samples, n_features))), y


# Float32


SETS = {
    "more samples than features": (blobs((400, 12, 4)), 200),
    "moments": (blobs((900, 6, 3)), 800),
    "fewer samples than features": (blobs((120, 90, 4)), 40),
    "iris": ((load_iris().data[::2], load_iris().target[::2]), 50),
}


def has_many_codes(model, queries):
    """Queries that the samples reproduce to rounding: without a ridge, many non-negative codes do that."""
    if (
        not isinstance(model.solver_, ActiveSet)
        or model.solver_.problem.l1
        or model.solver_.problem.classwise
    ):
        return np.zeros(len(queries), dtype=bool)
    left = unit_rows(queries)[0] - model.encode(queries) @ model.dictionary_.atoms
    return np.linalg.norm(left, axis=1) < 1e-6


@pytest.mark.parametrize("data", SETS)
@pytest.mark.parametrize("name", DELICATE)
def test_float32_gives_the_labels_of_float64(name, data):
    """On the same numbers, wherever the code is determined and the runner-up further behind than rounding."""
    (X, y), n = SETS[data]
    order = np.random.default_rng(1).permutation(len(X))
    X, y = X[order].astype(np.float32), y[order]
    narrow = clone(DELICATE[name]).fit(X[:n], y[:n])
    wide = clone(DELICATE[name]).fit(X[:n].astype(np.float64), y[:n])
    answers = wide.answer(X[n:].astype(np.float64))
    labels = narrow.predict(X[n:])
    clear = answers.margins > 1e-4 * answers.residuals.min(axis=1)
    clear &= ~has_many_codes(wide, X[n:].astype(np.float64))
    np.testing.assert_array_equal(labels[clear], answers.labels[clear])
    assert np.mean(labels == answers.labels) > 0.97


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if "CV" in name or "search" in name])
def test_float32_searches_choose_and_answer_like_float64(name):
    X, y = blobs((300, 8, 3), noise=1.0)
    X = X.astype(np.float32)
    narrow, wide = (clone(ESTIMATORS[name]).fit(part, y[:200]) for part in (X[:200], X[:200].astype(float)))
    assert np.mean(narrow.predict(X[200:]) == wide.predict(X[200:].astype(float))) == 1


def test_float32_searches_see_tiny_ridges_as_float64_does():
    X, y = blobs((400, 8, 3), noise=1.0)
    grid = NSCCV(l2s=[1e-8, 1e-6], cv=3)
    narrow, wide = (clone(grid).fit(part, y) for part in (X.astype(np.float32), X))
    np.testing.assert_allclose(
        narrow.cv_results_["mean_test_score"], wide.cv_results_["mean_test_score"], atol=0.01
    )


@pytest.mark.parametrize("name", DELICATE)
def test_answers_and_explanations_agree_in_float32(name):
    X, y = blobs((200, 12, 4))
    X = X.astype(np.float32)
    model = clone(DELICATE[name]).fit(X[:170], y[:170])
    labels = model.predict(X[170:])
    assert [model.explain(query).label for query in X[170:]] == labels.tolist()


# Ties


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(8, 20), (30, 6)])
@pytest.mark.parametrize("name", DELICATE)
def test_classes_of_the_same_samples_tie_for_the_first_in_any_batch(name, shape, dtype):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=shape)).astype(dtype)
    other = rng.permutation(len(X))  # the same samples in another order
    model = clone(DELICATE[name]).fit(np.vstack([X, X[other]]), np.repeat(["second", "first"], len(X)))
    Q = np.abs(rng.normal(size=(30, shape[1]))).astype(dtype)
    if "exact" in name or "non-negative" in name or name == "SRC":
        # The code is not unique: of two equal samples the first takes everything.
        whole = model.predict(Q)
        assert set(whole) == {"first"}
    for part in (Q, Q[:1], Q[7:9], Q[::2]):
        assert set(model.predict(part)) == {"first"}


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.sets(st.integers(1, 39)), dtype=st.sampled_from("fd"))
@pytest.mark.parametrize("name", DELICATE)
def test_labels_do_not_depend_on_the_batch(name, seed, cuts, dtype):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(50, 7))).astype(dtype)
    X[20:30] = X[:10]  # shared by classes
    y, Q = rng.integers(0, 4, 50), np.abs(rng.normal(size=(40, 7))).astype(dtype)
    Q[:10] = X[:10]
    model = clone(DELICATE[name]).fit(X, y)
    parts = np.split(Q, sorted(cuts))
    np.testing.assert_array_equal(np.concatenate([model.predict(part) for part in parts]), model.predict(Q))


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), dtype=st.sampled_from("fd"))
@pytest.mark.parametrize("name", DELICATE)
def test_labels_depend_neither_on_the_order_of_samples_nor_on_their_lengths(name, seed, dtype):
    if name in ("SRC", "NRC, exact", "SoftNRC, non-negative") and dtype == "f":
        return  # the scale of a float32 sample moves its direction by a rounding error
    rng = np.random.default_rng(seed)
    X, y = blobs((60, 7, 4), seed=seed % 1000)
    Q = np.abs(rng.normal(size=(30, 7)))
    order = rng.permutation(len(X))
    powers = 2.0 ** rng.integers(-20, 20, (60, 1))  # exact, so that directions stay the same numbers
    X, Q = X.astype(dtype), Q.astype(dtype)
    labels = clone(DELICATE[name]).fit(X, y).predict(Q)
    scaled = clone(DELICATE[name]).fit((X * powers).astype(dtype), y)
    np.testing.assert_array_equal(scaled.predict((Q * powers[:30]).astype(dtype)), labels)
    permuted = clone(DELICATE[name]).fit(X[order], y[order])
    np.testing.assert_array_equal(permuted.predict(Q), labels)


# Failures change nothing


def state(model):
    """The attributes of a model and of the models within."""
    found = {"": dict(vars(model))}
    for name in ("estimator_", "best_estimator_"):
        if hasattr(model, name):
            found |= {f"{name}.{key}": value for key, value in state(getattr(model, name)).items()}
    return found


def assert_unchanged(model, before):
    after = state(model)
    assert after.keys() == before.keys()
    for name, attributes in before.items():
        assert after[name].keys() == attributes.keys()
        assert all(after[name][key] is value for key, value in attributes.items()), name


X6, Y6 = blobs((30, 6, 3))
LABELS = np.array(["a", "b", "c"])[Y6]
FAILING_FITS = {
    "zeros": (np.zeros((8, 4)), ["d", "e"] * 4),
    "other width, NaN": (np.full((8, 4), np.nan), ["d", "e"] * 4),
    "names, mixed labels": (pd.DataFrame(np.eye(8)[:, :5], columns=list("vwxyz")), ["d", 1] * 4),
    "continuous": (np.eye(8), np.linspace(0, 1, 8)),
    "lengths": (np.eye(8), ["d", "e"]),
}


@pytest.mark.parametrize("case", FAILING_FITS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_failed_fit_changes_nothing(name, case):
    frame = pd.DataFrame(X6, columns=[f"f{i}" for i in range(6)])
    model = clone(ESTIMATORS[name]).fit(frame, LABELS)
    before, labels = state(model), model.predict(frame)
    with pytest.raises((ValueError, TypeError)):
        model.fit(*FAILING_FITS[case])
    assert_unchanged(model, before)
    np.testing.assert_array_equal(model.predict(frame), labels)
    assert model.classes_.tolist() == ["a", "b", "c"]


def test_a_search_that_cannot_split_and_a_calibration_that_cannot_hold_out_change_nothing():
    for model in (ESTIMATORS["NSCCV"], ESTIMATORS["ConfidentClassifier"]):
        fitted = clone(model).fit(X6, LABELS)
        before = state(fitted)
        with pytest.raises(ValueError, match=r"1 sample"):
            fitted.fit(np.eye(4), ["d", "e", "f", "g"])
        assert_unchanged(fitted, before)


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not name.endswith("CV")])
def test_a_failed_enrolment_changes_nothing(name):
    model = clone(ESTIMATORS[name]).fit(X6, LABELS)
    before = state(model)
    for call in (
        lambda: model.partial_fit(X6[:2, :4], ["a", "b"]),
        lambda: model.partial_fit(X6[:2], [1, 2]),
        lambda: model.partial_fit(X6[:2], ["a", "d"], classes=["a"]),
        lambda: model.forget(labels=["nobody"]),
        lambda: model.forget(samples=np.arange(30)),
    ):
        with pytest.raises(ValueError, match=r"parameter|features|without a sample"):
            call()
        assert_unchanged(model, before)


def test_a_failure_late_in_an_enrolment_changes_nothing(monkeypatch):
    model = CROC().fit(X6, LABELS)
    before = state(model)

    def fail(*_args, **_options):
        raise MemoryError("no room for the new solver")

    monkeypatch.setattr(CROC, "_make_solver", fail)
    for call in (
        lambda: model.partial_fit(X6, LABELS),
        lambda: model.forget(samples=0),
        lambda: model.fit(X6, Y6),
    ):
        with pytest.raises(MemoryError):
            call()
        assert_unchanged(model, before)


@pytest.mark.parametrize(
    ("transformer", "bad"),
    [
        (EigenfacePCA(n_components=3), np.full((5, 4), np.nan)),
        (EigenfacePCA(n_components=3), np.eye(3)),
        (Scattering2D(J=1, image_shape=(4, 4)), np.ones((3, 9))),
    ],
)
def test_a_failed_fit_of_a_transformer_changes_nothing(transformer, bad):
    fitted = clone(transformer).fit(np.random.default_rng(0).random((10, 16)))
    before = state(fitted)
    with pytest.raises(ValueError, match=r"."):
        fitted.fit(bad)
    assert_unchanged(fitted, before)


def test_a_fit_without_names_forgets_the_names_of_the_fit_before():
    frame = pd.DataFrame(X6, columns=[f"f{i}" for i in range(6)])
    model = NSC().fit(frame, LABELS)
    assert model.fit(X6, LABELS) is model
    assert not hasattr(model, "feature_names_in_")


# Threads


class Waiting:
    """A solver that stops in the middle of a query until it is told to go on."""

    def __init__(self, solver):
        self._solver = solver
        self.started, self.go = threading.Event(), threading.Event()
        if hasattr(solver, "class_parts"):
            self.class_parts = lambda queries: self._held("class_parts", queries)

    def __getattr__(self, name):
        return getattr(self._solver, name)

    def solve(self, queries, *, certify=True):
        return self._held("solve", queries, certify=certify)

    def _held(self, name, *args, **options):
        result = getattr(self._solver, name)(*args, **options)
        self.started.set()
        assert self.go.wait(60)
        return result


CHANGES = {
    "fit": lambda model: model.fit(np.vstack([np.eye(6)] * 2), np.arange(12) % 6),
    "partial_fit": lambda model: model.partial_fit(X6[::-1], np.array(["A", "B", "C"])[Y6]),
    "forget": lambda model: model.forget(labels=["a"]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [name for name in ESTIMATORS if not name.endswith("CV")])
def test_a_query_that_was_begun_is_answered_by_the_model_of_its_beginning(name, change):
    model = clone(ESTIMATORS[name]).fit(X6, LABELS)
    queries = X6 + 0.01
    expected = {"answer": model.answer(queries), "explain": model.explain(queries[0])}
    for call in ("answer", "explain"):
        model = clone(ESTIMATORS[name]).fit(X6, LABELS)
        inner = getattr(model, "estimator_", model)
        inner = getattr(inner, "best_estimator_", inner)
        held = inner.solver_ = Waiting(inner.solver_)
        found = {}
        thread = threading.Thread(
            target=lambda model=model, call=call, found=found: found.update(
                result=getattr(model, call)(queries if call == "answer" else queries[0])
            )
        )
        thread.start()
        assert held.started.wait(60)
        CHANGES[change](model)
        held.go.set()
        thread.join(60)
        if call == "explain":
            assert found["result"].label == expected["explain"].label
            assert found["result"].residuals == pytest.approx(expected["explain"].residuals)
            continue
        assert found["result"].labels.tolist() == expected["answer"].labels.tolist()
        np.testing.assert_allclose(found["result"].residuals, expected["answer"].residuals)


@pytest.mark.parametrize("name", ["NSC", "CRC", "NRC", "ConfidentClassifier"])
def test_readers_see_the_model_before_or_after_each_change(name):
    """Fixed numbers of predictions against a thread that goes on changing the model until they are made."""
    X, y = blobs((60, 8, 3))
    first, more = np.array(["a", "b", "c"])[y], np.array(["A", "B", "C"])[y]
    model = clone(ESTIMATORS[name]).fit(X, first)
    enrolled = clone(model).fit(X, first).partial_fit(X[:30] * 1.5, more[:30])
    other = clone(model).fit(X[::-1, ::-1], more)
    allowed = {tuple(m.predict(X).tolist()) for m in (model, enrolled, other)}
    done, failures = threading.Event(), []

    def change():
        try:
            while not done.is_set():
                model.partial_fit(X[:30] * 1.5, more[:30])
                model.forget(labels=["A", "B", "C"])
                model.fit(X[::-1, ::-1], more)
                model.fit(X, first)
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        writer = threading.Thread(target=change)
        writer.start()
        seen = {tuple(model.predict(X).tolist()) for _ in range(150)}
    finally:
        sys.setswitchinterval(interval)
        done.set()
        writer.join(60)
    assert not failures
    assert seen <= allowed


# Labels


def test_numbers_that_no_common_type_holds_are_refused_and_others_are_joined_exactly():
    big = np.array([2**63, 2**63 + 1], dtype=np.uint64)
    model = NSC().fit(np.eye(4)[:2], np.array([1, 2]))
    model.partial_fit(np.eye(4)[2:], big)
    assert model.classes_.tolist() == [1, 2, 2**63, 2**63 + 1]
    assert model.predict(np.eye(4)).tolist() == [1, 2, 2**63, 2**63 + 1]
    model.forget(labels=[2**63])
    assert model.classes_.tolist() == [1, 2, 2**63 + 1]
    model = NSC().fit(np.eye(4)[:2], np.array([-1, 2]))
    before = state(model)
    with pytest.raises(UsageError, match=r"-1 and 9223372036854775809.*as text"):
        model.partial_fit(np.eye(4)[2:], big)
    with pytest.raises(UsageError, match=r"-1 and 9223372036854775809"):
        model.partial_fit(np.eye(4)[2:], [-1, 2**63 + 1])
    assert_unchanged(model, before)
    model = NSC().fit(np.eye(4)[:2], np.array([2**53, 2**53 + 1]))
    with pytest.raises(UsageError, match="no common type holds 9007199254740993 exactly"):
        model.partial_fit(np.eye(4)[2:], np.array([1.0, 2.0]))
    assert NSC().fit(np.eye(4)[:2], [1, 2]).partial_fit(np.eye(4)[2:], [3.0, 4.0]).classes_.tolist() == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize("labels", [[2**63, 2**63 + 1], np.array([2**63, 2**63 + 1], dtype=object)])
def test_python_integers_are_labels(labels):
    model = NSC().partial_fit(np.eye(2), labels, classes=[2**63, 2**63 + 1])
    assert model.predict(np.eye(2)).tolist() == [2**63, 2**63 + 1]
    with pytest.raises(UsageError, match="9223372036854775809 is missing"):
        NSC().partial_fit(np.eye(2), labels, classes=[2**63, 1])


@pytest.mark.parametrize(
    "labels",
    [
        ["a", 1, "a", 1],
        np.array(["a", 1, "a", 1], dtype=object),
        pd.Series(["a", 1, "a", 1], dtype=object),
        ["a", None, "a", "b"],
        [True, "a", True, "a"],
        (1, True, 1, True),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_labels_of_more_than_one_kind_get_one_clear_error(name, labels):
    X = np.eye(4)
    with pytest.raises(UsageError, match=r"'y' parameter of .* one kind: text, numbers or booleans\. Got "):
        clone(ESTIMATORS[name]).fit(X, labels)
    if not name.endswith("CV"):
        with pytest.raises(UsageError, match=r"'y' parameter of .* one kind"):
            clone(ESTIMATORS[name]).fit(X6, LABELS).partial_fit(X6[:4], labels)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_labels_that_are_masked_or_no_labels_are_refused(name):
    masked = np.ma.MaskedArray(["a", "a", "b", "b"], mask=[0, 1, 0, 0])
    with pytest.raises(TypeError, match=r"must hold a label for every sample\. Got a masked array"):
        clone(ESTIMATORS[name]).fit(np.eye(4), masked)
    dates = [datetime.date(2020, 1, day) for day in (1, 1, 2, 2)]
    with pytest.raises(ValueError, match="Unknown label type"):
        clone(ESTIMATORS[name]).fit(np.eye(4), dates)


# Numbers


TIMES = pd.date_range("2020", periods=4)
BAD_NUMBERS = {
    "masked": (np.ma.masked_array(np.eye(4), np.eye(4) > 0), TypeError, "masked array.*filled"),
    "masked rows": ([np.ma.masked_array(row, row > 0) for row in np.eye(4)], TypeError, "masked array"),
    "times": (np.eye(4).astype("M8[s]"), TypeError, "datetime64"),
    "spans of time": (np.eye(4).astype("m8[s]"), TypeError, "timedelta64"),
    "a table with times": (pd.DataFrame({"a": TIMES, "b": 1.0, "c": 1, "d": 2}), TypeError, "datetime64"),
    "a table of times": (pd.DataFrame(dict.fromkeys("abcd", TIMES)), TypeError, "datetime64"),
    "a polars table": (polars.DataFrame({name: list(TIMES) for name in "abcd"}), TypeError, "Datetime"),
    "objects": ([[datetime.date(2020, 1, 1), 1, 2, 3]] * 4, TypeError, "Got date"),
    "NumPy objects": ([[np.datetime64("2020"), 1, 2, 3]] * 4, TypeError, "Got datetime64"),
    "a table of objects": (
        pd.DataFrame({name: [TIMES[0], 1, 2, 3] for name in "abcd"}, dtype=object),
        TypeError,
        "Timest",
    ),
    "huge": ([[10**400, 1, 2, 3]] * 4, ValueError, r"whole number beyond 1\.8e\+308"),
}


@pytest.mark.parametrize("case", BAD_NUMBERS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_what_numpy_would_misread_gets_one_clear_error(name, case):
    bad, error, message = BAD_NUMBERS[case]
    told = rf"The 'X' parameter of \w+(\.partial_fit)? must hold plain numbers\. .*{message}"
    with pytest.raises(error, match=told):
        clone(ESTIMATORS[name]).fit(bad, ["a", "b", "a", "b"])
    fitted = clone(ESTIMATORS[name]).fit(np.vstack([np.eye(4)] * 2), ["a", "b", "a", "b"] * 2)
    with pytest.raises(error, match=told):
        fitted.predict(bad)
    if not name.endswith("CV"):
        with pytest.raises(error, match=told):
            fitted.partial_fit(bad, ["a", "b", "a", "b"])
    if hasattr(fitted, "solve"):
        with pytest.raises(error, match=told):
            fitted.solve(bad)
    one = bad[:1] if hasattr(bad, "columns") else bad[0]
    with pytest.raises(error, match=rf"The 'query' parameter of \w+ must hold plain numbers\. .*{message}"):
        fitted.explain(one)


@pytest.mark.parametrize("case", BAD_NUMBERS)
@pytest.mark.parametrize("solve", [nnls, lambda A, B: lasso(A, B, 0.1)], ids=["nnls", "lasso"])
def test_least_squares_refuses_them_too(solve, case):
    bad, error, message = BAD_NUMBERS[case]
    with pytest.raises(error, match=rf"The 'A' parameter of \w+ must hold plain numbers\. .*{message}"):
        solve(bad, np.ones(4))
    with pytest.raises(error, match=rf"The 'B' parameter of \w+ must hold plain numbers\. .*{message}"):
        solve(np.eye(4), bad)


def test_tensors_that_require_grad_get_one_clear_error():
    torch = pytest.importorskip("torch")
    bad = torch.eye(4, requires_grad=True)
    with pytest.raises(TypeError, match=r"requires grad\. Pass X\.detach\(\)"):
        NSC().fit(bad, [0, 1, 0, 1])


def test_anything_with_requires_grad_is_taken_for_such_a_tensor():
    class Tensor(np.ndarray):
        requires_grad = True

    with pytest.raises(TypeError, match=r"requires grad\. Pass X\.detach\(\)"):
        NSC().fit(np.eye(4).view(Tensor), [0, 1, 0, 1])


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_numbers_in_other_clothes_are_still_taken(name):
    X = np.eye(4) + 0.5
    expected = clone(CLASSIFIERS[name]).fit(X, ["a", "b", "a", "b"]).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for same in (X.tolist(), [tuple(row) for row in X], X.astype(object), pd.DataFrame(X, dtype=object)):
            model = clone(CLASSIFIERS[name]).fit(same, ["a", "b", "a", "b"])
            assert model.predict(same).tolist() == expected.tolist()
