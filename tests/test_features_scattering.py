"""Scattering2D against the definition, an independent implementation, and its own promises."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from residuum.features import EigenfacePCA, Scattering2D

RNG = np.random.default_rng(0)


def literal_gabor(shape, sigma, theta, xi, slant):
    """Sum the formula over the plane, period by period; its normalisation has pi = 3.1415, as in Kymatio."""
    reach = 6
    y, x = np.meshgrid(*(np.arange(-reach * n, (reach + 1) * n) for n in shape), indexing="ij")
    u = y * np.cos(theta) + x * np.sin(theta)
    v = x * np.cos(theta) - y * np.sin(theta)
    plane = np.exp(-(u**2 + slant**2 * v**2) / (2 * sigma**2) + 1j * xi * u) * slant / (2 * 3.1415 * sigma**2)
    periods = plane.reshape(2 * reach + 1, shape[0], 2 * reach + 1, shape[1])
    return periods.sum(axis=(0, 2))


def literal_morlet(shape, sigma, theta, xi, slant):
    wave, envelope = (literal_gabor(shape, sigma, theta, f, slant) for f in (xi, 0.0))
    return wave - wave.sum() / envelope.sum() * envelope


def literal_coarse(kernel, factor):
    """Drop the frequencies a grid ``factor`` times coarser cannot hold, by sums over all pixels."""
    h, w = kernel.shape
    low_h, low_w = h // factor, w // factor
    coarse = np.zeros((low_h, low_w), dtype=complex)
    y, x = np.mgrid[:h, :w]
    low_y, low_x = np.mgrid[:low_h, :low_w]
    for p in range(-low_h // 2, low_h // 2):
        for q in range(-low_w // 2, low_w // 2):
            weight = (kernel * np.exp(-2j * np.pi * (p * y / h + q * x / w))).sum()
            coarse += weight * np.exp(2j * np.pi * (p * low_y / low_h + q * low_x / low_w)) / (low_h * low_w)
    return coarse


def literal_convolution(image, kernel):
    """Circular convolution, pixel by pixel."""
    h, w = image.shape
    result = np.zeros((h, w), dtype=complex)
    for i in range(h):
        for j in range(w):
            result += image[i, j] * np.roll(kernel, (i, j), axis=(0, 1))
    return result


def literal_scattering(image, J, L):
    step = 2**J
    fill = [-size % step for size in image.shape]
    padded = np.pad(image, [(step, step + extra) for extra in fill], mode="reflect")
    shape = padded.shape

    def psi(j, t):
        theta = (L // 2 - 1 - t) * np.pi / L
        return literal_morlet(shape, 0.8 * 2**j, theta, 0.75 * np.pi / 2**j, 4 / L)

    def average(modulus, j):
        phi = literal_coarse(literal_gabor(shape, 0.8 * 2 ** (J - 1), 0, 0, 1), 2**j)
        stride = 2 ** (J - j)
        return literal_convolution(modulus, phi).real[stride:-stride:stride, stride:-stride:stride]

    first, second = [], []
    for j1 in range(J):
        for t1 in range(L):
            modulus = np.abs(literal_convolution(padded, psi(j1, t1)))[:: 2**j1, :: 2**j1]
            first.append(average(modulus, j1))
            for j2 in range(j1 + 1, J):
                stride = 2 ** (j2 - j1)
                for t2 in range(L):
                    wave = literal_convolution(modulus, literal_coarse(psi(j2, t2), 2**j1))
                    second.append(average(np.abs(wave)[::stride, ::stride], j2))
    return np.stack([average(padded, 0), *first, *second])


@pytest.mark.parametrize(
    ("shape", "J", "L"), [((8, 8), 1, 2), ((5, 3), 1, 4), ((7, 12), 2, 2), ((8, 8), 2, 3), ((1, 9), 2, 1)]
)
def test_scattering_vs_definition(shape, J, L):
    image = RNG.standard_normal(shape)
    expected = literal_scattering(image, J, L)
    got = Scattering2D(J, L).fit_transform(image[None]).reshape(expected.shape)
    np.testing.assert_allclose(got, expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-6), (np.float32, 2e-6)])
def test_scattering_vs_reference(dtype, tolerance):
    home = os.environ.get("RESIDUUM_DATA")
    if not home or not (Path(home) / "scattering_reference.npz").is_file():
        pytest.skip("needs scattering_reference.npz in the folder named by RESIDUUM_DATA")
    with np.load(Path(home) / "scattering_reference.npz") as reference:
        images, expected = reference["images"], reference["coefficients"]  # (20, 32, 32), (20, 217, 4, 4)
    got = Scattering2D(J=3, L=8).fit_transform(images.astype(dtype)).reshape(expected.shape)
    error = np.abs(got - expected).max(axis=(2, 3)) / np.abs(expected).max(axis=(2, 3))
    assert error.max() < tolerance


@pytest.mark.parametrize("side", [28, 32])
def test_the_papers_number_of_features(side):
    images = RNG.random((3, side, side))
    transformer = Scattering2D().fit(images)
    assert transformer.transform(images).shape == (3, 217 * 4 * 4) == (3, 3472)
    names = transformer.get_feature_names_out()
    assert (len(names), names[0]) == (3472, "scattering2d0")


def test_the_paths_are_in_the_documented_order():
    # A plane wave along the rows' direction answers most to the first-order wavelets of that direction.
    wave = np.cos(0.75 * np.pi * np.arange(32))
    for image, theta in ((np.tile(wave[:, None], (1, 32)), 0.0), (np.tile(wave, (32, 1)), -np.pi / 2)):
        maps = Scattering2D(J=2, L=4).fit_transform(image[None]).reshape(-1, 64).mean(axis=1)
        t = next(t for t in range(4) if np.isclose((4 // 2 - 1 - t) * np.pi / 4, theta))
        assert maps[1:9].argmax() == t  # the scale j=0 comes first


def test_flat_rows_and_images_agree():
    images = RNG.random((4, 12, 20))
    expected = Scattering2D(J=2, L=3).fit_transform(images)
    flat = images.reshape(4, -1)
    np.testing.assert_array_equal(Scattering2D(J=2, L=3, image_shape=(12, 20)).fit_transform(flat), expected)
    np.testing.assert_array_equal(Scattering2D(J=2, L=3).fit(images).transform(flat), expected)
    np.testing.assert_array_equal(Scattering2D(J=2, L=3).fit_transform(images.tolist()), expected)


def test_square_rows_need_no_shape_and_others_warn():
    square = RNG.random((2, 64))
    expected = Scattering2D(J=2, L=2).fit_transform(square.reshape(2, 8, 8))
    np.testing.assert_array_equal(Scattering2D(J=2, L=2).fit_transform(square), expected)
    with pytest.warns(UserWarning, match="image_shape"):
        transformer = Scattering2D(J=2, L=2).fit(RNG.random((2, 63)))
    assert transformer.image_shape_ == (1, 63)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept_and_float32_is_close(dtype):
    images = RNG.random((5, 16, 16))
    features = Scattering2D(J=2).fit_transform(images.astype(dtype))
    assert features.dtype == dtype
    np.testing.assert_allclose(features, Scattering2D(J=2).fit_transform(images), atol=2e-6)


def test_threads_and_batches_change_nothing():
    images = RNG.random((70, 16, 16))
    alone = np.vstack([Scattering2D(J=2, L=4).fit_transform(image[None]) for image in images])
    for n_jobs in (1, 2):
        together = Scattering2D(J=2, L=4, n_jobs=n_jobs).fit_transform(images)
        np.testing.assert_allclose(together, alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("exponent", [-1000, -600, 600, 1000])
def test_scale_is_carried_through_exactly(exponent):
    images = RNG.random((3, 16, 16))
    features = Scattering2D(J=2, L=4).fit_transform(images)
    scaled = Scattering2D(J=2, L=4).fit_transform(np.ldexp(images, exponent))
    np.testing.assert_array_equal(scaled, np.ldexp(features, exponent))


def test_images_are_not_changed():
    images = RNG.random((3, 16, 16))
    before = images.copy()
    images.flags.writeable = False
    Scattering2D(J=2, normalize="path_max").fit_transform(images)
    np.testing.assert_array_equal(images, before)


def test_path_max_divides_each_map_by_its_maximum():
    images = RNG.random((3, 16, 16))
    images[1] = 0
    images[2] = 0.7  # constant up to the last bit: every wavelet answers with rounding noise
    images[2, ::3, ::2] = np.nextafter(0.7, 1)
    maps = Scattering2D(J=2, L=4).fit_transform(images).reshape(3, -1, 16)
    got = Scattering2D(J=2, L=4, normalize="path_max").fit_transform(images).reshape(3, -1, 16)
    np.testing.assert_allclose(got[0], maps[0] / maps[0].max(axis=1, keepdims=True), rtol=1e-14)
    assert not got[1].any()
    assert maps[2, 1:].any()
    np.testing.assert_allclose(got[2, 0], 1)
    assert not got[2, 1:].any()


def test_path_max_of_negative_images_keeps_the_sign():
    images = -RNG.random((1, 16, 16))
    got = Scattering2D(J=2, L=2, normalize="path_max").fit_transform(images)
    assert got[0, :16].min() == -1


def test_shifts_by_the_sampling_step_shift_the_maps():
    image = np.zeros((64, 64))
    image[24:36, 26:38] = RNG.random((12, 12))
    moved = np.roll(image, (8, 16), axis=(0, 1))
    first, second = Scattering2D(J=3, L=4).fit_transform(np.stack([image, moved])).reshape(2, -1, 8, 8)
    np.testing.assert_allclose(second[:, 3:7, 4:8], first[:, 2:6, 2:6], atol=1e-3 * first.max())


def test_pipeline_and_clone():
    images = RNG.random((12, 64))
    pipeline = make_pipeline(Scattering2D(J=2, L=2, normalize="path_max"), EigenfacePCA(5))
    np.testing.assert_array_equal(
        clone(pipeline).fit(images).transform(images), pipeline.fit_transform(images)
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"J": 0}, "'J'.*Got 0"),
        ({"J": 2.0}, "'J'.*2.0"),
        ({"J": True}, "'J'"),
        ({"L": -1}, "'L'"),
        ({"normalize": "max"}, "'normalize'.*path_max"),
        ({"image_shape": (8,)}, "image_shape"),
        ({"image_shape": (8, 0)}, "image_shape"),
        ({"image_shape": 64}, "image_shape"),
        ({"image_shape": (8, 9)}, r"image_shape=\(8, 9\).*64 features"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        Scattering2D(**parameters).fit(np.ones((2, 64)))


def test_bad_images():
    transformer = Scattering2D(J=2, L=2).fit(RNG.random((2, 8, 8)))
    with pytest.raises(ValueError, match=r"\(8, 8\).*\(4, 16\)"):
        transformer.transform(RNG.random((2, 4, 16)))
    with pytest.raises(ValueError, match="NaN"):
        transformer.transform(np.full((2, 8, 8), np.nan))
    with pytest.raises(ValueError, match="2D"):
        transformer.transform(np.ones((2, 8, 8, 1)))


def test_scikit_learn_checks():
    # A process of its own: SCIPY_ARRAY_API counts only when it is set before SciPy is imported.
    code = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "from residuum.features import Scattering2D\n"
        "other = Scattering2D(1, 2, normalize='path_max', n_jobs=2)\n"
        "for transformer in Scattering2D(), other:\n"
        "    results = check_estimator(transformer, on_skip=None)\n"
        "    assert len(results) > 40 and {r['status'] for r in results} <= {'passed', 'skipped'}, results\n"
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
