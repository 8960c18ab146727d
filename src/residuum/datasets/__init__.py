"""Data sets: `load_dataset` reads a copy on this machine; nothing is downloaded unless asked for.

To add a data set: one file that declares a `DataSet`, and one line in `DATASETS`.
"""

from __future__ import annotations

import os

from residuum.datasets.ar import AR
from residuum.datasets.base import DataSet, Expected, RemoteFile, Samples, Source
from residuum.datasets.digits import DIGITS
from residuum.datasets.extended_yale_b import EXTENDED_YALE_B
from residuum.datasets.home import data_home
from residuum.datasets.mnist import MNIST
from residuum.datasets.store import load
from residuum.datasets.usps import USPS
from residuum.errors import UsageError

__all__ = [
    "DATASETS",
    "DataSet",
    "Expected",
    "RemoteFile",
    "Samples",
    "Source",
    "data_home",
    "get_dataset",
    "load_dataset",
]

DATASETS: dict[str, DataSet] = {
    "digits": DIGITS,
    "usps": USPS,
    "mnist": MNIST,
    "extended_yale_b": EXTENDED_YALE_B,
    "ar": AR,
}


def get_dataset(name: str) -> DataSet:
    """Declaration of a data set by its name."""
    if name not in DATASETS:
        raise UsageError(f"The data set must be one of {', '.join(DATASETS)}. Got {name!r} instead.")
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
    >>> from residuum.datasets import load_dataset
    >>> digits = load_dataset("digits")
    >>> digits.images.shape, digits.n_classes
    ((1797, 8, 8), 10)
    """
    return load(get_dataset(name), _home(data_home), image_shape)


_home = data_home
