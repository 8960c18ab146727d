"""Errors on pages: the matrix of confusions as a drawing, the pairs confused most often, scores in words."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.reports.numbers import four_digits, score_name
from residuum.reports.table import Table

MOST_CLASSES = 100  # of a matrix
_MOST_PAIRS = 10
_LETTERS = 24  # of the name of a class beside the matrix
# Side of a square in pixels by the number of classes; in the large squares a count can be written.
_SIDES = ((12, 40), (25, 28), (MOST_CLASSES, 15))


def score_words(rule: str, scores: dict[Any, Any], place: int | None) -> str:
    """The score of the class that was answered, and then of the true one, in one sentence.

    `scores` has the two in this order, or only the first one; `place` is that of the true class among all.
    """
    given, *truth = scores.items()
    score = score_name(rule)
    words = f"{score[0].upper()}{score[1:]}: {four_digits(given[1])} for {given[0]}"
    if not truth:
        return f"{words}; the true class has no training sample."
    return f"{words}, {four_digits(truth[0][1])} for the true {truth[0][0]} (place {place})."


def confused_pairs(confusion: dict[str, Any]) -> Table | None:
    """The classes that are taken for another one most often; None where no answer was wrong."""
    counts = np.array(confusion["counts"])
    wrong = counts - np.diag(np.diag(counts))
    order = [int(k) for k in np.argsort(-wrong, axis=None, kind="stable")[:_MOST_PAIRS]]
    places = [divmod(k, len(counts)) for k in order]
    rows = tuple(
        (str(confusion["true"][i]), str(confusion["answered"][j]), str(wrong[i, j]), str(counts[i].sum()))
        for i, j in places
        if wrong[i, j]
    )
    title = f"Most frequent confusions of {confusion['method']}, all trials together"
    return Table(title, ("True class", "Taken for", "Times", "Of so many"), rows) if rows else None


def confusion_drawing(confusion: dict[str, Any]) -> dict[str, Any]:
    """Places of a drawing of the matrix: the true class down, the answer across.

    With more than `MOST_CLASSES` classes, only those with the most errors are drawn.
    """
    counts = np.array(confusion["counts"])
    errors = counts.sum(axis=0) + counts.sum(axis=1) - 2 * np.diag(counts)
    kept = np.sort(np.argsort(-errors, kind="stable")[:MOST_CLASSES])
    sizes = np.maximum(counts.sum(axis=1), 1)  # of all classes, drawn or not
    names = [str(confusion["true"][k]) for k in kept]
    side = next(side for most, side in _SIDES if len(kept) <= most)
    short = [name if len(name) <= _LETTERS else f"{name[: _LETTERS - 9]}…{name[-8:]}" for name in names]
    cells = []
    for i, j in np.argwhere(counts[np.ix_(kept, kept)]).tolist():
        count = int(counts[kept[i], kept[j]])
        words = f"{count} of {sizes[kept[i]]} of class {names[i]} "
        words += "recognised" if i == j else f"taken for {names[j]}"
        # The square root, so that a few errors among many answers can be seen.
        strength = 0.15 + 0.85 * float(np.sqrt(count / sizes[kept[i]]))
        cells.append({"row": i, "column": j, "count": count, "words": words, "strength": strength})
    return {
        "side": side,
        "margin": 14 + 7 * max(map(len, short)),
        "names": short,
        "cells": cells,
        "with_counts": side > 15,
        "turned": 7 * max(map(len, short)) > side,  # whether names across need to be written upwards
        "left_out": len(counts) - len(kept),
        "words": f"Confusion matrix of {confusion['method']}: of {counts.sum()} answers "
        f"{np.trace(counts)} are right. True classes down, answers across.",
    }
