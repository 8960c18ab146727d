"""Arrays by which a solver that followed changes of its dictionary differs from a fresh one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

# From these a solver is built again, bit for bit.
State = dict[str, np.ndarray]


def check_arrays(state: State, expected: Mapping[str, tuple[str, tuple[int, ...]]]) -> None:
    """Refuse arrays that are not finite, in C order, of the kind ("i" or "f") and the shape expected."""
    for name, array in state.items():
        kind, shape = expected[name]
        good = array.dtype.kind == kind and array.shape == shape and array.flags.c_contiguous
        if not good or not np.isfinite(array).all():
            raise ValueError(f"the {name!r} of its solver does not fit its dictionary")
