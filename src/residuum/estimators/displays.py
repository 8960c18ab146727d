"""Pictures of one query for notebooks, after scikit-learn's displays; drawing imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from residuum.dictionary import FloatArray
from residuum.estimators.answers import answer, steps_and_classifier
from residuum.estimators.base import one_row
from residuum.problem import dense
from residuum.reports.numbers import score_name
from residuum.reports.plots import draw_code, draw_ranked_bars


class ResidualDisplay:
    """``||y - X_k c_k||`` of the nearest classes as bars, smallest first: what decides about one query.

    Make one with `from_estimator`, or from numbers. All parameters are stored as attributes.

    Parameters
    ----------
    residuals : array-like of shape (n_classes,)
        Class scores of one query by the rule, smallest wins.
    classes : array-like of shape (n_classes,)
        Labels in the same order.
    rule : str, default="residual"
        The rule, which names the axis.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure around it.
    bars_ : matplotlib BarContainer
        One bar for each class that is shown.

    Examples
    --------
    >>> from residuum import NRC, ResidualDisplay
    >>> model = NRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> display = ResidualDisplay.from_estimator(model, [5, 1, 1])
    >>> [text.get_text() for text in display.ax_.get_yticklabels()]
    ['a', 'b']
    """

    def __init__(self, residuals: Any, *, classes: Any, rule: str = "residual") -> None:
        self.residuals = residuals
        self.classes = classes
        self.rule = rule

    def plot(self, ax: Any = None, *, max_classes: int = 15) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        max_classes : int, default=15
            How many classes to show, the nearest ones.

        Returns
        -------
        self
        """
        scores = np.asarray(self.residuals, dtype=np.float64)
        order = np.argsort(scores, kind="stable")[:max_classes]
        names = [str(label) for label in np.asarray(self.classes).tolist()]
        self.ax_ = _axes(ax, 0.9 + 0.3 * len(order))
        self.figure_ = self.ax_.figure
        self.bars_ = draw_ranked_bars(self.ax_, [names[k] for k in order], scores[order], range(len(order)))
        left_out = len(scores) - len(order)
        self.ax_.set_xlabel(score_name(self.rule) + (f" ({left_out} more classes)" if left_out else ""))
        self.ax_.set_title(f"{names[order[0]]} is nearest", loc="left").set_parse_math(False)
        return self

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None, max_classes: int = 15) -> Self:
        """Ask a fitted classifier about one query, and draw what every class leaves of it.

        Parameters
        ----------
        estimator : classifier or Pipeline
            A fitted classifier of residuum, or a Pipeline that ends in one.
        X : array-like of shape (n_features,) or (1, n_features)
            One query.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.
        max_classes : int, default=15
            How many classes to show, the nearest ones.

        Returns
        -------
        display : ResidualDisplay
        """
        query = one_row(estimator, X)
        answers, (coder, _) = answer(estimator, query), _coding(estimator, query)
        rule = getattr(coder, "rule", type(coder).__name__.lower())
        return cls(answers.residuals[0], classes=answers.classes, rule=rule).plot(ax, max_classes=max_classes)


