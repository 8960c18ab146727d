"""Ways in that several data sets share: the prepared .npz file, and values brought to one range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.paper.data.base import Samples, Source, joined
from residuum.paper.data.readers import read_npz

Array = npt.NDArray[Any]


def prepared_split(name: str) -> Source:
    """``NAME.npz`` with x_train, y_train, x_test, y_test; images are (n, height, width)."""

    def read(paths: tuple[Path, ...], image_shape: tuple[int, int] | None) -> Samples:
        arrays = read_npz(paths[0], ("x_train", "y_train", "x_test", "y_test"))
        for part in ("train", "test"):
            check_aligned(paths[0], arrays[f"x_{part}"], arrays[f"y_{part}"])
        return joined(
            name,
            (arrays["x_train"], whole(paths[0], arrays["y_train"])),
            (arrays["x_test"], whole(paths[0], arrays["y_test"])),
        )

    return Source(
        kind="prepared",
        layout=f"{name}.npz with the arrays x_train, y_train, x_test, y_test (images n x height x width)",
        names=((f"{name}.npz",),),
        read=read,
    )


def check_aligned(path: Path, images: Array, labels: Array) -> None:
    """Raise DataFormatError unless there is one label per image and images have rows and columns."""
    if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
        raise DataFormatError(
            f"{path}: expected images (n, height, width) and n labels, got {images.shape} and {labels.shape}."
        )


def whole(path: Path, labels: Array) -> npt.NDArray[np.int64]:
    """Labels as integers; they must be integers already, whatever their type."""
    with np.errstate(invalid="ignore"):
        integers = labels.astype(np.int64) if labels.dtype.kind in "biuf" else None
    if integers is None or not np.array_equal(integers, labels):
        raise DataFormatError(f"{path}: labels must be whole numbers.")
    return integers


def to_unit_range(path: Path, values: Array) -> npt.NDArray[np.float32]:
    """Values in [-1, 1], [0, 1] or [0, 255] as float32 in [0, 1]."""
    values = values.astype(np.float64)
    low, high = float(values.min()), float(values.max())
    if low >= 0 and high <= 1:
        unit = values
    elif low >= -1 and high <= 1:
        unit = (values + 1) / 2
    elif low >= 0 and 1 < high <= 255:
        unit = values / 255
    else:
        raise DataFormatError(f"{path}: expected values in [-1, 1], [0, 1] or [0, 255], got {low} to {high}.")
    return unit.astype(np.float32)


def column_major(columns: Array, shape: tuple[int, int]) -> Array:
    """Images (n, height, width) from a MATLAB matrix with one image per column, ``image(:)``."""
    height, width = shape
    # image(:) runs down the columns of an image
    return np.ascontiguousarray(columns.T.reshape(-1, width, height).transpose(0, 2, 1))
