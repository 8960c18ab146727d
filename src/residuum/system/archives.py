"""Extraction that cannot write outside its target, nor fill the disk.

An archive is refused as a whole when it holds anything but plain files and folders, a name that leads
outside, the same name twice, too many members, too many bytes, or bytes out of proportion to its own size.
Everything goes to a temporary folder beside the target first and is renamed at the end, so that a failed
extraction leaves nothing behind.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import stat
import struct
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import IO, Any, NoReturn, cast

from residuum.errors import ArchiveError

_CHUNK = 2**20
# What tarfile, zipfile and the decompressors raise on damaged bytes.
_DAMAGE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, ValueError,
    RuntimeError, MemoryError, OverflowError, OSError,
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """What an archive may hold at most."""

    members: int = 100_000
    total_bytes: int = 8 * 2**30
    ratio: float = 200.0  # extracted bytes per byte of archive
    ratio_free_bytes: int = 16 * 2**20  # below this total the ratio is not looked at


def open_compressed(path: Path) -> IO[bytes]:
    """Open a plain, gzip, bzip2 or xz file, told apart by content and not by name."""
    with path.open("rb") as stream:
        magic = stream.read(6)
    openers: list[tuple[bytes, Callable[..., Any]]] = [
        (b"\x1f\x8b", gzip.open),
        (b"BZh", bz2.open),
        (b"\xfd7zXZ\x00", lzma.open),
    ]
    for prefix, opener in openers:
        if magic.startswith(prefix):
            return cast(IO[bytes], opener(path, "rb"))
    return path.open("rb")


class _Members:
    """Members of an archive that were found harmless; raises at the first that is not."""

    def __init__(self, archive: Path, limits: Limits) -> None:
        self.archive, self.limits = archive, limits
        self.archive_bytes = max(archive.stat().st_size, 1)
        self.n_bytes = 0
        self.seen: set[str] = set()

    def add(self, name: str, size: int, *, plain: bool) -> None:
        """Check one member; `plain` says that it is a file or a folder."""
        parts = name.replace("\\", "/").split("/")
        outside = name.startswith(("/", "\\")) or ".." in parts or PureWindowsPath(name).drive
        if outside or not name.strip("/.") or "\0" in name or "\\" in name:
            self.refuse(f"the member {name!r} leads outside the target")
        if not plain:
            self.refuse(f"the member {name!r} is a link or device; data sets hold files and folders only")
        # Case and composed characters are folded because some file systems do not tell them apart.
        key = unicodedata.normalize("NFC", name.rstrip("/")).casefold()
        if key in self.seen:
            self.refuse(f"the member {name!r} occurs twice")
        self.seen.add(key)
        self.n_bytes += size
        if len(self.seen) > self.limits.members:
            self.refuse(f"more than {self.limits.members} members")
        if size < 0 or self.n_bytes > self.limits.total_bytes:
            self.refuse(f"more than {self.limits.total_bytes} bytes")
        ratio = self.n_bytes / self.archive_bytes
        if self.n_bytes > self.limits.ratio_free_bytes and ratio > self.limits.ratio:
            self.refuse(f"expands more than {self.limits.ratio:g} times, which no data set does")

    def check_some(self) -> None:
        """Refuse an archive without members."""
        if not self.seen:
            self.refuse("holds nothing")

    def refuse(self, reason: str) -> NoReturn:
        raise ArchiveError(f"{self.archive}: {reason}. Nothing was extracted.")


class _Stream:
    """A decompressed stream that refuses a single read so large that only a forged header asks for it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= 16 * _CHUNK:
            raise tarfile.ReadError(f"a header asks for {size} bytes at once")
        return self.stream.read(size)

    def seek(self, position: int, whence: int = 0) -> int:
        return self.stream.seek(position, whence)

    def tell(self) -> int:
        return self.stream.tell()


