"""Downloads that end in a complete, checked file or in an error that says what was tried.

A file is written to ``NAME.part`` and renamed when size and checksums are right. An interrupted transfer
goes on where it stopped. All addresses are tried in turn, several times.
"""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residuum.errors import DownloadError
from residuum.system.files import file_digest
from residuum.system.locks import locked
from residuum.system.progress import tell_progress

_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zip": b"PK\x03\x04"}  # tells an error page from a file
_MAX_BYTES = 4 * 2**30  # for files whose size is not known
_MIN_RATE = 64  # bytes per second; a slower trickle counts as a stall
_LATER = (408, 429, *range(500, 600))  # states of a server that may pass


@dataclass(frozen=True)
class RemoteFile:
    """One downloadable file; `urls` are tried in order, and whatever arrives must match every known value."""

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    unpack_to: str | None = None  # folder beside the file, when the file is an archive

    @property
    def has_checksum(self) -> bool:
        """Whether a checksum is known, so that the origin of the bytes does not matter."""
        return self.sha256 is not None or self.md5 is not None


@dataclass(frozen=True)
class Policy:
    """How patient a download is."""

    timeout: float = 15.0  # seconds without a byte
    attempts: int = 3  # per address
    backoff: float = 1.0  # seconds before the second round of attempts, doubled each time


class _Failure(Exception):
    """One attempt failed; with `final`, the same address would fail again."""

    def __init__(self, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.final = final


def check_file(path: Path, remote: RemoteFile) -> str | None:
    """None when `path` agrees with every declared value, else what was expected and found."""
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"size: expected {remote.size} bytes, got {size}"
    for kind, expected in (("sha256", remote.sha256), ("md5", remote.md5)):
        if expected is not None:
            got = file_digest(path, kind)
            if got != expected:
                return f"{kind}: expected {expected}, got {got}"
    magic = _MAGIC.get(Path(remote.name).suffix, b"")
    with path.open("rb") as stream:
        head = stream.read(len(magic))
    return None if head == magic else f"content: expected a file that begins with {magic!r}, got {head!r}"


def download(remote: RemoteFile, folder: Path, *, policy: Policy | None = None) -> Path:
    """Fetch one file into `folder`, unless a correct copy is there already.

    Parameters
    ----------
    remote : RemoteFile
        Name, addresses and the values that the content must match.
    folder : Path
        Created when missing. Several processes may ask for the same file: one downloads, the others wait.
    policy : Policy, optional
        Time limit and number of attempts.

    Returns
    -------
    Path
        The complete, checked file.

    Raises
    ------
    DownloadError
        With one line per address that was tried. An existing correct file is never harmed.
    """
    target = folder / remote.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f".{remote.name}.lock"):
            if target.exists() and check_file(target, remote) is None:
                return target
            return _from_any_address(remote, target, policy or Policy())
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(
            f"Cannot write {target}: {error.strerror or error}. Free some space or choose another data home."
        ) from error


def _from_any_address(remote: RemoteFile, target: Path, policy: Policy) -> Path:
    part = target.with_name(target.name + ".part")
    urls = list(remote.urls)
    failures: list[str] = []
    for attempt in range(policy.attempts):
        if attempt and urls:
            time.sleep(policy.backoff * 2 ** (attempt - 1))
        for url in tuple(urls):
            if not remote.has_checksum:
                part.unlink(missing_ok=True)  # bytes of unknown origin cannot be continued
            try:
                _transfer(url, part, remote, policy.timeout)
                part.replace(target)
                return target
            except _Failure as failure:
                failures.append(f"{url}: {failure}")
                if failure.final:
                    urls.remove(url)
    if not remote.has_checksum:
        part.unlink(missing_ok=True)
    lines = "\n".join(f"  {line}" for line in dict.fromkeys(failures)) or "  no address is known"
    raise DownloadError(
        f"Could not download {remote.name}. Tried:\n{lines}\n"
        f"Download the file by other means, put it into {target.parent} and run 'residuum data verify'."
    )


def _transfer(url: str, part: Path, remote: RemoteFile, timeout: float) -> None:
    """Write or complete `part`, and check it; a file that is wrong is removed."""
    have = part.stat().st_size if part.exists() else 0
    limit = _MAX_BYTES if remote.size is None else remote.size
    resumed = 0 < have < limit
    with _open(url, have if resumed else 0, timeout) as response:
        if not (resumed and response.status == 206):
            resumed, have = False, 0
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            part.unlink()
            raise _Failure("the server continued at a wrong position")
        length = response.headers.get("Content-Length", "")
        total = have + int(length) if length.isdecimal() else remote.size
        if total is not None and total > limit:
            raise _Failure(f"size: expected at most {limit} bytes, the server announces {total}", final=True)
        began, start = time.monotonic(), have
        with part.open("ab" if resumed else "wb") as out:
            while chunk := _read(response, have):
                have += len(chunk)
                if have > limit:
                    part.unlink()
                    raise _Failure(f"size: expected at most {limit} bytes, the server sends more", final=True)
                out.write(chunk)
                tell_progress(remote.name, have, total, of_bytes=True)
                seconds = time.monotonic() - began
                if seconds > timeout and have - start < _MIN_RATE * seconds:
                    raise _Failure(f"stalled: {have - start} bytes in {seconds:.0f} s")
    if total is not None and have < total:
        raise _Failure(f"the connection closed after {have} of {total} bytes")
    problem = check_file(part, remote)
    if problem:
        part.unlink()
        # Where the earlier bytes may be to blame, the same address may still give the right file.
        raise _Failure(f"{problem} (damaged on the way, or an error page)", final=not resumed)


def _read(response: Any, have: int) -> bytes:
    try:
        return bytes(response.read1(2**16))
    except (OSError, http.client.HTTPException) as error:
        reason = str(error) or type(error).__name__
        raise _Failure(f"the connection broke after {have} bytes: {reason}") from error


def _open(url: str, start: int, timeout: float) -> Any:
    if not url.startswith(("http://", "https://")):
        raise _Failure("only http and https addresses are fetched", final=True)
    # Servers that compress on the way would make sizes and positions meaningless.
    headers = {"User-Agent": "residuum", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=timeout)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and start:  # a partial file that cannot be continued is fetched again whole
                return _open(url, 0, timeout)
            raise _Failure(f"status {error.code}: {error.reason}", final=error.code not in _LATER) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise _Failure(f"no answer: {reason or type(error).__name__}") from error