class CodeDisplay:
    """The code c of one query over all training samples: a line for each coefficient, coloured by class.

    Make one with `from_estimator`, or from numbers. All parameters are stored as attributes.

    Parameters
    ----------
    code : array-like of shape (n_atoms,)
        Coefficients of the unit-norm training samples.
    labels : array-like of shape (n_atoms,)
        Label of each of them, samples of a class side by side.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where it was drawn.
    figure_ : matplotlib Figure
        The figure around it.

    Examples
    --------
    >>> from residuum import NRC, CodeDisplay
    >>> model = NRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> display = CodeDisplay.from_estimator(model, [5, 1, 1])
    >>> display.ax_.get_ylabel()
    'coefficient'
    """

    def __init__(self, code: Any, *, labels: Any) -> None:
        self.code = code
        self.labels = labels

    def plot(self, ax: Any = None) -> Self:
        """Draw the code.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
        """
        from matplotlib import rcParams

        code, labels = np.asarray(self.code, dtype=np.float64), np.asarray(self.labels)
        self.ax_ = _axes(ax, 3.2, width=8.0)
        self.figure_ = self.ax_.figure
        draw_code(self.ax_, code, labels, ink=rcParams["text.color"])
        _name_main_classes(self.ax_, code, labels)
        used = int(np.count_nonzero(code))
        self.ax_.set_title(f"{used} of {len(code)} training samples take part", loc="left")
        return self

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, ax: Any = None) -> Self:
        """Code one query by a fitted classifier and draw the code.

        Parameters
        ----------
        estimator : classifier or Pipeline
            A fitted classifier of residuum, or a Pipeline that ends in one.
        X : array-like of shape (n_features,) or (1, n_features)
            One query.
        ax : matplotlib Axes or None, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        display : CodeDisplay
        """
        coder, query = _coding(estimator, one_row(estimator, X))
        dictionary = coder.dictionary_
        code: FloatArray = dictionary.coefficients(dense(coder.encode(query)))[0]
        return cls(code, labels=coder.classes_[dictionary.atom_class]).plot(ax)


def draw_explanation(explanation: Any, axes: Sequence[Any] | None, max_classes: int, max_atoms: int) -> Any:
    """The nearest classes beside the training samples with the largest coefficients; returns the two Axes."""
    import matplotlib.pyplot as plt

    shown, atoms = explanation.classes[:max_classes], explanation.atoms[:max_atoms]
    if axes is None:
        height = 1.1 + 0.3 * max(len(shown), len(atoms), 3)
        axes = plt.subplots(1, 2, figsize=(10, height), layout="constrained")[1]
    left, right = axes
    scores = {part.label: part.residual for part in shown}
    ResidualDisplay(list(scores.values()), classes=list(scores), rule=explanation.verdict.rule).plot(left)
    left.set_title(f"answer: {explanation.verdict.answer}", loc="left").set_parse_math(False)
    rank = {part.label: k for k, part in enumerate(explanation.classes)}
    names = [f"{atom.name or f'sample {atom.sample}'} ({atom.label})" for atom in atoms]
    coefficients = np.array([atom.coefficient for atom in atoms])
    draw_ranked_bars(right, names, coefficients, [rank[atom.label] for atom in atoms])
    right.set_xlabel("coefficient")
    right.set_title(f"{len(atoms)} of {explanation.atoms_used} training samples used", loc="left")
    return axes


def _coding(estimator: Any, query: Any) -> tuple[Any, Any]:
    """The classifier that codes, behind Pipelines, searches and ConfidentClassifier, and what it is given."""
    while estimator is not None:
        steps, classifier = steps_and_classifier(estimator)
        for step in steps:
            query = step.transform(query)
        estimator = getattr(classifier, "estimator_", getattr(classifier, "best_estimator_", None))
    return classifier, query


def _axes(ax: Any, height: float, width: float = 6.4) -> Any:
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _name_main_classes(ax: Any, code: FloatArray, labels: np.ndarray, most: int = 12) -> None:
    """Name classes below their samples, largest coefficients first, as far as there is room."""
    classes = np.unique(labels)
    sizes = [np.abs(code[labels == label]).sum() for label in classes]
    named: dict[float, str] = {}
    for label in classes[np.argsort(-np.array(sizes), kind="stable")]:
        middle = float(np.flatnonzero(labels == label).mean())
        if len(named) < most and all(abs(middle - other) > 0.035 * len(code) for other in named):
            named[middle] = str(label)
    ax.set_xticks(list(named), list(named.values()))
    ax.tick_params(axis="x", length=0)
    for text in ax.get_xticklabels():
        text.set_parse_math(False)
        if sum(map(len, named.values())) > 60:
            text.set(rotation=40, ha="right", rotation_mode="anchor")
    left_out = len(classes) - len(named)
    ax.set_xlabel("training samples, by class" + (f" ({left_out} more classes)" if left_out else ""))
