"""A row of a table beside the training rows that carry it: which features tell the classes apart, and how.

A model file holds the training samples as the classifier sees them. They are taken back through the feature
steps as far as these have an inverse, to the columns of the table where all have one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.estimators.explanation import AtomShare, Explanation

FEATURES = 12  # shown, the most telling ones
SAMPLES = 6  # training samples beside the query
_MOST = 300  # training samples that tell how far a feature spreads

NOT_EXACT = (
    "The model keeps the direction of a training sample, not its length: its values are those of the sample "
    "at the length of the query."
)


@dataclass(frozen=True)
class Value:
    """A value of a feature, and how many standard deviations of the training samples it is from the query."""

    value: float
    away: float


@dataclass(frozen=True)
class ComparedFeature:
    """One feature of the query and of what carries it.

    Attributes
    ----------
    name : str
        The column.
    query : float
        Its value in the query.
    winner, rival : Value or None
        Its mean over the samples of the winning class and of its strongest rival that take part, by their
        coefficients.
    samples : list of Value
        Its values in the training samples with the largest coefficients.
    telling : float
        How much nearer the query is to the winner than to the rival, in standard deviations.
    """

    name: str
    query: float
    winner: Value | None
    rival: Value | None
    samples: list[Value | None]
    telling: float


@dataclass(frozen=True)
class Comparison:
    """The most telling features first; `rival` is the label of the class that was compared with, if any."""

    features: list[ComparedFeature]
    samples: list[int]
    n_features: int
    rival: Any
    exact: bool


def compare_features(
    whole: Explanation,
    dictionary: Dictionary,
    steps: list[Any],
    inputs: list[FloatArray],
    columns: tuple[str, ...] | None,
) -> Comparison | None:
    """Compare a query with the training samples that carry it; None where none can be turned back.

    Parameters
    ----------
    whole : Explanation
        With all atoms that are used.
    dictionary : Dictionary
        Of the classifier.
    steps : list of transformers
        Before the classifier.
    inputs : list of ndarray of shape (1, n)
        What every step, and at last the classifier, was given for the query.
    columns : tuple of str or None
        Names of the features before the first step.
    """
    if not whole.atoms:
        return None
    position = {sample: j for j, sample in enumerate(dictionary.samples.tolist())}
    used = whole.atoms[:_MOST]
    some = np.linspace(0, dictionary.n_atoms - 1, min(dictionary.n_atoms, _MOST)).astype(int)
    atoms = dictionary.unit([*(position[atom.sample] for atom in used), *some])
    level, values, exact = taken_back(steps, inputs, atoms)
    if (steps and level == len(steps)) or inputs[level].dtype.kind not in "fiub":
        return None  # coordinates mean nothing to a reader, and texts have no distance
    query, carriers = np.asarray(inputs[level][0], dtype=np.float64), values[: len(used)]
    spread = values[len(used) :].std(axis=0)
    spread[spread == 0] = 1.0
    means = _class_means(used, carriers)
    others = [part for part in whole.classes[1:] if part.label in means]
    rival = max(others, key=lambda part: part.share).label if others else None
    pair = [means.get(whole.label), means.get(rival) if others else None]
    near, far = (0 * query if mean is None else np.abs(query - mean) / spread for mean in pair)
    telling = far - near
    names = _names(columns, steps[:level], len(query))

    def value(row: FloatArray | None, f: int) -> Value | None:
        return None if row is None else Value(float(row[f]), float((row[f] - query[f]) / spread[f]))

    order = np.argsort(-np.abs(telling), kind="stable")[:FEATURES]
    features = [
        ComparedFeature(
            names[f],
            float(query[f]),
            value(pair[0], f),
            value(pair[1], f),
            [value(row, f) for row in carriers[:SAMPLES]],
            float(telling[f]),
        )
        for f in order[np.argsort(-telling[order], kind="stable")].tolist()
    ]
    return Comparison(features, [atom.sample for atom in used[:SAMPLES]], len(query), rival, exact)


def _class_means(used: list[AtomShare], values: FloatArray) -> dict[Any, FloatArray]:
    """Label -> mean of the samples of that class, by its positive coefficients."""
    sums: dict[Any, Any] = {}
    for atom, row in zip(used, values, strict=True):
        if atom.coefficient > 0:
            total, weight = sums.get(atom.label, (0.0, 0.0))
            sums[atom.label] = (total + atom.coefficient * row, weight + atom.coefficient)
    return {label: total / weight for label, (total, weight) in sums.items()}


def taken_back(steps: list[Any], inputs: list[FloatArray], atoms: FloatArray) -> tuple[int, FloatArray, bool]:
    """Unit-norm samples before the first step that has an inverse, as have all after it.

    Returns the number of that step, the samples as it was given them, and whether their lengths are known.
    A kernel map knows the samples by their direction; without one they get the length of the query.
    """
    exact = bool(steps) and type(steps[-1]).__name__ == "KernelMap"
    values = atoms if exact else atoms * np.linalg.norm(inputs[-1])
    for level in reversed(range(len(steps))):
        if not hasattr(steps[level], "inverse_transform"):
            return level + 1, values, exact
        try:
            values = np.asarray(steps[level].inverse_transform(values))
        except ValueError:  # this kernel has none
            return level + 1, values, exact
    return 0, values, exact


def _names(columns: tuple[str, ...] | None, steps: list[Any], count: int) -> list[str]:
    """Names of the features that the steps make of the columns."""
    names = columns
    with suppress(ValueError, AttributeError):  # a step may not know them
        for step in steps:
            names = step.get_feature_names_out(names)
        if names is not None and len(names) == count:
            return [str(name) for name in names]
    return [f"feature {f}" for f in range(count)]
