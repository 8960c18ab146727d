"""USPS: 7,291 + 2,007 handwritten digits of 16x16 pixels, float32 in [0, 1], labels 0 to 9.

Every copy is brought to the same values: those stored in [-1, 1] become (x + 1) / 2. The counts per class
tell the official split from other sets of the same name, such as usps_all (11,000 images) and the resampled
4,649 + 4,649 split.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, prepared_split, remote
from residuum.paper.data.pixels import to_unit_range
from residuum.paper.data.readers import mat_shapes, read_arff, read_libsvm, read_mat, read_table, whole
from residuum.paper.data.samples import Counts, Samples, array_samples, split_samples

Array = npt.NDArray[Any]

N_TRAIN, N_TEST, SIDE = 7291, 2007, 16
N_ALL = N_TRAIN + N_TEST

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_ESL = (
    "https://hastie.su.domains/ElemStatLearn/datasets/",
    "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/",
)


def _digits(path: Path, labels: Array) -> npt.NDArray[np.int64]:
    """Digits 0 to 9 from labels 0..9 as they are, or from labels 1..10, where 1 stands for digit 0."""
    labels = whole(path, labels)
    low, high = int(labels.min()), int(labels.max())
    if (low, high) == (1, 10):
        return labels - 1
    if (low, high) != (0, 9):
        raise DataFormatError(f"{path}: expected labels 0 to 9 or 1 to 10, got {low} to {high}.")
    return labels


def _part(path: Path, values: Array, labels: Array) -> tuple[Array, Array]:
    return to_unit_range(path, values).reshape(-1, SIDE, SIDE), _digits(path, labels)


def _read_libsvm(train: Path, test: Path) -> Samples:
    return split_samples(
        train.parent,
        _part(train, *read_libsvm(train, SIDE * SIDE, max_rows=N_TRAIN)),
        _part(test, *read_libsvm(test, SIDE * SIDE, max_rows=N_TEST)),
    )


def _read_esl(train: Path, test: Path) -> Samples:
    first = read_table(train, 1 + SIDE * SIDE, max_rows=N_TRAIN)
    second = read_table(test, 1 + SIDE * SIDE, max_rows=N_TEST)
    return split_samples(
        train.parent, _part(train, first[:, 1:], first[:, 0]), _part(test, second[:, 1:], second[:, 0])
    )


def _merged(path: Path, values: Array, labels: Array) -> Samples:
    """One matrix with the 7,291 training samples first, as the copies with variables fea, gnd have it."""
    if values.shape != (N_ALL, SIDE * SIDE) or labels.size != N_ALL:
        raise DataFormatError(
            f"{path}: expected {N_ALL} samples of {SIDE * SIDE} values, got {values.shape} with "
            f"{labels.size} labels. Collections such as usps_all and usps_resampled are different data sets."
        )
    images, digits = _part(path, values, labels.ravel())
    return array_samples(path, _upright(images, digits), digits, n_train=N_TRAIN)


def _upright(images: Array, digits: Array) -> Array:
    """Images turned so that the digit 1 stands: copies exist row by row and column by column."""
    one = images[digits == 1].mean(axis=0)
    stands = one.sum(axis=0).var() >= one.sum(axis=1).var()  # its ink fills few columns and many rows
    return images if stands else np.ascontiguousarray(images.transpose(0, 2, 1))


def _read_mat(path: Path) -> Samples:
    shapes = mat_shapes(path)
    if "fea" not in shapes or "gnd" not in shapes:
        raise DataFormatError(
            f"{path}: expected the variables fea ({N_ALL} x {SIDE * SIDE}) and gnd, got "
            f"{', '.join(f'{name} {shape}' for name, shape in sorted(shapes.items())[:8]) or 'none'}."
        )
    arrays = read_mat(path, ("fea", "gnd"))
    return _merged(path, arrays["fea"], arrays["gnd"])


def _read_openml(path: Path) -> Samples:
    return _merged(path, *read_arff(path, SIDE * SIDE, max_rows=N_ALL))


USPS = DataSet(
    name="usps",
    title="USPS handwritten digits",
    access="open",
    licence="unspecified; commonly used for research",
    citation="J. J. Hull. A database for handwritten text recognition research. IEEE TPAMI, 1994.",
    counts=Counts(
        n_classes=10,
        parts={"train": (N_TRAIN,), "test": (N_TEST,)},
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
            names=(("usps.bz2", "usps"), ("usps.t.bz2", "usps.t")),
            read=_read_libsvm,
        ),
        Source(
            kind="ESL",
            layout="zip.train.gz and zip.test.gz from the site of The Elements of Statistical Learning",
            names=(("zip.train.gz", "zip.train"), ("zip.test.gz", "zip.test")),
            read=_read_esl,
        ),
        Source(
            kind="MATLAB",
            layout="USPS.mat with fea (9298 x 256, training part first) and gnd",
            names=(("USPS.mat", "usps.mat"),),
            read=_read_mat,
        ),
        Source(
            kind="OpenML 41082",
            layout="USPS.arff as OpenML distributes data set 41082 (training part first)",
            names=(("USPS.arff", "usps.arff"),),
            read=_read_openml,
        ),
    ),
    files=(
        remote("usps.bz2", _LIBSVM, md5="ec16c51db3855ca6c91edd34d0e9b197"),
        remote("usps.t.bz2", _LIBSVM, md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
    ),
    fallbacks=((remote("zip.train.gz", *_ESL), remote("zip.test.gz", *_ESL)),),
)
