"""From a data set of photographs to the features of one trial, and which rows can run here.

BOW-SIFT's codebook is learned from the training images of the trial alone. Where there are more features than
training samples, all samples are turned into coordinates of the span of the training samples plus one,

    x -> (Q'x, ||x - QQ'x||),   QR = the training samples as columns,

which keeps every distance and inner product between a sample and any combination of training samples: no
method here can tell the difference, and each is faster.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows
from residuum.errors import DataError, DataFormatError
from residuum.experiments.compared_data import Split
from residuum.features import EXTRACTORS
from residuum.features.extraction import ImageFeatures, extract_images, fit_extractor
from residuum.features.networks import NETWORKS
from residuum.paper.data import ImageSamples, data_home, load_images
from residuum.paper.entries import Row
from residuum.paper.trials import TrialData, Trials, evenly_spread
from residuum.system.files import sha256
from residuum.system.packages import opencv, torch

Array = npt.NDArray[Any]


def listing(samples: ImageSamples) -> str:
    """Fingerprint of names, labels and parts: another copy or subset has another one."""
    images = (
        f"{path.parent.name}/{path.name}\0{label}\0{part}\n".encode()
        for path, label, part in zip(samples.paths, samples.labels, samples.parts)
    )
    return sha256(repr(samples.train_parts).encode(), *images)[:16]


@dataclass
class PhotoTrials(Trials):
    """The data of rows of a table of photographs; `say` gets ``cub200-bow_sift: 64 of 2889 images``."""

    uses_all_cores = True  # the features take the time, and their extractors have threads of their own

    _loaded: dict[tuple[str, bool], ImageSamples] = field(default_factory=dict)
    _extracted: tuple[tuple[int | str, int], ImageFeatures] | None = None

    @staticmethod
    def find(row: Row, home: str | None, *, allow_subset: bool) -> tuple[str, bool]:
        """Fingerprint of the list of images, and whether they are only a part of the data set."""
        try:
            return listing(load_images(row.dataset, data_home=home)), False
        except DataError as error:
            try:
                part = load_images(row.dataset, data_home=home, subset=True)
            except DataError:
                raise error from None
        if allow_subset:
            return listing(part), True
        raise DataFormatError(
            f"only a part is there ({len(part.labels)} images of {part.n_classes} classes, {part.source}). "
            "Pass --allow-subset to run it; its numbers cannot be compared with the paper's."
        )

    @staticmethod
    def check_features(name: str, home: str | None) -> None:
        """Raise the error that says what is missing: a package, or the weights of a network."""
        if name in NETWORKS:
            torch()
            NETWORKS[name].find_weights(data_home(home))
        else:
            opencv()

    def samples(self, row: Row) -> ImageSamples:
        """The data set of a row."""
        key = (row.dataset, row.subset)
        if key not in self._loaded:
            self._loaded[key] = load_images(row.dataset, data_home=self.data_home, subset=row.subset)
        return self._loaded[key]

    def _asked(self, row: Row, trial: int) -> Split:
        samples = self.samples(row)
        if row.per_class is not None:
            samples = samples.random_split(row.per_class, random_state=1000 * self.seed + trial)
        is_train = samples.is_train
        return Split(np.flatnonzero(is_train), evenly_spread(np.flatnonzero(~is_train), self.queries))

    def split(self, row: Row, trial: int) -> Split:
        """Indices of the training and test images, without files that are no usable images."""
        parts, found = self._asked(row, trial), self._features(row, trial)
        usable = np.concatenate([parts.train, parts.test])[found.usable]
        return Split(parts.train[np.isin(parts.train, usable)], parts.test[np.isin(parts.test, usable)])

    def about(self, row: Row, trial: int) -> tuple[str, tuple[str, ...]]:
        """Where the data come from, and what a reader must know: a subset, files left out."""
        samples = self.samples(row)
        skipped = self._features(row, trial).skipped
        names = "; ".join(f"{Path(path).name}: {reason}" for path, reason in skipped[:5])
        more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
        left_out = (f"{len(skipped)} unusable images were left out: {names}{more}.",) if skipped else ()
        return samples.source, (*samples.notes, *left_out)

    def features(self, row: Row, trial: int) -> TrialData:
        """Features of unit norm, in coordinates of the training samples' span where that is shorter."""
        labels, parts = self.samples(row).labels, self.split(row, trial)
        X = self._features(row, trial).X
        n_train = len(parts.train)
        train, test = spanned(X[:n_train].astype(np.float64), X[n_train:].astype(np.float64))
        train, test = unit_rows(train)[0], unit_rows(test)[0]
        return TrialData(train, labels[parts.train], test, labels[parts.test])

    def keep_slow_features(self, trials: Iterable[int]) -> None:
        """Nothing to do: one process computes all."""

    def _features(self, row: Row, trial: int) -> ImageFeatures:
        """Features of the training images, then of the test images."""
        if self._extracted is None or self._extracted[0] != (row.name, trial):
            self._extracted = None  # one at a time: they may take a gigabyte
            self._extracted = ((row.name, trial), self._extract(row, trial))
        return self._extracted[1]

    def _extract(self, row: Row, trial: int) -> ImageFeatures:
        parts, paths = self._asked(row, trial), self.samples(row).paths
        train = [paths[i] for i in parts.train]
        self.say(f"{row.name}: features", 0.0)
        network = NETWORKS.get(row.features)
        options = {} if network is None else {"weights": network.find_weights(data_home(self.data_home))}
        extractor = EXTRACTORS[row.features](**options, n_jobs=-1)
        fit_extractor(extractor, train, cache_dir=self.cache_dir)
        found = extract_images(
            [*train, *(paths[i] for i in parts.test)],
            extractor,
            cache_dir=self.cache_dir,
            n_jobs=-1,
            progress=lambda done, total: self.say(f"{row.name}: {done} of {total} images", done / total),
        )
        if not (found.usable < len(train)).any() or not (found.usable >= len(train)).any():
            raise DataError(f"{row.name}: no training image, or no test image, can be used.")
        return found


def spanned(train: Array, test: Array) -> tuple[Array, Array]:
    """Coordinates in the span of the training samples, and one for what lies outside it."""
    if train.shape[1] <= len(train) + 1:
        return train, test
    basis, coordinates = np.linalg.qr(train.T)  # (D, N), (N, N)
    inside = test @ basis  # (n_test, N)
    squares = np.einsum("ij,ij->i", test, test) - np.einsum("ij,ij->i", inside, inside)
    outside = np.sqrt(np.maximum(squares, 0.0))
    return (
        np.hstack([coordinates.T, np.zeros((len(train), 1))]),
        np.hstack([inside, outside[:, None]]),
    )
