"""USPS: 7,291 + 2,007 handwritten digits of 16x16 pixels, float32 in [0, 1], labels 0 to 9.

The owner's values in [-1, 1] become (x + 1) / 2. The counts per class tell the official split from other sets
of the same name, such as usps_all (11,000 images) and the resampled 4,649 + 4,649 split.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, prepared_split, remote
from residuum.paper.data.readers import read_libsvm
from residuum.paper.data.samples import Counts, Samples, array_samples

SIDE = 16

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"


def _part(path: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any]]:
    """Images and digits; the file labels the digit 0 by 1 and the digit 9 by 10."""
    values, labels = read_libsvm(path, SIDE * SIDE)
    if set(labels) != set(range(1, 11)) or abs(values).max() > 1:
        raise DataFormatError(f"{path}: expected labels 1 to 10 and values in [-1, 1].")
    images = ((values.astype(np.float64) + 1) / 2).astype(np.float32)
    return images.reshape(-1, SIDE, SIDE), labels - 1


def _read_libsvm(train: Path, test: Path) -> Samples:
    return array_samples(train.parent, _part(train), _part(test))


USPS = DataSet(
    name="usps",
    title="USPS handwritten digits",
    access="open",
    licence="unspecified; commonly used for research",
    citation="J. J. Hull. A database for handwritten text recognition research. IEEE TPAMI, 1994.",
    counts=Counts(
        n_classes=10,
        per_class={
            "train": (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644),
            "test": (359, 264, 198, 166, 200, 160, 170, 147, 166, 177),
        },
        image_shape=(SIDE, SIDE),
    ),
    sources=(
        prepared_split("usps"),
        Source(
            kind="LIBSVM",
            layout="usps.bz2 and usps.t.bz2 from the LIBSVM data page (or unpacked, without .bz2)",
            names=("usps.bz2", "usps.t.bz2"),
            read=_read_libsvm,
        ),
    ),
    files=(
        remote("usps.bz2", _LIBSVM, md5="ec16c51db3855ca6c91edd34d0e9b197"),
        remote("usps.t.bz2", _LIBSVM, md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
    ),
)
