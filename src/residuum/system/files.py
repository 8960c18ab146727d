"""Files that are written whole or not at all, and their checksums."""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any


@contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """Open a binary file that takes the place of `path` when the block ends without an error.

    A reader, an interruption or a full disk finds the old file or the new one, never a part: the bytes go to
    a temporary file in the same folder, which is flushed to the disk and then renamed.
    """
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(8)}.part")
    try:
        with temporary.open("x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
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
