"""Arrays as .npy members: plain numbers, read only once their declared shape fits the bytes."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from residuum.errors import ModelFileError
from residuum.models.container import Bytes, Pieces

_DTYPES = {np.dtype(code) for code in ("<f4", "<f8", "<i4", "<i8", "|u1", "|b1")}
_HEAD = 4096  # bytes; our own headers have 128


def array_pieces(array: Any) -> Pieces:
    """Header and data of the .npy file of an array; its memory order is kept."""
    array = np.asarray(array)
    if array.dtype.newbyteorder("<") not in _DTYPES:
        raise TypeError(f"arrays of {array.dtype} are not stored")
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        array = np.ascontiguousarray(array)
    header = io.BytesIO()
    npy.write_array_header_1_0(header, npy.header_data_from_array_1_0(array))
    flat = array.ravel(order="A").view(np.uint8) if array.size else b""
    return (header.getvalue(), memoryview(flat))


def read_array(path: Path, name: str, data: Bytes) -> np.ndarray:
    """The array that a .npy member holds, a view of `data`; nothing is allocated."""
    head = io.BytesIO(data[:_HEAD].tobytes())
    try:
        if npy.read_magic(head) != (1, 0):
            raise ValueError("its version is not 1.0")
        shape, fortran, dtype = npy.read_array_header_1_0(head, max_header_size=_HEAD)
        if dtype not in _DTYPES:
            raise ValueError(f"its type {dtype} is not one of plain numbers")
        rest = len(data) - head.tell()
        if any(n < 0 for n in shape) or math.prod(shape) * dtype.itemsize != rest:
            raise ValueError(f"it declares the shape {shape} of {dtype}, but {rest} bytes follow")
        return data[head.tell() :].view(dtype).reshape(shape, order="F" if fortran else "C")
    except (ValueError, TypeError, OverflowError, RecursionError, SyntaxError, MemoryError) as error:
        raise ModelFileError(f"{path}: {name} is not an array that can be read: {error}.") from error
