"""EigenfacePCA against a plain singular value decomposition, and against its own promises."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from sklearn.decomposition import PCA

from residuum.features import EigenfacePCA

RNG = np.random.default_rng(0)


def separated(n_samples, n_features, ratio=0.8, rank=12):
    """Data whose centred singular values are ratio^k exactly, with known directions."""
    left = RNG.standard_normal((n_samples, rank))
    left = np.linalg.qr(left - left.mean(axis=0))[0]
    right = np.linalg.qr(RNG.standard_normal((n_features, rank)))[0]
    return left * ratio ** np.arange(rank) @ right.T + RNG.random(n_features), right.T


def oracle(X, k, queries):
    """The definition, by the full decomposition."""
    directions = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:k]
    for row in directions:
        if row[np.argmax(np.abs(row))] < 0:
            row *= -1
    projected = queries @ directions.T
    return projected / np.linalg.norm(projected, axis=1, keepdims=True)


@pytest.mark.parametrize("shape", [(20, 300), (300, 20), (60, 60)])
@pytest.mark.parametrize(("ratio", "tolerance"), [(0.8, 1e-12), (0.35, 1e-10), (0.25, 1e-10), (0.05, 1e-8)])
def test_directions_vs_construction(shape, ratio, tolerance):
    # 0.35 is the steepest spectrum left to the Gram matrix; by the Gram matrix 0.05 would be off by 1e-4.
    rank = 6
    X, directions = separated(*shape, ratio=ratio, rank=rank)
    pca = EigenfacePCA(rank).fit(X)
    signs = np.sign(np.einsum("ij,ij->i", pca.components_, directions))[:, None]
    assert np.abs(pca.components_ - signs * directions).max() < tolerance
    np.testing.assert_allclose(pca.components_ @ pca.components_.T, np.eye(rank), atol=1e-13)
    np.testing.assert_allclose(pca.singular_values_, ratio ** np.arange(rank), rtol=1e-8)
    np.testing.assert_allclose(pca.explained_variance_ratio_.sum(), 1)
    np.testing.assert_allclose(pca.mean_, X.mean(axis=0))


@pytest.mark.parametrize("shape", [(20, 300), (300, 20)])
def test_features_vs_definition(shape):
    X, _ = separated(*shape)
    queries = RNG.random((7, shape[1]))
    got = EigenfacePCA(9).fit(X).transform(queries)
    np.testing.assert_allclose(got, oracle(X, 9, queries), atol=1e-10)


def test_centred_and_not_normalised_is_scikit_learns_pca():
    X, _ = separated(40, 30)
    got = EigenfacePCA(8, center=True, normalize=False).fit_transform(X)
    expected = PCA(8, svd_solver="full").fit_transform(X)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_uncentred_features_of_images_share_a_direction():
    # The reason for not centring: features of non-negative images lie in a half space, centred ones do not.
    images = RNG.random((200, 30)) + 1
    common = EigenfacePCA(10).fit(images).transform(images)
    centred = EigenfacePCA(10, center=True).fit(images).transform(images)
    assert (common @ common.mean(axis=0) > 0).all()
    assert (centred @ centred.mean(axis=0) < 0).any()


def test_signs_do_not_depend_on_the_route():
    X, _ = separated(50, 40)
    components = EigenfacePCA(6).fit(X).components_
    assert (components[np.arange(6), np.abs(components).argmax(axis=1)] > 0).all()
    np.testing.assert_allclose(EigenfacePCA(6).fit(X[::-1]).components_, components, atol=1e-10)
    np.testing.assert_allclose(EigenfacePCA(6).fit(-X).components_, components, atol=1e-10)


def test_none_keeps_the_rank():
    X, _ = separated(50, 40, rank=7)
    pca = EigenfacePCA().fit(X)
    assert pca.n_components_ == 7
    assert EigenfacePCA().fit(RNG.random((10, 40))).n_components_ == 9
    assert EigenfacePCA().fit(RNG.random((40, 10))).n_components_ == 10


@pytest.mark.parametrize("k", [8, 9, 20])
def test_more_components_than_rank(k):
    X, _ = separated(50, 40, rank=7)
    with pytest.raises(ValueError, match=rf"'n_components'.*rank.*7.*Got {k} instead"):
        EigenfacePCA(k).fit(X)


def test_more_components_than_samples():
    with pytest.raises(ValueError, match=r"'n_components'.*from 1 to 4\. Got 5"):
        EigenfacePCA(5).fit(RNG.random((5, 30)))


@pytest.mark.parametrize("value", [0, -1, 2.0, "5", True])
def test_bad_n_components(value):
    with pytest.raises(ValueError, match=r"'n_components'.*an integer from 1 to 4"):
        EigenfacePCA(value).fit(RNG.random((5, 30)))


@pytest.mark.parametrize("value", [0.0, 0.1, 3e200])
def test_equal_samples(value):
    with pytest.raises(ValueError, match="samples that differ"):
        EigenfacePCA().fit(np.full((7, 5), value))


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
@pytest.mark.parametrize("center", [False, True])
def test_features_do_not_depend_on_scale(scale, center):
    X, _ = separated(30, 25)
    expected = EigenfacePCA(8, center=center).fit_transform(X)
    np.testing.assert_allclose(EigenfacePCA(8, center=center).fit_transform(X * scale), expected, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_float32_does_not_depend_on_scale(scale):
    X = RNG.random((30, 25)).astype(np.float32)
    scaled = EigenfacePCA(8).fit_transform(X * np.float32(scale))
    np.testing.assert_allclose(scaled, EigenfacePCA(8).fit_transform(X), atol=1e-5)


def test_rows_of_any_scale_are_projected_alike():
    X, _ = separated(30, 25)
    pca = EigenfacePCA(8).fit(X)
    scales = 10.0 ** RNG.uniform(-300, 300, size=(30, 1))
    np.testing.assert_allclose(pca.transform(X * scales), pca.transform(X), atol=1e-13)


def test_zero_rows_stay_zero_and_others_have_unit_norm():
    X, _ = separated(30, 25)
    pca = EigenfacePCA(8).fit(X)
    queries = X[:3].copy()
    queries[1] = 0
    features = pca.transform(queries)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), [1, 0, 1])


def test_not_normalised_keeps_the_scale():
    X, _ = separated(30, 25)
    pca = EigenfacePCA(8, normalize=False).fit(X)
    np.testing.assert_allclose(pca.transform(X), X @ pca.components_.T, atol=1e-14)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    X = RNG.random((30, 25))
    pca = EigenfacePCA(8).fit(X.astype(dtype))
    assert pca.components_.dtype == pca.transform(X.astype(dtype)).dtype == dtype
    np.testing.assert_allclose(
        pca.transform(X.astype(dtype)),
        EigenfacePCA(8).fit_transform(X),
        atol=1e-5 if dtype == np.float32 else 1e-12,
    )


def test_integers_and_read_only_input():
    images = RNG.integers(0, 256, (30, 25), dtype=np.uint8)
    images.flags.writeable = False
    before = images.copy()
    np.testing.assert_array_equal(
        EigenfacePCA(4).fit_transform(images), EigenfacePCA(4).fit_transform(images.astype(float))
    )
    np.testing.assert_array_equal(images, before)
    floats = images.astype(float)
    EigenfacePCA(4, center=True).fit(floats).transform(floats)
    np.testing.assert_array_equal(floats, before)


def test_names_and_containers():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(RNG.random((9, 4)), columns=list("abcd"))
    pca = EigenfacePCA(2).set_output(transform="pandas").fit(frame)
    assert list(pca.transform(frame).columns) == ["eigenfacepca0", "eigenfacepca1"]
    assert list(pca.get_feature_names_out()) == ["eigenfacepca0", "eigenfacepca1"]


def test_scikit_learn_checks():
    # A process of its own: SCIPY_ARRAY_API counts only when it is set before SciPy is imported.
    code = (
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from residuum.features import EigenfacePCA\n"
        "for transformer in EigenfacePCA(), EigenfacePCA(1, center=True, normalize=False):\n"
        "    results = check_estimator(transformer, on_skip=None)\n"
        "    assert len(results) > 40 and {r['status'] for r in results} <= {'passed', 'skipped'}, results\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
