"""2-D Morlet scattering transform: averaged wavelet moduli of order 0, 1 and 2.

    S0 = x * phi,   S1(a) = |x * psi_a| * phi,   S2(a, b) = ||x * psi_a| * psi_b| * phi,   scale(b) > scale(a)

with wavelets psi_a, a = (j, t), 0 <= j < J, 0 <= t < L, and a Gaussian low pass phi, sampled every 2^J
pixels.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.fft
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from residuum.features._morlet import FilterBank, FloatArray, aliases_apart, filter_bank
from residuum.features._parameters import check_integers, refuse
from residuum.plain_numbers import check_numbers
from residuum.system.threads import all_or_nothing, single_threaded_blas

# Pixels held at once by one thread's second-order stage: small enough for the cache, large enough that the
# interpreter does not matter.
_PIXELS_IN_FLIGHT = 200_000


def _convolve(spectra: npt.NDArray[Any], wavelets: FloatArray, factor: int) -> npt.NDArray[Any]:
    """Convolve images with wavelets and keep every ``factor``-th pixel: (n, h, w) -> (n, L, h', w')."""
    n, h, w = spectra.shape
    low_h, low_w = h // factor, w // factor
    # Keeping every factor-th pixel adds up the aliases of each low frequency; with the aliases on an axis of
    # their own, product and sum are one pass over contiguous memory.
    pairs = aliases_apart(spectra.view(wavelets.dtype), factor)  # (n, factor^2, 2 h' w')
    folded = np.einsum("nap,lap->nlp", pairs, wavelets)
    return scipy.fft.ifft2(folded.view(spectra.dtype).reshape(n, -1, low_h, low_w), overwrite_x=True)


def _smooth(maps: FloatArray, low_pass: tuple[FloatArray, ...]) -> FloatArray:
    """Low pass, sample and cut off the border: rows @ maps @ columns.T for a stack of maps (n, h, w)."""
    rows, cols = low_pass
    across = (maps.reshape(-1, maps.shape[-1]) @ cols.T).reshape(len(maps), maps.shape[-2], -1)  # (n, h, w')
    return np.tensordot(across, rows, axes=(1, 1)).swapaxes(1, 2)  # (n, h', w')


def _scatter(images: FloatArray, bank: FilterBank, n_scales: int) -> FloatArray:
    """Scattering coefficients of padded images: (n, h, w) -> (n, n_paths, h', w')."""
    n = len(images)
    spectra = scipy.fft.fft2(images)  # (n, h, w)
    first, second = [], []
    for j1 in range(n_scales):
        moduli = np.abs(_convolve(spectra, bank.wavelets[0, j1], 2**j1))  # (n, L, h1, w1)
        moduli = moduli.reshape(-1, *moduli.shape[-2:])  # (n * L, h1, w1)
        averaged = _smooth(moduli, bank.low_pass[j1])
        first.append(averaged.reshape(n, -1, *averaged.shape[1:]))  # (n, L, h', w')
        if j1 == n_scales - 1:
            continue  # no scale is larger
        again = scipy.fft.fft2(moduli)
        deeper = []
        for j2 in range(j1 + 1, n_scales):
            moduli = np.abs(_convolve(again, bank.wavelets[j1, j2], 2 ** (j2 - j1)))  # (n * L, L, h2, w2)
            averaged = _smooth(moduli.reshape(-1, *moduli.shape[-2:]), bank.low_pass[j2])
            deeper.append(averaged.reshape(n, len(again) // n, -1, *averaged.shape[1:]))  # (n, L, L, h', w')
        # The paths of one first wavelet lie together: (n, L, scales of the second * L, h', w').
        joined = np.concatenate(deeper, axis=2)
        second.append(joined.reshape(n, -1, *joined.shape[3:]))
    zeroth = _smooth(images, bank.low_pass[0])[:, None]
    return np.concatenate([zeroth, *first, *second], axis=1)


class Scattering2D(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """2-D Morlet scattering coefficients of images (Bruna & Mallat 2013).

    For an image x, wavelets psi and Gaussian low pass phi the features are ``x * phi``, ``|x * psi_a| * phi``
    and ``||x * psi_a| * psi_b| * phi`` where psi_b has a larger scale than psi_a, sampled at every 2^J-th
    pixel. That is 1 + J L + L^2 J (J - 1) / 2 paths of ceil(height / 2^J) by ceil(width / 2^J) values each:
    217 paths of 4 by 4, 3,472 features, for J=3, L=8 and 28 by 28 or 32 by 32 pixels.

    Filters, order of the paths and borders follow Kymatio: images are mirrored at their borders (without
    repeating the border pixel) by 2^J pixels on each side. A side that is not a multiple of 2^J is first
    mirrored at its lower or right end up to the next multiple, so samples always lie at the multiples
    of 2^J.

    Computation is in float32 for float32 input, else in float64; integer images become float64, so pass
    ``images.astype(numpy.float32)`` to get the features of 8-bit images in half the time and memory. Scaling
    an image by a power of two scales its features exactly, whatever the magnitude.

    Parameters
    ----------
    J : int, default=3
        Number of scales; features are averaged over about 2^J pixels.
    L : int, default=8
        Number of directions in the half circle.
    image_shape : (int, int) or None, default=None
        Height and width of the images in the rows of a 2-D input. None: the shape of a 3-D input; for a 2-D
        input a square if the number of features is a square number, else one row of pixels (with a warning).
    normalize : {None, "path_max"}, default=None
        "path_max" divides every path's map by its largest absolute value, image by image. Maps that are zero
        up to rounding stay zero.
    n_jobs : int or None, default=None
        Threads; None is 1, -1 is one per core. Changes nothing in the result.

    Attributes
    ----------
    image_shape_ : (int, int)
        Height and width in use.
    n_features_in_ : int
        Number of pixels.
    feature_names_in_ : ndarray of str
        Column names seen in fit, if there were any.

    See Also
    --------
    EigenfacePCA : Reduces the features to a few hundred numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from residuum.features import Scattering2D
    >>> images = np.random.default_rng(0).random((2, 28, 28), dtype=np.float32)
    >>> Scattering2D(J=3, L=8).fit_transform(images).shape
    (2, 3472)
    """

    def __init__(
        self,
        J: int = 3,
        L: int = 8,
        *,
        image_shape: tuple[int, int] | None = None,
        normalize: Literal["path_max"] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.J = J
        self.L = L
        self.image_shape = image_shape
        self.normalize = normalize
        self.n_jobs = n_jobs

    @all_or_nothing
    def fit(self, X: Any, y: object = None) -> Scattering2D:
        """Check the parameters and remember the image shape; nothing is learned from the values.

        Parameters
        ----------
        X : array of shape (n_images, height * width) or (n_images, height, width)
            Images.
        y : None
            Ignored.

        Returns
        -------
        Scattering2D
            The transformer itself.
        """
        self._check_parameters()
        self.image_shape_ = self._images(X, self.image_shape, reset=True).shape[1:]
        return self

    def _check_parameters(self) -> None:
        check_integers(self, J=(1, 12), L=(1, 128))
        if self.normalize not in (None, "path_max"):
            refuse(self, "normalize", "None or 'path_max'")

    def transform(self, X: Any) -> FloatArray:
        """Return the scattering coefficients of every image.

        Parameters
        ----------
        X : array of shape (n_images, height * width) or (n_images, height, width)
            Images.

        Returns
        -------
        ndarray of shape (n_images, n_paths * ceil(height / 2^J) * ceil(width / 2^J))
            Features, path by path, each map row by row.
        """
        check_is_fitted(self)
        images = self._images(X, self.image_shape_, reset=False)
        n_paths, height, width = self._map_shape()
        features = np.empty((len(images), n_paths, height, width), dtype=images.dtype)
        padded = (height + 2) * (width + 2) * 4**self.J
        block = max(1, _PIXELS_IN_FLIGHT // (padded * self.L))
        blocks = [slice(start, start + block) for start in range(0, len(images), block)]
        with single_threaded_blas():  # the threads below are ours
            Parallel(n_jobs=self.n_jobs, prefer="threads", require="sharedmem")(
                delayed(self._transform_block)(images[part], features[part]) for part in blocks
            )
        return features.reshape(len(images), -1)

    def _transform_block(self, images: FloatArray, out: FloatArray) -> None:
        margin = 2**self.J
        # A common power of two keeps every square and product in range and is undone without rounding.
        exponent = np.frexp(np.abs(images).max(axis=(1, 2)))[1][:, None, None]
        borders = [(margin, margin + -size % margin) for size in images.shape[1:]]
        padded = np.pad(np.ldexp(images, -exponent), [(0, 0), *borders], mode="reflect")
        bank = filter_bank(padded.shape[1:], self.J, self.L, images.dtype.name)
        maps = _scatter(padded, bank, self.J)
        if self.normalize == "path_max":
            peak = np.abs(maps).max(axis=(2, 3), keepdims=True)
            noise = 4 * np.finfo(maps.dtype).eps  # pixels are at most 1 here
            np.divide(maps, np.where(peak > noise, peak, np.inf), out=out)
        else:
            np.ldexp(maps, exponent[:, None], out=out)

    def _map_shape(self) -> tuple[int, int, int]:
        n_paths = 1 + self.J * self.L + self.L**2 * self.J * (self.J - 1) // 2
        height, width = (-(-size // 2**self.J) for size in self.image_shape_)
        return n_paths, height, width

    @property
    def _n_features_out(self) -> int:
        return math.prod(self._map_shape())

    def _images(self, X: Any, shape: Sequence[int] | None, *, reset: bool) -> FloatArray:
        """Check X and return it as images (n, height, width)."""
        X = check_numbers(X, "X", type(self).__name__)
        X = X if hasattr(X, "shape") else np.asarray(X)
        given = None
        if len(X.shape) == 3:  # validate_data judges the rest
            given = X.shape[1:]
            X = np.asarray(X).reshape(len(X), -1)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=reset)
        n_features = X.shape[1]
        if shape is None:
            side = math.isqrt(n_features)
            shape = given or ((side, side) if side * side == n_features else (1, n_features))
            if side * side != n_features and given is None:
                warnings.warn(
                    f"Scattering2D takes rows of {n_features} features as images of 1 x {n_features} pixels, "
                    f"because {n_features} is not a square number. Pass image_shape=(height, width).",
                    stacklevel=3,
                )
        if np.shape(shape) != (2,) or math.prod(shape) != n_features or given not in (None, tuple(shape)):
            raise ValueError(
                f"Scattering2D expects images of image_shape={shape}, (height, width). "
                f"Got X with {f'images of shape {given}' if given else f'{n_features} features'}. "
                "Resize the images, or set image_shape and fit again."
            )
        return X.reshape(len(X), *shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
