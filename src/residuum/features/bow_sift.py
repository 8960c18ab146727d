"""Bag of visual words on dense SIFT, over a spatial pyramid of 1 + 2 x 2 cells.

    w(p) = argmin_k ||sift(p) - codebook_k||^2                   for every patch p of a regular grid
    h_cell(k) = #{p in cell : w(p) = k}                          cells: the whole image and its quarters
    feature = sqrt(h_whole, h_tl, h_tr, h_bl, h_br) / ||.||_2    5 * n_words numbers

The paper has the counts themselves in place of their square roots. The pyramid's two levels have equal
weights (1/2 each for two levels, Lazebnik et al. 2006).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from residuum.errors import UsageError
from residuum.features._parameters import check_integers, refuse
from residuum.features.image_files import (
    RULES_VERSION,
    ImageSource,
    Pixels,
    as_images,
    images_as_input,
    read_image,
)
from residuum.system.files import sha256
from residuum.system.packages import opencv
from residuum.system.progress import tell_progress
from residuum.system.threads import in_order

N_CELLS = 5
N_SAMPLES = 200_000  # descriptors that the codebook is learned from, evenly from at most _FIT_IMAGES images
_FIT_IMAGES = 1000
_BLOCK = 128


def grid(side: int, patch: int, stride: int) -> npt.NDArray[np.int64]:
    """Centres of the patches along one side: as many as fit, what is left over shared by both ends."""
    n = (side - patch) // stride + 1
    left_over = side - patch - stride * (n - 1)
    return left_over // 2 + patch // 2 + stride * np.arange(n)


@lru_cache(maxsize=128)
def _keypoints(shape: tuple[int, int], patch: int, stride: int) -> tuple[Any, ...]:
    cv2 = opencv()
    # OpenCV's descriptor has 4 x 4 bins of 3 * size / 2 pixels: this size makes it span one patch. Angle 0:
    # the orientation is not searched for, as is usual for dense descriptors.
    size = patch / 6
    rows, columns = (grid(side, patch, stride) for side in shape)
    return tuple(cv2.KeyPoint(float(x), float(y), size, 0.0, 0.0, 0) for y in rows for x in columns)


@lru_cache(maxsize=128)
def _cells(shape: tuple[int, int], patch: int, stride: int) -> npt.NDArray[np.int64]:
    """Which of the 2 x 2 cells each patch lies in."""
    below, right = (grid(side, patch, stride) >= side / 2 for side in shape)
    return (2 * below[:, None] + right[None, :]).ravel().astype(np.int64)


def dense_sift(
    pixels: Pixels, patch: int = 32, stride: int = 8, *, smoothing: float = 0.0
) -> npt.NDArray[np.float32]:
    """SIFT descriptors of all patches of an 8-bit image, row by row: (n_patches, 128 * n_channels).

    `smoothing` is the standard deviation of a Gaussian over the image, in bins of a quarter patch.
    """
    # OpenCV takes an image for blurred by 0.5 already, so 0.51 adds next to nothing; its own default blurs as
    # much as half a bin. One layer per octave is the least that it builds.
    extractor = opencv().SIFT_create(nOctaveLayers=1, sigma=max(smoothing * patch / 4, 0.51))
    points = _keypoints(pixels.shape[:2], patch, stride)
    channels = np.atleast_3d(pixels).transpose(2, 0, 1)
    return np.hstack([extractor.compute(np.ascontiguousarray(each), points)[1] for each in channels])


def opponent_channels(rgb: Pixels) -> Pixels:
    """Grey, red against green, and yellow against blue: (height, width, 3), 8 bits each."""
    red, green, blue = rgb.astype(np.float32).transpose(2, 0, 1)
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    against = (127.5 + (red - green) / 2, 127.5 + (red + green - 2 * blue) / 4)
    return np.rint(np.stack([grey, *against], axis=2)).astype(np.uint8)


@contextmanager
def _own_threads() -> Iterator[None]:
    """Images are shared out to threads here, so OpenCV and BLAS must not start their own."""
    cv2 = opencv()
    before = cv2.getNumThreads()
    cv2.setNumThreads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        cv2.setNumThreads(before)


class BowSift(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """``sqrt(h) / ||sqrt(h)||`` for the counts h of visual words (dense SIFT) over a spatial pyramid.

    The features of the paper, called BOW-SIFT there, are ``BowSift.as_published()``; the defaults are better,
    as docs/images.md shows. X is a list of images (paths or pixel arrays), not a matrix of numbers; the
    images are read one by one, so memory does not grow with their number.

    An image is read by the rules of ``residuum.features.image_files``. Images with a side below `patch`
    pixels are refused.

    Parameters
    ----------
    n_words : int, default=1024
        Size of the codebook.
    patch : int or tuple of int, default=32
        Side of a patch in pixels, a multiple of 4, since SIFT divides it into 4 x 4 bins. Patches of several
        sizes share one codebook and one histogram.
    stride : int, default=8
        Distance between patches in pixels.
    smoothing : float, default=0
        Standard deviation of a Gaussian over the image, in bins of a quarter patch; 1/6 is usual elsewhere.
    square_root : bool, default=True
        Whether square roots of the counts are taken before they are scaled to norm 1. Inner products then
        compare shares of words (Hellinger) instead of the few words that are frequent.
    colour : bool, default=False
        Whether a descriptor also holds SIFT of red against green and of yellow against blue, which takes
        three times as long. False looks at grey images.
    max_side : int, default=512
        Longest side of an image in pixels; larger images are shrunk first, smaller ones are left as they are.
        It bounds the time per image and makes patches comparable between cameras.
    random_state : int, RandomState instance or None, default=0
        Choice of images and descriptors, and the start of k-means.
    n_jobs : int or None, default=None
        Threads; None is 1, -1 is one per core. Changes nothing in the result.

    Attributes
    ----------
    codebook_ : ndarray of float32, shape (n_words, 128), or (n_words, 384) with colour
        The visual words.

    See Also
    --------
    CNNFeatures : Activations of a trained network, where torch is installed.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.features import BowSift
    >>> images = np.random.default_rng(0).integers(0, 256, (4, 64, 48), dtype=np.uint8)
    >>> BowSift(n_words=16).fit_transform(images).shape
    (4, 80)
    """

    learned_array = "codebook_"  # what `fit_extractor` keeps, since k-means takes long
    feature_version = 2

    def __init__(
        self,
        n_words: int = 1024,
        *,
        patch: int | tuple[int, ...] = 32,
        stride: int = 8,
        smoothing: float = 0.0,
        square_root: bool = True,
        colour: bool = False,
        max_side: int = 512,
        random_state: int | np.random.RandomState | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_words = n_words
        self.patch = patch
        self.stride = stride
        self.smoothing = smoothing
        self.square_root = square_root
        self.colour = colour
        self.max_side = max_side
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def as_published(cls, n_words: int = 1024, *, n_jobs: int | None = None) -> BowSift:
        """The literal recipe of the paper: 16 x 16 patches every 8 pixels, plain counts, 5,120 numbers.

        The paper does not mention smoothing; that of VLFeat's PHOW, a sixth of a bin, is used.
        """
        return cls(n_words, patch=16, smoothing=1 / 6, square_root=False, n_jobs=n_jobs)

    def fit(self, X: Any, y: object = None) -> BowSift:
        """Learn the codebook by mini-batch k-means on sampled descriptors.

        Parameters
        ----------
        X : list of paths or arrays, or ndarray of shape (n_images, height, width[, 3])
            Images.
        y : None
            Ignored.

        Returns
        -------
        BowSift
            The transformer itself.
        """
        from sklearn.cluster import MiniBatchKMeans

        self._check_parameters()
        images = as_images(X, "BowSift")
        random = check_random_state(self.random_state)
        chosen = np.sort(random.permutation(len(images))[:_FIT_IMAGES])
        seeds = random.randint(2**31, size=len(chosen))
        each = -(-N_SAMPLES // len(chosen))

        def sample(job: tuple[int, int]) -> npt.NDArray[np.float32]:
            descriptors = self._described(self.read(images[job[0]]))
            keep = np.random.default_rng(job[1]).permutation(len(descriptors))[:each]
            return descriptors[np.sort(keep)]

        with _own_threads():
            parts = []
            for part in in_order(sample, zip(chosen, seeds), n_jobs=self.n_jobs):
                parts.append(part)
                tell_progress("visual words, images", len(parts), len(chosen))
            descriptors = np.concatenate(parts)[:N_SAMPLES]
            if len(descriptors) < self.n_words:
                raise UsageError(
                    f"BowSift needs at least n_words={self.n_words} patches to learn its codebook. "
                    f"Got {len(descriptors)} from {len(images)} images; add images or lower n_words."
                )
            kmeans = MiniBatchKMeans(
                self.n_words, batch_size=4096, n_init=1, max_iter=5, random_state=random.randint(2**31)
            )
            tell_progress("visual words, k-means", 0)
            self.codebook_ = kmeans.fit(descriptors).cluster_centers_.astype(np.float32)
            tell_progress("visual words, k-means", 1, 1)
        return self

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the features of every image.

        Parameters
        ----------
        X : list of paths or arrays, or ndarray of shape (n_images, height, width[, 3])
            Images.

        Returns
        -------
        ndarray of float32, shape (n_images, 5 * n_words)
            Rows of unit l2 norm, cell by cell: whole image, then the quarters row by row.
        """
        check_is_fitted(self)
        images = as_images(X, "BowSift")
        encode = partial(self._encode, scorer=word_scorer(self.codebook_))
        with _own_threads():
            return np.stack(list(in_order(encode, images, n_jobs=self.n_jobs)))

    def read(self, source: ImageSource) -> Pixels:
        """Return one image as `transform` sees it: uint8, grey or RGB, longest side at most `max_side`."""
        mode: Literal["rgb", "grey"] = "rgb" if self.colour else "grey"
        return read_image(source, mode=mode, max_side=self.max_side, min_side=max(self._patches))

    def fingerprint(self) -> str:
        """Return the SHA-256 of all that the features of an image depend on."""
        check_is_fitted(self)
        names = ("stride", "smoothing", "square_root", "colour", "max_side")
        parameters = (RULES_VERSION, self._patches, *(getattr(self, name) for name in names))
        text = f"BowSift {self.feature_version} {parameters} {self.codebook_.shape}"
        return sha256(text.encode(), np.ascontiguousarray(self.codebook_, dtype=np.float32))

    @property
    def descriptor_length(self) -> int:
        """Numbers of a descriptor: 128 for each channel."""
        return 128 * (3 if self.colour else 1)

    @property
    def _patches(self) -> tuple[int, ...]:
        return tuple(self.patch) if isinstance(self.patch, Sequence) else (self.patch,)

    @property
    def _n_features_out(self) -> int:
        return N_CELLS * len(self.codebook_)

    def _described(self, pixels: Pixels) -> npt.NDArray[np.float32]:
        """Descriptors of all patches of an image that `read` returned, size after size."""
        channels = opponent_channels(pixels) if self.colour else pixels
        return np.concatenate(
            [dense_sift(channels, patch, self.stride, smoothing=self.smoothing) for patch in self._patches]
        )

    def _encode(self, source: ImageSource, scorer: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        pixels, n_words = self.read(source), len(self.codebook_)
        words = nearest_words(self._described(pixels), scorer)
        cells = np.concatenate([_cells(pixels.shape[:2], patch, self.stride) for patch in self._patches])
        quarters = np.bincount(cells * n_words + words, minlength=4 * n_words)
        counts = np.concatenate([quarters.reshape(4, -1).sum(axis=0), quarters]).astype(np.float64)
        if self.square_root:
            counts = np.sqrt(counts)
        return (counts / np.linalg.norm(counts)).astype(np.float32)  # at least one patch: never zero

    def _check_parameters(self) -> None:
        check_integers(self, n_words=(1, 2**20), stride=(1, 1024), max_side=(4, 2**15))
        allowed = f"a multiple of 4 from 4 to max_side={self.max_side}, or a tuple of such numbers"
        whole = all(isinstance(each, Integral) and not isinstance(each, bool) for each in self._patches)
        if not whole or not self._patches:
            refuse(self, "patch", allowed)
        if any(each % 4 or not 4 <= each <= min(self.max_side, 1024) for each in self._patches):
            refuse(self, "patch", allowed)
        if (
            isinstance(self.smoothing, bool)
            or not isinstance(self.smoothing, Real)
            or not 0 <= self.smoothing <= 4
        ):
            refuse(self, "smoothing", "a number from 0 to 4, in bins of a quarter patch")
        for name in ("square_root", "colour"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                refuse(self, name, "True or False")

    def __sklearn_tags__(self) -> Any:
        return images_as_input(super().__sklearn_tags__())


def word_scorer(codebook: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Matrix (length + 1, n_words) that gives the rows (d, 1) the scores d'c_k - ||c_k||^2 / 2."""
    return np.vstack([codebook.T, -0.5 * np.einsum("kd,kd->k", codebook, codebook)])


def nearest_words(
    descriptors: npt.NDArray[np.float32], scorer: npt.NDArray[np.float32]
) -> npt.NDArray[np.int64]:
    """Index of the nearest word of each descriptor, argmin_k ||d - c_k||^2: the largest score."""
    rows = np.hstack([descriptors, np.ones((len(descriptors), 1), dtype=np.float32)])
    scores = np.empty((_BLOCK, scorer.shape[1]), dtype=np.float32)
    words = np.empty(len(rows), dtype=np.int64)
    for start in range(0, len(rows), _BLOCK):  # the scores of a block stay in the cache
        block = rows[start : start + _BLOCK]
        np.matmul(block, scorer, out=scores[: len(block)]).argmax(axis=1, out=words[start : start + _BLOCK])
    return words
