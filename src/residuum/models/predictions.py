"""What a model says about every sample: label, margin, runner-up, residual, probability, rejection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.pipeline import Pipeline

from residuum.estimators.confidence import labels_or_reject, margin

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Answers:
    """One entry per query in each array.

    Attributes
    ----------
    labels : ndarray
        What `predict` says: the winner, or the label for "none of these" where `rejected`.
    winners, runners_up : ndarray
        Classes of the smallest and the next smallest residual; runners_up is None with a single class.
    residuals, margins : ndarray of float
        Residual of the winner, and how much larger that of the runner-up is.
    confidence : ndarray of float
        What the threshold of rejection is compared with.
    rejected : ndarray of bool or None
        None where the model has no threshold.
    probabilities : ndarray of shape (n_queries, n_classes) or None
        None where the model was fitted without.
    classes : ndarray
        The classes of the model.
    """

    labels: Array
    winners: Array
    runners_up: Array | None
    residuals: Array
    margins: Array
    confidence: Array
    rejected: Array | None
    probabilities: Array | None
    classes: Array

    def records(self, names: Array) -> Iterator[dict[str, Any]]:
        """One dictionary of plain values per query, its name or row first."""
        for i, name in enumerate(names.tolist()):
            record: dict[str, Any] = {"name": name, "label": _plain(self.labels[i])}
            record["margin"] = float(self.margins[i])
            record["runner_up"] = None if self.runners_up is None else _plain(self.runners_up[i])
            record["residual"] = float(self.residuals[i])
            if self.probabilities is not None:
                record["probability"] = float(self.probabilities[i].max())
            if self.rejected is not None:
                record["rejected"] = bool(self.rejected[i])
                record["nearest"] = _plain(self.winners[i])
                record["confidence"] = float(self.confidence[i])
            yield record


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def answer(estimator: Any, X: Any) -> Answers:
    """Ask a fitted classifier, alone or at the end of a Pipeline, about every row of X."""
    classifier = estimator
    if isinstance(estimator, Pipeline):
        classifier = estimator.steps[-1][1]
        if len(estimator.steps) > 1:
            X = estimator[:-1].transform(X)
    scores = classifier.residuals(X)  # (n_queries, n_classes)
    order = np.argsort(scores, axis=1, kind="stable")
    rows = np.arange(len(scores))
    best = scores[rows, order[:, 0]]
    several = scores.shape[1] > 1
    margins = margin(scores)
    winners = classifier.classes_[order[:, 0]]
    threshold = classifier.reject_threshold
    confidence = margins
    if threshold is not None and classifier.reject_by != "margin":
        confidence = classifier.confidence(X)
    rejected = None if threshold is None else confidence < threshold
    labels = winners
    if rejected is not None:
        labels = labels_or_reject(classifier.classes_, order[:, 0], rejected)
    return Answers(
        labels=labels,
        winners=winners,
        runners_up=classifier.classes_[order[:, 1]] if several else None,
        residuals=best,
        margins=margins,
        confidence=confidence,
        rejected=rejected,
        probabilities=classifier.predict_proba(X) if classifier.probability else None,
        classes=classifier.classes_,
    )
