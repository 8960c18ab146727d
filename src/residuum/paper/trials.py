"""From a data set to the features of one trial: the split, what is done before PCA, and PCA.

PCA is fitted to the training samples of the trial alone. The splits of a trial are nested: the samples for a
smaller n are among those for a larger one, so rows of a table differ in nothing but n. Photographs are in
`photo_trials.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows
from residuum.experiments.compared_data import Split, random_split
from residuum.features import EigenfacePCA, Scattering2D, cached_transform
from residuum.paper.data import Samples, load_dataset
from residuum.paper.entries import Row

Array = npt.NDArray[Any]


def evenly_spread(values: Array, most: int | None) -> Array:
    """At most so many of the values, evenly spread over them; None is all."""
    if most is None or most >= len(values):
        return values
    return values[np.linspace(0, len(values) - 1, most).round().astype(np.int64)]


SPLITS = ("official", "random_rest", "random_of_training")


def pixels(images: Array, cache_dir: Path | None) -> Array:
    """The grey levels as they are."""
    return images.reshape(len(images), -1).astype(np.float64)


def signed_pixels(images: Array, cache_dir: Path | None) -> Array:
    """Grey levels from 0 to 1 stretched to -1 to 1, as the owners of USPS distribute them."""
    return 2 * pixels(images, cache_dir) - 1


def scattering(images: Array, cache_dir: Path | None) -> Array:
    """Scattering coefficients (J=3, L=8, order 2), each path's map divided by its maximum; kept on disk."""
    images = images.astype(np.float32)
    transformer = Scattering2D(J=3, L=8, normalize="path_max", n_jobs=-1).fit(images[:1])
    return cached_transform(transformer, images, cache_dir=cache_dir)


FEATURES: dict[str, Callable[[Array, Path | None], Array]] = {
    "pixels": pixels,
    "signed_pixels": signed_pixels,
    "scattering": scattering,
}


@dataclass(frozen=True)
class TrialData:
    """Features and labels of one row and trial."""

    train: Array  # (n_train, n_features)
    train_labels: Array
    test: Array  # (n_test, n_features)
    test_labels: Array


def say_nothing(text: str, share: float | None = None) -> None:
    """What is done where nobody wants to know what is being computed, and what share of it is ready."""


@dataclass
class Trials:
    """The data of some rows of a table, loaded when first asked for."""

    rows: tuple[Row, ...]
    seed: int = 0
    queries: int | None = None  # at most so many in each trial
    data_home: str | None = None
    cache_dir: Path | None = None  # where slow features are kept
    say: Callable[..., None] = say_nothing  # called with what is being computed, where that takes long


class ArrayTrials(Trials):
    """The data of rows of a table of arrays."""

    uses_all_cores = False

    @cached_property
    def samples(self) -> Samples:
        """The data set, which is the same for all rows."""
        first = self.rows[0]
        return load_dataset(first.dataset, data_home=self.data_home, image_shape=first.image_shape)

    @staticmethod
    def find(row: Row, home: str | None, *, allow_subset: bool) -> tuple[None, bool]:
        """Load the data set of a row, or raise the error that says why it cannot; there are no subsets."""
        load_dataset(row.dataset, data_home=home, image_shape=row.image_shape)
        return None, False

    @staticmethod
    def check_features(name: str, home: str | None) -> None:
        """Nothing is missing: these features need no other package."""

    def split(self, row: Row, trial: int) -> Split:
        """Indices of the training and test samples.

        A random split takes `per_class` samples of each class to train: of all samples, with the others to
        test, or of the official training part, with the official test part.
        """
        samples = self.samples
        random: Any = {"train_per_class": row.per_class, "seed": self.seed, "trial": trial}
        if row.split == "random_rest":
            parts = random_split(samples.labels, **random)
            train, test = parts.train, parts.test
        else:
            train, test = np.split(np.arange(len(samples.labels)), [len(samples.y_train)])
            if row.split == "random_of_training":
                train = random_split(samples.y_train, **random).train
        return Split(train, evenly_spread(test, self.queries))

    def about(self, row: Row, trial: int) -> tuple[str, tuple[str, ...]]:
        """Where the data come from, and what a reader of results must know."""
        return self.samples.source, self.samples.notes

    def features(self, row: Row, trial: int) -> TrialData:
        """Features after PCA, with unit norm."""
        parts, labels = self.split(row, trial), self.samples.labels
        train, test = self._before_pca(row, trial)
        # The principal directions of the largest d are cut to those of the row.
        most = max(each.dimension for each in self.rows if each.dimension is not None)
        # n centred samples span n - 1 directions at most: 50 of each of ten digits give 499, not 500.
        limit = min(len(train) - 1, train.shape[1])
        pca = EigenfacePCA(most if most < limit else None, normalize=False).fit(train)
        train, test = (unit_rows(pca.transform(part)[:, : row.dimension])[0] for part in (train, test))
        return TrialData(train, labels[parts.train], test, labels[parts.test])

    def keep_slow_features(self, trials: Iterable[int]) -> None:
        """Put scattering coefficients on disk, so that the worker processes do not each compute their own."""
        row = self.rows[0]
        for trial in trials if row.features == "scattering" else ():
            self.say(f"{row.dataset} trial {trial + 1}: {row.features}")
            self._before_pca(row, trial)

    def _before_pca(self, row: Row, trial: int) -> tuple[Array, Array]:
        """Training features, taken from those of the largest row, which are kept; and test features."""
        parts = self.split(row, trial)
        largest = self.split(max(self.rows, key=lambda row: row.per_class or 0), trial).train
        train, test = (
            FEATURES[row.features](self.samples.images[indices], self.cache_dir)
            for indices in (largest, parts.test)
        )
        order = np.argsort(largest)
        return train[order[np.searchsorted(largest, parts.train, sorter=order)]], test
