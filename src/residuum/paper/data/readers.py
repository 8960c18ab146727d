"""Strict readers of the file formats that data sets come in.

Every reader checks what a header declares against a limit before it allocates, and against the bytes that
follow before it returns. Whatever is wrong ends in DataFormatError, which names the file, what was expected
and what was found.
"""

from __future__ import annotations

import io
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.system.archives import open_compressed
from residuum.system.npy import naming_damage, open_npz

Array = npt.NDArray[Any]

MAX_BYTES = 256 * 2**20  # no array of any supported data set comes near
MAX_LINE = 2**16
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
        if len(head) < 4 or head[:2] != b"\x00\x00" or head[2] != 0x08 or not 1 <= head[3] <= 3:
            raise DataFormatError(
                f"{path}: not an idx file of unsigned bytes: expected the magic bytes 00 00 08 and 1 to 3 "
                f"dimensions, got {head.hex(' ') or 'an empty file'}."
            )
        sizes = stream.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise DataFormatError(f"{path}: truncated inside the idx header.")
        shape = tuple(int(n) for n in np.frombuffer(sizes, dtype=">u4"))
        n_bytes = math.prod(shape)
        if not 0 < n_bytes <= MAX_BYTES:
            raise DataFormatError(
                f"{path}: the idx header declares {shape}, {n_bytes} bytes; expected 1 to {MAX_BYTES} bytes."
            )
        content = stream.read(n_bytes + 1)
    if len(content) != n_bytes:
        raise DataFormatError(
            f"{path}: the idx header declares {n_bytes} bytes of data, "
            f"got {'more' if len(content) > n_bytes else len(content)}."
        )
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


