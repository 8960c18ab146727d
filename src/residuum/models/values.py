"""Values of a model as JSON, and arrays by the names of their files; each comes back with its type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from residuum.errors import UsageError

# Stores an array and gives it a name; gives back the array of a name.
Keep = Callable[[np.ndarray], str]
Fetch = Callable[[str], np.ndarray]


def encode(value: Any, owner: str, keep: Keep) -> Any:
    """A value as JSON; what plain JSON cannot hold becomes an object with one key."""
    if isinstance(value, np.ndarray) and value.ndim:
        return _encode_array(value, owner, keep)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return {"numpy": [value.dtype.str, encode(value.item(), owner, keep)]}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(part, owner, keep) for part in value]}
    if isinstance(value, list):
        return [encode(part, owner, keep) for part in value]
    raise UsageError(
        f"{owner} is {value!r} of type {type(value).__name__}, which a model file cannot hold: only numbers, "
        "text, True, False, None, lists and tuples of them, and arrays of numbers or text."
    )


def _encode_array(array: np.ndarray, owner: str, keep: Keep) -> dict[str, str]:
    if array.dtype.kind in "biufU":
        return {"array": keep(array)}
    if array.dtype == object and all(isinstance(value, str) for value in array.flat):
        return {"objects": keep(array.astype(np.str_))}
    raise UsageError(
        f"{owner} is an array of {array.dtype} or of mixed Python types, which a model file cannot hold: use "
        "text, numbers or booleans."
    )


def decode(value: Any, fetch: Fetch) -> Any:
    """The value that `encode` was given; ValueError for anything that it does not write."""
    if isinstance(value, list):
        return [decode(part, fetch) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return fetch(content)
    if kind == "objects":
        return fetch(content).astype(object)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(decode(part, fetch) for part in content)
    if kind == "numpy" and isinstance(content, list) and np.dtype(content[0]).kind in "biuf":
        return np.dtype(content[0]).type(decode(content[1], fetch))
    raise ValueError(f"{value!r} is not a stored value")
