"""Downloads that end in a complete, checked file or in an error that says what was tried.

A file is written to ``NAME.part`` and renamed when size and checksums are right. An interrupted transfer
goes on where it stopped. Each address gets a few attempts; then the next one is tried.
"""

from __future__ import annotations

import hashlib
import http.client
import math
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from residuum.errors import DownloadError

Progress = Callable[[str, int, int | None], None]  # file name, bytes so far, total or None

_CHUNK = 2**16
_MAGIC = {".gz": b"\x1f\x8b", ".bz2": b"BZh", ".zip": b"PK\x03\x04"}  # tells an error page from a file


@dataclass(frozen=True)
class RemoteFile:
    """One downloadable file; `urls` are tried in order, and whatever arrives must match every known value."""

    name: str
    urls: tuple[str, ...]
    size: int | None = None
    sha256: str | None = None
    md5: str | None = None
    unpack_to: str | None = None  # folder beside the file, when the file is an archive


@dataclass(frozen=True)
class Policy:
    """How patient a download is."""

    timeout: float = 15.0  # seconds without enough bytes; one more try, so 30 s at most per address
    attempts: int = 3  # per address
    backoff: float = 1.0  # seconds before the second attempt, doubled each time
    max_wait: float = 30.0  # a server that asks for a longer pause is left for the next address
    max_bytes: int = 4 * 2**30  # for files whose size is not known
    min_bytes_per_timeout: int = 1024  # a trickle below this counts as a stall


class _Failure(Exception):
    """One attempt failed; with `restart`, what has arrived so far is of no use."""

    def __init__(
        self, reason: str, *, wait: float | None = None, restart: bool = False, stalled: bool = False
    ) -> None:
        super().__init__(reason)
        self.wait, self.restart, self.stalled = wait, restart, stalled


class _NextAddress(_Failure):
    """Nothing good will come from the address; try the next one."""


class _TryAgain(_Failure):
    """The same address may work a little later."""


def check_file(path: Path, remote: RemoteFile) -> str | None:
    """None when `path` agrees with every declared value, else what was expected and found."""
    size = path.stat().st_size
    if remote.size is not None and size != remote.size:
        return f"size: expected {remote.size} bytes, got {size}"
    for kind, expected in (("sha256", remote.sha256), ("md5", remote.md5)):
        if expected is not None:
            got = file_hash(path, kind)
            if got != expected:
                return f"{kind}: expected {expected}, got {got}"
    magic = next(
        (magic for suffix, magic in _MAGIC.items() if path.name.removesuffix(".part").endswith(suffix)), b""
    )
    with path.open("rb") as stream:
        head = stream.read(len(magic))
    return None if head == magic else f"content: expected a file that begins with {magic!r}, got {head!r}"


def file_hash(path: Path, kind: str = "sha256") -> str:
    """Hexadecimal digest of a file."""
    digest = hashlib.new(kind, usedforsecurity=False)
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def download(
    remote: RemoteFile, folder: Path, *, policy: Policy | None = None, progress: Progress | None = None
) -> Path:
    """Fetch one file into `folder`, unless a correct copy is there already.

    Parameters
    ----------
    remote : RemoteFile
        Name, addresses and the values that the content must match.
    folder : Path
        Created when missing. Several processes may ask for the same file: one downloads, the others wait.
    policy : Policy, optional
        Time limits and number of attempts.
    progress : callable, optional
        Called with file name, bytes so far, and total bytes or None.

    Returns
    -------
    Path
        The complete, checked file.

    Raises
    ------
    DownloadError
        With one line per address that was tried. An existing correct file is never harmed.
    """
    policy = policy or Policy()
    target = folder / remote.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f".{remote.name}.lock"):
            if target.exists() and check_file(target, remote) is None:
                return target
            return _from_any_address(remote, target, policy, progress)
    except DownloadError:
        raise
    except OSError as error:
        raise DownloadError(
            f"Cannot write {target}: {error.strerror or error}. Free some space or choose another data home."
        ) from error


def _from_any_address(remote: RemoteFile, target: Path, policy: Policy, progress: Progress | None) -> Path:
    part = target.with_name(target.name + ".part")
    if remote.sha256 is None and remote.md5 is None:
        part.unlink(missing_ok=True)  # without a checksum, bytes of unknown origin cannot be continued
    failures: list[str] = []
    for url in remote.urls:
        for attempt in range(policy.attempts):
            try:
                resumed = _transfer(url, part, remote, policy, progress)
                problem = check_file(part, remote)
                if problem is None:
                    part.replace(target)
                    return target
                part.unlink()
                failures.append(
                    f"{url}: {problem} (damaged on the way, or an error page instead of the file)"
                )
                if not resumed:  # otherwise the earlier bytes may be to blame
                    break
            except _Failure as failure:
                failures.append(f"{url}: {failure}")
                if failure.restart:
                    part.unlink(missing_ok=True)
                if isinstance(failure, _NextAddress) or (failure.stalled and attempt > 0):
                    break
                if attempt + 1 < policy.attempts:
                    time.sleep(policy.backoff * 2**attempt if failure.wait is None else failure.wait)
        if remote.sha256 is None and remote.md5 is None:
            part.unlink(missing_ok=True)
    lines = "\n".join(f"  {line}" for line in dict.fromkeys(failures)) or "  no address is known"
    raise DownloadError(
        f"Could not download {remote.name}. Tried:\n{lines}\n"
        f"Download the file by other means, put it into {target.parent} and run 'residuum data verify'."
    )


