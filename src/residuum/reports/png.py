"""Small pictures for pages: pixels as PNG inside ``data:`` addresses, without an image library."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]

LARGEST_SIDE = 160


def data_uri(image: Any, *, largest_side: int = LARGEST_SIDE) -> str:
    """The image as ``data:image/png;base64,...``, averaged over squares of pixels where it is too large.

    Parameters
    ----------
    image : array of uint8, shape (h, w) or (h, w, 3)
        Grey or RGB.
    largest_side : int, default=160
        No side of the result is longer.
    """
    pixels = np.asarray(image)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or pixels.shape[2:] not in ((), (3,)):
        raise ValueError(
            "The 'image' must be an array of uint8 with shape (h, w) or (h, w, 3). "
            f"Got {pixels.dtype} with shape {pixels.shape}: see residuum.reports.png.to_pixels."
        )
    if not pixels.size:
        raise ValueError(f"The 'image' must have at least one pixel. Got shape {pixels.shape}.")
    text = base64.b64encode(_png(_reduced(pixels, largest_side))).decode("ascii")
    return f"data:image/png;base64,{text}"


def to_pixels(values: Any, shape: tuple[int, ...], *, low: float, high: float) -> Pixels:
    """Values from `low` (black) to `high` (white) as pixels of an image of this shape.

    Parameters
    ----------
    values : array of numbers
        As many as the shape has.
    shape : tuple of int
        (h, w) or (h, w, 3).
    low, high : float
        What is black and what is white; beyond them, values are cut off.
    """
    values = np.asarray(values, dtype=np.float64).reshape(shape)
    span = high - low if high > low else 1.0
    return np.round(255 * np.clip((values - low) / span, 0, 1)).astype(np.uint8)


def _reduced(pixels: Pixels, largest_side: int) -> Pixels:
    step = -(-max(pixels.shape[:2]) // largest_side)
    if step <= 1:
        return pixels
    rows, columns = (np.arange(0, side, step) for side in pixels.shape[:2])
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(np.int64), rows, axis=0), columns, axis=1)
    counts = np.outer(np.diff([*rows, pixels.shape[0]]), np.diff([*columns, pixels.shape[1]]))
    means = sums / (counts if pixels.ndim == 2 else counts[:, :, None])
    return np.round(means).astype(np.uint8)


def _png(pixels: Pixels) -> bytes:
    """Eight bits a channel, no filter (PNG 1.2, sections 3 and 4.1)."""
    height, width = pixels.shape[:2]
    colour_type = 0 if pixels.ndim == 2 else 2
    lines = np.zeros((height, 1 + pixels[0].size), dtype=np.uint8)  # each line begins with its filter, 0
    lines[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, colour_type, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
