"""How good the answers are: accuracy, per class, confusion, calibration, rejection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows
from residuum.estimators.answers import BLOCK_ROWS, Answers, steps_and_classifier
from residuum.estimators.calibration import expected_calibration_error
from residuum.estimators.confidence import reject_curve

UNKNOWN = "(not a class of the model)"
_CURVE_POINTS = 21
_MOST_COMPARED = 100  # atoms that one row is compared with


def samples_in_model(estimator: Any, X: Any) -> npt.NDArray[np.bool_]:
    """Which rows of X the model holds: training samples that are the same to it, up to rounding.

    Rows are compared after the feature steps and divided by their norms, as the classifier sees them. Atoms
    are sorted by their products with a random direction, so that each row is compared with the few whose
    product is the same.

    Parameters
    ----------
    estimator : classifier or Pipeline
        Fitted.
    X : array of shape (n_samples, n_features)
        What the estimator takes.
    """
    steps, classifier = steps_and_classifier(estimator)
    atoms = getattr(classifier, "estimator_", classifier).dictionary_.atoms
    slack = 1e-6 if atoms.dtype == np.float64 else 1e-4
    direction = np.random.default_rng(0).standard_normal(atoms.shape[1])
    direction = (direction / np.linalg.norm(direction)).astype(atoms.dtype)
    along = atoms @ direction
    order = np.argsort(along)
    along, held = along[order], np.zeros(len(X), dtype=np.bool_)
    for first in range(0, len(X), BLOCK_ROWS):
        block = X[first : first + BLOCK_ROWS]
        for step in steps:
            block = step.transform(block)
        unit = unit_rows(np.asarray(block, dtype=atoms.dtype))[0]
        place = unit @ direction
        low, high = np.searchsorted(along, place - slack), np.searchsorted(along, place + slack, side="right")
        for i in np.flatnonzero(low < high).tolist():
            near = order[low[i] : min(high[i], low[i] + _MOST_COMPARED)]
            held[first + i] = bool((np.abs(atoms[near] - unit[i]).max(axis=1) <= slack).any())
    return held


def evaluate(answers: Answers, labels: Any, *, held: npt.NDArray[np.bool_] | None = None) -> dict[str, Any]:
    """Figures as plain JSON.

    Accuracy is the share of all samples whose winning class is the true one, before any rejection; samples
    of classes that the model does not know count as wrong. Log-loss is the mean of ``-log p(true class)``
    over the samples of known classes, with p no smaller than 1e-15.

    Parameters
    ----------
    answers : Answers
        What the model said.
    labels : ndarray of shape (n_samples,)
        The true labels.
    held : ndarray of bool, shape (n_samples,), optional
        Which samples the model holds itself; the accuracy on the others is then given too.
    """
    # Compared as text: "7" in one file is 7 in another.
    texts = np.array([str(label) for label in labels.tolist()])
    position = {str(label): i for i, label in enumerate(answers.classes.tolist())}
    truth = np.array([position.get(text, -1) for text in texts.tolist()])  # (n_samples,), -1 where unknown
    said = answers.winners
    correct = said == truth
    known = truth >= 0
    results: dict[str, Any] = {
        "samples": len(truth),
        "accuracy": float(correct.mean()),
        "unknown": int(np.count_nonzero(~known)),
        "unknown_labels": sorted(set(texts[~known].tolist())),
        "classes": _per_class(answers.classes, truth, said),
        "confusion": _confusion(answers, truth, said),
    }
    if held is not None:
        others = correct[~held]
        results["in_model"] = int(np.count_nonzero(held))
        results["accuracy_of_others"] = float(others.mean()) if len(others) else None
    if answers.probabilities is not None and known.any():
        p = answers.probabilities[known]
        own = np.maximum(p[np.arange(len(p)), truth[known]], 1e-15)
        results["probability"] = {
            "ece": float(expected_calibration_error(p.max(axis=1), correct[known])),
            "log_loss": float(-np.log(own).mean()),
        }
    if answers.rejected is not None:
        results["rejection"] = _rejection(answers, correct, known)
    return results


def _per_class(classes: Any, truth: Any, said: Any) -> list[dict[str, Any]]:
    counted = (said[said == truth], said, truth[truth >= 0])
    counts = [np.bincount(found, minlength=len(classes)).tolist() for found in counted]
    return [
        {
            "label": label,
            "precision": hits / given if given else None,
            "recall": hits / have if have else None,
            "samples": have,
            "answers": given,
        }
        for label, hits, given, have in zip(classes.tolist(), *counts, strict=True)
    ]


def _confusion(answers: Answers, truth: Any, said: Any) -> dict[str, Any]:
    """Counts with the true class down and the answer across; rejected answers have a column of their own."""
    labels, unknown, rejected = answers.classes.tolist(), truth < 0, answers.rejected
    rows = labels + [UNKNOWN] * bool(unknown.any())
    columns = labels + ["rejected"] * (rejected is not None)
    down = np.where(unknown, len(labels), truth)
    across = said if rejected is None else np.where(rejected, len(labels), said)
    counts = np.zeros((len(rows), len(columns)), dtype=np.int64)
    np.add.at(counts, (down, across), 1)
    return {"true": rows, "answered": columns, "counts": counts.tolist()}


def _rejection(answers: Answers, correct: Any, known: Any) -> dict[str, Any]:
    assert answers.rejected is not None
    given = ~answers.rejected
    thresholds, accept, reject = reject_curve(answers.confidence, correct, known)
    wrong = ~(correct & known)
    some = np.unique(np.linspace(0, len(thresholds) - 1, _CURVE_POINTS).round().astype(int))
    return {
        "rejected": int(np.count_nonzero(answers.rejected)),
        "accuracy_of_given": float(correct[given].mean()) if given.any() else None,
        "false_accept": float(given[wrong].mean()) if wrong.any() else None,
        "false_reject": float((~given)[~wrong].mean()) if (~wrong).any() else None,
        "curve": [
            {"threshold": float(t), "false_accept": _number(a), "false_reject": _number(r)}
            for t, a, r in zip(thresholds[some], accept[some], reject[some], strict=True)
        ],
    }


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
