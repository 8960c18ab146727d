"""Training and held-out samples: by a split that the data contain, by size, or by groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import GroupShuffleSplit

from residuum.errors import DataFormatError, UsageError
from residuum.inputs.own_data import TEST, TRAIN, Array, OwnData

Index = npt.NDArray[np.intp]
_WHERE_LABELS = {
    "table": "Name their column with --label.",
    "array": "Call their array y, name it with --label, or give their file with --labels beside a .npy file.",
    "images": "Put the images into one sub-folder per class.",
}


def train_test(data: OwnData, *, test_size: float | None = None, seed: int = 0) -> tuple[Index, Index]:
    """Indices of the training samples and of those held out, which may be none.

    Parameters
    ----------
    data : OwnData
        With labels. A split that they contain is used.
    test_size : float or None, default=None
        Share of every class that is held out: at least one sample, and at least one stays for training. With
        groups, this share of the groups, and no group on both sides. None holds nothing out.
    seed : int, default=0
        Seed of the random choice.

    Returns
    -------
    train, test : ndarray of int
        Sorted.
    """
    check_holding_out(test_size, seed)
    if data.labels is None:
        raise DataFormatError(
            f"{data.source} has no labels: there is nothing to learn from. {_WHERE_LABELS[data.kind]}"
        )
    if data.split is not None:
        if test_size is not None:
            raise UsageError(f"{data.source} has its own split: leave --test-size out.")
        train, test = np.flatnonzero(data.split == TRAIN), np.flatnonzero(data.split == TEST)
        if not len(train):
            raise DataFormatError(f"{data.source}: the split leaves no training samples.")
    elif test_size is None:
        return np.arange(len(data)), np.arange(0)
    elif data.groups is not None:
        train, test = _by_groups(data.labels, data.groups, test_size, seed)
    else:
        train, test = _stratified(data.labels, test_size, seed)
    _check_classes(data, train, test)
    return train, test


def check_holding_out(test_size: float | None, seed: int) -> None:
    """Refuse a share or a seed that makes no sense."""
    if test_size is not None and not 0 < test_size < 1:
        raise UsageError(f"--test-size must be a share between 0 and 1. Got {test_size:g}.")
    if seed < 0:
        raise UsageError(f"--seed must be 0 or more. Got {seed}.")


def join_train_and_test(train: OwnData, test: OwnData) -> OwnData:
    """Training and test samples as one, with their split; both are images, or have the same features."""
    if train.labels is None or test.labels is None:
        raise DataFormatError(f"{test.source if test.labels is None else train.source} holds no labels.")
    if (train.kind == "images") != (test.kind == "images"):
        kinds = {True: "a folder of images", False: "numbers"}
        raise UsageError(
            f"--test must be of the kind of the training samples, {kinds[train.kind == 'images']}. Got "
            f"{test.source}, {kinds[test.kind == 'images']}."
        )
    if test.kind == "images" and test.split is not None:
        raise UsageError(f"--test {test.source} has training and test images itself. Name its test folder.")
    widths = [data.features.shape[1] for data in (train, test) if data.features is not None]
    if len(set(widths)) > 1:
        raise DataFormatError(
            f"The test samples of {test.source} have {widths[1]} features, the training samples {widths[0]}."
        )
    fields = ("features", "labels", "names", "groups")
    pairs = {field: (getattr(train, field), getattr(test, field)) for field in fields}
    joined: dict[str, Any] = {field: np.concatenate(p) for field, p in pairs.items() if p[0] is not None}
    if train.paths is not None and test.paths is not None:
        joined["paths"] = (*train.paths, *test.paths)
    split = np.repeat([TRAIN, TEST], [len(train), len(test)])
    return replace(train, **joined, split=split, notes=tuple(dict.fromkeys((*train.notes, *test.notes))))


def _stratified(labels: Array, test_size: float, seed: int) -> tuple[Index, Index]:
    generator = np.random.default_rng(seed)
    chosen = []
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        n_test = min(max(1, round(test_size * len(members))), len(members) - 1)
        chosen.append(members[:n_test])  # a class of one sample keeps it for training
    test = np.sort(np.concatenate(chosen))
    if not len(test):
        raise UsageError("--test-size needs a class of at least two samples: every class has one.")
    return np.setdiff1d(np.arange(len(labels)), test), test


def _by_groups(labels: Array, groups: Array, test_size: float, seed: int) -> tuple[Index, Index]:
    """Of twenty random choices of whole groups, the one that holds out closest to its share of every class.

    A choice that leaves a class without training samples comes after those that do not.
    """
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise UsageError("--groups needs at least two groups to hold some out. Got one.")
    class_index = np.unique(labels, return_inverse=True)[1]
    whole = np.bincount(class_index)

    def cost(parts: tuple[Index, Index]) -> float:
        held = np.bincount(class_index[parts[1]], minlength=len(whole))
        return float(np.abs(held / whole - test_size).mean()) + 10.0 * np.count_nonzero(held == whole)

    n_held = min(max(1, round(test_size * n_groups)), n_groups - 1)
    return min(
        GroupShuffleSplit(20, test_size=n_held, random_state=seed).split(labels, groups=groups), key=cost
    )


def _check_classes(data: OwnData, train: Index, test: Index) -> None:
    assert data.labels is not None
    lost = np.setdiff1d(data.labels[test], data.labels[train]).tolist()
    if lost:
        otherwise = "use another --seed, --test-size or --groups" if data.split is None else "leave it out"
        raise DataFormatError(
            f"{data.source}: class {lost[0]!r} has held-out samples but none to learn from. Move some to the "
            f"training part, or {otherwise}."
        )
