"""Strict readers of the file formats that data sets come in.

Every reader checks what a header declares against a limit before it allocates, and against the bytes that
follow before it returns. Whatever is wrong ends in DataFormatError, which names the file, what was expected
and what was found.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.system.archives import open_compressed
from residuum.system.files import naming_damage, open_npz

Array = npt.NDArray[Any]

MAX_BYTES = 256 * 2**20  # no array of any supported data set comes near
MAX_TEXT = 64 * 2**20  # nor any text file; the largest is USPS, unpacked
MAX_SIDE = 4096


def whole(path: Path, labels: Array) -> npt.NDArray[np.int64]:
    """Labels as integers; they must be integers already, whatever their type."""
    with np.errstate(invalid="ignore"):
        integers = labels.astype(np.int64) if labels.dtype.kind in "biuf" else None
    if integers is None or not np.array_equal(integers, labels):
        raise DataFormatError(f"{path}: labels must be whole numbers.")
    return integers


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Array of unsigned bytes from an idx file, plain or compressed."""
    with naming_damage(path, "an idx file"), open_compressed(path) as stream:
        head = stream.read(4)
        if len(head) < 4 or head[:3] != b"\x00\x00\x08" or not 1 <= head[3] <= 3:
            raise DataFormatError(
                f"{path}: not an idx file of unsigned bytes: expected the magic bytes 00 00 08 and 1 to 3 "
                f"dimensions, got {head.hex(' ') or 'an empty file'}."
            )
        shape = np.frombuffer(stream.read(4 * head[3]), dtype=">u4").tolist()
        n_bytes = math.prod(shape)
        if not 0 < n_bytes <= MAX_BYTES:
            raise DataFormatError(
                f"{path}: the idx header declares {shape}, {n_bytes} bytes; expected 1 to {MAX_BYTES} bytes."
            )
        content = stream.read(n_bytes + 1)
    if len(content) != n_bytes:
        got = "more" if len(content) > n_bytes else len(content)
        raise DataFormatError(f"{path}: the idx header declares {n_bytes} bytes of data, got {got}.")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)


def read_picture(source: Path | bytes, where: str) -> npt.NDArray[np.uint8]:
    """Pixels of an image file, (height, width) if it is grey and (height, width, 3) if not."""
    from PIL import Image

    with naming_damage(where, "an image"):
        try:
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
                if max(image.size) > MAX_SIDE:
                    raise DataFormatError(
                        f"{where}: {image.size} pixels; expected at most {MAX_SIDE} a side."
                    )
                return np.asarray(image if image.mode == "L" else image.convert("RGB"))
        except Image.DecompressionBombError as error:
            raise DataFormatError(f"{where}: {error}") from error


def _read_text(path: Path) -> bytes:
    with open_compressed(path) as stream:
        content = stream.read(MAX_TEXT + 1)
    if len(content) > MAX_TEXT:
        raise DataFormatError(f"{path}: longer than {MAX_TEXT} bytes.")
    return content


def read_lines(path: Path) -> list[str]:
    """Lines of a text file without blank ones and without blanks at either end; there must be one."""
    with naming_damage(path, "a text file"):
        stripped = (line.strip() for line in _read_text(path).decode("ascii").splitlines())
        lines = [line for line in stripped if line]
    if not lines:
        raise DataFormatError(f"{path}: expected lines of text, got none.")
    return lines


def read_libsvm(path: Path, n_features: int) -> tuple[Array, Array]:
    """Dense values (n_rows, n_features) and labels from a file of lines ``label index:value ...``."""
    from sklearn.datasets import load_svmlight_file

    with naming_damage(path, "a LIBSVM file"):
        values, labels = load_svmlight_file(
            io.BytesIO(_read_text(path)), n_features=n_features, dtype=np.float32, zero_based=False
        )
        return values.toarray(), labels


def read_npz(path: Path, keys: Sequence[str], *, optional: Sequence[str] = ()) -> dict[str, Array]:
    """Arrays of an .npz file; no pickled objects, and no size taken on trust."""
    with open_npz(path, max_bytes=MAX_BYTES) as arrays:
        missing = [key for key in keys if key not in arrays]
        if missing:
            found = ", ".join(sorted(arrays)[:20]) or "none"
            raise DataFormatError(f"{path}: expected the arrays {', '.join(keys)}; got {found}.")
        return {key: arrays[key]() for key in (*keys, *optional) if key in arrays}


def _read_variables(path: Path, names: Sequence[str]) -> dict[str, Any]:
    # `residuum.inputs` takes a second to import; listing data sets must not wait for it.
    from residuum.inputs import matlab

    return matlab.read_mat(path, names, max_bytes=MAX_BYTES)


def read_mat(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Numeric variables of a MATLAB file (version 4 to 7)."""
    arrays = {name: np.asarray(value) for name, value in _read_variables(path, names).items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise DataFormatError(f"{path}: variable '{name}' holds {array.dtype}, expected numbers.")
    return arrays


def read_objects(path: Path, variable: str, *fields: str) -> list[list[Any]]:
    """The texts or numbers in a MATLAB cell array, or in each of these fields of a struct array."""
    with naming_damage(path, f"a MATLAB file with '{variable}'"):
        array = _read_variables(path, (variable,))[variable].ravel()
        missing = [field for field in fields if field not in (array.dtype.names or ())]
        if missing:
            raise DataFormatError(f"{path}: '{variable}' lacks the field {', '.join(missing)}.")
        columns = [array[field] for field in fields] or [array]
        return [[np.asarray(value).ravel()[:1].item() for value in column] for column in columns]
