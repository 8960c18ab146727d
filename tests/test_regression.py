"""NonNegativeRegression against scikit-learn's LinearRegression(positive=True), target by target."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from residuum import NonNegativeRegression


def data(n_samples, n_features, shape, scale=1.0):
    rng = np.random.default_rng(n_features)
    X = scale * (rng.normal(size=(n_samples, n_features)) + 1)
    return X, rng.normal(size=(n_samples, *shape)) + X[:, :1].reshape(-1, *[1] * len(shape)) / scale - 3


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("shape", [(), (1,), (7,)])
@pytest.mark.parametrize(("n_features", "scale"), [(5, 1.0), (5, 1e-30), (150, 1.0)])
def test_coefficients_vs_scikit_learn(n_features, scale, shape, fit_intercept, weighted):
    X, y = data(200, n_features, shape, scale)
    weights = np.random.default_rng(1).integers(0, 4, len(X)) if weighted else None
    ours = NonNegativeRegression(fit_intercept=fit_intercept).fit(X, y, sample_weight=weights)
    theirs = LinearRegression(positive=True, fit_intercept=fit_intercept).fit(X, y, sample_weight=weights)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(scale * ours.coef_, scale * theirs.coef_, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-9)
    assert (ours.coef_ >= 0).all()
    assert (ours.gap_ <= 1e-10).all()
    assert len(ours.gap_) == (shape[0] if shape else 1)


def test_a_wide_problem_reaches_the_objective_of_scikit_learn():
    X, Y = data(20, 60, (3,))
    ours, theirs = NonNegativeRegression().fit(X, Y), LinearRegression(positive=True).fit(X, Y)
    np.testing.assert_allclose(
        ((Y - ours.predict(X)) ** 2).sum(axis=0), ((Y - theirs.predict(X)) ** 2).sum(axis=0), atol=1e-9
    )


@pytest.mark.parametrize(
    ("weights", "words"),
    [(np.zeros(20), "at least one non-zero"), (-np.ones(20), "Negative values"), (np.ones(3), "shape")],
)
def test_bad_weights_are_one_clear_error(weights, words):
    with pytest.raises(ValueError, match=words):
        NonNegativeRegression().fit(*data(20, 3, ()), sample_weight=weights)


def test_masked_targets_are_refused():
    X, y = data(20, 3, ())
    with pytest.raises(TypeError, match="'y' parameter of NonNegativeRegression"):
        NonNegativeRegression().fit(X, np.ma.masked_less(y, 0))
