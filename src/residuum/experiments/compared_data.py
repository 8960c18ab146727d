"""What is compared: samples with labels, and how they are split into trials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError, UsageError
from residuum.inputs import OwnData
from residuum.inputs.splitting import train_test
from residuum.system.files import sha256


@dataclass(frozen=True)
class Split:
    """Indices of one trial."""

    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """Samples with labels; `image_shape` where a sample is a picture."""

    name: str
    samples: npt.NDArray[Any]  # (n_samples, n_features)
    labels: npt.NDArray[Any]  # (n_samples,)
    image_shape: tuple[int, int] | None = None
    trials: tuple[Split, ...] | None = None  # where the splits are given
    scale: str | None = None  # a key of SCALES, fitted to the training samples of each trial
    pca: int | None = None  # the same for principal directions
    groups: npt.NDArray[Any] | None = None  # samples of one group stay together when parameters are chosen
    arguments: str = ""  # how the command line names these data

    def fingerprint(self) -> str:
        """SHA-256 of samples, labels and trials: a run is continued on the same content only."""
        groups = [] if self.groups is None else [repr(self.groups.tolist()).encode()]
        return sha256(
            f"{self.samples.shape} {self.samples.dtype}".encode(),
            np.ascontiguousarray(self.samples),
            repr(self.labels.tolist()).encode(),
            *groups,
            *(parts.train.tobytes() + b"|" + parts.test.tobytes() for parts in self.trials or ()),
        )


def bundled_digits() -> Data:
    """The 1,797 handwritten digits of 8×8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    samples, labels = load_digits(return_X_y=True)
    return Data("digits", samples, labels, (8, 8))


def random_split(labels: npt.NDArray[Any], *, train_per_class: int, seed: int, trial: int) -> Split:
    """A random split that depends on (seed, trial) alone, so trials can be added or run in any order."""
    generator = np.random.default_rng([seed, trial])
    train = np.concatenate(
        [
            generator.permutation(np.flatnonzero(labels == label))[:train_per_class]
            for label in np.unique(labels)
        ]
    )
    return Split(train, np.setdiff1d(np.arange(len(labels)), train))


@dataclass(frozen=True)
class Splitting:
    """How samples are split: random trials by class, or splits that are given; and a note about it."""

    trials: int
    train_per_class: int | None
    given: tuple[Split, ...] | None = None
    note: str = ""


def splitting_of(
    data: OwnData,
    *,
    trials: int | None,
    train_per_class: int | None,
    test_size: float | None,
    seed: int,
) -> Splitting:
    """What the data and the options decide; None is an option that was not given."""
    if train_per_class is not None and test_size is not None:
        raise UsageError("--train-per-class and --test-size both say how to split: leave one out.")
    if data.split is not None:
        return _held_out(data, trials, train_per_class, test_size)
    if test_size is None and data.groups is None:
        return _by_class(data, trials, train_per_class)
    note = ""
    if test_size is None:
        test_size = 0.3
        note = "0.3 of the samples are held out, whole groups; --test-size says otherwise"
    trials = 5 if trials is None else trials
    given = tuple(
        Split(*train_test(data, test_size=test_size, seed=_trial_seed(seed, trial)))
        for trial in range(min(max(trials, 1), 1000))
    )
    return Splitting(trials, None, given, note)


def _held_out(
    data: OwnData, trials: int | None, train_per_class: int | None, test_size: float | None
) -> Splitting:
    if train_per_class is not None or (trials or 1) > 1:
        raise UsageError(
            f"{data.source} brings its held-out samples, so there is one trial: leave --trials and "
            "--train-per-class out."
        )
    parts = Split(*train_test(data, test_size=test_size))
    if not len(parts.test):
        raise DataFormatError(f"{data.source}: the split leaves no test samples.")
    return Splitting(1, None, (parts,))


def _trial_seed(seed: int, trial: int) -> int:
    return int(np.random.SeedSequence([seed % 2**32, trial]).generate_state(1)[0])


def _by_class(data: OwnData, trials: int | None, train_per_class: int | None) -> Splitting:
    """Half of the smallest class for training, at most 50, unless the user gave a number."""
    classes, counts = np.unique(np.asarray(data.labels), return_counts=True)
    if len(classes) < 2:
        raise DataFormatError(f"All samples of {data.source} are of class {classes.tolist()[0]!r}.")
    smallest = int(counts.argmin())
    name = repr(classes.tolist()[smallest])
    if counts[smallest] < 2:
        raise DataFormatError(
            f"{data.source}: class {name} has 1 sample, so none can be held out. Add samples, drop the "
            "class, or hold samples out with --test, --split or --test-size."
        )
    trials = 5 if trials is None else trials
    if train_per_class is not None:
        return Splitting(trials, train_per_class)
    half = min(50, int(counts[smallest]) // 2)
    note = (
        f"{half} training samples of each class; the smallest, {name}, has {counts[smallest]}. "
        "--train-per-class says otherwise"
    )
    return Splitting(trials, half, note=note)
