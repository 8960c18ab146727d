"""From image files to features, and to the thumbnails that a model file keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, UsageError
from residuum.features.bow_sift import BowSift
from residuum.features.extraction import extract_images
from residuum.features.image_files import ImageError, image_header, read_image, resize
from residuum.inputs.own_data import OwnData

Progress = Callable[[int, int], None]
Pixels = npt.NDArray[np.uint8]

THUMBNAIL_BYTES = 32 * 2**20  # of all thumbnails of a model together
_SIDES = (96, 64, 48, 32, 24)  # of a thumbnail
_MARGIN = 128  # grey beside an image that is not square, neither light nor dark on a page
_LARGEST_PIXELS = 128


def with_features(data: OwnData, extractor: Any, *, progress: Progress | None = None) -> OwnData:
    """The images of a folder with their features; files that are no usable images are left out and noted.

    An extractor that is not fitted is fitted to the images of the folder. What is computed is kept in the
    cache of `residuum.features`.
    """
    assert data.paths is not None
    found = extract_images(data.paths, extractor, progress=progress)
    return _usable_images(data, found.usable, found.X, [reason for _, reason in found.skipped])


def _usable_images(data: OwnData, usable: Any, features: Any, reasons: list[str]) -> OwnData:
    """The images that have features, with a note for each of the others that gives the reason."""
    skipped = np.delete(data.names, usable).tolist()
    notes = [f"skipped {name!a}: {reason}" for name, reason in zip(skipped[:10], reasons, strict=False)]
    notes += [f"skipped {len(skipped) - 10} more files"] if len(skipped) > 10 else []
    if not len(usable):
        raise DataError(f"{data.source} holds no usable image. {'; '.join(notes[:3])}.")
    return replace(data.rows(usable), features=features).noted(*notes)


def _common_size(data: OwnData) -> tuple[int, int]:
    """The size that all images of a folder share, if it is small enough to be used as it is."""
    assert data.paths is not None
    sizes: set[tuple[int, int]] = set()
    for path in data.paths:
        with suppress(ImageError):
            sizes.add(image_header(path))
        if len(sizes) > 1:
            break
    width, height = sizes.pop() if len(sizes) == 1 else (math.inf, math.inf)
    if max(width, height) <= _LARGEST_PIXELS:
        return int(height), int(width)
    raise UsageError(
        f"The images of {data.source} have several sizes or are larger than {_LARGEST_PIXELS} pixels. "
        "Give --image-shape HEIGHTxWIDTH to use plain pixels as features."
    )


def size_of_small_images(data: OwnData) -> tuple[int, int] | None:
    """The median height and width of the images where most are smaller than a patch of BowSift; else None."""
    assert data.paths is not None
    sizes = []
    for path in data.paths[:: max(1, len(data) // 1000)]:
        with suppress(ImageError):
            sizes.append(image_header(path))
    if not sizes or np.median(np.min(sizes, axis=1)) >= BowSift().patch:
        return None
    width, height = (min(int(side), _LARGEST_PIXELS) for side in np.median(sizes, axis=0))
    return height, width


def with_pixels(data: OwnData, shape: tuple[int, ...] | None) -> OwnData:
    """The images of a folder as grey pixels of one size, rows of height * width numbers from 0 to 255.

    The size is (height, width); None is the one that all images share.
    """
    assert data.paths is not None
    height, width = shape or _common_size(data)
    usable, rows, reasons = [], [], []
    for i, path in enumerate(data.paths):
        try:
            rows.append(resize(read_image(path, mode="grey", min_side=1), (height, width)).ravel())
            usable.append(i)
        except ImageError as error:
            reasons.append(error.reason)
    return replace(_usable_images(data, usable, np.array(rows), reasons), image_shape=(height, width))


def thumbnails(data: OwnData) -> Pixels | None:
    """Small images of the samples, (n, h, w) or (n, h, w, 3); None where there are none or too many."""
    if data.image_shape is not None and data.features is not None:
        return _thumbnails_of_rows(data.features.reshape(len(data), *data.image_shape))
    side = next((s for s in _SIDES if len(data) * s * s * 3 <= THUMBNAIL_BYTES), None)
    if data.paths is None or side is None:
        return None
    small_images = np.full((len(data), side, side, 3), _MARGIN, dtype=np.uint8)
    for frame, path in zip(small_images, data.paths, strict=True):
        small = read_image(path, max_side=side, min_side=1)
        top, left = (side - small.shape[0]) // 2, (side - small.shape[1]) // 2
        frame[top : top + small.shape[0], left : left + small.shape[1]] = small
    return small_images


def _thumbnails_of_rows(values: npt.NDArray[Any]) -> Pixels | None:
    if values.size > THUMBNAIL_BYTES or max(values.shape[1:]) > _LARGEST_PIXELS:
        return None
    if values.dtype == np.uint8:
        return values
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / (high - low) if high > low else 0)
    return np.rint(scaled).astype(np.uint8)


def guess_image_shape(data: OwnData) -> tuple[int, int] | None:
    """The side of a square twice, where rows look like its pixels: whole numbers from 0 to 255; else None."""
    if data.features is None or data.features.dtype == object or data.image_shape is not None:
        return None
    side = math.isqrt(data.features.shape[1])
    some = np.asarray(data.features[:1000])
    pixels = bool(some.min() >= 0 and some.max() <= 255 and (some == np.floor(some)).all())
    return (side, side) if pixels and side >= 8 and side * side == some.shape[1] else None
