"""BOW-SIFT against its formula, written out slowly, and as a scikit-learn transformer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from ugly_images import scene

from residuum.errors import UsageError

cv2 = pytest.importorskip("cv2", reason="needs the extra 'images': opencv-python-headless")

from residuum.features import BowSift, ImageError  # noqa: E402
from residuum.features.bow_sift import (  # noqa: E402
    dense_sift,
    grid,
    nearest_words,
    opponent_channels,
    word_scorer,
)
from residuum.features.image_files import read_image  # noqa: E402


@pytest.fixture(scope="module")
def images() -> list[np.ndarray]:
    sizes = [(64, 80), (96, 60), (33, 47), (120, 32), (200, 150), (64, 80)]
    return [scene(*size, seed=i) for i, size in enumerate(sizes)]


@pytest.fixture(scope="module")
def fitted(images: list[np.ndarray]) -> BowSift:
    return BowSift(n_words=20, max_side=160).fit(images)


# Parameters, and what the oracle is told: patches, sigma of OpenCV, power of the counts.
SETTINGS: list[tuple[BowSift, tuple[int, ...], list[float], float]] = [
    (BowSift(20, max_side=160), (32,), [0.51], 0.5),
    (BowSift(20, max_side=160, colour=True), (32,), [0.51], 0.5),
    (BowSift(20, max_side=160, patch=(12, 24), smoothing=0.4, stride=5), (12, 24), [1.2, 2.4], 0.5),
    (BowSift.as_published(20), (16,), [2 / 3], 1.0),
]


def oracle(bow: BowSift, channels: np.ndarray, patches: tuple[int, ...], sigmas: list[float]) -> np.ndarray:
    """Counts, one patch at a time, one word at a time, straight from the module's formula."""
    height, width = channels.shape[:2]
    histograms = np.zeros((5, len(bow.codebook_)))
    for patch, sigma in zip(patches, sigmas):
        sift = cv2.SIFT_create(nOctaveLayers=1, sigma=sigma)
        for y in grid(height, patch, bow.stride):
            for x in grid(width, patch, bow.stride):
                point = cv2.KeyPoint(float(x), float(y), patch / 6, 0.0, 0.0, 0)
                parts = [
                    sift.compute(channel.copy(), [point])[1][0] for channel in np.moveaxis(channels, 2, 0)
                ]
                distances = [
                    ((np.concatenate(parts) - word) ** 2).sum() for word in bow.codebook_.astype(float)
                ]
                word = int(np.argmin(distances))
                histograms[0, word] += 1
                histograms[1 + 2 * (y >= height / 2) + (x >= width / 2), word] += 1
    return histograms.ravel()


@pytest.mark.parametrize(("bow", "patches", "sigmas", "power"), SETTINGS, ids=lambda value: None)
def test_features_vs_oracle(
    images: list[np.ndarray], bow: BowSift, patches: tuple[int, ...], sigmas: list[float], power: float
) -> None:
    bow = clone(bow).fit(images)
    features = bow.transform(images)
    assert features.shape == (6, 100)
    assert features.dtype == np.float32
    for row, image in zip(features, images):
        pixels = read_image(image, mode="rgb" if bow.colour else "grey", max_side=bow.max_side)
        channels = opponent_channels(pixels) if bow.colour else pixels[:, :, None]
        counts = oracle(bow, channels, patches, sigmas)
        np.testing.assert_allclose(row, counts**power / np.linalg.norm(counts**power), atol=1e-6)


def test_published_setting_has_5120_features() -> None:
    images = [scene(256, 384, seed=seed) for seed in range(3)]
    bow = BowSift.as_published().fit(images)
    assert bow.codebook_.shape == (1024, 128)
    assert bow.transform(images[:1]).shape == (1, 5120)
    assert len(dense_sift(images[0][:, :, 0], 16)) == 31 * 47


