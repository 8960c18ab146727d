"""From samples to a fitted model, and from a saved model to answers and their evaluation."""

from __future__ import annotations

from residuum.estimators.answers import BLOCK_ROWS, answer, records, score_heading
from residuum.models.evaluation import evaluate, samples_in_model
from residuum.models.recipe import Fitted, Recipe, find_method, fit_recipe, parse_settings

__all__ = [
    "BLOCK_ROWS",
    "Fitted",
    "Recipe",
    "answer",
    "evaluate",
    "find_method",
    "fit_recipe",
    "parse_settings",
    "records",
    "samples_in_model",
    "score_heading",
]
