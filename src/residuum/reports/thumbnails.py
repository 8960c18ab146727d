"""Small pictures for pages, inside the page itself as ``data:`` addresses."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

LARGEST_SIDE = 160  # of a thumbnail


def data_uri(image: Pixels, *, format: str = "PNG") -> str:
    """The image as ``data:image/png;base64,...``, averaged over squares of pixels where it is too large.

    Parameters
    ----------
    image : array of uint8, shape (h, w) or (h, w, 3)
        Grey or RGB; see `to_pixels`.
    format : {"PNG", "JPEG"}, default="PNG"
        PNG keeps every pixel; JPEG makes photographs small.
    """
    content = png(image, format=format)
    return f"data:image/{format.lower()};base64,{base64.b64encode(content).decode()}"


def png(image: Pixels, *, format: str = "PNG") -> bytes:
    """The content of an image file, made smaller likewise; the fourth channel of RGBA is opacity."""
    from PIL import Image

    step = -(-max(image.shape[:2]) // LARGEST_SIDE)
    buffer = io.BytesIO()
    Image.fromarray(image).reduce(step).save(buffer, format, optimize=True)
    return buffer.getvalue()


def stretched(values: Any, shape: tuple[int, ...]) -> Pixels:
    """Pixels whose darkest value is black and whose brightest is white; a flat picture is black.

    Parameters
    ----------
    values : array of numbers
        As many as the shape has.
    shape : tuple of int
        (h, w) or (h, w, 3).
    """
    return to_pixels(values, shape, low=float(np.min(values)), high=float(np.max(values)))


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
