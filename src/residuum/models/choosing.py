"""The choice of a method: every one is fitted by the same recipe and judged on folds it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from residuum.errors import UsageError
from residuum.estimators import METHODS
from residuum.models.recipe import Recipe, fit_recipe, group_folds

AUTO = "auto"
_FOLDS = 5


@dataclass(frozen=True)
class MethodChoice:
    """Accuracy of every method on every fold, and what follows from it.

    Attributes
    ----------
    scores : dict of str to ndarray of shape (n_folds,)
        Shares of right answers, the methods in the order of `METHODS`; the first wins a tie.
    """

    scores: dict[str, np.ndarray]

    @property
    def ranking(self) -> list[str]:
        """The methods, the best mean first."""
        return sorted(self.scores, key=lambda method: -round(float(self.scores[method].mean()), 12))

    @property
    def lead(self) -> tuple[float, float]:
        """By how much the runner-up lost, on average over the folds, and the standard error of that."""
        first, second = (self.scores[method] for method in self.ranking[:2])
        differences = first - second
        return float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences)))

    def to_dict(self) -> dict[str, Any]:
        """Plain content for JSON."""
        lead, error = self.lead
        return {
            "method": self.ranking[0],
            "runner_up": self.ranking[1],
            "lead": lead,
            "lead_standard_error": error,
            "folds": {method: self.scores[method].tolist() for method in self.ranking},
        }

    def __str__(self) -> str:
        (best, second), (lead, error) = self.ranking[:2], self.lead
        mean = {method: 100 * float(scores.mean()) for method, scores in self.scores.items()}
        chosen = f"{best} was chosen: {mean[best]:.1f} % on folds that its own choices had not seen."
        if not lead:
            return f"{chosen} The runner-up {second} had the same; the first in the list of methods wins."
        return (
            f"{chosen} The runner-up {second} had {mean[second]:.1f} % and lost by {100 * lead:.1f} points, "
            f"standard error {100 * error:.1f}."
        )


def choose_method(
    recipe: Recipe,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    image_shape: tuple[int, ...] | None = None,
    on_step: Callable[[int, int, str], None] = lambda done, total, what: None,
) -> MethodChoice:
    """Fit every method by the recipe, other choices included, to the training part of each of five folds.

    A method that chooses features and parameters by cross-validation does so within that part, so its score
    on the rest of the fold is honest. `on_step` is called with (fits done, fits in all, what comes next).
    """
    folds = _folds(y, groups)
    splits = list(folds.split(np.zeros(len(y)), y, groups))
    jobs = [(method, fold) for fold in range(len(splits)) for method in METHODS]
    scores = {method: np.zeros(len(splits)) for method in METHODS}
    for done, (method, fold) in enumerate(jobs):
        on_step(done, len(jobs), f"{method}, fold {fold + 1}")
        train, test = splits[fold]
        fitted = fit_recipe(
            replace(recipe, method=method, confidence={}),
            X[train],
            y[train],
            groups=None if groups is None else groups[train],
            image_shape=image_shape,
        )
        scores[method][fold] = np.mean(fitted.estimator.predict(X[test]) == y[test])
    on_step(len(jobs), len(jobs), "")
    return MethodChoice(scores)


def _folds(y: Any, groups: Any) -> Any:
    if groups is not None:
        return group_folds(groups)
    smallest = int(np.unique(y, return_counts=True)[1].min())
    if smallest < 3:
        raise UsageError(
            "--method auto needs three training samples of every class, to hold some out twice. The smallest "
            f"class has {smallest}: name a method instead."
        )
    return StratifiedKFold(min(_FOLDS, smallest), shuffle=True, random_state=0)
