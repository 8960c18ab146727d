"""From samples to a fitted model, and from a saved model to answers and their evaluation."""

from __future__ import annotations

from residuum.estimators.answers import answer, records
from residuum.models.evaluation import evaluate
from residuum.models.recipe import Fitted, Recipe, find_method, fit_recipe, parse_settings

__all__ = [
    "Fitted",
    "Recipe",
    "answer",
    "evaluate",
    "find_method",
    "fit_recipe",
    "parse_settings",
    "records",
]
