"""New data for a saved model: read as its training data were, answered, and the answers as plain records."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sklearn.pipeline import Pipeline

from residuum.errors import DataFormatError, UsageError
from residuum.estimators.answers import Answers
from residuum.inputs import ExpectedColumns, OwnData, TextFormat, read_data
from residuum.inputs.image_features import with_features, with_pixels
from residuum.models.file import SavedModel
from residuum.system.progress import progress_bars

EXTRACTOR = "images"  # name of the step that takes image files


def open_queries(
    model: SavedModel,
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    drop: Sequence[str] = (),
    labels: str | os.PathLike[str] | None = None,
    text: TextFormat | None = None,
    split: str | None = None,
) -> tuple[OwnData, Any]:
    """Samples whose `features` the returned estimator takes.

    Parameters
    ----------
    model : SavedModel
        From `residuum.open_model`.
    path : path
        Data of the kind the model was fitted to, with or without labels. Columns are found by name where
        both sides have names; missing ones are an error that names them.
    label, drop, labels, text, split
        As in `read_data`.

    Returns
    -------
    data : OwnData
        With `features`, and with `labels` where the data have them.
    estimator : classifier or Pipeline
        The model without the step that read the image files, whose work is done.
    """
    about = model.about.get("input", {})
    n_features = about.get("n_features") or getattr(model.estimator, "n_features_in_", None)
    columns = tuple(about.get("columns") or ()) or None
    expected = ExpectedColumns(columns, n_features, about.get("label")) if n_features is not None else None
    data = read_data(path, label=label, drop=drop, labels=labels, split=split, expected=expected, text=text)
    takes_images = about.get("kind") == "images"
    if takes_images != (data.kind == "images"):
        kinds = {True: "a folder of images", False: "numbers"}
        raise UsageError(f"The model takes {kinds[takes_images]}; {path} is {kinds[not takes_images]}.")
    if takes_images:
        return _image_queries(model, about, data)
    assert data.features is not None
    if n_features is not None and data.features.shape[1] != n_features:
        raise DataFormatError(
            f"{path} has {data.features.shape[1]} features for each sample, the model takes {n_features}."
        )
    shape = about.get("image_shape")
    if data.image_shape is None and shape and math.prod(shape) == data.features.shape[1]:
        data = replace(data, image_shape=tuple(shape))
    return data, model.estimator


def _image_queries(model: SavedModel, about: dict[str, Any], data: OwnData) -> tuple[OwnData, Any]:
    estimator = model.estimator
    if about.get("features", {}).get("with") == "pixels":
        return with_pixels(data, about["image_shape"]), estimator
    if not isinstance(estimator, Pipeline) or estimator.steps[0][0] != EXTRACTOR:
        raise UsageError("The model was fitted to images, but holds no step that reads them.")
    with progress_bars() as report:
        return with_features(data, estimator[0], progress=partial(report, "images")), estimator[1:]


def steps_and_classifier(estimator: Any) -> tuple[list[Any], Any]:
    """The transformers before a classifier in the order of their work, and the classifier."""
    if not isinstance(estimator, Pipeline):
        return [], estimator
    *steps, classifier = (step for _, step in estimator.steps)
    return [step for step in steps if step not in (None, "passthrough")], classifier


def answer(estimator: Any, X: Any) -> Answers:
    """Ask a fitted classifier, alone or at the end of a Pipeline, about every row of X."""
    steps, classifier = steps_and_classifier(estimator)
    for step in steps:
        X = step.transform(X)
    return classifier.answer(X)


def records(answers: Answers, names: Any) -> Iterator[dict[str, Any]]:
    """One dictionary of plain values per query, its name or row first."""
    classes, labels = answers.classes.tolist(), answers.labels.tolist()
    runners_up, margins = answers.runners_up, answers.margins
    for i, name in enumerate(names.tolist()):
        winner = answers.winners[i]
        record: dict[str, Any] = {"name": name, "label": labels[i]}
        record["margin"] = float(margins[i])
        record["runner_up"] = None if runners_up is None else classes[runners_up[i]]
        record["residual"] = float(answers.residuals[i, winner])
        if answers.probabilities is not None:
            record["probability"] = float(answers.probabilities[i].max())
        if answers.rejected is not None:
            record["rejected"] = bool(answers.rejected[i])
            record["nearest"] = classes[winner]
            record["confidence"] = float(answers.confidence[i])
        yield record
