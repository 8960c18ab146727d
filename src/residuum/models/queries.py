"""What a saved model takes: the columns, numbers or images that `residuum fit` noted in its file."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from residuum.errors import DataFormatError, ModelFileError, UsageError
from residuum.features import TableEncoder
from residuum.inputs import ExpectedColumns, OwnData
from residuum.models.file import SavedModel
from residuum.models.parts import is_count

EXTRACTOR = "images"  # name of the step of a model that takes image files


def input_notes(model: Path, about: dict[str, Any]) -> dict[str, Any]:
    """What `residuum fit` noted of the data, or nothing; notes of another form are refused.

    Notes are free, so any of these may be missing.
    """

    def texts(value: Any) -> bool:
        return isinstance(value, list) and all(isinstance(text, str) for text in value)

    tests: dict[str, Callable[[Any], bool]] = {
        "kind": lambda value: value in ("table", "array", "images"),
        "columns": texts,
        "label": lambda value: isinstance(value, str | int),
        "n_features": is_count,
        "without": lambda value: isinstance(value, list) and all(type(i) is int for i in value),
        "image_shape": lambda value: isinstance(value, list) and all(map(is_count, value)),
        "features": lambda value: isinstance(value, dict),
    }
    notes = about.get("input", {})
    for name, test in tests.items():
        if not isinstance(notes, dict) or not (notes.get(name) is None or test(notes[name])):
            raise ModelFileError(f"{model}: its note on '{name}' of the input is not one that fit writes.")
    return notes


def encoder_of(estimator: Any) -> TableEncoder | None:
    """The step of a model that takes the columns of a table as they are, if it has one."""
    steps = (step for _, step in getattr(estimator, "steps", ()))
    return next((step for step in steps if isinstance(step, TableEncoder)), None)


def n_features_of(saved: SavedModel) -> int | None:
    """How many numbers the model takes for each sample, where that is known."""
    noted = saved.about.get("input", {}).get("n_features")
    return noted or getattr(saved.estimator, "n_features_in_", None)


def expected_columns(saved: SavedModel) -> ExpectedColumns | None:
    """How a table for this model is read; None for a model of images."""
    notes, n_features = saved.about.get("input", {}), n_features_of(saved)
    if n_features is None or notes.get("kind") == "images":
        return None
    encoder = encoder_of(saved.estimator)
    texts = () if encoder is None else tuple(encoder.is_text_.nonzero()[0].tolist())
    columns = tuple(notes.get("columns") or ()) or None
    return ExpectedColumns(columns, n_features, notes.get("label"), texts, tuple(notes.get("without") or ()))


def checked_queries(queries: OwnData, saved: SavedModel) -> OwnData:
    """Samples of a model that takes numbers, if they are such and as many as it takes.

    They get the shape of the model's pictures where it has any.
    """
    if queries.kind == "images":
        raise UsageError(f"The model takes numbers; {queries.source} is a folder of images.")
    assert queries.features is not None
    n_features, shape = n_features_of(saved), saved.about.get("input", {}).get("image_shape")
    found = queries.features.shape[1]
    if n_features not in (None, found):
        raise DataFormatError(
            f"{queries.source} has {found} features for each sample, the model takes {n_features}."
        )
    if queries.image_shape is None and shape and math.prod(shape) == found:
        return replace(queries, image_shape=tuple(shape))
    return queries


def extractor_name(notes: dict[str, Any]) -> Any:
    """What --with said when the model was fitted, by its notes on the input."""
    return (notes.get("features") or {}).get("with")


def features_used(estimator: Any, notes: dict[str, Any]) -> list[str]:
    """What makes the features that the classifier of a whole model takes, one text for each step.

    A step is named with the parameters that differ from its defaults. `notes` are what `residuum fit` notes
    of the input.
    """
    texts = []
    if extractor_name(notes) == "pixels":
        shape = notes.get("image_shape") or ()
        texts.append(f"pixels of {'x'.join(map(str, shape))}" if shape else "pixels")
    for _, step in getattr(estimator, "steps", [])[:-1]:
        if step in (None, "passthrough"):
            continue
        plain = clone(step)
        if "n_jobs" in plain.get_params(deep=False):
            plain.set_params(n_jobs=None)  # changes no feature
        texts.append(" ".join(repr(plain).split()))
    return texts or ["numbers as they are"]
