"""The *CV estimators choose exactly what GridSearchCV chooses, from work shared between candidates."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold

from residuum import CRCCV, CRNRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SimplexRCCV, SoftNRCCV
from residuum.selection.folds import Codes, Fold, rule_scores

SEARCHES = [
    NRCCV(rhos=[0.1, 1.0], max_iters=[1, 3, 5]),
    SoftNRCCV(l2s=[0.01, 0.1], neg_weights=[0, 1, np.inf], rules=["residual", "scaled_residual"]),
    SRCCV(l1s=[0.01, 0.1]),
    CRCCV(l2s=[1e-3, 1e-2, 1.0], rules=["residual", "scaled_residual", "reconstruction"]),
    CROCCV(l2s=[1e-3, 0.1], weights=[0, 0.3, 1]),
    ProCRCCV(gammas=[0.01, 1], l2s=[0.01, 0.1]),
    NSCCV(l2s=[1e-3, 0.1, 1], rules=["residual", "reconstruction"]),
    SimplexRCCV(l2s=[0, 0.1], rules=["residual", "scaled_residual"]),
    CRNRCCV(gammas=[0.1, 10], rules=["residual", "scaled_residual"]),
]


def name(value):
    return type(value).__name__


@pytest.fixture(params=SEARCHES, ids=name)
def search(request):
    return clone(request.param)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:200], y[:200], X[200:260], y[200:260]


def grid_search(search, X, y, **options):
    """scikit-learn's search over the same candidates in the same order."""
    grid = [{k: [v] for k, v in c.items()} for c in search.cv_results_["params"]]
    return GridSearchCV(search.classifier(), grid, **options).fit(X, y)


def assert_same_choice(search, reference):
    for key in ["mean_test_score", *(f"split{i}_test_score" for i in range(search.n_splits_))]:
        np.testing.assert_allclose(search.cv_results_[key], reference.cv_results_[key], atol=1e-10)
    np.testing.assert_array_equal(
        search.cv_results_["rank_test_score"], reference.cv_results_["rank_test_score"]
    )
    assert search.best_params_ == reference.best_params_
    assert search.best_index_ == reference.best_index_
    assert search.best_score_ == pytest.approx(reference.best_score_, abs=1e-12)


@pytest.mark.parametrize("shape", ["more_atoms", "fewer_atoms"])
def test_vs_grid_search(search, digits, shape):
    X, y, Q, _ = digits
    if shape == "fewer_atoms":  # more features than training samples
        rng = np.random.default_rng(0)
        X, Q = (np.hstack([part, part @ rng.normal(size=(64, 300))]) for part in (X, Q))
    cv = StratifiedKFold(3, shuffle=True, random_state=1)
    search.set_params(cv=cv).fit(X, y)
    reference = grid_search(search, X, y, cv=cv)
    assert_same_choice(search, reference)
    np.testing.assert_array_equal(search.predict(Q), reference.predict(Q))


def test_vs_grid_search_with_another_score(search, digits):
    X, y, _, _ = digits
    two = y < 2
    search.set_params(cv=3, scoring="roc_auc").fit(X[two], y[two])
    reference = grid_search(search, X[two], y[two], cv=3, scoring="roc_auc")
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"], atol=1e-10
    )


def test_groups_reach_the_splitter(digits):
    X, y, _, _ = digits
    groups = np.arange(len(X)) // 20
    search = CRCCV(l2s=[0.01, 0.1], cv=GroupKFold(4)).fit(X, y, groups=groups)
    grid = [{k: [v] for k, v in c.items()} for c in search.cv_results_["params"]]
    reference = GridSearchCV(search.classifier(), grid, cv=GroupKFold(4)).fit(X, y, groups=groups)
    assert_same_choice(search, reference)


def test_default_grids_run_and_scale_with_the_number_of_samples(digits):
    X, y, Q, truth = digits
    for cls in (NRCCV, SoftNRCCV, CRCCV):
        fitted = cls().fit(X, y)
        assert fitted.score(Q, truth) > 0.85
    assert CRCCV()._candidates(1400)[0]["l2"] == pytest.approx(2 * CRCCV()._candidates(700)[0]["l2"])
    assert NRCCV()._candidates(2000)[0]["rho"] == pytest.approx(2 * NRCCV()._candidates(1000)[0]["rho"])


