"""Small pictures for pages, inside the page itself as ``data:`` addresses."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

LARGEST_SIDE = 160


def data_uri(image: Any, *, largest_side: int = LARGEST_SIDE, format: str = "PNG") -> str:
    """The image as ``data:image/png;base64,...``, averaged over squares of pixels where it is too large.

    Parameters
    ----------
    image : array of uint8, shape (h, w) or (h, w, 3)
        Grey or RGB.
    largest_side : int, default=160
        No side of the result is longer.
    format : {"PNG", "JPEG"}, default="PNG"
        PNG keeps every pixel; JPEG makes photographs small.
    """
    from PIL import Image

    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.shape[2:] not in ((), (3,)) or pixels.ndim < 2 or not pixels.size:
        raise ValueError(
            "The 'image' must be an array of uint8 with shape (h, w) or (h, w, 3) and at least one pixel. "
            f"Got {pixels.dtype} with shape {pixels.shape}: see residuum.reports.thumbnails.to_pixels."
        )
    step = -(-max(pixels.shape[:2]) // largest_side)
    buffer = io.BytesIO()
    Image.fromarray(pixels).reduce(step).save(buffer, format, optimize=True)
    return f"data:image/{format.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def to_pixels(values: Any, shape: tuple[int, ...], *, low: float, high: float) -> Pixels:
    """Values from `low` (black) to `high` (white) as pixels of an image of this shape.

    Parameters
    ----------
    values : array of numbers
        As many as the shape has.
    shape : tuple of int
        (h, w) or (h, w, 3); with one more number in front for several images.
    low, high : float
        What is black and what is white; beyond them, values are cut off.
    """
    values = np.asarray(values, dtype=np.float64).reshape(shape)
    span = high - low if high > low else 1.0
    return np.round(255 * np.clip((values - low) / span, 0, 1)).astype(np.uint8)
