"""Pixels brought to one form: the order of rows and columns, the range of values, the size.

`box_resize` averages areas: with R (h, H) and C (w, W) the matrices whose row i holds the share of each input
row (column) in the interval [i H / h, (i + 1) H / h), normalised to sum 1, ``out = R image C'``.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError, UsageError

Array = npt.NDArray[Any]


@lru_cache(maxsize=16)
def _overlap(n_in: int, n_out: int) -> npt.NDArray[np.float64]:
    """Averaging matrix of shape (n_out, n_in); rows sum to 1."""
    edges = np.arange(n_out + 1) * (n_in / n_out)
    left = np.maximum(edges[:-1, None], np.arange(n_in)[None, :])
    right = np.minimum(edges[1:, None], np.arange(1, n_in + 1)[None, :])
    share = np.clip(right - left, 0.0, None)  # (n_out, n_in)
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def box_resize(images: Array, shape: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Shrink 8-bit images by area averaging, rounded to the nearest grey level.

    Parameters
    ----------
    images : ndarray of uint8, shape (..., height, width)
        One image or many.
    shape : (int, int)
        New height and width, neither larger than the old ones.

    Returns
    -------
    ndarray of uint8, shape (..., shape[0], shape[1])
    """
    height, width = images.shape[-2:]
    if not (0 < shape[0] <= height and 0 < shape[1] <= width):
        raise UsageError(
            f"The 'image_shape' parameter must lie between 1x1 and the size of the images, {height}x{width}. "
            f"Got {shape[0]}x{shape[1]} instead; enlarging adds no information and is not offered."
        )
    rows, columns = _overlap(height, shape[0]), _overlap(width, shape[1])
    return np.rint(rows @ images.astype(np.float64) @ columns.T).astype(np.uint8)


def grey_images(path: Path, columns: Array, shape: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Images (n, height, width) from a MATLAB matrix of grey levels, one image per column, ``image(:)``."""
    levels = np.rint(columns)
    if levels.min() < 0 or not 1 < levels.max() <= 255:
        raise DataFormatError(
            f"{path}: expected grey levels 0 to 255, got {columns.min()} to {columns.max()}."
        )
    height, width = shape
    # image(:) runs down the columns of an image
    images = levels.astype(np.uint8).T.reshape(-1, width, height).transpose(0, 2, 1)
    return np.ascontiguousarray(images)
