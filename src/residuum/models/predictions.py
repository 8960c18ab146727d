"""Ask a model about samples, and what it said as plain records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sklearn.pipeline import Pipeline

from residuum.estimators.answers import Answers


def answer(estimator: Any, X: Any) -> Answers:
    """Ask a fitted classifier, alone or at the end of a Pipeline, about every row of X."""
    if isinstance(estimator, Pipeline):
        for _, step in estimator.steps[:-1]:
            X = X if step in (None, "passthrough") else step.transform(X)
        estimator = estimator.steps[-1][1]
    return estimator.answer(X)


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
