"""Explaining an embedding by examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import _num_samples

from residuum.estimators.classifiers import NRC
from residuum.estimators.explanation import Explanation


def explain_by_examples(X: Any, labels: Any, query: Any, *, max_examples: int | None = None) -> Explanation:
    """``min_c ||y - Xc||^2  s.t.  c >= 0``: the examples that make up a query, with non-negative weights.

    X are the embeddings of examples by any model, and the query is one more embedding by the same model; all
    of them are taken with norm 1. Examples that do not help get the weight 0. The weights are the minimiser
    up to the certificate of the result.

    Parameters
    ----------
    X : array-like of shape (n_examples, n_features)
        Embeddings of the examples, as the model gives them. Less their own mean they sum to zero, so that
        sums of them with non-negative weights reach everything, and the weights say nothing.
    labels : array-like of shape (n_examples,) or None
        What the shares are summed by: true classes, or the answers of the model itself. None for no labels.
    query : array-like of shape (n_features,) or (1, n_features)
        The embedding to explain.
    max_examples : int or None, default=None
        List only this many examples, largest weight first; None lists all that are used.

    Returns
    -------
    explanation : Explanation
        ``atoms`` has the examples that are used: ``sample`` (row of X), ``label``, ``coefficient`` (weight)
        and ``share``; the shares of all examples sum to 1. ``classes`` has the share and the residual of each
        class, smallest residual first. ``violation``, ``gap`` and ``converged`` are the certificate. Without
        labels there is one class, None, whose residual is what the examples leave unexplained.

    See Also
    --------
    NRC : Classifies by the same weights; ``NRC(solver="exact").fit(X, labels)`` explains many queries.

    Examples
    --------
    >>> from residuum import explain_by_examples
    >>> found = explain_by_examples([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"], [5, 1, 1])
    >>> [(example.sample, example.label, round(example.share, 2)) for example in found.atoms]
    [(1, 'a', 0.59), (0, 'a', 0.37), (2, 'b', 0.04)]
    >>> {part.label: round(part.share, 2) for part in found.classes}
    {'a': 0.96, 'b': 0.04}
    >>> found.converged
    True
    """
    groups = np.zeros(_num_samples(X), dtype=np.int64) if labels is None else labels
    found = NRC(solver="exact").fit(X, groups).explain(query, max_atoms=max_examples)
    return found if labels is not None else _without_labels(found)


def _without_labels(found: Explanation) -> Explanation:
    return replace(
        found,
        label=None,
        residuals={None: found.classes[0].residual},
        atoms=[replace(atom, label=None) for atom in found.atoms],
        classes=[replace(part, label=None) for part in found.classes],
        verdict=replace(found.verdict, answer=None),
    )