def test_opponent_channels_vs_formula() -> None:
    red, green, blue = (np.eye(3, dtype=np.uint8)[i].reshape(1, 1, 3) * 255 for i in range(3))
    white, black = np.full((1, 1, 3), 255, np.uint8), np.zeros((1, 1, 3), np.uint8)
    found = [opponent_channels(pixel)[0, 0].tolist() for pixel in (white, black, red, green, blue)]
    grey = [[255, 128, 128], [0, 128, 128]]
    assert found == [*grey, [76, 255, 191], [150, 0, 191], [29, 128, 0]]


def test_colour_tells_what_grey_cannot() -> None:
    """Stripes of red and green of the same brightness."""
    image = np.zeros((64, 64, 3), np.uint8)
    image[:, :, 0], image[:, :, 1] = 120, 61
    image[:, ::8] = [0, 122, 0]
    plain = np.broadcast_to(read_image(image, mode="grey")[:, :, None], image.shape).copy()
    for colour, differs in ((False, False), (True, True)):
        bow = BowSift(4, colour=colour).fit([image, plain])
        one, other = bow.transform([image, plain])
        assert np.array_equal(one, other) != differs


@pytest.mark.parametrize(
    ("side", "first", "n"), [(16, 8, 1), (23, 11, 1), (24, 8, 2), (31, 11, 2), (256, 8, 31)]
)
def test_grid_fits_and_is_centred(side: int, first: int, n: int) -> None:
    centres = grid(side, 16, 8)
    assert (centres[0], len(centres)) == (first, n)
    assert centres[-1] + 8 <= side
    assert abs((centres[0] - 8) - (side - 8 - centres[-1])) <= 1


def test_descriptors_see_one_patch_only() -> None:
    """What lies outside the 16 x 16 patch (and the smoothing's reach) does not change its descriptor."""
    grey = scene(64, 64)[:, :, 0].copy()
    before = dense_sift(grey, 16)[8]  # second row, second column: centre (16, 16)
    grey[32:, 32:] = 255 - grey[32:, 32:]
    np.testing.assert_array_equal(dense_sift(grey, 16)[8], before)
    grey[12:20, 12:20] = 255 - grey[12:20, 12:20]
    assert np.abs(dense_sift(grey, 16)[8] - before).max() > 10


def test_nearest_vs_distances() -> None:
    rng = np.random.default_rng(0)
    points, words = (rng.uniform(0, 255, (n, 128)).astype(np.float32) for n in (700, 37))
    distances = ((points[:, None].astype(float) - words[None]) ** 2).sum(axis=2)
    np.testing.assert_array_equal(nearest_words(points, word_scorer(words)), distances.argmin(axis=1))


def test_threads_order_and_batch_change_nothing(fitted: BowSift, images: list[np.ndarray]) -> None:
    once = fitted.transform(images)
    two = clone(fitted).set_params(n_jobs=2)
    two.fit(images)
    np.testing.assert_array_equal(two.codebook_, fitted.codebook_)
    np.testing.assert_array_equal(two.transform(images), once)
    np.testing.assert_array_equal(fitted.transform(images[::-1]), once[::-1])
    np.testing.assert_array_equal(fitted.transform(images[2:3]), once[2:3])
    other = clone(fitted).set_params(random_state=1).fit(images)
    assert not np.array_equal(other.codebook_, fitted.codebook_)


def test_paths_arrays_and_read_agree(fitted: BowSift, tmp_path: Path) -> None:
    pixels = scene(300, 210)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    from_path = fitted.transform([tmp_path / "a.png"])
    np.testing.assert_array_equal(fitted.transform([str(tmp_path / "a.png")]), from_path)
    np.testing.assert_array_equal(fitted.transform(np.array([str(tmp_path / "a.png")])), from_path)
    np.testing.assert_array_equal(fitted.transform([pixels]), from_path)
    np.testing.assert_array_equal(fitted.transform(pixels[None]), from_path)
    np.testing.assert_array_equal(fitted.transform([fitted.read(tmp_path / "a.png")]), from_path)


