"""From a data set to the features of one trial: the split, what is done before PCA, and PCA.

PCA is fitted to the training samples of the trial alone. The splits of a trial are nested: the samples for a
smaller n are among those for a larger one, so rows of a table differ in nothing but n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows
from residuum.experiments.comparison import Split, split
from residuum.features import EigenfacePCA, Scattering2D, cached_transform
from residuum.paper.data import Samples, load_dataset
from residuum.paper.tables import PaperTable

Array = npt.NDArray[Any]


def official(samples: Samples, per_class: int | None, seed: int, trial: int) -> Split:
    """Training and test part as the owner of the data set gives them."""
    n_train = len(samples.y_train)
    return Split(np.arange(n_train), np.arange(n_train, len(samples.labels)))


def random_rest(samples: Samples, per_class: int, seed: int, trial: int) -> Split:
    """`per_class` samples of each class at random to train, all others to test."""
    return split(samples.labels, train_per_class=per_class, seed=seed, trial=trial)


def random_of_training(samples: Samples, per_class: int, seed: int, trial: int) -> Split:
    """`per_class` samples of each class at random from the official training part, all of the test part."""
    n_train = len(samples.y_train)
    chosen = split(samples.y_train, train_per_class=per_class, seed=seed, trial=trial).train
    return Split(chosen, np.arange(n_train, len(samples.labels)))


def thinned(parts: Split, queries: int | None) -> Split:
    """At most `queries` test samples, evenly spread over the test part; None is all."""
    if queries is None or queries >= len(parts.test):
        return parts
    chosen = np.linspace(0, len(parts.test) - 1, queries).round().astype(np.int64)
    return Split(parts.train, parts.test[chosen])


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
SLOW_FEATURES = ("scattering",)  # those kept on disk


@dataclass(frozen=True)
class Prepared:
    """Features and labels of one row and trial."""

    train: Array  # (n_train, n_features)
    train_labels: Array
    test: Array  # (n_test, n_features)
    test_labels: Array


class Preparation:
    """The data of one table; features that rows or trials share are computed once.

    Parameters
    ----------
    table : PaperTable
        Whose data set, split and features.
    rows : tuple of int
        The rows that will be asked for: features of a trial are computed for the largest.
    seed : int
        Seed of the random splits.
    queries : int or None
        At most so many test samples, evenly spread over the test part.
    data_home, cache_dir : path or None
        Where the data sets are, and where slow features are kept.
    """

    def __init__(
        self,
        table: PaperTable,
        rows: tuple[int, ...],
        *,
        seed: int = 0,
        queries: int | None = None,
        data_home: str | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        self.table, self.rows, self.seed, self.queries = table, rows, seed, queries
        self._cache_dir = cache_dir
        self.samples = load_dataset(table.dataset, data_home=data_home, image_shape=table.image_shape)
        self._held: dict[tuple[str, int], tuple[Array, Array]] = {}
        self._projected: tuple[tuple[int, int | None], tuple[Array, Array]] | None = None

    def split(self, row: int, trial: int) -> Split:
        """Indices of the training and test samples."""
        parts = SPLITS[self.table.split](self.samples, self.table.per_class(row), self.seed, trial)
        return thinned(parts, self.queries)

    def about(self, row: int, trial: int) -> tuple[str, tuple[str, ...]]:
        """Where the data come from, and what a reader of results must know."""
        return self.samples.source, self.samples.notes

    def features(self, row: int, trial: int) -> Prepared:
        """Features after PCA, with unit norm."""
        parts = self.split(row, trial)
        dimension = self.table.dimension(row)
        # Rows that differ in d alone share their principal directions: fitted once, cut to d.
        most = max(d for d in map(self.table.dimension, self.rows) if d is not None)
        key = (trial, self.table.per_class(row))
        if self._projected is None or self._projected[0] != key:
            self._projected = (key, self._project(parts, trial, most))
        train, test = self._projected[1]
        labels = self.samples.labels
        return Prepared(
            unit_rows(train[:, :dimension])[0],
            labels[parts.train],
            unit_rows(test[:, :dimension])[0],
            labels[parts.test],
        )

    def keep(self, trial: int) -> None:
        """Compute what comes before PCA; of slow features a copy stays on disk."""
        largest = self._largest(trial)
        self._raw("train", largest[:1], largest, trial)
        self._raw_test(self.split(self.rows[0], trial), trial)

    def _project(self, parts: Split, trial: int, dimension: int) -> tuple[Array, Array]:
        train = self._raw("train", parts.train, self._largest(trial), trial)
        test = self._raw_test(parts, trial)
        # n centred samples span n - 1 directions at most: 50 of each of ten digits give 499, not 500.
        limit = min(len(train) - 1, train.shape[1])
        pca = EigenfacePCA(dimension if dimension < limit else None, normalize=False).fit(train)
        return pca.transform(train), pca.transform(test)

    def _raw_test(self, parts: Split, trial: int) -> Array:
        return self._raw("test", parts.test, parts.test, trial if self.table.split == "random_rest" else 0)

    def _largest(self, trial: int) -> Array:
        return self.split(max(self.rows, key=lambda row: self.table.per_class(row) or 0), trial).train

    def _raw(self, part: str, wanted: Array, held: Array, trial: int) -> Array:
        """Features before PCA of the samples `wanted`, which are among `held`."""
        key = (part, trial)
        if key not in self._held:
            # One trial at a time: the features of the trial before are of no use any more.
            self._held = {k: v for k, v in self._held.items() if k[0] != part}
            found = FEATURES[self.table.features](self.samples.images[held], self._cache_dir)
            self._held[key] = (held, found)
        held, found = self._held[key]
        order = np.argsort(held)
        return found[order[np.searchsorted(held, wanted, sorter=order)]]
