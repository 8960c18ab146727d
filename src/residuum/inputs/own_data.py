"""What every reader of people's own data returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TRAIN, TEST = "train", "test"


@dataclass(frozen=True)
class OwnData:
    """Samples as rows, with what is known about them.

    Attributes
    ----------
    source : str
        The file or folder that was read.
    kind : {"table", "array", "images"}
        A table has columns, perhaps with names; an array holds numbers, perhaps pixels; images are files.
    features : ndarray of float, shape (n_samples, n_features), or None
        None for a folder of images, whose features are computed from `paths`.
    labels : ndarray of shape (n_samples,) or None
        Text, or whole numbers where all labels are.
    names : ndarray of str, shape (n_samples,)
        What a user calls the sample: a file, the value of a name column, or the number of the row from 0.
    columns : tuple of str or None
        Names of the features where the file has them.
    label : str or None
        Name (or number, from 0) of the label column or array.
    split : ndarray of str, shape (n_samples,), or None
        "train" or "test" for every sample.
    groups : ndarray of str, shape (n_samples,), or None
        Samples of one group must stay on one side of a split.
    paths : tuple of Path or None
        Files of a folder of images.
    image_shape : tuple of int or None
        (height, width) or (height, width, 3) where a row of `features` holds the pixels of an image.
    notes : tuple of str
        What was guessed or left out, one sentence each, for the user to read.
    """

    source: str
    kind: str
    features: npt.NDArray[np.floating[Any]] | None
    labels: Array | None
    names: Array
    columns: tuple[str, ...] | None = None
    label: str | None = None
    split: Array | None = None
    groups: Array | None = None
    paths: tuple[Path, ...] | None = None
    image_shape: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, chosen: Any) -> OwnData:
        """The same with some of the samples, by index or mask."""
        index = np.arange(len(self))[chosen]
        arrays = {name: getattr(self, name) for name in ("features", "labels", "names", "split", "groups")}
        picked: dict[str, Any] = {k: array[index] for k, array in arrays.items() if array is not None}
        if self.paths is not None:
            picked["paths"] = tuple(self.paths[i] for i in index)
        return replace(self, **picked)

    def noted(self, *notes: str) -> OwnData:
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True)
class ExpectedColumns:
    """What a saved model knows about the data it was fitted to, so that new data are read in the same way.

    Attributes
    ----------
    columns : tuple of str or None
        Names of the features; None where the training data had none.
    n_features : int
        Number of features of the raw input.
    label : str or None
        Name or number of the label column; it may be absent from new data.
    """

    columns: tuple[str, ...] | None
    n_features: int
    label: str | None


@dataclass(frozen=True)
class TextFormat:
    """How a text table is written; None means that it is guessed.

    Attributes
    ----------
    header : bool or None
        Whether the first line holds the names of the columns.
    delimiter : str or None
        One of , ; tab and |.
    decimal : {".", ","} or None
        The decimal mark.
    encoding : str
        Encoding of the file; a byte-order mark overrules it.
    missing : {"error", "drop"}
        What to do with a row that lacks a number: stop and name it, or leave the row out.
    """

    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    missing: str = "error"
