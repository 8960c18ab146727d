"""A saved model as a server uses it: read once, asked by many, replaced as a whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from residuum.estimators.answers import answer, records, score_heading, steps_and_classifier
from residuum.explain.rows import explain_row
from residuum.inputs import ExpectedColumns, OwnData
from residuum.inputs.image_features import with_pixels
from residuum.models.file import (
    EXTRACTOR,
    SavedModel,
    checked_queries,
    encoder_of,
    expected_columns,
    extractor_name,
    features_used,
    input_notes,
    open_model,
)
from residuum.server.bodies import read_numbers, read_pictures
from residuum.server.errors import RequestError


@dataclass(frozen=True)
class Answered:
    """What `residuum predict --json` prints of some queries, but for names; how many missed the tolerance."""

    records: list[dict[str, Any]]
    not_converged: int


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A model with what is asked of it again and again.

    Attributes
    ----------
    name : str
        Of its file, without the folder.
    saved : SavedModel
    estimator : classifier or Pipeline
        What takes features: the model without the step that reads images.
    notes : dict
        What `residuum fit` noted of its input.
    expected : ExpectedColumns or None
        How a table for it is read.
    fills_gaps : bool
        Whether it fills in missing values.
    features_used : list of str
        What makes its features, one text for each step.
    score : str
        What the score of the winner is called.
    """

    name: str
    saved: SavedModel
    estimator: Any
    notes: dict[str, Any]
    expected: ExpectedColumns | None
    fills_gaps: bool
    features_used: list[str]
    score: str

    @classmethod
    def open(cls, path: Path) -> ServedModel:
        """Read a model file and answer one query with it, so that everything is compiled."""
        saved = open_model(path)
        notes = input_notes(path, saved.about)
        estimator = saved.estimator
        if isinstance(estimator, Pipeline) and estimator.steps[0][0] == EXTRACTOR:
            estimator = estimator[1:]
        model = cls(
            name=path.name,
            saved=saved,
            estimator=estimator,
            notes=notes,
            expected=expected_columns(saved),
            fills_gaps=encoder_of(saved.estimator) is not None,
            features_used=features_used(saved.estimator, notes),
            score=score_heading(saved.estimator),
        )
        classifier = steps_and_classifier(saved.estimator)[1]
        atom = classifier.dictionary_.unit([0])
        classifier.answer(atom)
        classifier.explain(atom)
        return model

    @property
    def takes_pictures(self) -> bool:
        """Whether queries are images."""
        return self.notes.get("kind") == "images"

    @property
    def has_probabilities(self) -> bool:
        """Whether it was calibrated."""
        return hasattr(self.saved.estimator, "predict_proba")

    def read(self, body: bytes, kind: str, *, most_pixels: int) -> OwnData:
        """The queries in a body of this content type, pictures without features yet."""
        if self.takes_pictures:
            return read_pictures(body, kind, most_pixels=most_pixels)
        found = read_numbers(body, kind, self.expected, fills_gaps=self.fills_gaps)
        return checked_queries(found, self.saved)

    def with_features(self, queries: OwnData) -> OwnData:
        """Pictures with their features; nothing is kept in the cache of features."""
        if queries.features is not None:
            return queries
        if extractor_name(self.notes) == "pixels":
            return with_pixels(queries, self.notes["image_shape"])
        if self.estimator is self.saved.estimator:
            raise RequestError(422, "The model was fitted to images, but holds no step that reads them.")
        return replace(queries, features=self.saved.estimator[0].transform(list(queries.paths or ())))

    def answer_all(self, parts: list[Any], *, all_probabilities: bool) -> list[Answered]:
        """What is said of the rows of each part, from one call."""
        rows = parts[0] if len(parts) == 1 else np.concatenate(parts)
        answers = answer(self.estimator, rows)
        every = np.zeros(len(rows), dtype=np.int8)  # names come later
        told = list(records(answers, every, score=self.score, all_probabilities=all_probabilities))
        missed = ~answers.converged
        found, first = [], 0
        for part in parts:
            last = first + len(part)
            found.append(Answered(told[first:last], int(np.count_nonzero(missed[first:last]))))
            first = last
        return found

    def explain(self, queries: OwnData, *, atoms: int) -> dict[str, Any]:
        """What `residuum explain --json` prints of a single query."""
        found = explain_row(self.saved, self.estimator, queries, 0, max_atoms=atoms)
        compared = None if found.comparison is None else asdict(found.comparison)
        content = found.explanation.to_dict()
        return {**content, "features": compared, "notes": found.notes}

    def answer_rows(self, parts: list[Any]) -> list[Answered]:
        """What is said of the rows of each part."""
        return self.answer_all(parts, all_probabilities=False)

    def answer_with_probabilities(self, parts: list[Any]) -> list[Answered]:
        """The same with the probability of every class."""
        return self.answer_all(parts, all_probabilities=True)

    def description(self) -> dict[str, Any]:
        """What a client should know of it."""
        about, classifier = self.saved.about, steps_and_classifier(self.saved.estimator)[1]
        inner = getattr(classifier, "estimator_", classifier)
        inner = getattr(inner, "best_estimator_", inner)
        dictionary = classifier.dictionary_
        return {
            "model": self.name,
            "method": type(inner).__name__,
            "parameters": inner.get_params(deep=False),
            "classes": classifier.classes_.tolist(),
            "training_samples": dictionary.n_atoms,
            "features_used": self.features_used,
            "input": {
                "kind": self.notes.get("kind") or "array",
                "n_features": None if self.expected is None else self.expected.n_features,
                "columns": None if self.expected is None else self.expected.columns,
                "image_shape": self.notes.get("image_shape"),
                "fills_gaps": self.fills_gaps,
            },
            "probabilities": self.has_probabilities,
            "reject_threshold": getattr(classifier, "reject_threshold", None),
            "created": about.get("created"),
            "residuum": about.get("residuum"),
        }
