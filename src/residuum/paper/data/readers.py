"""Strict readers of the file formats that data sets come in.

Every reader checks what a header declares against a limit before it allocates, and against the bytes that
follow before it returns. Whatever is wrong ends in DataFormatError, which names the file, what was expected
and what was found.
"""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError

Array = npt.NDArray[Any]

MAX_BYTES = 256 * 2**20  # no array of any supported data set comes near
MAX_LINE = 2**16
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, ValueError, NotImplementedError)


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn whatever the standard library raises on damaged bytes into DataFormatError."""
    try:
        yield
    except DataFormatError:
        raise
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise DataFormatError(f"{path}: cannot be read as {what}: {error.strerror}.") from error
    except (*_DAMAGE, MemoryError, OverflowError, KeyError, TypeError, RecursionError) as error:
        raise DataFormatError(
            f"{path}: damaged or not {what}: {error}. Get a fresh copy; 'residuum data verify' checks the "
            "files of data sets."
        ) from error


def open_compressed(path: Path) -> IO[bytes]:
    """Open a plain, gzip, bzip2 or xz file, told apart by content and not by name."""
    with path.open("rb") as stream:
        magic = stream.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    if magic.startswith(b"BZh"):
        return cast(IO[bytes], bz2.open(path, "rb"))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return cast(IO[bytes], lzma.open(path, "rb"))
    return path.open("rb")


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Array of unsigned bytes from an idx file, plain or compressed."""
    with reading(path, "an idx file"), open_compressed(path) as stream:
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


_PGM_HEAD = re.compile(rb"P5(?:\s|#[^\n]{0,200}\n)+(\d{1,5})(?:\s|#[^\n]{0,200}\n)+(\d{1,5})\s+(\d{1,5})\s")


def read_pgm(content: bytes, where: str, *, max_side: int = 4096, pad: bool = False) -> npt.NDArray[np.uint8]:
    """One 8-bit grey image (height, width) from the bytes of a binary PGM (P5) file.

    With `pad`, missing pixels at the end become 0 instead of an error, for images known to be damaged.
    """
    match = _PGM_HEAD.match(content[:2048])
    if match is None:
        raise DataFormatError(f"{where}: not a binary PGM image: expected 'P5 width height maxval'.")
    width, height, maximum = (int(group) for group in match.groups())
    if not (0 < width <= max_side and 0 < height <= max_side and 0 < maximum <= 255):
        raise DataFormatError(
            f"{where}: the PGM header declares {height}x{width}, maxval {maximum}; "
            f"expected sides of 1 to {max_side} and a maxval of 1 to 255."
        )
    data = content[match.end() :]
    missing = height * width - len(data)
    if missing > 0 and pad:
        data += bytes(missing)
    elif missing > 0 or -missing >= width:  # a line end may follow the pixels, a row of pixels may not
        raise DataFormatError(
            f"{where}: the PGM header declares {height * width} pixels, the file holds {len(data)}."
        )
    return np.frombuffer(data, dtype=np.uint8, count=height * width).reshape(height, width)


def _lines(stream: IO[bytes], path: Path) -> Iterator[tuple[int, str]]:
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


def read_lines(path: Path, *, max_rows: int) -> list[str]:
    """Lines of a text file without blank ones and without blanks at either end."""
    with reading(path, "a text file"), path.open("rb") as stream:
        lines = []
        for _, text in _lines(stream, path):
            lines.append(text)
            _check_rows(path, len(lines), max_rows)
    _check_rows(path, len(lines), max_rows)
    return lines


def read_libsvm(path: Path, n_features: int, *, max_rows: int) -> tuple[Array, Array]:
    """Dense values (n_rows, n_features) and labels from a file of lines ``label index:value ...``."""
    rows: list[npt.NDArray[np.float32]] = []
    labels: list[float] = []
    with reading(path, "a LIBSVM file"), open_compressed(path) as stream:
        for number, text in _lines(stream, path):
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
            _check_rows(path, len(rows), max_rows)
    _check_rows(path, len(rows), max_rows)
    return np.stack(rows), np.array(labels)


def read_table(path: Path, n_columns: int, *, max_rows: int) -> npt.NDArray[np.float32]:
    """Numbers separated by blanks, (n_rows, n_columns), plain or compressed."""
    rows: list[npt.NDArray[np.float32]] = []
    with reading(path, "a table of numbers"), open_compressed(path) as stream:
        for number, text in _lines(stream, path):
            row = np.array(text.split(), dtype=np.float32)
            if len(row) != n_columns:
                raise DataFormatError(f"{path}, line {number}: expected {n_columns} numbers, got {len(row)}.")
            rows.append(row)
            _check_rows(path, len(rows), max_rows)
    _check_rows(path, len(rows), max_rows)
    return np.stack(rows)


