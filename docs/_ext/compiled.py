"""Compile the solvers before the gallery runs, so that an example is shown with its own time.

The first use of a solver on a machine takes up to 20 s; the result is kept on disk.
"""

from typing import Any

import numpy as np

from residuum import NRC, least_squares, nnls
from residuum.estimators import METHODS


def use_every_solver() -> None:
    """Small problems, one for each solver."""
    rng = np.random.default_rng(0)
    samples, labels = rng.random((40, 12)), np.arange(40) % 4
    for model in (*(make() for make in METHODS.values()), NRC(solver="exact")):
        model.fit(samples, labels).predict(samples)
    columns, right_hand_sides = rng.random((60, 5)), rng.random((60, 200))
    nnls(columns, right_hand_sides)
    least_squares(columns, right_hand_sides, sum_to=1.0)
    least_squares(columns, right_hand_sides, bounds=(0.0, 1.0))


def setup(app: Any) -> dict[str, bool]:
    app.connect("builder-inited", lambda app: use_every_solver(), priority=100)  # before the gallery
    return {"parallel_read_safe": True, "parallel_write_safe": True}
