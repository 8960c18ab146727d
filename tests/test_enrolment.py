"""Enrolling and forgetting: what a fresh fit to the same samples would give, to 1e-8."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from residuum import CRC, CRNRC, CROC, NRC, NSC, SRC, ProCRC, SimplexRC, SoftNRC
from residuum.dictionary import ClassMoments
from residuum.errors import UsageError
from residuum.solvers.closed_form import EncoderForm

MODELS = {
    "NSC": NSC(),
    "NSC-small": NSC(l2=1e-6),
    "SRC": SRC(),
    "CRC": CRC(),
    "CRC-fixed": CRC(l2=0.1, rule="residual"),
    "CROC": CROC(),
    "ProCRC": ProCRC(),
    "ProCRC-plain": ProCRC(gamma=0.5, per_class=False),
    "ProCRC-small": ProCRC(gamma=1.0, l2=1e-5),
    "NRC": NRC(),
    "NRC-tol": NRC(step_tol=1e-3, max_iter=400),
    "NRC-exact": NRC(solver="exact"),
    "SoftNRC": SoftNRC(),
    "SoftNRC-0": SoftNRC(neg_weight=0.0),
    "SoftNRC-inf": SoftNRC(neg_weight=np.inf),
    "SimplexRC": SimplexRC(),
    "CRNRC": CRNRC(),
}
# Fewer atoms than features, about as many (the solvers change sides), more; classes of 1 to many atoms.
SHAPES = {"wide": (50, 90, 6), "square": (50, 50, 5), "tall": (160, 25, 8), "one big class": (120, 20, 2)}


def make(shape, seed=0, dtype=np.float64):
    n, d, k = shape
    rng = np.random.default_rng(seed)
    centres = np.abs(rng.standard_normal((k, d)))
    y = np.concatenate([np.arange(k), rng.integers(0, k, n + 20 - k)])
    X = np.abs(centres[y] + 0.6 * rng.standard_normal((len(y), d))).astype(dtype)
    return X[:n], np.array([f"class {c}" for c in y])[:n], X[n:]


def dense(codes):
    return codes.toarray() if sp.issparse(codes) else codes


def assert_same(model, X, y, kept, Q, tol=1e-8):
    fresh = clone(model).fit(X[kept], y[kept])
    assert model.classes_.tolist() == fresh.classes_.tolist()
    assert (model.dictionary_.atoms == fresh.dictionary_.atoms).all()
    assert (model.dictionary_.starts == fresh.dictionary_.starts).all()
    assert (model.dictionary_.samples == np.asarray(kept)[fresh.dictionary_.samples]).all()
    np.testing.assert_allclose(dense(model.encode(Q)), dense(fresh.encode(Q)), rtol=0, atol=tol)
    np.testing.assert_allclose(model.residuals(Q), fresh.residuals(Q), rtol=tol, atol=tol)
    assert (model.predict(Q) == fresh.predict(Q)).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_enrolling_and_forgetting_vs_a_fresh_fit(name, shape):
    X, y, Q = make(SHAPES[shape])
    model = clone(MODELS[name])
    n = len(X)
    start = np.flatnonzero(y[: n - 12] != "class 1")
    X, y = np.concatenate([X[start], X[n - 12 :]]), np.concatenate([y[start], y[n - 12 :]])
    first = len(start)
    model.fit(X[:first], y[:first])
    kept = list(range(first))
    model.predict(Q)
    for stop in (first + 1, first + 2, first + 6, first + 12):
        rows = slice(len(model.dictionary_.samples), stop)
        model.partial_fit(X[rows], y[rows])
        kept += range(rows.start, stop)
        assert_same(model, X, y, kept, Q)
    for gone in ([0], [first + 3, 4], first + 11):
        model.forget(samples=gone)
        kept = [i for i in kept if i not in np.atleast_1d(gone)]
        assert_same(model, X, y, kept, Q)
    model.forget(labels="class 0")
    kept = [i for i in kept if y[i] != "class 0"]
    assert_same(model, X, y, kept, Q)


@pytest.mark.parametrize("rows", [1, 10, 25, 1000])
@pytest.mark.parametrize("name", ["NSC", "CROC", "ProCRC"])
def test_encoders_in_several_arrays_vs_a_fresh_fit(name, rows, monkeypatch):
    """Classes come, grow, shrink and go, at the ends of the arrays and inside."""
    X, y, Q = make((140, 90, 12))
    order = np.argsort(y == "class 5", kind="stable")  # this class joins last
    X, y = X[order], y[order]
    whole = clone(MODELS[name]).fit(X, y).residuals(Q)
    monkeypatch.setattr(EncoderForm, "GROUP_ROWS", rows)
    np.testing.assert_allclose(clone(MODELS[name]).fit(X, y).residuals(Q), whole, rtol=1e-10)
    model = clone(MODELS[name]).fit(X[:110], y[:110])
    for i in range(110, 140):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        assert_same(model, X, y, range(i + 1), Q)
    for gone, sample in zip(("0", "4", "5", "9"), np.flatnonzero(y == "class 7"), strict=False):
        model.forget(labels=f"class {gone}").forget(samples=sample)
        assert_same(model, X, y, sorted(model.dictionary_.samples), Q)


def test_encoders_of_classes_that_do_not_change_are_shared(monkeypatch):
    monkeypatch.setattr(EncoderForm, "GROUP_ROWS", 20)
    X, y, _ = make((120, 90, 12))
    model = NSC().fit(X, y)
    before = list(model.solver_._form._encoders.values())
    model.partial_fit(X[:1], model.classes_[-1:])
    after = list(model.solver_._form._encoders.values())
    assert len(after) > 3
    assert [a is b for a, b in zip(after, before, strict=True)] == [True] * (len(after) - 1) + [False]


@pytest.mark.parametrize("most", [40, 55])
def test_enrolling_where_the_gram_matrix_is_too_large_before_or_after(most, monkeypatch):
    monkeypatch.setattr("residuum.solvers.active_set.atoms.GRAM_BYTES", 4 * most**2)
    X, y, Q = make(SHAPES["wide"])
    model = NRC(solver="exact").fit(X[:45], y[:45])
    model.predict(Q)
    for first, stop in ((45, 48), (48, 50)):  # of 50 atoms, the matrix is there below 55
        model.partial_fit(X[first:stop], y[first:stop])
        model.predict(Q)
    assert_same(model, X, y, range(50), Q)
    model.partial_fit(Q, np.resize(y, len(Q)))  # and now it is not
    assert_same(model, np.vstack([X, Q]), np.append(y, np.resize(y, len(Q))), range(50 + len(Q)), Q)


@pytest.mark.parametrize("name", MODELS)
def test_many_single_steps_without_queries_between(name):
    X, y, Q = make((150, 25, 5))
    model = clone(MODELS[name]).fit(X[:120], y[:120])
    model.predict(Q)
    for i in range(120, 140):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        model.forget(samples=i - 100)
    assert_same(model, X, y, [*range(20), *range(40, 140)], Q)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", MODELS)
def test_many_single_samples_with_queries_between(name, dtype):
    X, y, Q = make((200, 25, 5), dtype=dtype)
    model = clone(MODELS[name]).fit(X[:150], y[:150])
    tol = 1e-8 if dtype == np.float64 else 2e-3
    for i in range(150, 195):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        if i % 4:
            continue
        fresh = clone(model).fit(X[: i + 1], y[: i + 1])
        np.testing.assert_allclose(model.residuals(Q), fresh.residuals(Q), rtol=tol, atol=tol)
        np.testing.assert_allclose(model.solve(Q).violation, fresh.solve(Q).violation, rtol=0, atol=tol)
    if dtype == np.float64:
        assert_same(model, X, y, range(195), Q)


@pytest.mark.parametrize("name", MODELS)
def test_float32_stays_float32(name):
    X, y, Q = make((150, 25, 5), dtype=np.float32)
    model = clone(MODELS[name]).fit(X[:140], y[:140])
    model.predict(Q)
    model.partial_fit(X[140:].astype(np.float64), y[140:]).forget(samples=[5])
    assert model.dictionary_.atoms.dtype == np.float32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_same(model, X, y, [i for i in range(150) if i != 5], Q, tol=2e-4)


def test_partial_fit_of_an_unfitted_classifier_fits():
    X, y, Q = make((60, 20, 3))
    model = CRC().partial_fit(X, y, classes=np.unique(y))
    assert (model.residuals(Q) == CRC().fit(X, y).residuals(Q)).all()
    with pytest.raises(UsageError, match="'classes'"):
        model.partial_fit(X, y, classes=["class 0"])


def test_a_fit_forgets_all_that_was_enrolled():
    X, y, Q = make((60, 20, 3))
    model = CRC().fit(X[:30], y[:30]).partial_fit(X[30:], y[30:]).fit(X, y)
    assert model.n_samples_seen_ == 60
    assert (model.residuals(Q) == CRC().fit(X, y).residuals(Q)).all()


def test_a_single_class_that_weighs_the_whole_negatively():
    X, y, Q = make(SHAPES["tall"])
    one = np.full(len(y), "only")
    model = ProCRC(gamma=2.0).fit(X[:150], one[:150]).partial_fit(X[150:152], one[150:152])
    assert_same(model, X, one, range(152), Q)
    model.forget(samples=3)
    assert_same(model, X, one, [i for i in range(152) if i != 3], Q)


@pytest.mark.parametrize("name", ["NSC", "CRC", "ProCRC", "NRC"])
def test_a_pickle_made_right_after_forgetting_does_not_hold_the_sample(name):
    X, y, _ = make(SHAPES["tall"])
    model = clone(MODELS[name]).fit(X, y)
    place = int(np.flatnonzero(model.dictionary_.samples == 7)[0])
    atom = model.dictionary_.atoms[place].tobytes()
    assert atom in pickle.dumps(model)
    assert atom not in pickle.dumps(model.forget(samples=7))


def test_zero_rows_are_not_enrolled_but_counted():
    X, y, Q = make((60, 20, 3))
    X[[41, 50]] = 0
    model = CRC().fit(X[:40], y[:40])
    with pytest.warns(UserWarning, match="2 of 20 samples are zero"):
        model.partial_fit(X[40:], y[40:])
    assert model.n_samples_seen_ == 60
    assert not np.isin([41, 50], model.dictionary_.samples).any()
    with pytest.raises(UsageError, match="41 is not one"):
        model.forget(samples=[41])
    with pytest.warns(UserWarning, match="zero"):
        fresh = CRC().fit(X, y)
    np.testing.assert_allclose(model.residuals(Q), fresh.residuals(Q), rtol=1e-8)


def test_a_changed_parameter_takes_effect():
    X, y, Q = make((150, 25, 5))
    for name, changed in {"CRC": {"l2": 3.0}, "NSC": {"l2": 0.5}, "SoftNRC": {"neg_weight": 0.0}}.items():
        model = clone(MODELS[name]).fit(X[:140], y[:140])
        model.predict(Q)
        model.set_params(**changed).partial_fit(X[140:], y[140:])
        assert_same(model, X, y, list(range(150)), Q)


def test_new_labels_widen_the_type():
    X, y, _ = make((60, 20, 3))
    model = CRC().fit(X[:40], np.where(y[:40] == "class 0", "a", "b"))
    model.partial_fit(X[40:42], ["a much longer label", "b"])
    assert model.classes_.tolist() == ["a", "a much longer label", "b"]
    numbers = CRC().fit(X[:40], [3, 1] * 20).partial_fit(X[40:41], np.array([2], dtype=np.uint8))
    assert numbers.classes_.tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", [str, object, int])
def test_one_sample_of_each_of_many_classes_gives_no_warning(dtype):
    X = np.eye(60)
    people = np.arange(100, 160).astype(str).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = NSC().fit(X[:20], people[:20]).partial_fit(X[20:], people[20:])
        assert (model.predict(X) == people).all()
        if dtype is not int:  # numbers that are all different may be meant for a regression
            assert (NSC().fit(X, people).predict(X) == people).all()
    with pytest.raises(ValueError, match="continuous"):
        NSC().fit(X, np.linspace(0, 1, 60))
    with pytest.raises(ValueError, match="continuous"):
        NSC().fit(X[:20], np.arange(20)).partial_fit(X[20:], np.linspace(0, 1, 40))


def test_bad_requests_change_nothing():
    X, y, Q = make((60, 20, 3))
    model = CRC().fit(X, y)
    before = model.residuals(Q)
    for call, match in (
        (lambda: model.partial_fit(X[:2], [1, 2]), "must hold text"),
        (lambda: model.partial_fit(X[:2, :5], y[:2]), "features"),
        (lambda: model.partial_fit(X[:2], y[:3]), "inconsistent"),
        (lambda: model.partial_fit(np.full((1, 20), np.nan), y[:1]), "NaN"),
        (lambda: model.forget(), "needs samples or labels"),
        (lambda: model.forget(samples=[60]), "60 is not one"),
        (lambda: model.forget(samples=[-1]), "-1 is not one"),
        (lambda: model.forget(samples=[0.5]), "0.5 is not one"),
        (lambda: model.forget(labels=["nobody"]), "'labels'"),
        (lambda: model.forget(labels=[0]), "'labels'"),
        (lambda: model.forget(samples=range(60)), "without a sample"),
        (lambda: model.forget(labels=model.classes_), "without a sample"),
    ):
        with pytest.raises(ValueError, match=match):
            call()
    assert (model.residuals(Q) == before).all()
    assert model.n_samples_seen_ == 60


def test_the_last_sample_takes_its_class_along():
    model = CRC().fit(np.eye(3), ["a", "b", "c"])
    model.forget(samples=1)
    assert model.classes_.tolist() == ["a", "c"]
    assert model.predict(np.eye(3)[[0, 2]]).tolist() == ["a", "c"]
    with pytest.raises(UsageError, match="1 is not one"):
        model.forget(samples=1)
    model.partial_fit(np.eye(3)[[1]], ["b"])
    assert model.dictionary_.samples.tolist() == [0, 3, 2]


def test_the_old_dictionary_stays_as_it_was():
    X, y, _ = make((60, 20, 3))
    model = NRC().fit(X[:50], y[:50])
    old = model.dictionary_
    atoms = old.atoms.copy()
    model.partial_fit(X[50:], y[50:]).forget(samples=[1])
    assert (old.atoms == atoms).all()


@pytest.mark.parametrize("name", MODELS)
def test_two_copies_of_a_model_go_their_own_ways(name):
    """A shallow copy shares every array with its model: neither may see what the other enrols."""
    X, y, Q = make((120, 25, 5))
    model = clone(MODELS[name]).fit(X[:100], y[:100])
    model.partial_fit(X[100:101], y[100:101]).predict(Q)
    twin = copy.copy(model)
    before = dense(model.encode(Q))
    twin.partial_fit(X[101:103], y[101:103]).predict(Q)
    assert (dense(model.encode(Q)) == before).all()
    model.partial_fit(X[103:106], y[103:106])
    kept = [*range(101), 103, 104, 105]
    fresh = clone(model).fit(X[kept], y[kept])
    np.testing.assert_allclose(dense(model.encode(Q)), dense(fresh.encode(Q)), rtol=0, atol=1e-8)
    assert_same(twin, X, y, list(range(103)), Q)


@pytest.mark.parametrize("features", [4, 5])
@pytest.mark.parametrize("name", ["SRC", "NRC-exact", "SoftNRC-inf", "SimplexRC", "CRNRC"])
def test_of_many_optimal_codes_the_same_one_is_found_as_after_a_fit(name, features):
    """Few whole numbers as features: queries inside the cone of the atoms, dependent atoms, equal prices."""
    rng = np.random.default_rng(features)
    X = rng.integers(0, 4, (140, features)).astype(float)
    X[:, 0] += 1
    y, Q = rng.integers(0, 4, 80), X[80:]
    model = clone(MODELS[name]).fit(X[:60], y[:60])
    for i in range(60, 80, 4):
        model.predict(Q[:1])
        model.partial_fit(X[i : i + 4], y[i : i + 4])
    assert_same(model, X, y, list(range(80)), Q)


@pytest.mark.parametrize("name", MODELS)
def test_pickles_and_deep_copies_can_enrol_too(name):
    X, y, Q = make((120, 25, 5))
    model = clone(MODELS[name]).fit(X[:100], y[:100])
    model.predict(Q)
    model.partial_fit(X[100:101], y[100:101]).predict(Q)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert (other.residuals(Q) == model.residuals(Q)).all()
        other.partial_fit(X[101:103], y[101:103])
        assert_same(other, X, y, list(range(103)), Q)


@pytest.mark.parametrize("name", ["SRC", "NRC-exact", "SimplexRC", "CRNRC"])
def test_of_equal_samples_the_same_one_is_used_as_after_a_fit(name):
    """The later copy belongs to the first class, so it comes first in the dictionary."""
    X, y, _ = make((60, 20, 3))
    X = np.concatenate([X, X[y == "class 2"][:3]])
    y = np.concatenate([y, ["class 0"] * 3])
    model = clone(MODELS[name]).fit(X[:60], y[:60])
    for i in range(60, 63):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        model.predict(X[:1])
    assert_same(model, X, y, list(range(63)), X[60:])


@pytest.mark.parametrize("name", ["NSC-small", "NSC", "ProCRC-small"])
def test_classes_that_span_everything_lose_no_digits(name):
    """Features that decay, classes larger than their number: a sample is nearly a sum of the others."""
    rng = np.random.default_rng(0)
    X = np.abs(rng.standard_normal((110, 20))) * 0.7 ** np.arange(20)
    y, Q = np.arange(90) % 3, X[90:]
    model = clone(MODELS[name]).fit(X[:66], y[:66])
    for i in range(66, 90):
        model.predict(Q[:1])
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert_same(model, X, y, list(range(90)), Q)


def test_moments_are_corrected_and_summed_anew_when_digits_could_be_lost():
    X, y, _ = make((200, 10, 2))
    model = CRC().fit(X[:150], y[:150])
    for i in range(150, 160):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    moments = model.dictionary_.moments
    assert (moments.terms == model.dictionary_.sizes).all()  # corrected once for every new sample
    while (model.dictionary_.sizes > 3).any():
        k = model.dictionary_.sizes.argmax()
        model.forget(samples=model.dictionary_.samples[model.dictionary_.starts[k]])
        assert (model.dictionary_.moments.terms <= 4 * model.dictionary_.sizes).all()
    for block, moment in zip(model.dictionary_.blocks, model.dictionary_.moments.matrices, strict=True):
        atoms = model.dictionary_.atoms[block]
        np.testing.assert_allclose(moment, atoms.T @ atoms, rtol=0, atol=1e-14)


def test_classes_that_do_not_change_share_their_moments():
    X, y, _ = make((200, 10, 4))
    model = NSC().fit(X[:150], y[:150])
    before = model.dictionary_.moments
    assert isinstance(before, ClassMoments)
    model.partial_fit(X[150:151], ["class 2"])
    after = model.dictionary_.moments
    shared = [a is b for a, b in zip(after.matrices, before.matrices, strict=True)]
    assert shared == [True, True, False, True]