def _lines(stream: IO[bytes], path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without blank ones and without blanks at either end."""
    for number in itertools.count(1):
        line = stream.readline(MAX_LINE)
        if not line:
            return
        if len(line) == MAX_LINE:
            raise DataFormatError(f"{path}, line {number}: longer than {MAX_LINE} bytes.")
        try:
            text = line.decode("ascii").strip()
        except UnicodeDecodeError:
            raise DataFormatError(f"{path}, line {number}: not text.") from None
        if text:
            yield number, text


def _check_rows(path: Path, n_rows: int, max_rows: int) -> None:
    if not 0 < n_rows <= max_rows:
        got = "none" if n_rows == 0 else "more"
        raise DataFormatError(f"{path}: expected 1 to {max_rows} rows, got {got}.")


def _rows(path: Path, what: str, max_rows: int) -> Iterator[tuple[int, str]]:
    """The lines of a whole file, of which there must be 1 to `max_rows`."""
    n_rows = 0
    with naming_damage(path, what), open_compressed(path) as stream:
        for row in _lines(stream, path):
            n_rows += 1
            _check_rows(path, n_rows, max_rows)
            yield row
    _check_rows(path, n_rows, max_rows)


def read_lines(path: Path, *, max_rows: int) -> list[str]:
    """Lines of a text file without blank ones and without blanks at either end."""
    return [text for _, text in _rows(path, "a text file", max_rows)]


def read_libsvm(path: Path, n_features: int, *, max_rows: int) -> tuple[Array, Array]:
    """Dense values (n_rows, n_features) and labels from a file of lines ``label index:value ...``."""
    rows: list[npt.NDArray[np.float32]] = []
    labels: list[float] = []
    with naming_damage(path, "a LIBSVM file"):
        for number, text in _rows(path, "a LIBSVM file", max_rows):
            label, *pairs = text.split()
            if text.count(":") != len(pairs) or ":" in label:
                raise DataFormatError(f"{path}, line {number}: expected 'label index:value index:value ...'.")
            entries = np.array([float(word) for word in ":".join(pairs).split(":")] if pairs else [])
            index = entries[0::2].astype(np.int64)
            if len(index) and (index[0] < 1 or index[-1] > n_features or (np.diff(index) <= 0).any()):
                raise DataFormatError(f"{path}, line {number}: indices must rise within 1..{n_features}.")
            row = np.zeros(n_features, dtype=np.float32)
            row[index - 1] = entries[1::2]
            rows.append(row)
            labels.append(float(label))
    return np.stack(rows), np.array(labels)


def read_table(path: Path, n_columns: int, *, max_rows: int) -> npt.NDArray[np.float32]:
    """Numbers separated by blanks, (n_rows, n_columns), plain or compressed."""
    rows: list[npt.NDArray[np.float32]] = []
    with naming_damage(path, "a table of numbers"):
        for number, text in _rows(path, "a table of numbers", max_rows):
            row = np.array(text.split(), dtype=np.float32)
            if len(row) != n_columns:
                raise DataFormatError(f"{path}, line {number}: expected {n_columns} numbers, got {len(row)}.")
            rows.append(row)
    return np.stack(rows)


def read_arff(
    path: Path, n_features: int, *, max_rows: int, dtype: npt.DTypeLike = np.float32
) -> tuple[Array, Array]:
    """Values (n_rows, n_features) and labels of a dense ARFF file whose last attribute is the class.

    Rows are parsed and narrowed to `dtype` a block at a time: a reader that keeps Python objects needs
    gigabytes for MNIST.
    """
    n_attributes = n_rows = 0
    values: list[Array] = []
    labels: list[Array] = []
    with naming_damage(path, "a dense ARFF file"), open_compressed(path) as stream:
        lines = (text for _, text in _lines(stream, path) if not text.startswith("%"))
        for text in lines:
            word = text.split(None, 1)[0].lower()
            n_attributes += word == "@attribute"
            if word == "@data":
                break
        if n_attributes != n_features + 1:
            raise DataFormatError(
                f"{path}: expected {n_features} attributes and the class, got {n_attributes} attributes."
            )
        while block := list(itertools.islice(lines, 2000)):
            n_rows += len(block)
            _check_rows(path, n_rows, max_rows)
            table = np.loadtxt(block, delimiter=",", dtype=np.float64, ndmin=2, quotechar="'", comments=None)
            if table.shape[1] != n_attributes:
                raise DataFormatError(
                    f"{path}: expected rows of {n_attributes} values, got {table.shape[1]}."
                )
            with np.errstate(invalid="ignore"):
                values.append(table[:, :-1].astype(dtype))
            labels.append(table[:, -1].copy())  # a view would keep the whole block
            if np.dtype(dtype).kind in "iu" and not np.array_equal(values[-1], table[:, :-1]):
                raise DataFormatError(f"{path}: expected values of type {np.dtype(dtype)}, got others.")
    _check_rows(path, n_rows, max_rows)
    return np.concatenate(values), np.concatenate(labels)


def read_npz(path: Path, keys: Sequence[str], *, optional: Sequence[str] = ()) -> dict[str, Array]:
    """Arrays of an .npz file; no pickled objects, and no size taken on trust."""
    with open_npz(path, max_bytes=MAX_BYTES) as arrays:
        missing = [key for key in keys if key not in arrays]
        if missing:
            found = ", ".join(sorted(arrays)[:20]) or "none"
            raise DataFormatError(f"{path}: expected the arrays {', '.join(keys)}; got {found}.")
        return {key: arrays[key]() for key in (*keys, *optional) if key in arrays}


def mat_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the variables of a MATLAB file, without reading them."""
    # `residuum.inputs` takes a second to import; listing data sets must not wait for it.
    from residuum.inputs import matlab

    return matlab.mat_shapes(path)


def _read_variables(path: Path, names: Sequence[str]) -> dict[str, Any]:
    from residuum.inputs import matlab

    return matlab.read_mat(path, names, max_bytes=MAX_BYTES)


def read_mat(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """Numeric variables of a MATLAB file (version 4 to 7)."""
    arrays = {name: np.asarray(value) for name, value in _read_variables(path, names).items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise DataFormatError(f"{path}: variable '{name}' holds {array.dtype}, expected numbers.")
    return arrays


def read_struct(path: Path, variable: str, fields: Sequence[str]) -> dict[str, list[Any]]:
    """Fields of a MATLAB struct array, each with one number or text per element."""
    with naming_damage(path, f"a MATLAB file with the struct array '{variable}'"):
        array = _read_variables(path, (variable,))[variable].ravel()
        missing = [field for field in fields if field not in (array.dtype.names or ())]
        if missing:
            raise DataFormatError(f"{path}: '{variable}' lacks the field {', '.join(missing)}.")
        return {field: [_only(value).item() for value in array[field]] for field in fields}


def read_cell(path: Path, variable: str) -> list[str]:
    """Texts of a MATLAB cell array."""
    with naming_damage(path, f"a MATLAB file with the cell array '{variable}'"):
        array = _read_variables(path, (variable,))[variable].ravel()
        return [str(_only(value)) for value in array]


def _only(value: Any) -> Any:
    content = np.asarray(value).ravel()
    if not content.size:
        raise ValueError("an element is empty")
    return content[0]
