"""What a comparison says about errors: which class is taken for which, and the worst errors explained."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.experiments.compared_data import Split

Array = npt.NDArray[Any]

SHOWN_ERRORS = 5
SHOWN_ATOMS = 5


def worst_errors(
    estimator: Any, queries: Array, predictions: Array, labels: Array, parts: Split
) -> list[dict[str, Any]]:
    """The wrong answers whose true class lies furthest behind, explained by training samples, as plain JSON.

    Samples are named by their numbers in the data. An estimator that explains nothing has none; queries of
    classes without a training sample are left out, as they cannot be answered rightly.
    """
    if not hasattr(estimator, "explain"):
        return []
    wrong = np.flatnonzero((predictions != labels) & np.isin(labels, estimator.classes_))
    if not len(wrong):
        return []
    scores = estimator.answer(queries[wrong]).residuals
    own = np.searchsorted(estimator.classes_, labels[wrong])
    best = scores.min(axis=1)
    # Where the score of every class is infinite, no class lies behind another.
    margins = np.where(np.isfinite(best), scores[np.arange(len(wrong)), own] - np.minimum(best, 1e300), 0.0)
    found = []
    for i in np.argsort(-margins, kind="stable")[:SHOWN_ERRORS]:
        query = int(wrong[i])
        explanation = estimator.explain(queries[query])
        atoms = sorted(explanation.atoms, key=lambda atom: -atom.share)[:SHOWN_ATOMS]
        found.append(
            {
                "query": int(parts.test[query]),
                "truth": labels[query].item(),
                "given": explanation.label,
                "margin": float(margins[i]),
                "rule": explanation.verdict.rule,
                "score_of_truth": float(scores[i, own[i]]),
                "score_of_given": float(scores[i].min()),
                "place_of_truth": 1 + int((scores[i] < scores[i, own[i]]).sum()),
                "atoms_used": explanation.atoms_used,
                "atoms": [
                    {
                        "sample": int(parts.train[atom.sample]),
                        "label": atom.label,
                        "coefficient": atom.coefficient,
                        "share": atom.share,
                    }
                    for atom in atoms
                ],
            }
        )
    return found


def confusion(classes: list[Any], truths: list[list[Any]], answers: list[list[Any]]) -> dict[str, Any]:
    """Counts over all trials, the true class down and the answer across."""
    place = {label: k for k, label in enumerate(classes)}
    counts = np.zeros((len(classes), len(classes)), dtype=np.int64)
    for truth, answer in zip(truths, answers, strict=True):
        np.add.at(counts, ([place[label] for label in truth], [place[label] for label in answer]), 1)
    return {"true": classes, "answered": classes, "counts": counts.tolist()}
