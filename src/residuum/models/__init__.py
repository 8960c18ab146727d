"""From samples to a fitted model, and from a saved model to answers and their evaluation."""

from __future__ import annotations

from residuum.models.evaluation import evaluate
from residuum.models.queries import answer, open_queries, records
from residuum.models.recipe import Fitted, Recipe, find_method, fit_recipe, parse_settings

__all__ = [
    "Fitted",
    "Recipe",
    "answer",
    "evaluate",
    "find_method",
    "fit_recipe",
    "open_queries",
    "parse_settings",
    "records",
]
