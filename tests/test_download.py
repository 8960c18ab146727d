"""Downloads against a server on this machine that does everything servers do wrong."""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import resource
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from residuum.errors import DownloadError
from residuum.system import locks
from residuum.system.download import Policy, RemoteFile, download

CONTENT = hashlib.shake_256(b"residuum").digest(300_000)
# A generous time limit where the server answers; a short one only where it falls silent.
QUICK = Policy(timeout=30, attempts=3, backoff=0.01)
IMPATIENT = Policy(timeout=0.5, attempts=2, backoff=0.01)
NAME = "file.bin"


class Handler(BaseHTTPRequestHandler):
    """The first part of the path says how to misbehave."""

    protocol_version = "HTTP/1.0"
    server: Server

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        behaviour = self.path.split("/")[1]
        self.server.counts[behaviour] += 1
        if "Range" in self.headers:
            self.server.ranges.append(self.headers["Range"])
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            getattr(self, "do_" + behaviour.split("-")[0])(*behaviour.split("-")[1:])

    def send(self, body: bytes, *, status: int = 200, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def start(self) -> int:
        return int(self.headers.get("Range", "bytes=0-").split("=")[1].rstrip("-"))

    def do_good(self, *_: str) -> None:
        start = self.start()
        if start:
            where = f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}"
            self.send(CONTENT[start:], status=206, Content_Range=where)
        else:
            self.send(CONTENT)

    def do_norange(self) -> None:
        self.send(CONTENT)

    def do_held(self) -> None:
        self.server.released.wait(60)
        self.do_good()

    def do_truncated(self, percent: str) -> None:
        self.send(CONTENT[: len(CONTENT) * int(percent) // 100], length=len(CONTENT))

    def do_resumable(self, percent: str) -> None:
        if self.start():
            self.do_good()
        else:
            self.do_truncated(percent)

    def do_flipped(self) -> None:
        body = bytearray(CONTENT)
        body[len(body) // 2] ^= 1
        self.send(bytes(body))

    def do_status(self, code: str) -> None:
        self.send(b"no", status=int(code))

    def do_html(self) -> None:
        self.send(b"<html>Please log in</html>", Content_Type="text/html")

    def do_toolong(self) -> None:
        self.send(CONTENT, length=len(CONTENT) + 1000)

    def do_tooshort(self) -> None:
        self.send(CONTENT[:1000], length=1000)

    def do_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(200):
            self.wfile.write(CONTENT)

    def do_wrongrange(self) -> None:
        if self.start():
            self.send(CONTENT[5:], status=206, Content_Range=f"bytes 5-{len(CONTENT) - 1}/{len(CONTENT)}")
        elif self.server.counts["wrongrange"] == 1:
            self.do_truncated("50")
        else:
            self.send(CONTENT)

    def do_unsatisfiable(self) -> None:
        if self.start():
            self.send(b"", status=416)
        elif self.server.counts["unsatisfiable"] == 1:
            self.do_truncated("50")
        else:
            self.send(CONTENT)

    def do_stall(self) -> None:
        self.send(CONTENT[:1000], length=len(CONTENT))
        self.wfile.flush()
        self.server.released.wait(60)

    def do_silent(self) -> None:
        self.server.released.wait(60)

    def do_trickle(self) -> None:
        self.send(b"", length=len(CONTENT))
        for _ in range(60):
            self.wfile.write(b"x")
            self.wfile.flush()
            if self.server.released.wait(0.1):
                return

    def do_loop(self) -> None:
        self.send(b"", status=302, Location="/loop/" + NAME)

    def do_pingpong(self, count: str) -> None:
        self.send(b"", status=302, Location=f"/pingpong-{int(count) + 1}/{NAME}")

    def do_tofile(self) -> None:
        self.send(b"", status=302, Location="file:///etc/hostname")

    def do_moved(self) -> None:
        self.send(b"", status=301, Location="/good/" + NAME)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.counts: Counter[str] = Counter()  # requests of each behaviour
        self.ranges: list[str] = []  # the Range headers that were sent
        self.released = threading.Event()  # ends every wait of the server


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield server
    server.released.set()
    server.shutdown()
    server.server_close()


def remote(server: Server, *behaviours: str, size: bool = True, md5: bool = False) -> RemoteFile:
    base = f"http://127.0.0.1:{server.server_address[1]}"
    return RemoteFile(
        NAME,
        tuple(f"{base}/{behaviour}/{NAME}" for behaviour in behaviours),
        size=len(CONTENT) if size else None,
        sha256=None if md5 else hashlib.sha256(CONTENT).hexdigest(),
        md5=hashlib.md5(CONTENT, usedforsecurity=False).hexdigest() if md5 else None,
    )


def assert_good(folder: Path) -> None:
    """Exactly one file, and the right one: no lock, no partial file left."""
    assert [path.name for path in folder.iterdir()] == [NAME]
    assert (folder / NAME).read_bytes() == CONTENT


BAD = [
    *("truncated-0", "truncated-1", "truncated-50", "truncated-99", "flipped", "html", "tooshort", "toolong"),
    *("status-403", "status-404", "status-429", "status-500", "status-503", "loop", "pingpong-0", "tofile"),
]


@pytest.mark.parametrize("behaviour", BAD)
def test_bad_address_is_one_clear_error_and_the_mirror_helps(
    behaviour: str, server: Server, tmp_path: Path
) -> None:
    with pytest.raises(DownloadError) as caught:
        download(remote(server, behaviour, size=False), tmp_path, policy=QUICK)
    message = str(caught.value)
    assert behaviour in message
    assert str(tmp_path) in message
    assert caught.value.exit_code == 3
    assert not (tmp_path / NAME).exists()
    assert 1 <= server.counts[behaviour] <= 5
    assert download(remote(server, behaviour, "good"), tmp_path, policy=QUICK) == tmp_path / NAME
    assert_good(tmp_path)


@pytest.mark.parametrize("behaviour", ["stall", "silent", "trickle"])
def test_silent_address_is_given_up(behaviour: str, server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match=r"stalled|timed out"):
        download(remote(server, behaviour), tmp_path, policy=IMPATIENT)
    assert not (tmp_path / NAME).exists()
    assert server.counts == {behaviour: 2}


@pytest.mark.parametrize("behaviour", ["flipped", "html", "tooshort"])
@pytest.mark.parametrize("md5", [True, False])
def test_wrong_content_is_told_apart_by_checksum(
    behaviour: str, md5: bool, server: Server, tmp_path: Path
) -> None:
    with pytest.raises(DownloadError, match=("md5" if md5 else "sha256") + ": expected"):
        download(remote(server, behaviour, size=False, md5=md5), tmp_path, policy=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_error_page_without_checksum_is_told_apart(server: Server, tmp_path: Path) -> None:
    base = f"http://127.0.0.1:{server.server_address[1]}"
    with pytest.raises(DownloadError, match="begins with"):
        download(RemoteFile("a.zip", (f"{base}/html/a.zip",)), tmp_path, policy=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_transfer_is_continued(server: Server, tmp_path: Path) -> None:
    download(remote(server, "resumable-50"), tmp_path, policy=QUICK)
    assert_good(tmp_path)
    assert server.ranges == [f"bytes={len(CONTENT) // 2}-"]


def test_partial_file_of_an_earlier_run_is_continued(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / (NAME + ".part")).write_bytes(CONTENT[:100_000])
    seen: list[tuple[str, int, int | None]] = []
    monkeypatch.setattr("residuum.system.download.tell_progress", lambda *row, of_bytes: seen.append(row))
    download(remote(server, "good"), tmp_path, policy=QUICK)
    assert_good(tmp_path)
    assert server.ranges == ["bytes=100000-"]
    assert seen[0][1] > 100_000
    assert seen[-1] == (NAME, len(CONTENT), len(CONTENT))


@pytest.mark.parametrize("part", [b"wrong" * 1000, bytes(len(CONTENT)), bytes(len(CONTENT) + 5)])
def test_wrong_partial_file_is_started_again(part: bytes, server: Server, tmp_path: Path) -> None:
    (tmp_path / (NAME + ".part")).write_bytes(part)
    download(remote(server, "good"), tmp_path, policy=QUICK)
    assert_good(tmp_path)


@pytest.mark.parametrize("behaviour", ["norange", "wrongrange", "unsatisfiable"])
def test_server_that_cannot_continue(behaviour: str, server: Server, tmp_path: Path) -> None:
    (tmp_path / (NAME + ".part")).write_bytes(CONTENT[:1000])
    download(remote(server, behaviour), tmp_path, policy=QUICK)
    assert_good(tmp_path)


def test_status_404_is_not_asked_twice_but_500_is(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="status 500"):
        download(remote(server, "status-404", "status-500"), tmp_path, policy=QUICK)
    assert server.counts == {"status-404": 1, "status-500": 3}


def test_every_address_is_tried_before_one_is_tried_again(server: Server, tmp_path: Path) -> None:
    download(remote(server, "status-500", "good"), tmp_path, policy=QUICK)
    assert server.counts == {"status-500": 1, "good": 1}


def test_plain_redirect_is_followed(server: Server, tmp_path: Path) -> None:
    download(remote(server, "moved"), tmp_path, policy=QUICK)
    assert_good(tmp_path)


def test_correct_file_is_not_fetched_again_and_a_damaged_one_is(server: Server, tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(CONTENT)
    download(remote(server, "good"), tmp_path, policy=QUICK)
    assert server.counts == {}
    (tmp_path / NAME).write_bytes(CONTENT[:-1] + b"?")
    download(remote(server, "good"), tmp_path, policy=QUICK)
    assert server.counts == {"good": 1}
    assert_good(tmp_path)


def test_endless_answer_is_cut_off(server: Server, tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="the server sends more"):
        download(remote(server, "endless"), tmp_path, policy=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_only_http_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="only http"):
        download(RemoteFile(NAME, ("file:///etc/hostname",)), tmp_path, policy=QUICK)


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(DownloadError, match="no answer"):
        download(RemoteFile(NAME, ("http://127.0.0.1:9/x",)), tmp_path, policy=QUICK)


def _fetch(file: RemoteFile, folder: Path, queue: multiprocessing.Queue) -> None:
    queue.put("started")
    try:
        queue.put(download(file, folder).read_bytes() == CONTENT)
    except Exception as error:
        queue.put(repr(error))


def test_eight_processes_get_one_good_file(server: Server, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork" if os.name == "posix" else "spawn")
    queue = context.Queue()
    workers = [
        context.Process(target=_fetch, args=(remote(server, "held"), tmp_path, queue)) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    assert [queue.get(timeout=60) for _ in workers] == ["started"] * 8
    server.released.set()
    assert [queue.get(timeout=60) for _ in workers] == [True] * 8
    for worker in workers:
        worker.join(60)
    assert server.counts == {"held": 1}
    assert_good(tmp_path)


def test_full_disk_is_a_clear_error(server: Server, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(DownloadError, match="Cannot write"):
            download(remote(server, "good"), tmp_path, policy=QUICK)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not (tmp_path / NAME).exists()
    download(remote(server, "good"), tmp_path, policy=QUICK)
    assert_good(tmp_path)


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="Cannot write"):
        download(RemoteFile(NAME, ("http://127.0.0.1:9/x",)), tmp_path / "file" / "sub", policy=QUICK)


def test_a_lock_whose_file_was_removed_while_we_waited_is_taken_anew(tmp_path, monkeypatch):
    """It would protect nothing: whoever comes next makes another file of that name."""
    path, lock, waited = tmp_path / "lock", locks._lock, []

    def remove_before(handle):
        if not waited:
            waited.append(handle)
            path.unlink()
        lock(handle)

    monkeypatch.setattr(locks, "_lock", remove_before)
    with locks.locked(path):
        assert path.exists()
    assert waited
    assert not path.exists()