def _transfer(url: str, part: Path, remote: RemoteFile, policy: Policy, progress: Progress | None) -> bool:
    """Write or complete `part`; True when it began with bytes of an earlier attempt."""
    have = part.stat().st_size if part.exists() else 0
    limit = policy.max_bytes if remote.size is None else remote.size
    if have >= limit:
        if have == remote.size:
            return True
        part.unlink()
        have = 0
    with _open(url, have, policy) as response:
        if have and response.status == 206 and not _continues(response, have):
            raise _TryAgain("the server continued at a wrong position", wait=0.0, restart=True)
        if response.status != 206:
            have = 0
        length = _content_length(response)
        total = None if length is None else have + length
        if total is not None and total > limit:
            raise _NextAddress(f"size: expected at most {limit} bytes, the server announces {total}")
        with part.open("ab" if have else "wb") as out:
            got = _copy(response, out, have, limit, policy, _reporter(progress, remote, total))
    announced = remote.size if total is None else total
    if announced is not None and got < announced:
        raise _TryAgain(f"the connection closed after {got} of {announced} bytes")
    return have > 0


def _reporter(progress: Progress | None, remote: RemoteFile, total: int | None) -> Callable[[int], None]:
    def report(have: int) -> None:
        if progress is not None:
            progress(remote.name, have, remote.size if total is None else total)

    return report


def _copy(
    response: Any, out: IO[bytes], have: int, limit: int, policy: Policy, report: Callable[[int], None]
) -> int:
    """Append the body to `out`, which holds `have` bytes; returns the new number of bytes."""
    window_start, window_bytes = time.monotonic(), 0
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            stalled = isinstance(error, TimeoutError)
            raise _TryAgain(f"the connection broke after {have} bytes: {reason}", stalled=stalled) from error
        if not chunk:
            return have
        have += len(chunk)
        if have > limit:
            raise _NextAddress(f"size: expected at most {limit} bytes, the server sends more", restart=True)
        out.write(chunk)
        report(have)
        window_bytes += len(chunk)
        now = time.monotonic()
        if now - window_start > policy.timeout:
            if window_bytes < policy.min_bytes_per_timeout:
                raise _TryAgain(f"stalled: {window_bytes} bytes in {policy.timeout:g} s", stalled=True)
            window_start, window_bytes = now, 0


def _open(url: str, start: int, policy: Policy) -> Any:
    if urlsplit(url).scheme not in ("http", "https"):
        raise _NextAddress("only http and https addresses are fetched")
    # Servers that compress on the way would make sizes and positions meaningless.
    headers = {"User-Agent": "residuum", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    try:
        return _opener().open(urllib.request.Request(url, headers=headers), timeout=policy.timeout)
    except urllib.error.HTTPError as error:
        with error:
            raise _judged(error, start, policy) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        stalled = isinstance(reason, TimeoutError)
        raise _TryAgain(f"no answer: {reason or type(error).__name__}", stalled=stalled) from error


def _opener() -> urllib.request.OpenerDirector:
    """An opener for http and https only: a redirect must not reach local files or ftp."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.UnknownHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
    ):
        opener.add_handler(handler())
    return opener


def _judged(error: urllib.error.HTTPError, start: int, policy: Policy) -> Exception:
    if error.code in (301, 302, 303, 307, 308):
        return _NextAddress(f"redirects in a loop or to a forbidden place (status {error.code})")
    if error.code == 416 and start:
        return _TryAgain("the server cannot continue the partial file", wait=0.0, restart=True)
    if error.code in (429, 503):
        wait = _retry_after(error.headers.get("Retry-After"))
        if wait is not None and wait > policy.max_wait:
            return _NextAddress(f"status {error.code}, asks to wait {wait:.0f} s")
        return _TryAgain(f"status {error.code}", wait=wait)
    if error.code >= 500 or error.code == 408:
        return _TryAgain(f"status {error.code}")
    return _NextAddress(f"status {error.code}")


def _retry_after(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(value).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _continues(response: Any, start: int) -> bool:
    return str(response.headers.get("Content-Range", "")).startswith(f"bytes {start}-")


def _content_length(response: Any) -> int | None:
    value = response.headers.get("Content-Length", "")
    return int(value) if value.isascii() and value.isdigit() else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock that the operating system releases even when the process is killed."""
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
            # The previous holder may have removed the file while we waited; then our lock protects nothing.
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                break
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    try:
        yield
    finally:
        if os.name != "nt":  # Windows cannot remove an open file
            path.unlink(missing_ok=True)
        os.close(handle)


def _lock(handle: int) -> None:
    if os.name == "nt":
        import msvcrt

        while True:
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,unused-ignore]
                return
            except OSError:
                time.sleep(0.1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
