"""Named members with their SHA-256, in one zip file or one folder, that open only as they were written.

Members are stored, never compressed, so that an array can be mapped from where it lies. Three seals:

    manifest.json     size and SHA-256 of every other member
    manifest.sha256   SHA-256 of manifest.json
    zip comment       SHA-256 of all the bytes of the file before the 64 digits of this one

They find damage and careless edits. They are no signature: whoever rewrites all three can write any model.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

import residuum
from residuum.errors import DataNotFoundError, ModelFileError, UsageError

FORMAT = "residuum-model"
FORMAT_VERSION = 1
MANIFEST, SEAL = "manifest.json", "manifest.sha256"

Bytes = npt.NDArray[np.uint8]
# What a member is written from: pieces in order.
Pieces = tuple[Any, ...]

_COMMENT = b"residuum model, sha256 "
_HEX = 64
_NAME = re.compile(r"[a-z0-9_]+(-[a-z0-9_]+)*\.(json|npy|sha256)")
_MAX_MEMBERS = 1000
_MAX_JSON = 2**28
_ALIGN = 64
_PADDING_FIELD = 0xD935  # the extra field by which zipalign pads
_DATE = (1980, 1, 1, 0, 0, 0)  # the same model makes the same bytes


def write_container(path: Path, members: Mapping[str, Pieces], *, as_folder: bool) -> None:
    """Write all members beside `path`, then rename: a reader sees the old model or the new one."""
    listed = {name: {"size": _size(pieces), "sha256": _sha256(*pieces)} for name, pieces in members.items()}
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "residuum": residuum.__version__,
        "members": listed,
    }
    text = json.dumps(manifest, indent=1, sort_keys=True).encode()
    whole = {MANIFEST: (text,), SEAL: (_sha256(text).encode(),), **members}
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    try:
        if as_folder:
            _write_folder(scratch, whole)
            _swap_folder(scratch, path)
        else:
            _write_zip(scratch, whole)
            scratch.replace(path)
    except OSError as error:
        raise UsageError(f"{path}: the model cannot be written: {error.strerror or error}.") from error
    finally:
        if scratch.is_dir():
            shutil.rmtree(scratch, ignore_errors=True)
        else:
            scratch.unlink(missing_ok=True)


def _write_folder(scratch: Path, members: Mapping[str, Pieces]) -> None:
    scratch.mkdir()
    for name, pieces in members.items():
        with (scratch / name).open("xb") as file:
            for piece in pieces:
                file.write(piece)
            _flush(file)


def _swap_folder(scratch: Path, path: Path) -> None:
    if not path.exists():
        scratch.rename(path)
        return
    old = scratch.with_suffix(".old")
    path.rename(old)
    scratch.rename(path)
    shutil.rmtree(old)


def _write_zip(scratch: Path, members: Mapping[str, Pieces]) -> None:
    with scratch.open("x+b") as file:
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
        length = file.seek(0, os.SEEK_END)
        file.seek(0)
        digest = _stream_sha256(file, length - _HEX)
        file.seek(length - _HEX)
        file.write(digest.encode())
        _flush(file)


def _padding(start: int) -> bytes:
    """An extra field that moves the data of a member to a multiple of 64 bytes."""
    rest = -(start + 4) % _ALIGN
    return struct.pack("<HH", _PADDING_FIELD, rest) + bytes(rest)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def read_container(path: Path, *, mmap: bool) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Manifest and the bytes of the other members, all of them verified; mapped from disk if asked for."""
    if not path.exists():
        raise DataNotFoundError(f"{path}: there is no such model file or folder. Check the path.")
    if path.suffix.lower() in (".pkl", ".pickle", ".joblib"):
        raise ModelFileError(_pickle_text(path))
    members = _folder_members(path, mmap) if path.is_dir() else _zip_members(path, mmap)
    return _verified(path, members)


def _folder_members(path: Path, mmap: bool) -> dict[str, Bytes]:
    if not (path / MANIFEST).is_file():
        raise ModelFileError(
            f"{path}: a folder without {MANIFEST} is not a model. Pass what save_model has written."
        )
    entries = sorted(path.iterdir())
    if len(entries) > _MAX_MEMBERS:
        raise ModelFileError(
            f"{path}: a model folder holds at most {_MAX_MEMBERS} files. Got {len(entries)}."
        )
    for entry in entries:
        _check_name(path, entry.name)
        if entry.is_symlink() or not entry.is_file():
            raise ModelFileError(f"{path}: {entry.name} is not an ordinary file. Save the model again.")
    return {entry.name: _load(entry, mmap) for entry in entries}


