"""MATLAB files of version 4 to 7, read by SciPy once their declared sizes are found plausible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residuum.errors import DataFormatError
from residuum.system.files import naming_damage
from residuum.system.machine import free_memory


def mat_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the variables of a MATLAB file, without reading them."""
    from scipy.io import whosmat

    with path.open("rb") as stream:
        head = stream.read(128)
    if b"MATLAB 7.3" in head or head.startswith(b"\x89HDF"):
        raise DataFormatError(f"{path}: saved with -v7.3 (HDF5). Open it in MATLAB and save it with -v7.")
    with naming_damage(path, "a MATLAB file"):
        return {name: tuple(int(n) for n in shape) for name, shape, _ in whosmat(str(path))}


def read_mat(path: Path, names: Sequence[str], *, max_bytes: int | None = None) -> dict[str, Any]:
    """Variables of a MATLAB file as SciPy returns them; all must be there and none may be empty.

    A variable of more than `max_bytes` is refused, at 8 bytes per element; None means the free memory.
    """
    from scipy.io import loadmat

    shapes = mat_shapes(path)
    limit = max_bytes or free_memory() or 2**36
    for name in names:
        if name not in shapes:
            raise DataFormatError(
                f"{path}: expected the variables {', '.join(names)}; "
                f"got {', '.join(sorted(shapes)[:20]) or 'none'}."
            )
        if not 0 < 8 * math.prod(shapes[name]) <= limit:
            raise DataFormatError(
                f"{path}: variable '{name}' declares the shape {shapes[name]}, which is empty or too large."
            )
    with naming_damage(path, "a MATLAB file"):
        content = loadmat(str(path), variable_names=list(names))
        return {name: content[name] for name in names}
