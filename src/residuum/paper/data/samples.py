"""What loading a data set gives: labelled samples with the owner's parts, as pixels or as image files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, DataFormatError, UsageError
from residuum.paper.data.readers import whole

Array = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Shape = tuple[int, int]


@dataclass(frozen=True)
class Counts:
    """The counts that a correct copy has; where several numbers are allowed, each occurs in the field."""

    n_classes: int
    n_samples: tuple[int, ...] | None = None
    parts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # samples in each of the owner's parts
    per_class: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of a part, by rising labels
    image_shape: Shape | None = None


@dataclass(frozen=True, kw_only=True)
class LabelledSamples:
    """What both kinds of loaded data sets have in common: labels, the owner's parts and their origin."""

    labels: Labels
    parts: npt.NDArray[np.str_]
    train_parts: tuple[str, ...] = ("train",)
    name: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of distinct labels."""
        return len(np.unique(self.labels))

    @property
    def image_shape(self) -> Shape | None:
        """Height and width of every image; None for photographs, which differ in size."""
        return None

    @property
    def is_train(self) -> Mask:
        """Which samples train."""
        if not self.parts.size or not all(self.parts):
            raise DataError(
                f"The data set '{self.name}' has no official split into training and test part. "
                "Draw one with random_split(n_per_class)."
            )
        return np.isin(self.parts, self.train_parts)

    @property
    def y_train(self) -> Labels:
        """Labels of the training samples."""
        return self.labels[self.is_train]

    @property
    def y_test(self) -> Labels:
        """Labels of the test samples."""
        return self.labels[~self.is_train]

    def random_split(self, n_per_class: int, *, random_state: int = 0) -> Self:
        """The same samples with `n_per_class` random ones of each class for training, the others for testing.

        Parameters
        ----------
        n_per_class : int
            Training samples per class; every class must have more.
        random_state : int, default=0
            Which ones.

        Returns
        -------
        Samples or ImageSamples
        """
        labels, counts = np.unique(self.labels, return_counts=True)
        if not 1 <= n_per_class < counts.min():
            raise UsageError(
                f"The 'n_per_class' parameter must be from 1 to {counts.min() - 1}, less than the smallest "
                f"class of '{self.name}' has. Got {n_per_class!r} instead."
            )
        random = np.random.default_rng(random_state)
        parts = np.full(len(self.labels), "test", dtype="U5")
        for label in labels:
            members = np.flatnonzero(self.labels == label)
            parts[random.permutation(members)[:n_per_class]] = "train"
        return dataclasses.replace(self, parts=parts, train_parts=("train",))

    def problems(self, counts: Counts) -> list[str]:
        """What is not as declared, each with what was expected and found."""
        found: list[tuple[str, Any, Sequence[Any] | None]] = [
            ("samples", len(self.labels), counts.n_samples),
            ("classes", self.n_classes, (counts.n_classes,)),
            ("image size", self.image_shape, counts.image_shape and (counts.image_shape,)),
        ]
        for part, allowed in counts.parts.items():
            found.append((f"samples of the part '{part}'", int((self.parts == part).sum()), allowed))
        for part, per_class in counts.per_class.items():
            got = np.unique(self.labels[self.parts == part], return_counts=True)[1]
            found.append((f"samples per class of the part '{part}'", tuple(got.tolist()), (per_class,)))
        return [
            f"{what}: expected {' or '.join(map(str, allowed))}, got {got}"
            for what, got, allowed in found
            if allowed is not None and got not in allowed
        ]


@dataclass(frozen=True, kw_only=True)
class Samples(LabelledSamples):
    """A loaded data set of images in one size.

    Attributes
    ----------
    name : str
        Name of the data set.
    images : ndarray of shape (n_samples, height, width)
        All images; where there is an official split, the training part comes first.
    labels : ndarray of int64, shape (n_samples,)
        Class of each image.
    parts : ndarray of str, shape (n_samples,)
        The owner's part that each image belongs to: "train" or "test"; "" where there is no official split.
    train_parts : tuple of str
        Parts that train; all others test.
    source : str
        Which kind of copy was read, and its path.
    extra : dict of str to ndarray
        Further fields with one entry per image, such as `names` and `bad`.
    notes : tuple of str
        What a reader of results should know about this copy.
    """

    images: Array
    extra: dict[str, Array] = field(default_factory=dict)

    @property
    def image_shape(self) -> Shape:
        """Height and width of every image."""
        return (int(self.images.shape[1]), int(self.images.shape[2]))

    @property
    def x_train(self) -> Array:
        """Images of the training part."""
        return self.images[self.is_train]

    @property
    def x_test(self) -> Array:
        """Images of the test part."""
        return self.images[~self.is_train]


@dataclass(frozen=True, kw_only=True)
class ImageSamples(LabelledSamples):
    """A loaded data set of photographs: paths, never pixels.

    Attributes
    ----------
    name : str
        Name of the data set.
    paths : tuple of pathlib.Path
        The image files, in the owner's order; `BowSift` and `CNNFeatures` take them as they are.
    labels : ndarray of int64, shape (n_samples,)
        Class of each image, numbered from 1 as by the owner.
    parts : ndarray of str, shape (n_samples,)
        The owner's part that each image belongs to: "train", "val" or "test"; "" where there is no split.
    class_names : dict of int to str
        Name of each class.
    train_parts : tuple of str
        Parts that train; all others test.
    source : str
        Which kind of copy was read, and its path.
    notes : tuple of str
        What a reader of results should know about this copy.
    """

    paths: tuple[Path, ...]
    class_names: dict[int, str]

    @property
    def train_paths(self) -> list[Path]:
        """Training images."""
        return [path for path, train in zip(self.paths, self.is_train) if train]

    @property
    def test_paths(self) -> list[Path]:
        """Test images."""
        return [path for path, train in zip(self.paths, self.is_train) if not train]

    def problems(self, counts: Counts) -> list[str]:
        """What is not as declared: files that are missing, or else counts."""
        missing = [str(path) for path, there in zip(self.paths, self._present()) if not there]
        if not missing:
            return super().problems(counts)
        few = ", ".join(missing[:3])
        return [f"{len(missing)} of {len(self.paths)} images are missing, such as {few}"]

    def subset(self) -> ImageSamples:
        """Those images that are there."""
        there = self._present()
        if not there.any():
            raise DataFormatError(f"{self.name} ({self.source}): none of the listed images is there.")
        labels = self.labels[there]
        kept = set(labels.tolist())
        note = f"A subset: {len(labels)} images of {len(kept)} classes."
        return dataclasses.replace(
            self,
            paths=tuple(path for path, present in zip(self.paths, there) if present),
            labels=labels,
            parts=self.parts[there],
            class_names={label: name for label, name in self.class_names.items() if label in kept},
            notes=(*self.notes, note),
        )

    def _present(self) -> Mask:
        # One listing per folder: asking for ten thousand files one by one takes seconds on a network drive.
        folders = {path.parent for path in self.paths}
        there = {path for folder in folders if folder.is_dir() for path in folder.iterdir()}
        return np.array([path in there for path in self.paths])


def array_samples(path: Path, *groups: tuple[Array, Array], **rest: Any) -> Samples:
    """Samples from images (n, height, width) and n labels: one group, or a training and a test group."""
    size = groups[0][0].shape[1:]
    for images, labels in groups:
        if images.ndim != 3 or images.shape[1:] != size or labels.shape != (len(images),):
            raise DataFormatError(
                f"{path}: expected images (n, height, width) of one size and n labels, "
                f"got {images.shape} and {labels.shape}."
            )
        if images.dtype.kind == "f" and not np.isfinite(images).all():
            raise DataFormatError(f"{path}: expected finite pixel values, got NaN or infinity.")
    n_samples = [len(labels) for _, labels in groups]
    if any(len(values) != sum(n_samples) for values in rest.get("extra", {}).values()):
        raise DataFormatError(f"{path}: expected {sum(n_samples)} entries in {', '.join(rest['extra'])}.")
    return Samples(
        images=np.concatenate([images for images, _ in groups]),
        labels=whole(path, np.concatenate([labels for _, labels in groups])),
        parts=np.repeat(["train", "test"] if len(groups) == 2 else [""], n_samples).astype("U5"),
        **rest,
    )


def image_samples(
    folder: Path, rows: Iterable[tuple[str, int, str]], class_names: dict[int, str], **rest: Any
) -> ImageSamples:
    """Samples from (path within `folder`, label, part) rows; a path that leads outside is refused."""
    rows = list(rows)
    for file, label, _ in rows:
        if file.startswith("/") or ".." in file.split("/") or "\\" in file or "\0" in file:
            raise DataFormatError(f"{folder}: the list of images names {file!r}, which leads outside.")
        if label not in class_names:
            raise DataFormatError(
                f"{folder}: {file} has the class {label}; expected 1 to {max(class_names, default=0)}."
            )
    paths = tuple(folder / file for file, _, _ in rows)
    if not 0 < len(set(paths)) == len(paths):
        raise DataFormatError(f"{folder}: expected a list of images, each once; got {len(paths)} lines.")
    return ImageSamples(
        paths=paths,
        labels=np.array([label for _, label, _ in rows], dtype=np.int64),
        parts=np.array([part for _, _, part in rows], dtype="U5"),
        class_names=class_names,
        **rest,
    )
