"""One row of new data explained by a saved model: numbers, names, and pictures where there are any."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.errors import UsageError
from residuum.estimators.answers import steps_and_classifier
from residuum.estimators.explanation import Explanation
from residuum.explain.compared import NOT_EXACT, Comparison, compare_features
from residuum.inputs import OwnData
from residuum.models.file import SavedModel
from residuum.reports.thumbnails import LARGEST_SIDE, Pixels, stretched

# The parts of this many classes are drawn, the nearest ones.
DRAWN = 20
LEAST_NORM = 1e-3  # of a part that is drawn, beside a query of norm 1


@dataclass(frozen=True)
class ExplainedRow:
    """An explanation with what a page can show beside it.

    Attributes
    ----------
    explanation : Explanation
        With the names of the training samples where the model knows them.
    query_image, atom_images : ndarray of uint8 or None
        Pictures of the query, and of all training samples.
    class_images : dict or None
        Label -> picture of the part of that class in the reconstruction, each as bright as it can be.
    comparison : Comparison or None
        The features of a table in the query and in the training samples that carry it.
    notes : tuple of str
        What could not be shown, and what a solver warned about.
    """

    explanation: Explanation
    query_image: Pixels | None = None
    atom_images: Pixels | None = None
    class_images: dict[Any, Pixels] | None = None
    comparison: Comparison | None = None
    notes: tuple[str, ...] = ()


def find_row(data: OwnData, row: str) -> int:
    """Index of the row of this name or, where names are not numbers themselves, of this number from 0."""
    names = [str(name) for name in data.names.tolist()]
    if names.count(row) > 1:
        raise UsageError(
            f"--row {row!r} is the name of {names.count(row)} rows of {data.source}. Give its number, from 0 "
            f"to {len(data) - 1}, or make the names differ."
        )
    if row in names:
        return names.index(row)
    if row.isdecimal() and not all(name.isdecimal() for name in names) and int(row) < len(names):
        return int(row)
    raise UsageError(
        f"--row must be a row of {data.source}: it has {len(names)}, by name {names[0]!r} to {names[-1]!r}, "
        f"or by number 0 to {len(names) - 1}. Got {row!r} instead."
    )


def explain_row(
    model: SavedModel, estimator: Any, data: OwnData, row: int, *, max_atoms: int | None
) -> ExplainedRow:
    """Explain one row.

    Parameters
    ----------
    model : SavedModel
        For the names and thumbnails of its training samples.
    estimator : classifier or Pipeline
        What takes the features of `data`.
    data : OwnData
        With `features`.
    row : int
        Which sample.
    max_atoms : int or None
        How many training samples to list.
    """
    assert data.features is not None
    steps, classifier = steps_and_classifier(estimator)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inputs = [np.asarray(data.features[row : row + 1])]  # in its own type, as predict would take it
        for step in steps:
            inputs.append(np.asarray(step.transform(inputs[-1])))
        whole = classifier.explain(inputs[-1])
    notes = [str(warning.message) for warning in caught]
    explanation = replace(whole, atoms=whole.atoms[:max_atoms])
    n_samples = int(classifier.dictionary_.samples.max()) + 1
    names, thumbnails = model.about.get("samples"), model.images
    if isinstance(names, list) and len(names) >= n_samples:
        explanation = explanation.named(names)
    if thumbnails is not None and len(thumbnails) < n_samples:
        thumbnails = None  # samples enrolled since then have no picture
        notes.append("The pictures in the model are of other training samples, so none is shown.")
    query, parts, comparison = None, None, None
    if data.image_shape is not None:
        query = stretched(inputs[0], data.image_shape)
        found = _class_parts(whole, classifier.dictionary_, steps, inputs, notes)
        parts = {k: stretched(part, query.shape) for k, part in found.items()} or None
    elif data.paths is not None:
        from residuum.features.image_files import read_image

        query = read_image(data.paths[row], max_side=LARGEST_SIDE, min_side=1)
        notes.append("The features of an image file cannot be turned back into pixels: no part is drawn.")
    else:
        comparison = compare_features(whole, classifier.dictionary_, steps, inputs, data.columns)
        notes += [] if comparison is None or comparison.exact else [NOT_EXACT]
    return ExplainedRow(explanation, query, thumbnails, parts, comparison, tuple(notes))


def _class_parts(
    whole: Explanation, dictionary: Dictionary, steps: list[Any], inputs: list[FloatArray], notes: list[str]
) -> dict[Any, FloatArray]:
    """Label -> ``||y|| X_k c_k`` in the space of the raw query, for the nearest classes.

    ``inputs[i]`` is what step i was given for the query; the last one is what the classifier was given. The
    result is empty where a step has no inverse, and `notes` then says so.
    """
    if not can_be_drawn(steps, notes):
        return {}
    position = {sample: j for j, sample in enumerate(dictionary.samples.tolist())}
    labels = [part.label for part in whole.classes[:DRAWN] if part.norm > LEAST_NORM]
    parts: FloatArray = np.zeros((len(labels), dictionary.n_features))
    for part, label in zip(parts, labels, strict=True):
        used = [atom for atom in whole.atoms if atom.label == label]
        coefficients = np.array([atom.coefficient for atom in used])
        part += coefficients @ dictionary.unit([position[atom.sample] for atom in used])
    parts = in_pixels(parts, steps, inputs)
    if {"StandardScaler", "MinMaxScaler", "PCA"} & {type(step).__name__ for step in steps}:
        notes.append("The part of a class is drawn on top of the mean or minimum that the features lack.")
    return dict(zip(labels, parts, strict=True)) if np.isfinite(parts).all() else {}


def can_be_drawn(steps: list[Any], notes: list[str]) -> bool:
    """Whether sums of atoms can be turned back into pixels; `notes` says so where they cannot."""
    for step in steps:
        kind = type(step).__name__
        # A sum of kernel coordinates is the image of no picture.
        if kind == "KernelMap" or (kind not in INVERSES and not hasattr(step, "inverse_transform")):
            notes.append(f"{kind} cannot be turned back into pixels, so the part of a class is not drawn.")
            return False
    return True


def in_pixels(parts: FloatArray, steps: list[Any], inputs: list[FloatArray]) -> FloatArray:
    """Sums of atoms, one in each row, in the space of the raw query and at its length.

    ``inputs[i]`` is what step i was given for the query; the last one is what the classifier was given.
    """
    _, scale, norm = unit_rows(inputs[-1])
    parts = parts * float(scale[0] * norm[0])
    for step, given in zip(reversed(steps), reversed(inputs[:-1]), strict=True):
        kind = type(step).__name__
        parts = INVERSES[kind](step, given, parts) if kind in INVERSES else step.inverse_transform(parts)
    return parts


def _undo_eigenfaces(step: Any, given: FloatArray, parts: FloatArray) -> FloatArray:
    """``||V'x|| * V z (+ mean)``: back into the span of the eigenfaces, in the units of the query."""
    mean = step.mean_ if step.center else 0.0
    size = float(np.linalg.norm((given - mean) @ step.components_.T)) if step.normalize else 1.0
    return size * (parts @ step.components_) + mean


def _undo_normalizer(step: Any, given: FloatArray, parts: FloatArray) -> FloatArray:
    return parts * float(np.linalg.norm(given[0], {"l1": 1, "l2": 2, "max": np.inf}[step.norm]))


# Steps whose inverse needs the size of the query; others have an `inverse_transform` of their own, or none.
INVERSES: dict[str, Callable[[Any, FloatArray, FloatArray], FloatArray]] = {
    "EigenfacePCA": _undo_eigenfaces,
    "Normalizer": _undo_normalizer,
}
