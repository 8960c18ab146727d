"""From samples to a fitted model, and from a saved model to answers and their evaluation."""

from __future__ import annotations

from residuum.models.evaluation import evaluate
from residuum.models.predictions import Answers, answer
from residuum.models.queries import open_queries
from residuum.models.recipe import METHODS, Fitted, Recipe, fit_recipe, parse_settings

__all__ = [
    "METHODS",
    "Answers",
    "Fitted",
    "Recipe",
    "answer",
    "evaluate",
    "fit_recipe",
    "open_queries",
    "parse_settings",
]
