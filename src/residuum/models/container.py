"""Named members with their SHA-256 in one zip file that opens only as it was written.

Members are stored, never compressed, so that an array can be mapped from where it lies. Two seals:

    manifest.json   size and SHA-256 of every other member
    zip comment     SHA-256 of all the bytes of the file before the 64 digits of this one

They find damage and careless edits. They are no signature: whoever rewrites both can write any model.
"""

from __future__ import annotations

import json
import mmap as memory_map
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

import residuum
from residuum.errors import DataNotFoundError, ModelFileError, UsageError
from residuum.system.files import sha256, written_whole

FORMAT = "residuum-model"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"

Bytes = npt.NDArray[np.uint8]
# The buffers that a member is written from, in order.
Pieces = tuple[Any, ...]

_COMMENT = b"residuum model, sha256 "
_HEX = 64
_NAME = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*\.(json|npy)")
_MAX_MEMBERS = 1000
_MAX_JSON = 2**28
_ALIGN = 64
_PADDING_FIELD = 0xD935  # the extra field by which zipalign pads
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same bytes
_FRESH = "Get a fresh copy, or save the model again."


def write_container(path: Path, members: Mapping[str, Pieces]) -> None:
    """Write all members and their manifest; a reader of `path` sees the old model or the new one."""
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "residuum": residuum.__version__,
        "members": {
            name: {"size": _size(pieces), "sha256": sha256(*pieces)} for name, pieces in members.items()
        },
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    try:
        with written_whole(path) as file:
            _write_zip(file, {MANIFEST: (text,), **members})
            _seal(file)
    except OSError as error:
        raise UsageError(f"{path}: the model cannot be written: {error.strerror or error}.") from error


def _size(pieces: Pieces) -> int:
    return sum(memoryview(piece).nbytes for piece in pieces)


def _write_zip(file: IO[bytes], members: Mapping[str, Pieces]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = _COMMENT + b"0" * _HEX
        for name, pieces in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.external_attr = 0o644 << 16
            info.file_size = _size(pieces)
            large = info.file_size > 2**31 - 2**10
            info.extra = _padding(file.tell() + 30 + len(name) + (20 if large else 0))
            with archive.open(info, "w", force_zip64=large) as target:
                for piece in pieces:
                    target.write(piece)


def _padding(start: int) -> bytes:
    """An extra field that moves the data of a member to a multiple of 64 bytes."""
    rest = -(start + 4) % _ALIGN
    return struct.pack("<HH", _PADDING_FIELD, rest) + bytes(rest)


def _seal(file: IO[bytes]) -> None:
    """Replace the zeros at the end of the file by the SHA-256 of all the bytes before them."""
    file.flush()
    with (
        memory_map.mmap(file.fileno(), 0, access=memory_map.ACCESS_READ) as content,
        memoryview(content) as view,
        view[:-_HEX] as covered,
    ):
        digest = sha256(covered)
        length = len(covered)
    file.seek(length)
    file.write(digest.encode())


def read_container(path: Path, *, mmap: bool) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Manifest and the bytes of the other members, all of them verified; mapped from disk if asked for."""
    if not path.exists():
        raise DataNotFoundError(f"{path}: there is no such model file. Check the path.")
    data = _load(path, mmap)
    comment = data[-_HEX - len(_COMMENT) :].tobytes()
    if not comment.startswith(_COMMENT):
        raise ModelFileError(
            f"{path}: has no seal at its end: it is cut off, or was not written by save_model. {_FRESH}"
        )
    if sha256(data[:-_HEX]).encode() != comment[-_HEX:]:
        raise ModelFileError(f"{path}: its bytes are not those that were written. {_FRESH}")
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except Exception as error:  # zipfile raises a dozen types on hostile directories
        raise ModelFileError(f"{path}: is not a readable zip file: {error}. {_FRESH}") from error
    return _verified(path, _members(path, data, infos))


def _load(path: Path, mmap: bool) -> Bytes:
    """The bytes of a file that begins like one of ours."""
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
        if mmap:
            return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        return np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}.") from error


def _members(path: Path, data: Bytes, infos: list[zipfile.ZipInfo]) -> dict[str, Bytes]:
    """The bytes of every member where they lie; anything that save_model does not write is refused."""
    members: dict[str, Bytes] = {}
    end = 0
    if len(infos) > _MAX_MEMBERS:
        raise ModelFileError(f"{path}: holds {len(infos)} members, more than {_MAX_MEMBERS}.")
    for info in infos:
        name = info.filename
        if not _NAME.fullmatch(name):
            raise ModelFileError(f"{path}: holds {name!r}, which no model file contains. {_FRESH}")
        if name in members:
            raise ModelFileError(f"{path}: holds two members called {name}. {_FRESH}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits or info.file_size != info.compress_size:
            raise ModelFileError(f"{path}: the member {name} is compressed or encrypted. {_FRESH}")
        head = data[info.header_offset : info.header_offset + 30].tobytes()
        if len(head) < 30 or head[:4] != b"PK\x03\x04" or info.header_offset < end:
            raise ModelFileError(f"{path}: the member {name} is not where it should be. {_FRESH}")
        start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:]))
        end = start + info.file_size
        if end > len(data):
            raise ModelFileError(f"{path}: the member {name} reaches beyond the file. {_FRESH}")
        members[name] = data[start:end]
    return members


def _verified(path: Path, members: dict[str, Bytes]) -> tuple[dict[str, Any], dict[str, Bytes]]:
    if MANIFEST not in members:
        raise ModelFileError(f"{path}: holds no {MANIFEST}. Pass what save_model has written.")
    manifest = parse_json(path, MANIFEST, members.pop(MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ModelFileError(f"{path}: {MANIFEST} does not describe a residuum model.")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION or isinstance(version, bool):
        raise ModelFileError(
            f"{path}: has format version {version!r}, written by residuum {manifest.get('residuum')!r}. "
            f"This is residuum {residuum.__version__}, which reads version {FORMAT_VERSION}. "
            "Update residuum, or save the model again with this one."
        )
    listed = manifest.get("members")
    if not isinstance(listed, dict) or set(listed) != set(members):
        raise ModelFileError(f"{path}: does not hold exactly the members of its {MANIFEST}. {_FRESH}")
    for name, data in members.items():
        if listed[name] != {"size": len(data), "sha256": sha256(data)}:
            raise ModelFileError(
                f"{path}: the member {name} is not the one that was saved: its size or SHA-256 differs. "
                f"{_FRESH}"
            )
    return manifest, members


def parse_json(path: Path, name: str, data: Bytes) -> Any:
    """The JSON text of a member."""
    if len(data) > _MAX_JSON:
        raise ModelFileError(f"{path}: {name} is larger than {_MAX_JSON} bytes.")
    try:
        return json.loads(data.tobytes(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: {name} is not valid JSON: {error}.") from error


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not allowed")
