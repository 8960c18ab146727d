"""One pass from queries to answers: all that is said about a query comes from one set of class scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from residuum.dictionary import Dictionary, FloatArray
from residuum.system.progress import tell_progress

Float64Array = npt.NDArray[np.float64]

REJECT_TEXT = "none of these"
BLOCK_ROWS = 4096  # queries that go through the feature steps at a time


@dataclass(frozen=True)
class Answers:
    """What a classifier says about each of n queries.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        The labels of the classifier, sorted.
    residuals : ndarray of shape (n, n_classes)
        Score of every class by the classifier's rule, smallest wins; classes that tie up to rounding have
        exactly the same score.
    confidence : ndarray of shape (n,)
        How sure each answer is: the margin, or the concentration of the code (see `concentration`).
    converged : ndarray of bool, shape (n,)
        Whether the solver met its tolerance.
    rejected : ndarray of bool, shape (n,), or None
        Where the answer is "none of these"; None for a classifier that never rejects.
    probabilities : ndarray of shape (n, n_classes) or None
        Calibrated probabilities; None for a classifier that was not calibrated.
    """

    classes: npt.NDArray[Any]
    residuals: FloatArray
    confidence: Float64Array
    converged: npt.NDArray[np.bool_]
    rejected: npt.NDArray[np.bool_] | None = None
    probabilities: Float64Array | None = None

    @cached_property
    def winners(self) -> npt.NDArray[np.intp]:
        """Position in `classes` of the smallest score; the first class wins a tie."""
        return self.residuals.argmin(axis=1)

    @property
    def labels(self) -> npt.NDArray[Any]:
        """What `predict` says: the label of the winner, or the label for "none of these"."""
        if self.rejected is None:
            return self.classes[self.winners]
        return labels_or_reject(self.classes, self.winners, self.rejected)

    @property
    def runners_up(self) -> npt.NDArray[np.intp] | None:
        """Position in `classes` of the second smallest score; None with a single class."""
        if len(self.classes) == 1:
            return None
        return np.argsort(self.residuals, axis=1, kind="stable")[:, 1]

    @property
    def margins(self) -> Float64Array:
        """Score of the runner-up minus that of the winner."""
        return margin(self.residuals)


def margin(residuals: FloatArray) -> Float64Array:
    """``r_runner-up - r_winner``, shape (n_queries,); 0 in a tie of infinite ones, inf with one class."""
    if residuals.shape[1] == 1:
        return np.full(len(residuals), np.inf)
    two = np.partition(np.asarray(residuals, dtype=np.float64), 1, axis=1)[:, :2]
    return np.subtract(two[:, 1], two[:, 0], out=np.zeros(len(two)), where=np.isfinite(two[:, 0]))


def concentration(dictionary: Dictionary, codes: Any) -> Float64Array:
    """``(K * max_k ||c_k||_1 / ||c||_1 - 1) / (K - 1)``, shape (n_queries,); 0 for c = 0, 1 with one class.

    The sparsity concentration index of Wright et al. (2009): 1 when all atoms used are of one class, 0 when
    every class has the same part.
    """
    n_classes, codes = dictionary.n_classes, dictionary.coefficients(codes)
    sizes = np.zeros((codes.shape[0], n_classes))
    if sp.issparse(codes):
        rows = np.repeat(np.arange(codes.shape[0]), np.diff(codes.indptr))
        np.add.at(sizes, (rows, dictionary.atom_class[codes.indices]), np.abs(codes.data))
    else:
        for k, block in enumerate(dictionary.blocks):
            sizes[:, k] = np.abs(codes[:, block]).sum(axis=1)
    if n_classes == 1:
        return np.ones(len(sizes))
    whole = sizes.sum(axis=1)
    largest = np.divide(sizes.max(axis=1), whole, out=np.full_like(whole, 1 / n_classes), where=whole > 0)
    return np.clip((n_classes * largest - 1) / (n_classes - 1), 0.0, 1.0)


def reject_label(classes: np.ndarray) -> Any:
    """The label of "none of these" among these classes.

    Text labels get the text "none of these"; numbers the first of -1, -2, ... that is not a class.
    """
    labels = classes.tolist()
    taken = set(labels)
    if all(isinstance(label, str | bytes) for label in labels):
        text = REJECT_TEXT
        while text in taken or text.encode() in taken:
            text += "!"
        return text.encode() if isinstance(labels[0], bytes) else text
    number = -1
    while number in taken:
        number -= 1
    return float(number) if classes.dtype.kind == "f" else number


def labels_or_reject(classes: np.ndarray, winners: np.ndarray, rejected: np.ndarray) -> np.ndarray:
    """``classes[winners]``, and `reject_label` where rejected, in a type that holds both exactly."""
    label = reject_label(classes)
    dtype: Any = np.promote_types(classes.dtype, np.min_scalar_type(label))
    if classes.dtype.kind == "u" and dtype.kind == "f":
        # No NumPy type holds both -1 and the upper half of uint64; objects (Python integers) do.
        dtype = np.int64 if int(classes.max()) <= np.iinfo(np.int64).max else object
    answers = classes.astype(dtype)[winners]
    answers[rejected] = label
    return answers


def decision_values(residuals: FloatArray) -> FloatArray:
    """Minus the residuals, or their difference with two classes; infinite ones become the largest numbers.

    scikit-learn's metrics refuse infinite values, and the scaled residual of a class that takes no part is
    infinite.
    """
    finite = np.minimum(residuals, np.finfo(residuals.dtype).max / 2)
    return finite[:, 0] - finite[:, 1] if residuals.shape[1] == 2 else -finite


class Answering:
    """What follows from `answer`, for every classifier that has it."""

    answer: Callable[..., Answers]

    def predict(self, X: Any) -> Any:
        """Label of the class with the smallest score; the first class in sorted order wins a tie.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries. An all-zero query has no direction: every class ties, so it gets ``classes_[0]``, with
            a warning.

        Returns
        -------
        labels : ndarray of shape (n_queries,)
            A classifier that rejects has the label for "none of these" where it does, in a type that is wide
            enough for both.
        """
        return self.answer(X).labels

    def residuals(self, X: Any) -> FloatArray:
        """Score of every class for every query by the classifier's rule, smallest wins.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        residuals : ndarray of shape (n_queries, n_classes)
            For unit-norm queries, in the order of ``classes_``.
        """
        return self.answer(X).residuals

    def decision_function(self, X: Any) -> FloatArray:
        """Minus the class residuals; with two classes, the first residual minus the second.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        scores : ndarray of shape (n_queries, n_classes), or (n_queries,) with two classes
        """
        return decision_values(self.residuals(X))


def steps_and_classifier(estimator: Any) -> tuple[list[Any], Any]:
    """The transformers before a classifier in the order of their work, and the classifier."""
    if not isinstance(estimator, Pipeline):
        return [], estimator
    *steps, classifier = (step for _, step in estimator.steps)
    return [step for step in steps if step not in (None, "passthrough")], classifier


def answer(estimator: Any, X: Any) -> Answers:
    """Ask a fitted classifier, alone or at the end of a Pipeline, about every row of X, by blocks of rows."""
    steps, classifier = steps_and_classifier(estimator)
    parts: list[Answers] = []
    n_rows = _num_samples(X)
    for first in range(0, max(n_rows, 1), BLOCK_ROWS):
        block = X
        if n_rows > BLOCK_ROWS:
            block = _safe_indexing(X, slice(first, first + BLOCK_ROWS))
        for step in steps:
            block = step.transform(block)
        parts.append(classifier.answer(block))
        if n_rows > BLOCK_ROWS:
            tell_progress("answering", min(first + BLOCK_ROWS, n_rows), n_rows)
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: list[Answers]) -> Answers:
    """The answers to several blocks of queries, by one classifier, as one."""
    found = {field.name: [getattr(part, field.name) for part in parts] for field in fields(Answers)}
    classes = found.pop("classes")[0]
    each = {name: None if values[0] is None else np.concatenate(values) for name, values in found.items()}
    return Answers(classes, **each)  # type: ignore[arg-type]


def score_heading(estimator: Any) -> str:
    """What the number is called that the classifier of a model compares: "residual", or else "score"."""
    classifier = steps_and_classifier(estimator)[1]
    for wrapped in ("estimator_", "best_estimator_"):
        classifier = steps_and_classifier(getattr(classifier, wrapped, classifier))[1]
    return "residual" if "residual" in getattr(classifier, "rule", "") else "score"


def records(
    answers: Answers, names: Any, *, score: str = "residual", all_probabilities: bool = False
) -> Iterator[dict[str, Any]]:
    """One dictionary of plain values per query, its name or row first; `score` names that of the winner.

    With `all_probabilities`, the last one is a dictionary from the text of a label to its probability.
    """
    classes, labels = answers.classes.tolist(), answers.labels.tolist()
    runners_up, margins = answers.runners_up, answers.margins
    for i, name in enumerate(names.tolist()):
        winner = answers.winners[i]
        record: dict[str, Any] = {"name": name, "label": labels[i]}
        record["margin"] = float(margins[i])
        record["runner_up"] = None if runners_up is None else classes[runners_up[i]]
        record[score] = float(answers.residuals[i, winner])
        if answers.probabilities is not None:
            record["probability"] = float(answers.probabilities[i].max())
        if answers.rejected is not None:
            record["rejected"] = bool(answers.rejected[i])
            record["nearest"] = classes[winner]
            record["confidence"] = float(answers.confidence[i])
        if all_probabilities and answers.probabilities is not None:
            record["probabilities"] = dict(zip(map(str, classes), answers.probabilities[i].tolist()))
        yield record
