"""From image files to features, and to the thumbnails that a model file keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, UsageError
from residuum.features.extraction import extract_images
from residuum.features.image_files import ImageError, image_header, read_image, resize
from residuum.inputs.own_data import OwnData

Progress = Callable[[int, int], None]
Pixels = npt.NDArray[np.uint8]

THUMBNAIL_BYTES = 32 * 2**20  # of all thumbnails of a model together
_SIDES = (64, 48, 32, 24)
_LARGEST_PIXELS = 128


def with_features(data: OwnData, extractor: Any, *, progress: Progress | None = None) -> OwnData:
    """The images of a folder with their features; files that are no usable images are left out and noted.

    An extractor that is not fitted is fitted to the images of the folder. What is computed is kept in the
    cache of `residuum.features`.
    """
    assert data.paths is not None
    found = extract_images(data.paths, extractor, progress=progress)
    names = {str(path): name for path, name in zip(data.paths, data.names.tolist(), strict=True)}
    reasons = {names[path]: reason for path, reason in found.skipped}
    return _usable_images(data, data.names[found.usable].tolist(), found.X, reasons)


def _usable_images(data: OwnData, names: list[str], features: Any, reasons: dict[str, str]) -> OwnData:
    """The images that have features, with a note for each of the others that gives the reason."""
    feature_row = {name: i for i, name in enumerate(names)}
    usable = [i for i, name in enumerate(data.names.tolist()) if name in feature_row]
    order = [feature_row[data.names[i]] for i in usable]
    skipped = [name for name in data.names.tolist() if name in reasons]
    notes = [f"skipped {name!a}: {reasons[name]}" for name in skipped[:10]]
    notes += [f"skipped {len(skipped) - 10} more files"] if len(skipped) > 10 else []
    if not usable:
        raise DataError(f"{data.source} holds no usable image. {'; '.join(notes[:3])}.")
    return replace(data.rows(usable), features=features[order]).noted(*notes)


def pixel_shape(data: OwnData) -> tuple[int, int]:
    """The size that all images of a folder share, if it is small enough to be used as it is."""
    assert data.paths is not None
    sizes: set[tuple[int, int]] = set()
    for path in data.paths:
        try:
            width, height = image_header(path)
        except ImageError:
            continue
        sizes.add((height, width))
        if len(sizes) > 1:
            break
    if len(sizes) == 1 and max(next(iter(sizes))) <= _LARGEST_PIXELS:
        return next(iter(sizes))
    raise UsageError(
        f"The images of {data.source} have several sizes or are larger than {_LARGEST_PIXELS} pixels. "
        "Give --image-shape HEIGHTxWIDTH to use plain pixels as features."
    )


def with_pixels(data: OwnData, shape: tuple[int, int]) -> OwnData:
    """The images of a folder as grey pixels of one size, rows of height * width numbers from 0 to 255."""
    assert data.paths is not None
    rows, names, reasons = [], [], {}
    for name, path in zip(data.names.tolist(), data.paths, strict=True):
        try:
            grey = read_image(path, mode="grey", min_side=1)
        except ImageError as error:
            reasons[name] = error.reason
            continue
        rows.append(resize(grey, shape).ravel())
        names.append(name)
    features = np.stack(rows) if rows else np.empty((0, math.prod(shape)), dtype=np.uint8)
    return replace(_usable_images(data, names, features, reasons), image_shape=shape)


def thumbnails(data: OwnData) -> Pixels | None:
    """Small images of the samples, (n, h, w) or (n, h, w, 3); None where there are none or too many."""
    if data.image_shape is not None and data.features is not None:
        return _thumbnails_of_rows(data)
    if data.paths is None:
        return None
    side = next((s for s in _SIDES if len(data) * s * s * 3 <= THUMBNAIL_BYTES), None)
    if side is None:
        return None
    small_images = np.full((len(data), side, side, 3), 255, dtype=np.uint8)
    for frame, path in zip(small_images, data.paths, strict=True):
        small = read_image(path, max_side=side, min_side=1)
        top, left = (side - small.shape[0]) // 2, (side - small.shape[1]) // 2
        frame[top : top + small.shape[0], left : left + small.shape[1]] = small
    return small_images


def _thumbnails_of_rows(data: OwnData) -> Pixels | None:
    assert data.features is not None
    assert data.image_shape is not None
    if data.features.size > THUMBNAIL_BYTES or max(data.image_shape) > 2 * _SIDES[0]:
        return None
    values = data.features.reshape(len(data), *data.image_shape)
    if values.dtype == np.uint8:
        return values.astype(np.uint8)
    low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255 / (high - low) if high > low else 0)
    return np.rint(scaled).astype(np.uint8)


def guess_image_shape(data: OwnData) -> tuple[int, int] | None:
    """The side of a square twice, where rows look like its pixels: whole numbers from 0 to 255; else None."""
    if data.features is None or data.image_shape is not None:
        return None
    side = math.isqrt(data.features.shape[1])
    if side * side != data.features.shape[1] or side < 8:
        return None
    some = np.asarray(data.features[:1000])
    pixels = bool(some.min() >= 0 and some.max() <= 255 and (some == np.floor(some)).all())
    return (side, side) if pixels else None
