"""Named members in one zip file that opens only as it was written.

Members are stored, never compressed, so that an array can be mapped from where it lies. The zip comment ends
in a seal: the SHA-256 of the whole file with zeros in the place of its 64 digits. It finds damage and
careless edits. It is no signature: whoever computes it anew can write any model.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataNotFoundError, ModelFileError, UsageError
from residuum.system.files import sha256, written_whole

Bytes = npt.NDArray[np.uint8]
Content = bytes | npt.NDArray[Any]

_COMMENT = b"residuum model, sha256 "
_BLANK = b"0" * 64
_ALIGN = 64
_PADDING_FIELD = 0xD935  # the extra field by which zipalign pads
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same bytes
_FRESH = "Get a fresh copy, or save the model again."


def write_container(path: Path, members: Mapping[str, Content]) -> None:
    """Write bytes as they are and arrays as .npy; a reader of `path` sees the old model or the new one."""
    try:
        with written_whole(path) as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                archive.comment = _COMMENT + _BLANK
                for name, content in members.items():
                    _write_member(archive, file.tell(), name, content)
            file.seek(0)
            seal = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
            file.seek(-len(_BLANK), os.SEEK_END)
            file.write(seal.encode())
    except OSError as error:
        raise UsageError(f"{path}: the model cannot be written: {error.strerror or error}.") from error


def _write_member(archive: zipfile.ZipFile, position: int, name: str, content: Content) -> None:
    """Write a member whose data begin at a multiple of 64 bytes."""
    info = zipfile.ZipInfo(name, _DATE)
    info.external_attr = 0o644 << 16
    large = (len(content) if isinstance(content, bytes) else content.nbytes) > 2**31 - 2**20
    padding = -(position + 30 + len(name) + (20 if large else 0) + 4) % _ALIGN
    info.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=large) as target:
        if isinstance(content, bytes):
            target.write(content)
        else:
            np.lib.format.write_array(target, content, allow_pickle=False)


def read_container(path: Path, *, mmap: bool) -> dict[str, Bytes]:
    """The bytes of every member where they lie in the file, mapped from disk if asked for."""
    data = _load(path, mmap)
    n_digits = len(_BLANK)
    comment = data[-n_digits - len(_COMMENT) :].tobytes()
    if not comment.startswith(_COMMENT):
        raise ModelFileError(
            f"{path}: has no seal at its end: it is cut off, or was not written by save_model. {_FRESH}"
        )
    if sha256(data[:-n_digits], _BLANK).encode() != comment[-n_digits:]:
        raise ModelFileError(f"{path}: its bytes are not those that were written. {_FRESH}")
    members: dict[str, Bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.filename in members:
                    raise ValueError(f"two members are called {info.filename}")
                if info.compress_type != zipfile.ZIP_STORED or info.flag_bits:
                    raise ValueError(f"the member {info.filename!r} is compressed or encrypted")
                start = info.header_offset + 30
                start += sum(struct.unpack("<HH", data[start - 4 : start].tobytes()))
                members[info.filename] = data[start : start + info.file_size]
    except Exception as error:  # zipfile raises a dozen types on hostile directories
        raise ModelFileError(f"{path}: is not a zip file of save_model: {error}. {_FRESH}") from error
    return members


def _load(path: Path, mmap: bool) -> Bytes:
    """The bytes of a file that begins like one of ours."""
    if not path.exists():
        raise DataNotFoundError(f"{path}: there is no such model file. Check the path.")
    if not path.is_file():
        raise ModelFileError(
            f"{path}: is not a model file but a folder or a device. Pass what save_model has written."
        )
    try:
        with path.open("rb") as file:
            start = file.read(4)
        is_pickle = start[:1] == b"\x80" and start[1:2] <= b"\x08"
        if is_pickle or path.suffix.lower() in (".pkl", ".pickle", ".joblib"):
            raise ModelFileError(
                f"{path}: is a pickle, and opening one can run any program it carries, so residuum does not. "
                "Load it where you trust it and write it with residuum.save_model."
            )
        if start != b"PK\x03\x04":
            raise ModelFileError(f"{path}: is not a residuum model file. Pass what save_model has written.")
        return np.asarray(np.memmap(path, np.uint8, mode="r")) if mmap else np.fromfile(path, np.uint8)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}.") from error
