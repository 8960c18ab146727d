"""Data sets of photographs: lists of image files with labels and the owner's parts, never pixels."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, DataFormatError, UsageError
from residuum.paper.data.base import Expected

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ImageSamples:
    """A loaded data set of photographs.

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
        Which way in was used, and the path it was read from.
    notes : tuple of str
        What a reader of results should know about this copy.
    """

    name: str
    paths: tuple[Path, ...]
    labels: npt.NDArray[np.int64]
    parts: npt.NDArray[np.str_]
    class_names: dict[int, str]
    train_parts: tuple[str, ...] = ("train",)
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def n_classes(self) -> int:
        """Number of distinct labels."""
        return len(np.unique(self.labels))

    @property
    def is_train(self) -> Mask:
        """Which images train."""
        if not self.parts.size or not all(self.parts):
            raise DataError(
                f"The data set '{self.name}' has no official split into training and test part. "
                "Use random_split(n_per_class)."
            )
        return np.isin(self.parts, self.train_parts)

    @property
    def n_train(self) -> int | None:
        """Number of training images; None when the data set has no split."""
        return int(self.is_train.sum()) if all(self.parts) else None

    @property
    def train_paths(self) -> list[Path]:
        """Training images."""
        return [path for path, train in zip(self.paths, self.is_train) if train]

    @property
    def test_paths(self) -> list[Path]:
        """Test images."""
        return [path for path, train in zip(self.paths, self.is_train) if not train]

    @property
    def y_train(self) -> npt.NDArray[np.int64]:
        """Labels of the training images."""
        return self.labels[self.is_train]

    @property
    def y_test(self) -> npt.NDArray[np.int64]:
        """Labels of the test images."""
        return self.labels[~self.is_train]

    def with_train_parts(self, train_parts: Sequence[str]) -> ImageSamples:
        """The same images with other parts for training.

        Parameters
        ----------
        train_parts : sequence of {"train", "val", "test"}
            Parts that train, of those that the data set has. All others test.

        Returns
        -------
        ImageSamples
        """
        known = sorted(set(self.parts.tolist()) - {""})
        wanted = (train_parts,) if isinstance(train_parts, str) else tuple(train_parts)
        if not wanted or not set(wanted) < set(known):
            raise UsageError(
                f"The 'train_parts' parameter must name some, not all, of the parts of '{self.name}': "
                f"{', '.join(known) or 'it has none'}. Got {train_parts!r} instead."
            )
        return dataclasses.replace(self, train_parts=wanted)

    def random_split(self, n_per_class: int, *, random_state: int = 0) -> ImageSamples:
        """The same images with `n_per_class` random ones of each class for training, the others for testing.

        Parameters
        ----------
        n_per_class : int
            Training images per class; every class must have more.
        random_state : int, default=0
            Which ones.

        Returns
        -------
        ImageSamples
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


def image_samples(
    name: str,
    folder: Path,
    rows: Iterable[tuple[str, int, str]],
    class_names: dict[int, str],
    **rest: Any,
) -> ImageSamples:
    """Samples from (path within `folder`, label, part) rows; a path that leads outside is refused."""
    paths, labels, parts = [], [], []
    for file, label, part in rows:
        relative = PurePosixPath(file)
        if relative.is_absolute() or ".." in relative.parts or "\\" in file or "\0" in file:
            raise DataFormatError(f"{folder}: the list of images names {file!r}, which leads outside.")
        if label not in class_names:
            raise DataFormatError(
                f"{folder}: {file} has the class {label}; expected 1 to {max(class_names, default=0)}."
            )
        paths.append(folder / relative)
        labels.append(label)
        parts.append(part)
    if not paths:
        raise DataFormatError(f"{folder}: lists no image.")
    if len(set(paths)) != len(paths):
        raise DataFormatError(f"{folder}: an image is listed twice.")
    return ImageSamples(
        name,
        tuple(paths),
        np.array(labels, dtype=np.int64),
        np.array(parts, dtype="U5"),
        class_names,
        **rest,
    )


def checked_images(samples: ImageSamples, expected: Expected, *, subset: bool) -> ImageSamples:
    """Raise DataFormatError unless files and counts are as declared; a subset only loses what is missing."""
    there = _present(samples.paths)
    if subset:
        return _cut_down(samples, there)
    missing = [str(path) for path, present in zip(samples.paths, there) if not present]
    if missing:
        raise DataFormatError(
            f"{samples.name} ({samples.source}): {len(missing)} of {len(samples.paths)} images are missing, "
            f"such as {', '.join(missing[:3])}. Get the copy again; or say subset=True to use what is there."
        )
    problems: list[str] = []

    def compare(what: str, got: int, allowed: Sequence[int] | None) -> None:
        if allowed is not None and got not in allowed:
            problems.append(f"{what}: expected {' or '.join(map(str, allowed))}, got {got}")

    compare("images", len(samples.labels), expected.n_samples)
    compare("classes", samples.n_classes, (expected.n_classes,))
    for part, count in expected.parts:
        compare(f"images of the part '{part}'", int((samples.parts == part).sum()), (count,))
    if problems:
        raise DataFormatError(
            f"{samples.name} ({samples.source}) is not the expected data set: {'; '.join(problems)}. "
            "The copy may be incomplete, or a different set of the same name; say subset=True if it is meant "
            "to be a part."
        )
    return samples


def _present(paths: Sequence[Path]) -> Mask:
    # One listing per folder: asking for ten thousand files one by one takes seconds on a network drive.
    listed: dict[Path, set[str]] = {}
    for parent in {path.parent for path in paths}:
        try:
            listed[parent] = set(os.listdir(parent))  # noqa: PTH208
        except OSError:
            listed[parent] = set()
    return np.array([path.name in listed[path.parent] for path in paths], dtype=bool)


def _cut_down(samples: ImageSamples, there: Mask) -> ImageSamples:
    if not there.any():
        raise DataFormatError(f"{samples.name} ({samples.source}): none of the listed images is there.")
    labels = samples.labels[there]
    names = {label: name for label, name in samples.class_names.items() if label in set(labels.tolist())}
    note = f"A subset: {len(labels)} images of {len(names)} classes."
    return dataclasses.replace(
        samples,
        paths=tuple(path for path, present in zip(samples.paths, there) if present),
        labels=labels,
        parts=samples.parts[there],
        class_names=names,
        notes=(*samples.notes, note),
    )
