"""Queries: held-out samples, training samples that are coded over the others, and what people bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.reports.thumbnails import Pixels


@dataclass(frozen=True)
class Query:
    """One query with all that is known about it.

    Attributes
    ----------
    inputs : list of ndarray of shape (1, n)
        What every feature step, and at last the classifier, was given.
    name : str
        What a user calls it.
    truth : int or None
        Position of its true class; -1 where that is no class of the model; None where it is not known.
    picture : ndarray of uint8 or None
        How it looks.
    own_sample : int or None
        Its number among the training samples, if it is one: it is then coded over the others.
    is_raw : bool
        Whether `inputs` came from raw features, not back from what the classifier keeps.
    """

    inputs: list[FloatArray]
    name: str = ""
    truth: int | None = None
    picture: Pixels | None = None
    own_sample: int | None = None
    is_raw: bool = True


@dataclass(frozen=True)
class HeldOut:
    """Samples to look at, with their true classes.

    Attributes
    ----------
    features : ndarray of shape (n, n_features)
        What the first feature step takes where `is_raw`, else what the classifier takes.
    truth : ndarray of int, shape (n,)
        Position of the true class of each, -1 where it is no class of the model.
    names : list of str
        What a user calls them.
    pictures : ndarray of uint8, shape (n, h, w[, 3]), or None
        How they look.
    own_samples : ndarray of int, shape (n,), or None
        Their numbers among the training samples, where they are such.
    is_raw : bool
        Whether `features` are raw ones; those of a model's own training samples often are not known.
    """

    features: Any
    truth: np.ndarray
    names: list[str]
    pictures: np.ndarray | None = None
    own_samples: np.ndarray | None = None
    is_raw: bool = True

    def __len__(self) -> int:
        return len(self.names)


def through(steps: list[Any], raw: Any) -> list[FloatArray]:
    """What every step, and at last the classifier, is given for raw rows."""
    inputs = [np.asarray(raw)]
    for step in steps:
        inputs.append(np.asarray(step.transform(inputs[-1])))
    return inputs


def back_through(steps: list[Any], atom: FloatArray) -> list[FloatArray]:
    """What the steps were given for one training sample, as far as they can be turned back."""
    inputs = [atom]
    for step in reversed(steps):
        if not hasattr(step, "inverse_transform"):
            break
        try:
            inputs.insert(0, np.asarray(step.inverse_transform(inputs[0])))
        except ValueError:  # this kernel has none
            break
    return inputs