def _check_rows(path: Path, n_rows: int, max_rows: int) -> None:
    if not 0 < n_rows <= max_rows:
        got = "none" if n_rows == 0 else "more"
        raise DataFormatError(f"{path}: expected 1 to {max_rows} rows, got {got}.")


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
    with reading(path, "a dense ARFF file"), open_compressed(path) as stream:
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
    with reading(path, "an .npz file"), zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        missing = [key for key in keys if f"{key}.npy" not in members]
        if missing:
            found = ", ".join(sorted(name.removesuffix(".npy") for name in members)[:20]) or "none"
            raise DataFormatError(f"{path}: expected the arrays {', '.join(keys)}; got {found}.")
        wanted = [*keys, *(key for key in optional if f"{key}.npy" in members)]
        return {key: _read_npy(archive, members[f"{key}.npy"], f"{path}, array '{key}'") for key in wanted}


def _read_npy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> Array:
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise DataFormatError(f"{where}: .npy version {version} is not supported.")
        n_bytes = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or dtype.kind not in "biufU":
            raise DataFormatError(f"{where}: expected numbers or text, got dtype {dtype}.")
        if not 0 < n_bytes <= MAX_BYTES or info.file_size - stream.tell() != n_bytes:
            raise DataFormatError(
                f"{where}: the header declares {shape} of {dtype}, {n_bytes} bytes; "
                f"the file holds {info.file_size - stream.tell()} (at most {MAX_BYTES} are read)."
            )
        content = stream.read(n_bytes + 1)  # one more than declared makes zipfile check the CRC
    if len(content) != n_bytes:
        raise DataFormatError(f"{where}: expected {n_bytes} bytes, got {len(content)}.")
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def mat_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the variables of a MATLAB file, without reading them."""
    from scipy.io import whosmat

    with path.open("rb") as stream:
        head = stream.read(128)
    if b"MATLAB 7.3" in head or head.startswith(b"\x89HDF"):
        raise DataFormatError(f"{path}: saved with -v7.3 (HDF5). Open it in MATLAB and save it with -v7.")
    with reading(path, "a MATLAB file"):
        return {name: tuple(int(n) for n in shape) for name, shape, _ in _guard(whosmat, str(path))}


def read_mat(path: Path, keys: Sequence[str]) -> dict[str, Array]:
    """Numeric variables of a MATLAB file (version 4 to 7)."""
    from scipy.io import loadmat

    shapes = mat_shapes(path)
    missing = [key for key in keys if key not in shapes]
    if missing:
        raise DataFormatError(
            f"{path}: expected the variables {', '.join(keys)}; "
            f"got {', '.join(sorted(shapes)[:20]) or 'none'}."
        )
    for key in keys:
        if not 0 < math.prod(shapes[key]) * 8 <= MAX_BYTES:
            raise DataFormatError(f"{path}: variable '{key}' declares {shapes[key]}, which is not plausible.")
    with reading(path, "a MATLAB file"):
        content = _guard(loadmat, str(path), variable_names=list(keys))
        arrays = {key: np.asarray(content[key]) for key in keys}
    for key, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise DataFormatError(f"{path}: variable '{key}' holds {array.dtype}, expected numbers.")
    return arrays


def read_struct(path: Path, variable: str, fields: Sequence[str]) -> dict[str, list[Any]]:
    """Fields of a MATLAB struct array, each with one number or text per element."""
    from scipy.io import loadmat

    shapes = mat_shapes(path)
    if variable not in shapes or not 0 < math.prod(shapes[variable]) <= 10**6:
        raise DataFormatError(f"{path}: expected the struct array '{variable}', got {shapes or 'nothing'}.")
    with reading(path, "a MATLAB file"):
        array = _guard(loadmat, str(path), variable_names=[variable])[variable].ravel()
        missing = [field for field in fields if field not in (array.dtype.names or ())]
        if missing:
            raise DataFormatError(f"{path}: '{variable}' lacks the field {', '.join(missing)}.")
        return {field: [np.asarray(value).ravel()[0].item() for value in array[field]] for field in fields}


def read_cell(path: Path, variable: str) -> list[str]:
    """Texts of a MATLAB cell array."""
    from scipy.io import loadmat

    shapes = mat_shapes(path)
    if variable not in shapes or not 0 < math.prod(shapes[variable]) <= 10**6:
        raise DataFormatError(f"{path}: expected the cell array '{variable}', got {shapes or 'nothing'}.")
    with reading(path, "a MATLAB file"):
        array = _guard(loadmat, str(path), variable_names=[variable])[variable].ravel()
        return [str(np.asarray(value).ravel()[0]) for value in array]


def _guard(function: Any, *arguments: Any, **options: Any) -> Any:
    """Call scipy's MATLAB reader, which raises nearly anything on damaged bytes."""
    try:
        return function(*arguments, **options)
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
