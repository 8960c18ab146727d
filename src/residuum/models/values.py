"""What a model is made of, as it is stored: arrays as .npy; parameters, labels and notes as JSON.

Each comes back with the same values of the same types.
"""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataFormatError, ModelFileError, UsageError
from residuum.models.container import Bytes, Pieces
from residuum.system.npy import read_npy

_ARRAY_DTYPES = {np.dtype(code) for code in ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")}
# Labels of these kinds of dtype are stored: booleans, integers, floats, text, and objects that are text.
_LABEL_KINDS = "biufUO"
_MAX_LABEL_BYTES = 2**28


def array_pieces(array: Any) -> Pieces:
    """Header and data of the .npy file of an array; its memory order is kept."""
    array = np.asarray(array)
    if array.dtype.newbyteorder("<") not in _ARRAY_DTYPES:
        raise TypeError(f"arrays of {array.dtype} are not stored")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
    flat = array.ravel(order="A").view(np.uint8) if array.size else b""
    return (header.getvalue(), memoryview(flat))


def read_array(path: Path, name: str, data: Bytes) -> np.ndarray:
    """The array that a .npy member holds, a view of `data`; nothing is allocated."""
    try:
        array = read_npy(data, len(data), f"{path}, member {name}")
    except DataFormatError as error:
        raise ModelFileError(str(error)) from error
    if array.dtype not in _ARRAY_DTYPES:
        raise ModelFileError(f"{path}, member {name}: expected plain numbers. Got {array.dtype}.")
    return array


def encode(value: Any, owner: str) -> Any:
    """A parameter as JSON; what plain JSON cannot hold becomes an object with one key."""
    if isinstance(value, np.generic):
        if value.dtype.kind not in "biuf":
            raise UsageError(f"{owner} is {value!r}, which a model file cannot hold.")
        return {"numpy": [value.dtype.str, encode(value.item(), owner)]}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [encode(part, owner) for part in value]}
    if isinstance(value, list):
        return [encode(part, owner) for part in value]
    raise UsageError(
        f"{owner} is {value!r} of type {type(value).__name__}, which a model file cannot hold: only numbers, "
        "text, True, False, None, and lists and tuples of them."
    )


def decode(value: Any) -> Any:
    """The value that `encode` was given; ValueError for anything that it does not write."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(decode(part) for part in content)
    if kind == "numpy" and isinstance(content, list) and len(content) == 2:
        dtype = np.dtype(content[0])
        if dtype.kind in "biuf":
            return dtype.type(decode(content[1]))
    raise ValueError(f"{value!r} is not a stored value")


def encode_labels(labels: np.ndarray, owner: str) -> dict[str, Any]:
    """The dtype and the values of a vector of labels or of column names."""
    values = labels.tolist()
    if labels.dtype.kind not in _LABEL_KINDS or labels.nbytes > _MAX_LABEL_BYTES:
        raise UsageError(
            f"{owner} has labels of type {labels.dtype}, which a model file cannot hold: use text, integers, "
            "floats or booleans."
        )
    if labels.dtype == object and not all(isinstance(value, str) for value in values):
        raise UsageError(
            f"{owner} has labels of mixed Python types, which a model file cannot hold: use text or numbers."
        )
    return {"dtype": labels.dtype.str, "values": values}


def decode_labels(stored: Any) -> np.ndarray:
    """The vector that `encode_labels` was given; ValueError for anything that it does not write."""
    if not isinstance(stored, dict) or set(stored) != {"dtype", "values"}:
        raise ValueError("labels are not a dtype with values")
    dtype, values = np.dtype(stored["dtype"]), stored["values"]
    wanted = {"b": bool, "i": int, "u": int, "f": float, "U": str, "O": str}.get(dtype.kind)
    if wanted is None or not isinstance(values, list) or not all(type(value) is wanted for value in values):
        raise ValueError(f"labels of {dtype} do not have the type that was stored")
    if dtype.itemsize * len(values) > _MAX_LABEL_BYTES:
        raise ValueError(f"{len(values)} labels of {dtype} are too large")
    labels = np.array(values, dtype=dtype)
    if labels.tolist() != values:
        raise ValueError(f"labels do not fit into {dtype}")
    return labels


def plain_json(value: Any, owner: str) -> Any:
    """Free notes as JSON: numpy numbers and arrays become plain ones, tuples lists; the rest is refused."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise UsageError(f"{owner} must have text as keys. Got {key!r}.")
        return {key: plain_json(part, f"{owner}[{key!r}]") for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(part, f"{owner}[{i}]") for i, part in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{owner} is {value}, which JSON cannot hold. Use None or text.")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise UsageError(f"{owner} must be JSON: text, numbers, lists, dicts. Got {type(value).__name__}.")