def test_scikit_learn_conventions(images: list[np.ndarray], fitted: BowSift) -> None:
    pytest.importorskip("pandas")
    from sklearn.neighbors import KNeighborsClassifier

    parameters = fitted.get_params()
    assert clone(fitted).get_params() == parameters
    assert not hasattr(clone(fitted), "codebook_")
    names = fitted.get_feature_names_out()
    assert (len(names), names[0]) == (100, "bowsift0")
    frame = clone(fitted).set_output(transform="pandas").fit(images).transform(images)
    assert list(frame.columns) == list(names)
    model = make_pipeline(BowSift(n_words=8), KNeighborsClassifier(1)).fit(images, list("abcdef"))
    assert list(model.predict(images)) == list("abcdef")
    tags = fitted.__sklearn_tags__()
    assert tags.no_validation
    assert not tags.input_tags.two_d_array


def test_fingerprint_follows_what_matters(fitted: BowSift, images: list[np.ndarray]) -> None:
    same = clone(fitted).set_params(n_jobs=2)
    same.codebook_ = fitted.codebook_.copy()
    assert same.fingerprint() == fitted.fingerprint() == same.set_params(patch=(32,)).fingerprint()
    changes = {"stride": 4, "max_side": 100, "patch": 12, "smoothing": 0.1, "square_root": False}
    for name, value in {**changes, "colour": True}.items():
        other = clone(fitted).set_params(**{name: value})
        other.codebook_ = fitted.codebook_
        assert other.fingerprint() != fitted.fingerprint()
    same.codebook_[0, 0] += 1
    assert same.fingerprint() != fitted.fingerprint()


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"n_words": 0}, "'n_words' parameter of BowSift must be an integer"),
        ({"patch": 18}, "multiple of 4"),
        ({"patch": (16, 18)}, "multiple of 4"),
        ({"patch": ()}, "'patch' parameter of BowSift must be a multiple of 4"),
        ({"patch": 16.0}, "'patch'"),
        ({"smoothing": -1}, "'smoothing' parameter of BowSift must be a number from 0"),
        ({"smoothing": float("nan")}, "'smoothing'"),
        ({"colour": "rgb"}, "'colour' parameter of BowSift must be True or False"),
        ({"square_root": 0.5}, "'square_root'"),
        ({"stride": 2.5}, "'stride'"),
        ({"max_side": 12, "patch": 16}, "to max_side=12"),
        ({"n_words": 500}, "at least n_words=500 patches"),
    ],
)
def test_bad_parameters(images: list[np.ndarray], parameters: dict[str, object], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        BowSift(**parameters).fit(images[:1])  # type: ignore[arg-type]


def test_bad_input(fitted: BowSift, tmp_path: Path) -> None:
    for bad in ("a.jpg", Path("a.jpg"), [], np.zeros((3, 5)), 3):
        with pytest.raises(UsageError, match="BowSift"):
            fitted.transform(bad)
    with pytest.raises(ImageError, match="absent"):
        fitted.transform([scene(), tmp_path / "absent.jpg"])
    with pytest.raises(ImageError, match="too small"):
        fitted.transform([scene(31, 40)])


def test_opencv_threads_are_put_back(fitted: BowSift) -> None:
    before = cv2.getNumThreads()
    fitted.transform([scene()])
    assert cv2.getNumThreads() == before


def test_real_birds_are_told_apart(data_home: Path) -> None:
    from residuum.errors import DataNotFoundError
    from residuum.paper.data import load_images

    try:
        birds = load_images("cub200", data_home=data_home, subset=True)
    except DataNotFoundError:
        pytest.skip("no copy of cub200, nor a part of it, in RESIDUUM_DATA")
    chosen = [i for label in (1, 10, 17, 29, 47) for i in np.flatnonzero(birds.labels == label)[:16]]
    features = BowSift(n_words=100).fit_transform([birds.paths[i] for i in chosen])
    labels = birds.labels[chosen]
    pairs = np.triu_indices(len(chosen), 1)
    similarity, same = (features @ features.T)[pairs], (labels[:, None] == labels)[pairs]
    # Chance that a pair of one species is more alike than a pair of two. Nearest neighbours of so few images
    # say little: their accuracy moves by 8 points with the seed of k-means, this by less than 1.
    ranks = similarity.argsort().argsort()
    assert (ranks[same].mean() - (same.sum() - 1) / 2) / (~same).sum() > 0.58  # no skill is 0.5
