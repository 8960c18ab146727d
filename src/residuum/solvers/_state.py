"""Arrays by which a solver that followed changes of its dictionary differs from a fresh one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# From these a solver is built again, bit for bit.
State = dict[str, np.ndarray]


def check_arrays(state: State, expected: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """Refuse arrays that are not of the kind of number ("i" or "f") and the shape expected, or not finite."""
    for name, array in state.items():
        kind, shape = expected[name]
        if array.dtype.kind != kind or array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"the {name!r} of its solver does not fit its dictionary")
