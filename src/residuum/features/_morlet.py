"""Filters of the 2-D scattering transform, written down in the Fourier domain.

Gabor filter of width sigma, direction theta, frequency xi and aspect ratio slant, sampled on the integers:

    g(x) = exp(-(u^2 + slant^2 v^2) / (2 sigma^2) + i xi u) * slant / (2 pi sigma^2)
    G(w) = sum_k exp(-(sigma^2 / 2) ((a - xi)^2 + b^2 / slant^2))     (k: aliases, w + 2 pi k -> (a, b))

with (u, v) and (a, b) the position and the frequency turned by theta. The Morlet wavelet removes the mean,

    Psi(w) = G_xi(w) - G_xi(0) / G_0(0) * G_0(w)

and scale j, direction t (Bruna & Mallat 2013) take sigma = 0.8 * 2^j, xi = (3 pi / 4) / 2^j, slant = 4 / L
and theta = (L // 2 - 1 - t) pi / L. The low pass is G with sigma = 0.8 * 2^(J-1), xi = 0, slant = 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating[Any]]

# Kymatio normalises its Gabor filters with pi rounded to 3.1415. Published scattering coefficients carry that
# factor (3e-5 per filter), so it is kept here for the numbers to be comparable.
GAIN = math.pi / 3.1415


@dataclass(frozen=True)
class FilterBank:
    """All filters for one padded image size, shared between calls.

    Attributes
    ----------
    wavelets : dict of (resolution, j) -> ndarray of shape (L, 4^(j - resolution), 2 * height * width / 4^j)
        Real spectra of the wavelets of scale j that filter images of the given resolution and keep one pixel
        in 2^(j - resolution) each way: divided by the number of aliases, laid out as by ``aliases_apart``,
        every value twice in a row so that they multiply complex numbers seen as pairs of real ones.
    low_pass : list of (rows, columns), one per resolution
        ``rows @ image @ columns.T`` is the low pass sampled at every 2^J-th pixel, borders removed.
    """

    wavelets: dict[tuple[int, int], FloatArray]
    low_pass: list[tuple[FloatArray, ...]]


def _aliased_frequencies(size: int, sigma: float, xi: float) -> FloatArray:
    # exp(-9^2 / 2) = 3e-18: what lies beyond is negligible.
    reach = math.ceil((9.0 / sigma + xi) / (2 * math.pi)) + 1
    return 2 * math.pi * (np.fft.fftfreq(size)[:, None] + np.arange(-reach, reach + 1))  # (size, aliases)


def gabor_spectrum(shape: tuple[int, int], sigma: float, theta: float, xi: float, slant: float) -> FloatArray:
    """Return G(w) of the module docstring at the DFT frequencies of ``shape``."""
    narrow = sigma * min(1.0, 1.0 / slant)
    rows, cols = (_aliased_frequencies(size, narrow, xi) for size in shape)
    total = np.zeros(shape)
    for p in rows.T[:, :, None]:  # (h, 1)
        for q in cols.T[:, None, :]:  # (1, w)
            along = p * math.cos(theta) + q * math.sin(theta) - xi
            across = q * math.cos(theta) - p * math.sin(theta)
            total += np.exp(-0.5 * sigma**2 * (along**2 + (across / slant) ** 2))
    return GAIN * total


def morlet_spectrum(
    shape: tuple[int, int], sigma: float, theta: float, xi: float, slant: float
) -> FloatArray:
    """Return Psi(w) of the module docstring; exactly zero at w = 0."""
    wave = gabor_spectrum(shape, sigma, theta, xi, slant)
    envelope = gabor_spectrum(shape, sigma, theta, 0.0, slant)
    return wave - wave[0, 0] / envelope[0, 0] * envelope


def crop_spectrum(spectrum: FloatArray, factor: int, axes: tuple[int, ...]) -> FloatArray:
    """Keep the frequencies in [-pi / factor, pi / factor) of each axis: the same filter on a coarser grid."""
    for axis in axes:
        keep = spectrum.shape[axis] // factor
        index = np.r_[0 : keep // 2, spectrum.shape[axis] - keep // 2 : spectrum.shape[axis]]
        spectrum = np.take(spectrum, index, axis=axis) if factor > 1 else spectrum
    return spectrum


def aliases_apart(pairs: FloatArray, factor: int) -> FloatArray:
    """Gather the factor^2 aliases of each low frequency: (n, h, 2 w) -> (n, factor^2, 2 h w / factor^2)."""
    n, h, _ = pairs.shape
    split = pairs.reshape(n, factor, h // factor, factor, -1).swapaxes(2, 3)
    return np.ascontiguousarray(split).reshape(n, factor**2, -1)


def _low_pass_matrix(size: int, resolution: int, n_scales: int) -> FloatArray:
    # The Gaussian is separable, so filtering, sampling and cutting the border off is one small matrix per
    # axis; a matrix product is much cheaper than two FFTs per path.
    sigma = 0.8 * 2 ** (n_scales - 1)
    frequencies = _aliased_frequencies(size, sigma, 0.0)
    spectrum = math.sqrt(GAIN) * np.exp(-0.5 * (sigma * frequencies) ** 2).sum(axis=1)
    kernel = np.fft.ifft(crop_spectrum(spectrum, 2**resolution, (0,))).real
    step = 2 ** (n_scales - resolution)
    centres = step * np.arange(1, kernel.size // step - 1)[:, None]  # without the samples in the padding
    return kernel[(centres - np.arange(kernel.size)) % kernel.size]  # (size / 2^J - 2, size / 2^resolution)


@lru_cache(maxsize=8)
def filter_bank(shape: tuple[int, int], n_scales: int, n_angles: int, dtype: str) -> FilterBank:
    """Build the filters for padded images of ``shape`` (multiples of 2^n_scales)."""
    wavelets = {}
    for j in range(n_scales):
        sigma, xi = 0.8 * 2**j, 0.75 * math.pi / 2**j
        angles = [(n_angles // 2 - 1 - t) * math.pi / n_angles for t in range(n_angles)]
        spectra = np.stack([morlet_spectrum(shape, sigma, theta, xi, 4.0 / n_angles) for theta in angles])
        for resolution in range(max(j, 1)):
            factor = 2 ** (j - resolution)
            pairs = np.repeat(crop_spectrum(spectra, 2**resolution, (1, 2)) / factor**2, 2, axis=-1)
            wavelets[resolution, j] = aliases_apart(pairs, factor).astype(dtype)
    low_pass = [
        tuple(_low_pass_matrix(size, resolution, n_scales).astype(dtype) for size in shape)
        for resolution in range(n_scales)
    ]
    return FilterBank(wavelets, low_pass)