def _zip_members(path: Path, mmap: bool) -> dict[str, Bytes]:
    if not path.is_file():
        raise ModelFileError(f"{path}: is not an ordinary file. Pass a model file or folder.")
    with path.open("rb") as file:
        start = file.read(4)
    if start[:1] == b"\x80" and start[1:2] <= b"\x08":
        raise ModelFileError(_pickle_text(path))
    if start != b"PK\x03\x04":
        raise ModelFileError(f"{path}: is not a residuum model file. Pass what save_model has written.")
    data = _load(path, mmap)
    comment = data[-_HEX - len(_COMMENT) :].tobytes()
    if not comment.startswith(_COMMENT):
        raise ModelFileError(
            f"{path}: has no seal at its end: it is cut off, or was not written by save_model. "
            "Get a fresh copy, or save the model again."
        )
    if _sha256(data[:-_HEX]).encode() != comment[-_HEX:]:
        raise ModelFileError(f"{path}: its bytes are not those that were written. {_FRESH}")
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except Exception as error:  # zipfile raises a dozen types on hostile directories
        raise ModelFileError(f"{path}: is not a readable zip file: {error}. {_FRESH}") from error
    return _slices(path, data, infos)


def _slices(path: Path, data: Bytes, infos: list[zipfile.ZipInfo]) -> dict[str, Bytes]:
    """The bytes of every member where they lie; anything that save_model does not write is refused."""
    members: dict[str, Bytes] = {}
    end = 0
    if len(infos) > _MAX_MEMBERS:
        raise ModelFileError(f"{path}: holds {len(infos)} members, more than {_MAX_MEMBERS}.")
    for info in infos:
        _check_name(path, info.filename)
        if info.filename in members:
            raise ModelFileError(f"{path}: holds two members called {info.filename}. {_FRESH}")
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits or info.file_size != info.compress_size:
            raise ModelFileError(f"{path}: the member {info.filename} is compressed or encrypted. {_FRESH}")
        head = data[info.header_offset : info.header_offset + 30].tobytes()
        if len(head) < 30 or head[:4] != b"PK\x03\x04" or info.header_offset < end:
            raise ModelFileError(f"{path}: the member {info.filename} is not where it should be. {_FRESH}")
        start = info.header_offset + 30 + sum(struct.unpack("<HH", head[26:]))
        end = start + info.file_size
        if end > len(data):
            raise ModelFileError(f"{path}: the member {info.filename} reaches beyond the file. {_FRESH}")
        members[info.filename] = data[start:end]
    return members


def _verified(path: Path, members: dict[str, Bytes]) -> tuple[dict[str, Any], dict[str, Bytes]]:
    for name in (MANIFEST, SEAL):
        if name not in members:
            raise ModelFileError(f"{path}: holds no {name}. Pass what save_model has written.")
    text = members.pop(MANIFEST)
    if _sha256(text).encode() != members.pop(SEAL).tobytes():
        raise ModelFileError(f"{path}: {MANIFEST} was changed after the model was saved. {_FRESH}")
    manifest = parse_json(path, MANIFEST, text)
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
        if listed[name] != {"size": len(data), "sha256": _sha256(data)}:
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
        return json.loads(data.tobytes(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: {name} is not valid JSON: {error}.") from error


def is_model_folder(path: Path) -> bool:
    """Whether a folder may be replaced by a model: it is empty or holds one."""
    return path.is_dir() and ((path / MANIFEST).is_file() or not any(path.iterdir()))


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not allowed")


def _check_name(path: Path, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ModelFileError(f"{path}: holds {name!r}, which no model file contains. {_FRESH}")


def _load(path: Path, mmap: bool) -> Bytes:
    try:
        if mmap and path.stat().st_size:
            return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        return np.fromfile(path, dtype=np.uint8)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}.") from error


def _pickle_text(path: Path) -> str:
    return (
        f"{path}: is a pickle, and opening one can run any program it carries, so residuum does not. "
        "Load it where you trust it and write it with residuum.save_model."
    )


def _size(pieces: Pieces) -> int:
    return sum(memoryview(piece).nbytes for piece in pieces)


def _sha256(*pieces: Any) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _stream_sha256(file: IO[bytes], length: int) -> str:
    digest = hashlib.sha256()
    while length:
        block = file.read(min(length, 2**20))
        digest.update(block)
        length -= len(block)
    return digest.hexdigest()


_FRESH = "Get a fresh copy, or save the model again."
