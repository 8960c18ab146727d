"""From a data set to the features of one trial: the split, what is done before PCA, and PCA.

PCA is fitted to the training samples of the trial alone. The splits of a trial are nested: the samples for a
smaller n are among those for a larger one, so rows of a table differ in nothing but n. Photographs are in
`photo_trials.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


def official(samples: Samples, per_class: int | None, seed: int, trial: int) -> Split:
    """Training and test part as the owner of the data set gives them."""
    n_train = len(samples.y_train)
    return Split(np.arange(n_train), np.arange(n_train, len(samples.labels)))


def random_rest(samples: Samples, per_class: int, seed: int, trial: int) -> Split:
    """`per_class` samples of each class at random to train, all others to test."""
    return random_split(samples.labels, train_per_class=per_class, seed=seed, trial=trial)


def random_of_training(samples: Samples, per_class: int, seed: int, trial: int) -> Split:
    """`per_class` samples of each class at random from the official training part, all of the test part."""
    n_train = len(samples.y_train)
    chosen = random_split(samples.y_train, train_per_class=per_class, seed=seed, trial=trial).train
    return Split(chosen, np.arange(n_train, len(samples.labels)))


def evenly_spread(values: Array, most: int | None) -> Array:
    """At most so many of the values, evenly spread over them; None is all."""
    if most is None or most >= len(values):
        return values
    return values[np.linspace(0, len(values) - 1, most).round().astype(np.int64)]


SPLITS: dict[str, Callable[..., Split]] = {
    "official": official,
    "random_rest": random_rest,
    "random_of_training": random_of_training,
}


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
    return cached_transform(transformer, images, cache_dir=cache_dir, mmap=True)


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


class ArrayTrials:
    """The data of some rows of a table of arrays; features that rows or trials share are computed once.

    Parameters
    ----------
    rows : tuple of Row
        The rows that will be asked for: features of a trial are computed for the largest.
    seed : int
        Seed of the random splits.
    queries : int or None
        At most so many test samples, evenly spread over the test part.
    data_home, cache_dir : path or None
        Where the data sets are, and where slow features are kept.
    say : callable
        Called with what is being computed, where that takes long.
    """

    uses_all_cores = False

    def __init__(
        self,
        rows: tuple[Row, ...],
        *,
        seed: int = 0,
        queries: int | None = None,
        data_home: str | None = None,
        cache_dir: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.rows, self.seed, self.queries = rows, seed, queries
        self._cache_dir, self._say = cache_dir, say
        self.samples = load_dataset(rows[0].dataset, data_home=data_home, image_shape=rows[0].image_shape)
        self._held: dict[tuple[str, int], tuple[Array, Array]] = {}
        self._projected: tuple[tuple[int, int | None], tuple[Array, Array]] | None = None

    @staticmethod
    def find(row: Row, home: str | None, *, allow_subset: bool) -> tuple[None, bool]:
        """Load the data set of a row, or raise the error that says why it cannot; there are no subsets."""
        load_dataset(row.dataset, data_home=home, image_shape=row.image_shape)
        return None, False

    @staticmethod
    def check_features(name: str, home: str | None) -> None:
        """Nothing is missing: these features need no other package."""

    def split(self, row: Row, trial: int) -> Split:
        """Indices of the training and test samples."""
        parts = SPLITS[row.split](self.samples, row.per_class, self.seed, trial)
        return Split(parts.train, evenly_spread(parts.test, self.queries))

    def about(self, row: Row, trial: int) -> tuple[str, tuple[str, ...]]:
        """Where the data come from, and what a reader of results must know."""
        return self.samples.source, self.samples.notes

    def features(self, row: Row, trial: int) -> TrialData:
        """Features after PCA, with unit norm."""
        parts = self.split(row, trial)
        # Rows that differ in d alone share their principal directions: fitted once, cut to d.
        most = max(each.dimension for each in self.rows if each.dimension is not None)
        key = (trial, row.per_class)
        if self._projected is None or self._projected[0] != key:
            self._projected = (key, self._project(row, parts, trial, most))
        train, test = self._projected[1]
        labels = self.samples.labels
        return TrialData(
            unit_rows(train[:, : row.dimension])[0],
            labels[parts.train],
            unit_rows(test[:, : row.dimension])[0],
            labels[parts.test],
        )

    def keep_slow_features(self, trials: Iterable[int]) -> None:
        """Put scattering coefficients on disk, so that the worker processes do not each compute their own."""
        row = self.rows[0]
        if row.features != "scattering":
            return
        for trial in trials:
            self._say(f"{row.dataset} trial {trial + 1}: {row.features}")
            largest = self._largest(trial)
            self._raw(row, "train", largest[:1], largest, trial)
            self._raw_test(row, self.split(row, trial), trial)

    def _project(self, row: Row, parts: Split, trial: int, dimension: int) -> tuple[Array, Array]:
        train = self._raw(row, "train", parts.train, self._largest(trial), trial)
        test = self._raw_test(row, parts, trial)
        # n centred samples span n - 1 directions at most: 50 of each of ten digits give 499, not 500.
        limit = min(len(train) - 1, train.shape[1])
        pca = EigenfacePCA(dimension if dimension < limit else None, normalize=False).fit(train)
        return pca.transform(train), pca.transform(test)

    def _raw_test(self, row: Row, parts: Split, trial: int) -> Array:
        return self._raw(row, "test", parts.test, parts.test, trial if row.split == "random_rest" else 0)

    def _largest(self, trial: int) -> Array:
        return self.split(max(self.rows, key=lambda row: row.per_class or 0), trial).train

    def _raw(self, row: Row, part: str, wanted: Array, held: Array, trial: int) -> Array:
        """Features before PCA of the samples `wanted`, which are among `held`."""
        key = (part, trial)
        if key not in self._held:
            # One trial at a time: the features of the trial before are of no use any more.
            self._held = {k: v for k, v in self._held.items() if k[0] != part}
            self._held[key] = (held, FEATURES[row.features](self.samples.images[held], self._cache_dir))
        held, found = self._held[key]
        order = np.argsort(held)
        return found[order[np.searchsorted(held, wanted, sorter=order)]]