def _extract_tar(archive: Path, folder: Path, limits: Limits) -> None:
    if not hasattr(tarfile, "data_filter"):
        raise ArchiveError("Safe extraction needs Python 3.11.4 or newer.")
    checked = _Members(archive, limits)
    members: list[tarfile.TarInfo] = []
    with (
        open_compressed(archive) as stream,
        tarfile.open(fileobj=cast(Any, _Stream(stream)), mode="r:") as tar,
    ):
        for member in tar:
            if member.name == "." and member.isdir():
                continue
            plain = (member.isreg() and not member.issparse()) or member.isdir()
            checked.add(member.name, member.size, plain=plain)
            members.append(member)
        checked.check_some()
        for member in members:  # a second pass, so that a refused archive never touches the disk
            tar.extract(member, folder, filter="data")


def _directory_bytes(archive: Path) -> int:
    """Size of the central directory of a zip file; zipfile reads all of it into memory."""
    with archive.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        start = max(0, size - 2**16 - 22)
        stream.seek(start)
        tail = stream.read()
        end = tail.rfind(b"PK\x05\x06")
        if end < 0 or len(tail) < end + 22:
            raise ArchiveError(f"{archive}: not a zip file, or truncated.")
        declared = struct.unpack_from("<L", tail, end + 12)[0]
        if declared != 0xFFFFFFFF:
            return int(declared)
        locator = tail.rfind(b"PK\x06\x07", 0, end)
        if locator < 0:
            raise ArchiveError(f"{archive}: damaged zip directory.")
        stream.seek(struct.unpack_from("<Q", tail, locator + 8)[0])
        record = stream.read(56)
        if len(record) < 56 or not record.startswith(b"PK\x06\x06"):
            raise ArchiveError(f"{archive}: damaged zip directory.")
        return int(struct.unpack_from("<Q", record, 40)[0])


def check_zip(archive: Path, limits: Limits | None = None) -> list[zipfile.ZipInfo]:
    """Members of a zip file, after every name, kind and size has been found harmless."""
    limits = limits or Limits()
    checked = _Members(archive, limits)
    if _directory_bytes(archive) > 512 * limits.members:
        checked.refuse(f"more than {limits.members} members")
    with zipfile.ZipFile(archive) as source:
        members = source.infolist()
    for info in members:
        kind = stat.S_IFMT(info.external_attr >> 16)
        checked.add(info.filename, info.file_size, plain=kind in (0, stat.S_IFREG, stat.S_IFDIR))
        if info.flag_bits & 0x1:
            checked.refuse(f"the member {info.filename!r} is encrypted")
    checked.check_some()
    return members


def _extract_zip(archive: Path, folder: Path, limits: Limits) -> None:
    members = check_zip(archive, limits)
    with zipfile.ZipFile(archive) as source:
        for info in members:
            target = folder / info.filename
            if info.is_dir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with source.open(info) as stream, target.open("xb") as out:
                shutil.copyfileobj(stream, out, _CHUNK)


def safe_extract(archive: Path, target: Path, *, limits: Limits | None = None) -> Path:
    """Extract a zip or tar archive (plain, gzip, bzip2, xz) into a new folder.

    Parameters
    ----------
    archive : Path
        The kind is told from the content, not from the name.
    target : Path
        Folder to create; it must not exist.
    limits : Limits, optional
        Caps on members, bytes and expansion.

    Returns
    -------
    Path
        `target`.

    Raises
    ------
    ArchiveError
        When the archive is damaged or unsafe; nothing is left behind.
    """
    limits = limits or Limits()
    if target.exists():
        raise ArchiveError(f"{target} exists already. Remove it, or choose another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix=".extract-"))
    try:
        with archive.open("rb") as stream:
            is_zip = stream.read(2) == b"PK"
        (_extract_zip if is_zip else _extract_tar)(archive, work, limits)
        work.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        work.rename(target)
    except ArchiveError:
        raise
    except _DAMAGE as error:
        raise ArchiveError(f"{archive}: cannot be extracted: {error}. Nothing was left behind.") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target
