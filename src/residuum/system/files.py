"""Files: written whole or not at all, their checksums, text of any encoding, arrays from .npy and .npz files.

Of arrays, no pickle is opened, and no declared size is taken on trust.
"""

from __future__ import annotations

import errno
import hashlib
import io
import math
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, TextIO

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError, ResiduumError, UsageError, WriteError
from residuum.system.machine import free_memory

Array = npt.NDArray[Any]

# What a disk says that has no room left, at all or for this user, or that is broken.
_DISK_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_MAX_RATIO = 200  # of an array's bytes to those in the file
_FREE_BYTES = 64 * 2**20  # an array of this size is read whatever its ratio
_MAX_HEADER = 10_000  # bytes; NumPy's own limit for headers of untrusted files


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of `path` when the block ends without an error.

    A reader, an interruption or a full disk finds the old file or the new one, never a part: the bytes go to
    a temporary file in the same folder, which is flushed to the disk and then renamed. A full disk is a
    WriteError that names `path`.
    """
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}.part")
    try:
        with temporary.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _DISK_FAILURES:
            raise WriteError(error.errno, error.strerror, str(path)) from error
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    with written_whole(path) as file:
        file.write(text.encode("utf-8"))


def file_digest(path: Path, kind: str = "sha256") -> str:
    """Checksum of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def sha256(*pieces: Any) -> str:
    """SHA-256 of the bytes of these pieces, one after the other, in hexadecimal digits."""
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


class FileContent:
    """The content of a file that is on no disk, with what readers ask of a path; `name` is for messages."""

    def __init__(self, name: str, content: bytes) -> None:
        self.name, self._content = name, content

    def __str__(self) -> str:
        return self.name

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self._content)

    def open(self, mode: str = "r", *, encoding: str | None = None, newline: str | None = None) -> Any:
        """A stream of bytes for the mode "rb", else of text."""
        raw = io.BytesIO(self._content)
        return raw if mode == "rb" else io.TextIOWrapper(raw, encoding=encoding, newline=newline)

    def read_bytes(self) -> bytes:
        """All of it."""
        return self._content


@contextmanager
def opened_text(path: Path | FileContent, encoding: str) -> Iterator[TextIO]:
    """Open a file as text; whatever is wrong with its bytes becomes an error that names the line."""
    with path.open("rb") as raw:
        start = raw.read(4)
    if start[:4] == b"PK\x03\x04":
        raise DataFormatError(
            f"{path} is a zip or a spreadsheet, not text. Name a workbook .xlsx, or save it as CSV."
        )
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"
    elif encoding.lower().replace("_", "-") in ("utf-8", "utf8"):
        encoding = "utf-8-sig"
    try:
        stream = path.open(encoding=encoding, newline="")
    except LookupError:
        raise UsageError(f"--encoding {encoding!r} is not known to Python.") from None
    with stream:
        try:
            yield stream
        except UnicodeError:
            raise DataFormatError(_encoding_problem(path, encoding)) from None


def _encoding_problem(path: Path | FileContent, encoding: str) -> str:
    where, content = str(path), path.read_bytes()
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = error.start - content.rfind(b"\n", 0, error.start)
        where = f"{path}, line {line}, byte {byte}: 0x{content[error.start]:02x}"
    return (
        f"{where} is not {encoding.removesuffix('-sig')}. Save the file as UTF-8, or say what it is, such as "
        "--encoding latin-1."
    )


def without_nul(path: Path | FileContent, stream: TextIO) -> Iterator[str]:
    """The lines of a file; a NUL byte in one of them is an error."""
    for i, line in enumerate(stream, 1):
        if "\x00" in line:
            raise DataFormatError(
                f"{path}, line {i}, character {line.index(chr(0)) + 1}: a NUL byte. This is no text table, "
                "or it is damaged."
            )
        yield line


@contextmanager
def naming_damage(where: str | Path, what: str) -> Iterator[None]:
    """Turn whatever a library raises on damaged bytes into one DataFormatError that names the file."""
    try:
        yield
    except ResiduumError:
        raise
    except Exception as error:  # NumPy, SciPy and the decompressors raise nearly anything
        reason = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
        raise DataFormatError(f"{where}: damaged or not {what}: {reason.splitlines()[0]}.") from error


def view_npy(content: Array, where: str) -> Array:
    """The array of numbers or text in the bytes of an .npy file, a view of them; errors name `where`."""
    with naming_damage(where, "an .npy array"):
        stream = io.BytesIO(content[: 2 * _MAX_HEADER].tobytes())
        shape, fortran, dtype = _header(stream, len(content), where)
        return content[stream.tell() :].view(dtype).reshape(shape, order="F" if fortran else "C")


def _header(stream: IO[bytes], size: int, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type of an array; they must account for all the bytes that there are."""
    major, minor = np.lib.format.read_magic(stream)
    read = getattr(np.lib.format, f"read_array_header_{major}_{minor}", None)  # there are 1.0 and 2.0
    if read is None:
        raise DataFormatError(f"{where}: .npy version {major}.{minor} is not supported.")
    shape, fortran, dtype = read(stream, max_header_size=_MAX_HEADER)
    if dtype.hasobject:
        raise DataFormatError(
            f"{where}: holds Python objects, which only a pickle can store, and pickles are not read. Save "
            "text labels with y.astype(str)."
        )
    if dtype.kind not in "biufUS" or not dtype.itemsize:
        raise DataFormatError(f"{where}: expected numbers or text. Got {dtype}.")
    declared, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if min(shape, default=0) < 0 or declared != there:
        raise DataFormatError(
            f"{where}: the header declares {shape} of {dtype}, {declared} bytes; got {there}."
        )
    return shape, fortran, dtype


@contextmanager
def open_npz(path: Path, *, max_bytes: int | None = None) -> Iterator[dict[str, Callable[[], Array]]]:
    """Open an .npz file as a dict from the names of its arrays to functions that read them.

    An array of more than `max_bytes` is refused; None means what fits into the free memory. So are two arrays
    of one name, and a large one that expands more than 200 times, since only a file made to fill the memory
    does.
    """
    with naming_damage(path, "an .npz file"):
        archive = zipfile.ZipFile(path)

    def read(info: zipfile.ZipInfo, name: str) -> Array:
        where, limit = f"{path}, array '{name}'", max_bytes or free_memory() or 2**36
        if info.file_size > limit:
            raise DataFormatError(
                f"{where}: {info.file_size / 2**30:.1f} GiB are more than the {limit / 2**30:.1f} GiB that "
                "can be read here."
            )
        if info.file_size > max(_FREE_BYTES, _MAX_RATIO * info.compress_size):
            raise DataFormatError(
                f"{where}: {info.compress_size} bytes expand to {info.file_size}, more than {_MAX_RATIO} "
                "times, which is taken for an attack. If the array is what it should be, save it with "
                "numpy.savez, which does not compress."
            )
        with naming_damage(where, "an .npy array"):
            with archive.open(info) as stream:
                _header(stream, info.file_size, where)
            with archive.open(info) as stream:
                array = np.lib.format.read_array(stream, allow_pickle=False)
                stream.read(1)  # zipfile verifies the checksum when it is asked for more than there is
                return array

    with archive:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name, ending = os.path.splitext(info.filename)  # noqa: PTH122  (no path, and a NUL is allowed)
            if ending == ".npy" and name in members:
                raise DataFormatError(f"{path}: two arrays are called '{name}'. Save the file again.")
            if ending == ".npy":
                members[name] = info
        yield {name: partial(read, info, name) for name, info in members.items()}
