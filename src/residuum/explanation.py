"""Why a query got its label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from residuum.dictionary import Dictionary, FloatArray
from residuum.solvers.base import Solution


@dataclass(frozen=True)
class AtomShare:
    """One training sample's part in a code.

    ``share`` is ``c_j (x_j'Xc) / ||Xc||^2``: the shares of all atoms sum to 1.
    """

    sample: int
    label: Any
    coefficient: float
    share: float


@dataclass(frozen=True)
class Explanation:
    """The answer for one query, with what it rests on.

    Attributes
    ----------
    label, runner_up
        The winning class and the next one (None with a single class).
    margin : float
        Residual of the runner-up minus residual of the winner.
    residuals : dict
        Label -> class residual by the classifier's rule.
    atoms : list of AtomShare
        Training samples with a non-zero coefficient, largest magnitude first.
    violation, gap, n_iter, converged
        The certificate of the code.
    """

    label: Any
    runner_up: Any
    margin: float
    residuals: dict[Any, float]
    atoms: list[AtomShare]
    violation: float
    gap: float
    n_iter: int
    converged: bool


def explain_query(
    dictionary: Dictionary,
    classes: np.ndarray,
    solution: Solution,
    scores: FloatArray,
    *,
    max_atoms: int | None,
) -> Explanation:
    """Explanation of the single query behind `solution`, whose class scores are `scores` (n_classes,)."""
    codes = solution.codes
    code = (codes.toarray() if sp.issparse(codes) else codes)[0]  # (n_atoms,)
    whole = code @ dictionary.atoms  # (n_features,)
    energy = float(whole @ whole)
    shares = code * (dictionary.atoms @ whole) / (energy if energy > 0 else 1.0)
    used = np.flatnonzero(code)
    used = used[np.argsort(-np.abs(code[used]), kind="stable")][:max_atoms]
    ranking = np.argsort(scores, kind="stable")
    labels = classes.tolist()
    return Explanation(
        label=labels[ranking[0]],
        runner_up=labels[ranking[1]] if len(labels) > 1 else None,
        margin=float(scores[ranking[1]] - scores[ranking[0]]) if len(labels) > 1 else float("inf"),
        residuals={label: float(score) for label, score in zip(labels, scores, strict=True)},
        atoms=[
            AtomShare(
                sample=int(dictionary.samples[j]),
                label=labels[dictionary.atom_class[j]],
                coefficient=float(code[j]),
                share=float(shares[j]),
            )
            for j in used
        ],
        violation=float(solution.violation[0]),
        gap=float(solution.gap[0]),
        n_iter=int(solution.n_iter[0]),
        converged=bool(solution.converged[0]),
    )
