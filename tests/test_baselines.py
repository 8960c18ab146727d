"""What methods are compared with, who leads and whether by chance, and what is said about errors."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ttest_rel
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from residuum import CRC, NRC, ProCRC
from residuum.experiments import baselines, comparison
from residuum.experiments.baselines import BASELINES, GRIDS, BaselineSearch, BoundedBoosting
from residuum.experiments.compared_data import Data, Split, baseline_features, features_for, random_splits
from residuum.experiments.errors import SHOWN_ERRORS, confusion, worst_errors
from residuum.experiments.paired import MCNEMAR, RESAMPLED, T_TEST, mcnemar, paired_test
from residuum.experiments.runner import TimeLeft
from residuum.experiments.summary import lead
from residuum.inputs import OwnData
from residuum.models.recipe import Features
from residuum.reports.confusion import MOST_CLASSES, confused_pairs, confusion_drawing, score_words
from residuum.reports.plots import coefficient_figure

IRIS = load_iris(return_X_y=True)


# Baselines


@pytest.mark.parametrize("name", ["SVM", "softmax", "kNN"])
def test_search_vs_grid_search_with_features_learned_in_each_fold(name):
    X, y = IRIS[0][::2], IRIS[1][::2]

    def fold_features(train, test):
        scale = StandardScaler().fit(X[train])
        return scale.transform(X[train]), scale.transform(X[test])

    grid = {key: values[:4] for key, values in GRIDS[name].items()}
    ours = BaselineSearch(BASELINES[name], grid).fit(X, y, fold_features=fold_features)
    steps = Pipeline([("scale", StandardScaler()), ("m", BASELINES[name]())])
    plain = GridSearchCV(steps, {f"m__{key}": values for key, values in grid.items()}).fit(X, y)
    assert ours.best_score_ == pytest.approx(plain.best_score_, abs=1e-12)
    assert {f"m__{key}": value for key, value in ours.best_params_.items()} == plain.best_params_


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_take_one_sample_of_each_class(name):
    answers = BASELINES[name]().fit(np.eye(3), np.array(["a", "b", "c"])).predict(np.eye(3))
    assert set(answers) <= {"a", "b", "c"}


def test_boosting_is_cut_short_where_the_work_is_too_much_and_says_so(monkeypatch):
    X, y = IRIS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = BoundedBoosting().fit(X, y)
    assert whole.n_iter_ == baselines.ROUNDS
    assert whole.score(X, y) > 0.95
    monkeypatch.setattr(baselines, "WORK", 20 * 3 * 4 * 1150)  # twenty rounds of three trees
    with pytest.warns(UserWarning, match="3 classes and 4 features leave it fewer than 100 rounds"):
        short = BoundedBoosting().fit(X, y)
    assert short.n_iter_ == 20
    assert short.learning_rate == 0.3
    assert short.score(X, y) > 0.95


@pytest.mark.parametrize(
    ("columns", "n", "asked", "expected"),
    [
        (("a", "b"), 2, {}, Features("standard")),
        (None, 80, {}, Features("unit")),
        (("a", "b"), 2, {"embeddings": True}, Features("unit")),
        (("a", "b"), 2, {"scale": "minmax", "pca": 1}, Features("minmax", 1)),
        (("a", "b"), 2, {"scale": "none"}, Features()),
    ],
)
def test_baselines_get_features_that_suit_them(columns, n, asked, expected):
    data = OwnData("x", "table", np.zeros((3, n)), None, np.arange(3), columns=columns)
    found = baseline_features(data, {"scale": None, "pca": None, "embeddings": False, **asked})
    assert found == expected
    mixed = Data(
        "x",
        np.zeros((3, n)),
        np.arange(3),
        features=(Features("unit", kernel="rbf"),),
        baseline_features=found,
    )
    assert features_for("kNN", mixed) == (expected,)
    assert features_for("NRC", mixed) == mixed.features


# Who leads, and whether by chance


def test_mcnemar_by_hand():
    right = np.ones(20, dtype=bool)
    first, second = right.copy(), right.copy()
    second[:7] = first[7:9] = False
    # Of 9 samples that one of the two gets right, 7 are the first one's: 2 (36 + 9 + 1) / 2^9.
    assert mcnemar(first, second) == pytest.approx(92 / 512)
    assert mcnemar(right, right) == 1
    assert paired_test([first], [second]) == (mcnemar(first, second), MCNEMAR)


def test_the_test_over_trials_is_corrected_for_their_overlap():
    rng = np.random.default_rng(0)
    first = [rng.random(200) < 0.9 for _ in range(5)]
    second = [rng.random(200) < 0.8 for _ in range(5)]
    means = [[hits.mean() for hits in some] for some in (first, second)]
    plain, name = paired_test(first, second)
    assert (plain, name) == (pytest.approx(ttest_rel(*means).pvalue), T_TEST)
    corrected, name = paired_test(first, second, overlap=2.0)
    # t is smaller by sqrt((1/5 + 2) / (1/5)).
    gaps = np.subtract(*means)
    shrunk = gaps.mean() + (gaps - gaps.mean()) * np.sqrt(11)
    assert (corrected, name) == (pytest.approx(ttest_rel(shrunk, np.zeros(5)).pvalue), RESAMPLED)


def test_equal_gaps_prove_nothing():
    """One sample more in every trial has no variance; a t-test would call it certain."""
    first, second = np.ones(50, dtype=bool), np.arange(50) > 0
    assert paired_test([first] * 3, [second] * 3, overlap=1.0) == (1.0, MCNEMAR)


def _results(rights, trials=1):
    """Results of methods that get so many of 100 queries right."""
    cells = [
        {"method": m, "trial": t, "predictions": [int(i < right) for i in range(100)]}
        for m, right in rights.items()
        for t in range(trials)
    ]
    trial = {"train": list(range(50)), "test": list(range(100)), "labels": [1] * 100}
    summary = [{"method": m, "accuracy_mean": right / 100} for m, right in rights.items()]
    return {"cells": cells, "trials": [trial] * trials, "summary": summary}


@pytest.mark.parametrize(
    ("rights", "words", "within_chance"),
    [
        (
            {"kNN": 95, "SVM": 90, "NRC": 80, "CRC": 70},
            "A baseline, kNN, wins clearly: it is 15.0 points ahead of NRC, the best representation "
            "classifier (95.0 against 80.0 %; p < 0.001, exact McNemar test on the test samples).",
            False,
        ),
        (
            {"kNN": 80, "NRC": 95},
            "NRC wins clearly: it is 15.0 points ahead of kNN, the best baseline (95.0 against 80.0 %; "
            "p < 0.001, exact McNemar test on the test samples).",
            False,
        ),
        (
            {"kNN": 93, "NRC": 95},
            "NRC is 2.0 points ahead of kNN, the best baseline (95.0 against 93.0 %; p = 0.5, exact McNemar "
            "test on the test samples): a lead within chance.",
            True,
        ),
        ({"kNN": 95, "NRC": 95}, "NRC and kNN, the best baseline, are right equally often: 95.0 %.", True),
        (
            {"CRC": 80, "NRC": 95},
            "NRC wins clearly: it is 15.0 points ahead of CRC, the next best (95.0 against 80.0 %; "
            "p < 0.001, exact McNemar test on the test samples).",
            False,
        ),
    ],
)
def test_one_sentence_says_who_leads(rights, words, within_chance):
    found = lead(_results(rights), set(BASELINES))
    assert found["sentence"] == words
    assert found["within_chance"] is within_chance
    assert found["is_baseline"] == words.startswith("A baseline")


def test_a_single_method_leads_nobody():
    assert lead(_results({"NRC": 90}), set(BASELINES))["sentence"] == "NRC is the only method here."


# Errors


def test_worst_errors_by_hand():
    X, y = IRIS
    parts = random_splits(y, trials=1, train_per_class=10, seed=0, name="iris")[0]
    clf = NRC().fit(X[parts.train], y[parts.train])
    queries, labels = X[parts.test], y[parts.test]
    predictions = clf.predict(queries)
    found = worst_errors(clf, queries, predictions, labels, parts)
    scores = clf.residuals(queries)
    behind = scores[np.arange(len(labels)), labels] - scores.min(axis=1)
    assert len(found) == min(SHOWN_ERRORS, (predictions != labels).sum()) > 1
    np.testing.assert_allclose([error["margin"] for error in found], np.sort(behind)[::-1][: len(found)])
    for error in found:
        assert (y[error["query"]], error["given"]) == (error["truth"], clf.predict(X[[error["query"]]])[0])
        shares = [atom["share"] for atom in error["atoms"]]
        assert shares == sorted(shares, reverse=True)
        assert all(y[atom["sample"]] == atom["label"] for atom in error["atoms"])
        assert all(atom["sample"] in parts.train for atom in error["atoms"])
    assert worst_errors(BASELINES["kNN"](), queries, predictions, labels, parts) == []


def test_errors_of_unknown_classes_and_infinite_scores():
    X, y = np.eye(4), np.array([0, 0, 1, 1])
    clf = CRC().fit(X, y)
    queries, labels = np.array([[0.0, 0.0, 1.0, 0.2], [1.0, 0.1, 0.0, 0.0]]), np.array([0, 7])
    (error,) = worst_errors(clf, queries, clf.predict(queries), labels, Split(np.arange(4), np.arange(4, 6)))
    assert (error["query"], error["truth"], error["given"]) == (4, 0, 1)
    assert error["margin"] == np.inf


def test_confusion_counts_all_trials():
    found = confusion(["a", "b"], [["a", "b"], ["a", "a"]], [["a", "a"], ["b", "a"]])
    assert found["counts"] == [[2, 1], [1, 0]]
    pairs = confused_pairs({"method": "NRC", **found})
    assert pairs.rows == (("a", "b", "1", "3"), ("b", "a", "1", "1"))
    assert confused_pairs({"method": "NRC", **confusion(["a"], [["a"]], [["a"]])}) is None


@pytest.mark.parametrize("n_classes", [3, 40, 100, 130])
def test_every_class_of_a_matrix_is_named_or_left_out_and_said(n_classes):
    names = [f"{k} is the number of a class with a long name" for k in range(n_classes)]
    counts = 5 * np.eye(n_classes, dtype=int)
    counts[0, -1] = 2
    told = confusion_drawing({"method": "NRC", "true": names, "answered": names, "counts": counts.tolist()})
    drawn = min(n_classes, MOST_CLASSES)
    assert len(told["names"]) == drawn
    assert len(set(told["names"])) == drawn  # cut in the middle, they still differ
    assert told["left_out"] == n_classes - drawn
    assert told["side"] >= 15  # a name is 12 pixels high
    (wrong,) = (cell for cell in told["cells"] if cell["row"] != cell["column"])
    assert wrong["words"] == f"2 of 7 of class {names[0]} taken for {names[-1]}"


@pytest.mark.parametrize(("n_classes", "named"), [(10, 10), (40, 40), (100, range(20, 46))])
def test_names_below_the_coefficients_do_not_overlap(n_classes, named):
    labels = [f"name {k:03d}" for k in range(n_classes) for _ in range(3)]
    code = np.zeros(len(labels))
    code[150 % len(labels)] = 1.0
    shown = {
        "label": "name 003",
        "atom_labels": labels,
        "codes": {"SRC": code, "CRC": code, "NRC": code},
        "predictions": dict.fromkeys(("SRC", "CRC", "NRC"), "name 001"),
    }
    drawn = str(coefficient_figure(shown))
    count = drawn.count(">name ")
    assert count == named if isinstance(named, int) else count in named
    assert ">name 003<" in drawn  # that of the query
    assert f">{labels[150 % len(labels)]}<" in drawn  # and that of the largest coefficient


def test_a_score_of_the_reconstruction_rule_is_no_residual():
    X, y = IRIS
    rule = ProCRC().fit(X, y).explain(X[0]).verdict.rule
    assert score_words(rule, {"a": 0.25, "b": 0.5}, 2) == (
        "Distance from the whole reconstruction: 0.25 for a, 0.5 for the true b (place 2)."
    )
    assert score_words("scaled_residual", {"a": 0.25, "b": "inf"}, 3) == (
        "Scaled residual: 0.25 for a, inf for the true b (place 3)."
    )
    assert "no training sample" in score_words("residual", {"a": 0.25}, None)


def test_compare_with_selection_keeps_the_features_in_words():
    X, y = IRIS
    trials = random_splits(y, trials=1, train_per_class=12, seed=0, name="iris")
    kinds = (Features("minmax"), Features("standard", kernel="rbf"))
    data = Data("iris", X, y, trials=trials, features=kinds, baseline_features=Features("standard"))
    cell = comparison.measure("CRC", data, trials[0], seed=0, select="cv")
    assert cell["chosen"]["features"] in {str(kind) for kind in kinds}
    assert all(error["rule"] == cell["chosen"]["rule"] for error in cell["errors"])
    cell = comparison.measure("kNN", data, trials[0], seed=0, select="cv")
    assert set(cell["chosen"]) == {"n_neighbors", "weights"}


# Time left


def test_time_left_counts_features_of_this_and_later_groups():
    clock = SimpleNamespace(now=0.0)
    left = TimeLeft(2, clock=lambda: clock.now)

    def at(seconds, share=None, *, finished, to_do):
        clock.now = seconds
        left.compute() if share is None else left.prepare(share)
        return left.words(finished, to_do)

    left.begin_group()
    assert at(0, finished=0, to_do=6) == ""
    assert at(100, 0.0, finished=0, to_do=6) == ""
    assert at(300, 0.1, finished=0, to_do=6) == ""  # 200 s went into a codebook as well: no rate is known
    # 100 s for another tenth, so 800 s for the rest; another group needs 1,200 s in all.
    assert at(400, 0.2, finished=0, to_do=6) == "about 33 min left for features, then 6 results"
    assert at(1200, 1.0, finished=0, to_do=6) == "about 20 min left for features, then 6 results"
    assert at(1200, finished=0, to_do=6) == "about 20 min left for features, then 6 results"
    # Three cells of 60 s, so 180 s for the three to come, after 1,200 s of features.
    assert at(1380, finished=3, to_do=3) == "about 23 min left"
    left.begin_group()
    assert at(1400, 0.0, finished=3, to_do=3) == ""
    assert at(2600, finished=3, to_do=3) == "about 3 min left"
    assert at(2780, finished=6, to_do=0) == "about 1 s left"
