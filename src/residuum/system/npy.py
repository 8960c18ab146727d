"""Arrays from .npy and .npz content: no pickle is opened, and no declared size is taken on trust."""

from __future__ import annotations

import io
import lzma
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError, ResiduumError
from residuum.system.machine import free_memory

Array = npt.NDArray[Any]

MAX_HEADER = 10_000  # bytes; NumPy's own limit for headers of untrusted files
_HEADERS: Mapping[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_BLOCK = 2**24
# What NumPy, zipfile and the decompressors raise on damaged bytes.
_DAMAGE = (
    OSError, ValueError, TypeError, EOFError, KeyError, SyntaxError, RecursionError, MemoryError,
    OverflowError, RuntimeError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


@contextmanager
def naming_damage(where: str | Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged bytes into one DataFormatError that names the file."""
    try:
        yield
    except ResiduumError:
        raise
    except _DAMAGE as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        raise DataFormatError(f"{where}: damaged or not {what}: {reason}.") from error


def read_npy(source: IO[bytes] | Array, size: int, where: str, *, max_bytes: int | None = None) -> Array:
    """The array that .npy content holds: numbers or text, never Python objects.

    Parameters
    ----------
    source : binary stream or ndarray of uint8
        The content. An array is not copied: the result is a view of it. A stream is read to its end, where
        zipfile verifies the checksum.
    size : int
        Number of bytes of the whole content. The shape in the header must account for all of them before
        anything is allocated.
    where : str
        Name of the content in errors.
    max_bytes : int or None, default=None
        The largest array that is read from a stream; None means what fits into the free memory.

    Raises
    ------
    DataFormatError
        If the content is anything else than one whole array of numbers or text.
    """
    with naming_damage(where, "an .npy array"):
        stream = io.BytesIO(source[: 2 * MAX_HEADER].tobytes()) if isinstance(source, np.ndarray) else source
        shape, fortran, dtype = _header(stream, where)
        start = stream.tell()
        n_bytes = math.prod(shape) * dtype.itemsize
        if any(n < 0 for n in shape) or size - start != n_bytes:
            raise DataFormatError(
                f"{where}: the header declares {shape} of {dtype}, {n_bytes} bytes; got {size - start}."
            )
        if isinstance(source, np.ndarray):
            flat = source[start:].view(dtype)
        else:
            flat = _read_flat(source, dtype, n_bytes, where, max_bytes)
        return flat.reshape(shape, order="F" if fortran else "C")


def _header(stream: IO[bytes], where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise DataFormatError(f"{where}: .npy version {version} is not supported.")
    shape, fortran, dtype = _HEADERS[version](stream, max_header_size=MAX_HEADER)
    if dtype.hasobject:
        raise DataFormatError(
            f"{where}: holds Python objects, which only a pickle can store, and pickles are not read. Save "
            "text labels with y.astype(str)."
        )
    if dtype.kind not in "biufUS":
        raise DataFormatError(f"{where}: expected numbers or text. Got {dtype}.")
    return shape, fortran, dtype


def _read_flat(
    stream: IO[bytes], dtype: np.dtype[Any], n_bytes: int, where: str, max_bytes: int | None
) -> Array:
    if max_bytes is None:
        max_bytes = free_memory() or 2**36
    if n_bytes > max_bytes:
        raise DataFormatError(
            f"{where}: {n_bytes / 2**30:.1f} GiB are more than the {max_bytes / 2**30:.1f} GiB that can be "
            "read here."
        )
    content = np.empty(n_bytes, dtype=np.uint8)
    done = 0
    while done < n_bytes:
        got = stream.readinto(content.data[done : done + _BLOCK])  # type: ignore[attr-defined]
        if not got:
            raise DataFormatError(f"{where}: truncated after {done} of {n_bytes} bytes.")
        done += got
    stream.read(1)  # zipfile verifies the checksum when it is asked for more than there is
    return content.view(dtype)


@contextmanager
def open_npz(path: Path, *, max_bytes: int | None = None) -> Iterator[dict[str, Callable[[], Array]]]:
    """Open an .npz file as a dict from the names of its arrays to functions that read them."""
    with naming_damage(path, "an .npz file"):
        archive = zipfile.ZipFile(path)
    with archive:

        def reader(info: zipfile.ZipInfo, name: str) -> Callable[[], Array]:
            def read() -> Array:
                where = f"{path}, array '{name}'"
                with naming_damage(where, "an .npy array"), archive.open(info) as stream:
                    return read_npy(stream, info.file_size, where, max_bytes=max_bytes)

            return read

        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        names = [info.filename.removesuffix(".npy") for info in members]
        yield {name: reader(info, name) for name, info in zip(names, members, strict=True)}