def test_ties_go_to_the_simpler_candidate():
    # Two orthogonal classes: every candidate is perfect.
    X = np.repeat(np.eye(2), 4, axis=0)
    y = np.repeat([0, 1], 4)
    assert CRCCV(l2s=[1e-3, 10, 0.1], cv=2).fit(X, y).best_params_["l2"] == 10
    chosen = NRCCV(rhos=[0.1, 2.0], max_iters=[7, 2], cv=2).fit(X, y).best_params_
    assert chosen == {"solver": "admm", "max_iter": 2, "rho": 2.0, "rule": "residual"}
    assert SoftNRCCV(neg_weights=[np.inf, 1], l2s=[0.1, 1], cv=2).fit(X, y).best_params_ == {
        "neg_weight": 1,
        "l2": 1,
        "rule": "residual",
    }


def test_threads_and_one_thread_agree(search, digits):
    X, y, _, _ = digits
    one = clone(search).set_params(n_jobs=1, cv=3).fit(X, y)
    two = clone(search).set_params(n_jobs=2, cv=3).fit(X, y)
    np.testing.assert_allclose(
        one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], atol=1e-12
    )
    assert one.best_params_ == two.best_params_


def test_fewer_samples_in_a_class_than_folds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9, 12))
    with pytest.warns(UserWarning, match="smallest class has 3 samples, fewer than the 5 folds"):
        fitted = CRCCV().fit(X, np.repeat([0, 1, 2], 3))
    assert fitted.n_splits_ == 3
    with pytest.raises(ValueError, match="class 2 has 1 sample"):
        CRCCV().fit(X, [0, 0, 0, 0, 1, 1, 1, 1, 2])


def test_zero_samples_in_a_fold_do_not_break_it(search):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(30, 12)))
    X[[3, 17]] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = search.set_params(cv=3).fit(X, np.arange(30) % 3)
    assert np.isfinite(fitted.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (NRCCV(rhos=[]), "'rhos' parameter of NRCCV must be a non-empty list"),
        (NRCCV(rhos=[-1.0]), "'rhos' parameter of NRCCV"),
        (NRCCV(rhos=["a"]), "'rhos' parameter of NRCCV"),
        (NRCCV(rules=["nearest"]), "'rules' parameter of NRCCV"),
        (CRCCV(l2s=[0.0]), "The 'l2' parameter of CRC must be"),
        (NRCCV(max_iters=[2.5]), "The 'max_iter' parameter of NRC must be"),
        (CROCCV(weights=[1.5]), "The 'weight' parameter of CROC must be"),
        (CRCCV(scoring="nonsense"), "scoring"),
    ],
)
def test_bad_grids_get_one_clear_error(bad, message, digits):
    X, y, _, _ = digits
    with pytest.raises(ValueError, match=message):
        bad.fit(X, y)


def test_classes_too_close_for_float32_vs_grid_search(search):
    """Pairs of classes that differ by 1e-6: their scores agree in the digits that float32 has."""
    rng = np.random.default_rng(3)
    X = np.abs(rng.normal(size=(60, 12)))
    X, y = np.concatenate([X, X + 1e-6 * rng.normal(size=X.shape)]), np.repeat([0, 1, 2, 3], 30)
    search.set_params(cv=3).fit(X, y)
    assert_same_choice(search, grid_search(search, X, y, cv=3))


def test_close_calls_are_scored_by_the_plain_rule():
    rng = np.random.default_rng(3)
    samples = np.abs(rng.normal(size=(12, 20)))
    labels = np.repeat([0, 1], 6)
    # The query equals an atom that both classes own: both residuals vanish.
    samples[6] = samples[0]
    fold = Fold(samples, labels, samples[:1], winners_only=False)
    codes = Codes(np.zeros((1, 12)))
    codes.values[0, [0, 6]] = 0.5, 0.5
    ((_, scores),) = fold.scores(codes, {"residual": 0})
    ((_, direct),) = rule_scores(fold.dictionary, fold.queries, codes.values, {"residual": 0})
    np.testing.assert_allclose(scores, direct, atol=1e-14)


def test_sklearn_callbacks_see_every_fold(digits):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 brings callbacks")
    X, y, _, _ = digits

    class Count:
        begun = ended = set_up = torn_down = 0

        def setup(self, estimator, context):
            self.set_up += 1

        def teardown(self, estimator, context):
            self.torn_down += 1

        def on_fit_task_begin(self, estimator, context, **kwargs):
            self.begun += 1

        def on_fit_task_end(self, estimator, context, **kwargs):
            self.ended += 1

    count = Count()
    assert isinstance(count, callback.FitCallback)
    CRCCV(l2s=[0.1], cv=3).set_callbacks(count).fit(X, y)
    assert (count.set_up, count.torn_down) == (1, 1)
    assert count.begun == count.ended == 4  # three folds and the whole
