"""What a data set is: files declared with their checksums, ways in, expected counts, and loaded samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, DataFormatError
from residuum.system.download import RemoteFile

if TYPE_CHECKING:
    from residuum.paper.data.photos import ImageSamples

Array = npt.NDArray[Any]


class WrongSizeError(DataFormatError):
    """A copy is in order, but its images are of another size than asked for."""


@dataclass(frozen=True)
class Expected:
    """The counts a correct copy has; None means that the count does not apply."""

    n_classes: int
    n_train: tuple[int, ...] | None = None
    n_test: tuple[int, ...] | None = None
    n_samples: tuple[int, ...] | None = None
    image_shapes: tuple[tuple[int, int], ...] | None = None
    train_counts: tuple[int, ...] | None = None
    test_counts: tuple[int, ...] | None = None
    parts: tuple[tuple[str, int], ...] = ()  # images in each of the owner's parts, for sets of photographs


@dataclass(frozen=True)
class Samples:
    """A loaded data set.

    Attributes
    ----------
    name : str
        Name of the data set.
    images : ndarray of shape (n_samples, height, width)
        All images; where there is an official split, the training part comes first.
    labels : ndarray of int64, shape (n_samples,)
        Class of each image.
    n_train : int or None
        Size of the official training part; None when the data set has no official split.
    source : str
        Which way in was used, and the path it was read from.
    extra : dict of str to ndarray
        Further fields with one entry per image, such as `names` and `bad`.
    notes : tuple of str
        What a reader of results should know about this copy.
    """

    name: str
    images: Array
    labels: npt.NDArray[np.int64]
    n_train: int | None = None
    source: str = ""
    extra: dict[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def image_shape(self) -> tuple[int, int]:
        """Height and width of one image."""
        return (int(self.images.shape[1]), int(self.images.shape[2]))

    @property
    def n_classes(self) -> int:
        """Number of distinct labels."""
        return len(np.unique(self.labels))

    @property
    def x_train(self) -> Array:
        """Images of the official training part."""
        return self.images[: self._split()]

    @property
    def y_train(self) -> npt.NDArray[np.int64]:
        """Labels of the official training part."""
        return self.labels[: self._split()]

    @property
    def x_test(self) -> Array:
        """Images of the official test part."""
        return self.images[self._split() :]

    @property
    def y_test(self) -> npt.NDArray[np.int64]:
        """Labels of the official test part."""
        return self.labels[self._split() :]

    def _split(self) -> int:
        if self.n_train is None:
            raise DataError(
                f"The data set '{self.name}' has no official split into training and test part. "
                "Use 'images' and 'labels' and split them yourself."
            )
        return self.n_train


def joined(name: str, train: tuple[Array, Array], test: tuple[Array, Array], **rest: Any) -> Samples:
    """Samples from an official training and test part, each (images, labels)."""
    return Samples(
        name,
        np.concatenate([train[0], test[0]]),
        np.concatenate([train[1], test[1]]).astype(np.int64),
        n_train=len(train[0]),
        **rest,
    )


@dataclass(frozen=True)
class Source:
    """One way in: which files or folders make it up, and how they are read.

    `names` holds one tuple per required entry, with the accepted spellings, preferred first; a name that ends
    in a slash is a folder.
    `find` replaces the search by name where the entry is a folder recognised by its content.
    """

    kind: str
    layout: str
    names: tuple[tuple[str, ...], ...]
    read: Callable[[tuple[Path, ...], tuple[int, int] | None], Samples | ImageSamples]
    find: Callable[[Path], tuple[Path, ...] | None] | None = None

    def spellings(self, image_shape: tuple[int, int] | None) -> tuple[tuple[str, ...], ...]:
        """`names` with the image size filled in where a name holds ``{size}``."""
        size = "" if image_shape is None else f"{image_shape[0]}x{image_shape[1]}"
        return tuple(tuple(name.format(size=size) for name in options) for options in self.names)

    def search(
        self, folder: Path, image_shape: tuple[int, int] | None = None
    ) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        """Entries present in `folder`, and the preferred names of those that are missing."""
        try:
            return self._search(folder, self.spellings(image_shape))
        except PermissionError as error:
            raise DataError(
                f"Cannot look into {folder}: {error.strerror}. Choose another data home."
            ) from error

    def _search(
        self, folder: Path, names: tuple[tuple[str, ...], ...]
    ) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        if self.find is not None:
            found = self.find(folder)
            return (found, ()) if found else ((), tuple(options[0] for options in names))
        present: list[Path] = []
        missing: list[str] = []
        for options in names:
            path = next((folder / name for name in options if _is_there(folder, name)), None)
            if path is None:
                missing.append(options[0])
            else:
                present.append(path)
        return tuple(present), tuple(missing)


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() if name.endswith("/") else (folder / name).is_file()


@dataclass(frozen=True)
class DataSet:
    """One data set: where it comes from, what may be done with it, and how a copy is recognised."""

    name: str
    title: str
    access: str  # "bundled", "open" or "registration"
    licence: str
    citation: str
    expected: Expected
    sources: tuple[Source, ...]
    files: tuple[RemoteFile, ...] = ()
    fallbacks: tuple[tuple[RemoteFile, ...], ...] = ()  # whole replacements for `files`, tried in order
    how_to_get: str = ""
    image_shape: tuple[int, int] | None = None  # the default where the caller may choose the size
    other_shapes: tuple[tuple[int, int], ...] = ()  # further sizes that prepared copies come in
    subset_sources: tuple[Source, ...] = ()  # further ways in when a part of the set is asked for


def check_counts(samples: Samples, expected: Expected) -> None:
    """Raise DataFormatError unless every count of `samples` is as `expected`."""
    problems: list[str] = []

    def compare(what: str, got: Any, allowed: Any) -> None:
        if allowed is not None and got not in allowed:
            problems.append(f"{what}: expected {' or '.join(map(str, allowed))}, got {got}")

    if samples.images.ndim != 3 or len(samples.images) != len(samples.labels):
        raise DataFormatError(
            f"{samples.name} ({samples.source}): images {samples.images.shape} and labels "
            f"{samples.labels.shape} do not belong together."
        )
    compare("samples", len(samples.labels), expected.n_samples)
    compare("classes", samples.n_classes, (expected.n_classes,))
    compare("image size", samples.image_shape, expected.image_shapes)
    if samples.n_train is not None:
        compare("training samples", len(samples.y_train), expected.n_train)
        compare("test samples", len(samples.y_test), expected.n_test)
        for part, labels, counts in (
            ("training", samples.y_train, expected.train_counts),
            ("test", samples.y_test, expected.test_counts),
        ):
            if counts is not None:
                got = tuple(int(c) for c in np.unique(labels, return_counts=True)[1])
                compare(f"{part} samples per class", got, (counts,))
    for key, values in samples.extra.items():
        compare(f"entries of '{key}'", len(values), (len(samples.labels),))
    if samples.images.dtype.kind == "f" and not np.isfinite(samples.images).all():
        problems.append("pixel values: expected finite numbers, got NaN or infinity")
    if problems:
        raise DataFormatError(
            f"{samples.name} ({samples.source}) is not the expected data set: {'; '.join(problems)}. "
            "The copy may be incomplete, or a different set of the same name."
        )
