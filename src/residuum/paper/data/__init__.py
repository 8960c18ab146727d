"""Data sets: `load_dataset` reads a copy on this machine; nothing is downloaded unless asked for.

To add a data set: one file that declares a `DataSet`, and its mention in `_ALL`.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import cast

import numpy as np

from residuum.errors import UsageError
from residuum.paper.data.aircraft import AIRCRAFT
from residuum.paper.data.ar import AR
from residuum.paper.data.base import DataSet
from residuum.paper.data.caltech256 import CALTECH256
from residuum.paper.data.cars import CARS
from residuum.paper.data.cub200 import CUB200
from residuum.paper.data.digits import DIGITS
from residuum.paper.data.extended_yale_b import EXTENDED_YALE_B
from residuum.paper.data.flowers102 import FLOWERS102
from residuum.paper.data.mnist import MNIST
from residuum.paper.data.pixels import box_resize
from residuum.paper.data.samples import Counts, ImageSamples, Samples
from residuum.paper.data.stanford40 import STANFORD40
from residuum.paper.data.store import load
from residuum.paper.data.usps import USPS
from residuum.system.folders import data_home

__all__ = [
    "DATASETS",
    "Counts",
    "ImageSamples",
    "Samples",
    "data_home",
    "load_dataset",
    "load_images",
]

_ALL = (DIGITS, USPS, MNIST, EXTENDED_YALE_B, AR, STANFORD40, CALTECH256, CUB200, FLOWERS102, AIRCRAFT, CARS)
DATASETS: dict[str, DataSet] = {dataset.name: dataset for dataset in _ALL}


def _declared(name: str, *, photographs: bool) -> DataSet:
    if name not in DATASETS:
        raise UsageError(f"The data set must be one of {', '.join(DATASETS)}. Got {name!r} instead.")
    if DATASETS[name].photographs != photographs:
        loader = "load_dataset" if photographs else "load_images"
        raise UsageError(f"The data set '{name}' is loaded with {loader}({name!r}).")
    return DATASETS[name]


def load_dataset(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Samples:
    """Load a data set from a copy on this machine.

    Parameters
    ----------
    name : {"digits", "usps", "mnist", "extended_yale_b", "ar"}
        Which data set.
    data_home : path, optional
        Folder of the data sets; else the variable RESIDUUM_DATA, else the cache folder of the platform.
    image_shape : (int, int), optional
        Height and width, for data sets that come in several sizes: "extended_yale_b", (54, 48) by default.

    Returns
    -------
    Samples
        Images, labels, the official split where there is one, and what is known beside.

    Raises
    ------
    residuum.errors.DataNotFoundError
        When there is no copy. The message says where it was looked for, how to get one and its layout.
    residuum.errors.DataFormatError
        When a copy is damaged, or its counts are not those of the data set.

    Examples
    --------
    >>> from residuum.paper.data import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.images.shape, digits.n_classes
    ((1797, 8, 8), 10)
    """
    dataset = _declared(name, photographs=False)
    shape = dataset.default_shape
    if image_shape is not None:
        if shape is None or len(image_shape) != 2 or min(image_shape) < 1:
            raise UsageError(
                f"The 'image_shape' parameter of load_dataset must be (height, width) for 'extended_yale_b' "
                f"and None for data sets of one size. Got {image_shape!r} for '{name}' instead."
            )
        shape = image_shape
    samples = cast(Samples, load(dataset, _home(data_home), shape))
    if shape is None or samples.image_shape == shape:
        return samples
    # One image at a time: all of them as float64 would take a gigabyte.
    return replace(samples, images=np.stack([box_resize(image, shape) for image in samples.images]))


def load_images(
    name: str,
    *,
    data_home: str | os.PathLike[str] | None = None,
    subset: bool = False,
) -> ImageSamples:
    """Load a data set of photographs from a copy on this machine: paths, labels and the official split.

    Parameters
    ----------
    name : {"stanford40", "caltech256", "cub200", "flowers102", "aircraft", "cars"}
        Which data set.
    data_home : path, optional
        Folder of the data sets; else the variable RESIDUUM_DATA, else the cache folder of the platform.
    subset : bool, default=False
        Accept a part of the data set: images that are listed but missing are dropped, and counts are not
        compared with those of the whole.

    Returns
    -------
    ImageSamples
        Paths of the images, labels, parts and names of the classes.

    Raises
    ------
    residuum.errors.DataNotFoundError
        When there is no copy. The message says where it was looked for, how to get one and its layout.
    residuum.errors.DataFormatError
        When a list is damaged, images are missing, or counts are not those of the data set.

    Examples
    --------
    >>> from residuum.paper.data import load_images
    >>> birds = load_images("cub200")                 # doctest: +SKIP
    >>> len(birds.train_paths), len(birds.test_paths) # doctest: +SKIP
    (5994, 5794)
    """
    dataset = _declared(name, photographs=True)
    return cast(ImageSamples, load(dataset, _home(data_home), subset=subset))


_home = data_home
