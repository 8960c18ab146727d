"""What is compared: samples with labels, and how they are split into trials."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError, UsageError
from residuum.experiments.baselines import BASELINES
from residuum.inputs import OwnData
from residuum.inputs.splitting import train_test
from residuum.models.preparing import kind_of
from residuum.models.recipe import Features
from residuum.reports.thumbnails import LARGEST_SIDE, Pixels, to_pixels
from residuum.system.files import sha256

NORM_1 = Features("unit")


@dataclass(frozen=True)
class Split:
    """Indices of one trial."""

    train: npt.NDArray[np.int64]
    test: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """Samples with labels, and the trials on them."""

    name: str
    samples: npt.NDArray[Any]  # (n_samples, n_features)
    labels: npt.NDArray[Any]  # (n_samples,)
    image_shape: tuple[int, ...] | None = None  # where a sample is a picture
    trials: tuple[Split, ...] = ()
    numbers: str = "numbers"  # what the numbers of a sample are, such as columns or pixels
    features: tuple[Features, ...] = (Features(),)  # candidates, fitted to the training samples of each trial
    baseline_features: Features = NORM_1  # what the baselines are given instead
    groups: npt.NDArray[Any] | None = None  # samples of one group stay together when parameters are chosen
    names: npt.NDArray[Any] | None = None  # what a user calls each sample; None is its number
    paths: tuple[Path, ...] | None = None  # where a sample is an image file
    arguments: str = ""  # the command line that compares them

    def name_of(self, sample: int) -> str:
        """What a user calls a sample; a number alone would not say that it is one."""
        name = str(sample if self.names is None else self.names[sample])
        return f"sample {name}" if name.isdecimal() else name

    def picture(self, sample: int) -> Pixels | None:
        """A small picture of a sample, where it is one."""
        if self.image_shape is not None:
            low, high = min(0.0, float(self.samples.min())), float(self.samples.max())
            return to_pixels(self.samples[sample], self.image_shape, low=low, high=high)
        if self.paths is not None:
            from residuum.features.image_files import read_image

            return read_image(self.paths[sample], max_side=LARGEST_SIDE, min_side=1)
        return None

    def fingerprint(self) -> str:
        """SHA-256 of samples, labels and trials: a run is continued on the same content only."""
        groups = [] if self.groups is None else [repr(self.groups.tolist()).encode()]
        texts = self.samples.dtype == object
        return sha256(
            f"{self.samples.shape} {self.samples.dtype}".encode(),
            repr(self.samples.tolist()).encode() if texts else np.ascontiguousarray(self.samples),
            repr(self.labels.tolist()).encode(),
            *groups,
            *(parts.train.tobytes() + b"|" + parts.test.tobytes() for parts in self.trials),
        )


def bundled_digits() -> Data:
    """The 1,797 handwritten digits of 8×8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    samples, labels = load_digits(return_X_y=True)
    return Data("digits", samples, labels, (8, 8), numbers="pixels")


def features_for(method: str, data: Data) -> tuple[Features, ...]:
    """Candidates for the features of a method; this is the one place where methods get different ones."""
    return (data.baseline_features,) if method in BASELINES else data.features


def baseline_features(data: OwnData, options: dict[str, Any]) -> Features:
    """What suits the baselines: as asked; by default a table by columns of deviation 1, others by norm 1."""
    table = kind_of(data) == "a table" and not options["embeddings"]
    scale = ("standard" if table else "unit") if options["scale"] is None else options["scale"]
    return Features(None if scale == "none" else scale, options["pca"])


def random_split(labels: npt.NDArray[Any], *, train_per_class: int, seed: int, trial: int) -> Split:
    """A random split that depends on (seed, trial) alone, so trials can be added or run in any order."""
    generator = np.random.default_rng([seed, trial])
    members = [generator.permutation(np.flatnonzero(labels == label)) for label in np.unique(labels)]
    train = np.concatenate([indices[:train_per_class] for indices in members])
    return Split(train, np.setdiff1d(np.arange(len(labels)), train))


def check_trials(trials: int, seed: int) -> None:
    """Refuse numbers of trials and seeds that make no sense."""
    if not 1 <= trials <= 1000:
        raise UsageError(f"--trials must be from 1 to 1000. Got {trials}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"--seed must be from 0 to {2**32 - 1}. Got {seed}.")


def random_splits(
    labels: npt.NDArray[Any], *, trials: int, train_per_class: int, seed: int, name: str
) -> tuple[Split, ...]:
    """Random splits of the data set `name`, each with `train_per_class` training samples of each class."""
    check_trials(trials, seed)
    most = int(np.unique(labels, return_counts=True)[1].min()) - 1
    if not 1 <= train_per_class <= most:
        raise UsageError(
            f"--train-per-class must be from 1 to {most}: the smallest class of {name} has "
            f"{most + 1} samples and one must stay a query. Got {train_per_class}."
        )
    return tuple(
        random_split(labels, train_per_class=train_per_class, seed=seed, trial=trial)
        for trial in range(trials)
    )


def given_trials(
    data: OwnData, *, trials: int | None, train_per_class: int | None, test_size: float | None, seed: int
) -> tuple[Split, ...] | None:
    """The trials that the data or the size of a test part decide; None where classes are split evenly."""
    if train_per_class is not None and test_size is not None:
        raise UsageError("--train-per-class and --test-size both say how to split: leave one out.")
    if data.split is not None:
        if train_per_class is not None or (trials or 1) > 1:
            raise UsageError(
                f"{data.source} brings its held-out samples, so there is one trial: leave --trials and "
                "--train-per-class out."
            )
        parts = Split(*train_test(data, test_size=test_size))
        if not len(parts.test):
            raise DataFormatError(f"{data.source}: the split leaves no test samples.")
        return (parts,)
    if test_size is None and data.groups is None:
        return None
    size, count = (0.3 if test_size is None else test_size), (5 if trials is None else trials)
    check_trials(count, seed)
    seeds = (np.random.SeedSequence([seed, trial]).generate_state(1)[0] for trial in range(count))
    return tuple(Split(*train_test(data, test_size=size, seed=int(each))) for each in seeds)


def half_of_smallest_class(data: OwnData) -> tuple[int, str]:
    """Half of the smallest class, at most 50: training samples of each class by default; and a note on it."""
    classes, counts = np.unique(np.asarray(data.labels), return_counts=True)
    if len(classes) < 2:
        raise DataFormatError(f"All samples of {data.source} are of class {classes.tolist()[0]!r}.")
    smallest = int(counts.argmin())
    name, count = repr(classes.tolist()[smallest]), int(counts[smallest])
    if count < 2:
        raise DataFormatError(
            f"{data.source}: class {name} has 1 sample, so none can be held out. Add samples, drop the "
            "class, or hold samples out with --test, --split or --test-size."
        )
    half = min(50, count // 2)
    note = f"{half} training samples of each class; the smallest, {name}, has {count}."
    return half, f"{note} --train-per-class changes that"
