"""PipelineCV chooses features and parameters exactly as GridSearchCV over the same pipelines does."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from test_selection import SEARCHES, name

from residuum import CRCCV, KernelMap, PipelineCV, SoftNRCCV, load_model, save_model
from residuum.dictionary import Dictionary

FEATURES = [
    "passthrough",
    StandardScaler(),
    make_pipeline(StandardScaler(), KernelMap(sharpness=0.1)),
    make_pipeline(StandardScaler(), KernelMap(sharpness=1.0)),
    KernelMap("poly", degree=2, max_landmarks=40),
]


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    # One sample of another kind: where a fold's training part lacks it, a scaler fitted to all is another.
    X = X[order]
    X[7] *= 1000
    return X, y[order]


@pytest.mark.parametrize("search", SEARCHES, ids=name)
def test_vs_grid_search_over_the_pipeline(search, wine):
    X, y = wine
    found = PipelineCV(search, features=FEATURES).fit(X, y)
    grid = []
    for candidate in found.cv_results_["params"]:
        values = {f"model__{k}": [v] for k, v in candidate.items() if k != "features"}
        grid.append({"features": [FEATURES[candidate["features"]]], **values})
    pipeline = Pipeline([("features", "passthrough"), ("model", search.classifier())])
    reference = GridSearchCV(pipeline, grid).fit(X, y)
    for i in range(found.n_splits_):
        key = f"split{i}_test_score"
        np.testing.assert_allclose(found.cv_results_[key], reference.cv_results_[key], atol=1e-10)
    assert found.best_index_ == reference.best_index_
    np.testing.assert_array_equal(found.predict(X), reference.predict(X))


def test_coordinates_of_a_kernel_are_not_decomposed_twice(wine, monkeypatch):
    X, y = wine
    Z = make_pipeline(StandardScaler(), KernelMap()).fit_transform(X)
    dictionary = Dictionary.from_samples(Z, y, 3)
    monkeypatch.setattr(np.linalg, "eigh", None)
    rotated, queries = dictionary.rotated(Z[:5])
    np.testing.assert_allclose(rotated.atoms.T @ rotated.atoms, np.diag(rotated.spectrum), atol=1e-10)
    np.testing.assert_array_equal(queries, Z[:5])


def test_groups_reach_the_splitter():
    X, y = load_digits(return_X_y=True)
    X, y, groups = X[:200], y[:200], np.arange(200) // 20
    search = PipelineCV(CRCCV(l2s=[0.01, 0.1], cv=GroupKFold(4)), features=[StandardScaler()])
    found = search.fit(X, y, groups=groups)
    grid = [{"model__l2": [c["l2"]], "model__rule": [c["rule"]]} for c in found.cv_results_["params"]]
    pipeline = Pipeline([("scale", StandardScaler()), ("model", CRCCV.classifier())])
    reference = GridSearchCV(pipeline, grid, cv=GroupKFold(4)).fit(X, y, groups=groups)
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"], atol=1e-12
    )


def test_a_model_file_keeps_the_chosen_pipeline(wine, tmp_path):
    X, y = wine
    found = PipelineCV(SoftNRCCV(l2s=[0.01], neg_weights=[1]), features=FEATURES[2:4]).fit(X, y)
    opened = load_model(save_model(found, tmp_path / "wine.residuum"))
    assert [type(step).__name__ for _, step in opened.steps] == ["StandardScaler", "KernelMap", "SoftNRC"]
    np.testing.assert_array_equal(opened.decision_function(X), found.decision_function(X))
    first = found.explain(X[0])
    assert opened[-1].explain(opened[:-1].transform(X[:1])).to_dict() == first.to_dict()


@pytest.mark.parametrize("wrong", [{"search": "CRC"}, {"features": []}, {"features": ["standard"]}])
def test_bad_parameters_are_named(wine, wrong):
    with pytest.raises(TypeError, match=f"The '{next(iter(wrong))}' parameter of PipelineCV"):
        PipelineCV(**wrong).fit(*wine)


def test_labels_of_another_length_are_named(wine):
    X, y = wine
    with pytest.raises(ValueError, match=r"X has 178 samples, y has 177\.|inconsistent numbers of samples"):
        PipelineCV(CRCCV(l2s=[0.1]), features=[StandardScaler()]).fit(X, y[1:])


def test_a_failed_fit_changes_nothing(wine):
    X, y = wine
    found = PipelineCV(CRCCV(l2s=[0.1]), features=[StandardScaler()]).fit(X, y)
    before = found.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        found.fit(np.full_like(X, np.nan), y)
    np.testing.assert_array_equal(found.predict(X), before)
