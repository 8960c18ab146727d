"""Extraction that cannot write outside its target, nor fill the disk.

An archive is refused as a whole when it holds anything but plain files and folders, a name that leads
outside, the same name twice, too many members, too many bytes, or bytes out of proportion to its own size.
Everything goes to a temporary folder beside the target first and is renamed at the end, so that a failed
extraction leaves nothing behind.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import shutil
import stat
import struct
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import IO, Any

from residuum.errors import ArchiveError

_OPENERS: dict[bytes, Callable[..., Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
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
    opener: Callable[..., Any] = next((_OPENERS[m] for m in _OPENERS if magic.startswith(m)), open)
    return opener(path, "rb")


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
    if target.exists():
        raise ArchiveError(f"{target} exists already. Remove it, or choose another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(dir=target.parent, prefix=".extract-"))
    try:
        with archive.open("rb") as stream:
            is_zip = stream.read(2) == b"PK"
        (_extract_zip if is_zip else _extract_tar)(archive, work, limits or Limits())
        work.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        work.rename(target)
    except _DAMAGE as error:
        raise ArchiveError(f"{archive}: {error}. Nothing was extracted.") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _check(members: Iterable[tuple[str, int, bool]], archive_bytes: int, limits: Limits) -> None:
    """ValueError at the first member (name, size, whether it is a file or folder) that is not harmless."""
    seen: set[str] = set()
    total = 0
    for name, size, plain in members:
        outside = name.startswith("/") or PureWindowsPath(name).drive or ".." in name.split("/")
        if outside or not name or "\\" in name or "\0" in name:
            raise ValueError(f"the member {name!r} leads outside the target")
        if not plain:
            raise ValueError(f"the member {name!r} is a link or device, not a file or folder")
        # Case and composed characters are folded because some file systems do not tell them apart.
        key = unicodedata.normalize("NFC", name.rstrip("/")).casefold()
        if key in seen:
            raise ValueError(f"the member {name!r} occurs twice")
        seen.add(key)
        total += size
        if len(seen) > limits.members:
            raise ValueError(f"more than {limits.members} members")
        if size < 0 or total > limits.total_bytes:
            raise ValueError(f"more than {limits.total_bytes} bytes")
        if total > max(limits.ratio_free_bytes, limits.ratio * archive_bytes):
            raise ValueError(f"expands more than {limits.ratio:g} times, which no data set does")
    if not seen:
        raise ValueError("holds nothing")


class _Stream(io.BufferedReader):
    """A stream that refuses a single read so large that only a forged header asks for it."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= 2**24:
            raise tarfile.ReadError(f"a header asks for {size} bytes at once")
        return super().read(size)


def _extract_tar(archive: Path, folder: Path, limits: Limits) -> None:
    stream: Any = open_compressed(archive)
    with _Stream(stream) as checked, tarfile.open(fileobj=checked, mode="r:") as tar:
        # All members are checked before the first is extracted: a refused archive never touches the disk.
        members = (
            (member.name, member.size, (member.isreg() and not member.issparse()) or member.isdir())
            for member in tar
        )
        _check(members, archive.stat().st_size, limits)
        tar.extractall(folder, filter="data")


def _extract_zip(archive: Path, folder: Path, limits: Limits) -> None:
    if _directory_bytes(archive) > 512 * limits.members:
        raise ValueError(f"more than {limits.members} members")
    with zipfile.ZipFile(archive) as source:
        kinds = (0, stat.S_IFREG, stat.S_IFDIR)
        members = (
            (info.filename, info.file_size, stat.S_IFMT(info.external_attr >> 16) in kinds)
            for info in source.infolist()
        )
        _check(members, archive.stat().st_size, limits)
        source.extractall(folder)


def _directory_bytes(archive: Path) -> int:
    """Size of the central directory of a zip file; zipfile reads all of it into memory."""
    with archive.open("rb") as stream:
        stream.seek(max(0, archive.stat().st_size - 2**16 - 42))
        tail = stream.read()
    end = tail.rfind(b"PK\x05\x06")
    if end < 0 or b"PK\x06\x07" in tail[max(0, end - 20) : end]:
        raise ValueError("not a zip file, truncated, or of the kind zip64, which is not read")
    return int(struct.unpack_from("<L", tail, end + 12)[0])
