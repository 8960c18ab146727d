"""The data behind the paper's two figures, for one query.

Figure 1: the codes of SRC, CRC and NRC. Figure 2: ``max|c_t - z_t|``, ``max|c_t - c_{t-1}|`` and
``max|z_t - z_{t-1}|`` over the steps of ADMM for non-negative least squares.
"""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows
from residuum.estimators.classifiers import CRC, NRC, SRC
from residuum.problem import CodingProblem, dense
from residuum.solvers import ADMM

STEPS = 100
RHO = 1.0
CURVES = ("c - z", "change of c", "change of z")


def illustrate(
    samples: npt.NDArray[Any], labels: npt.NDArray[Any], query: npt.NDArray[Any], label: Any
) -> dict[str, Any]:
    """Codes and convergence curves of a query of the class `label` over training samples, as plain JSON."""
    point = query[None]  # (1, n_features)
    codes, predictions = {}, {}
    for name, classifier in {"SRC": SRC(), "CRC": CRC(), "NRC": NRC()}.items():
        classifier.fit(samples, labels)
        codes[name] = _digits(dense(classifier.encode(point))[0])
        predictions[name] = classifier.predict(point)[0].item()
    dictionary = classifier.dictionary_
    solver = ADMM(CodingProblem(neg_weight=math.inf), dictionary, rho=RHO)
    unit, _, _ = unit_rows(point.astype(np.float64))
    start = np.zeros((2, 1, dictionary.n_atoms))
    steps = np.array([start, *islice(solver.steps(unit), STEPS)])  # (n_steps + 1, c or z, 1, n_atoms)
    gaps, changes = steps[1:, 0] - steps[1:, 1], np.diff(steps, axis=0)
    curves = np.abs(np.stack([gaps, changes[:, 0], changes[:, 1]], axis=1)).max(axis=(2, 3))  # (n_steps, 3)
    return {
        "label": label.item(),
        "atom_labels": classifier.classes_[dictionary.atom_class].tolist(),
        "codes": codes,
        "predictions": predictions,
        "rho": RHO,
        "published_steps": NRC().max_iter,
        "curves": {name: _digits(curves[:, i]) for i, name in enumerate(CURVES)},
    }


def _digits(values: npt.NDArray[np.floating[Any]]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
