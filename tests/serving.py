"""A real server process on 127.0.0.1 for tests: started, waited for by what it says, and ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager

import httpx

PATIENCE = 600  # seconds after which a test is given up; nothing waits for this long where all is well


class Server:
    """``residuum serve`` with these arguments; `lines` are what it has said on standard error."""

    def __init__(self, *arguments, environment=None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "residuum", *map(str, arguments)],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self.lines = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.lines.append("(end)")
            self._news.notify_all()

    def wait_for(self, pattern, *, after=0):
        """The first line, from number `after` on, in which the pattern is found."""

        def found():
            return next((line for line in self.lines[after:] if re.search(pattern, line)), None)

        with self._news:
            self._news.wait_for(lambda: found() or "(end)" in self.lines, PATIENCE)
            assert found(), f"{pattern!r} is not in {self.lines}"
            return found()

    @property
    def url(self):
        return re.search(r"http://\S+", self.wait_for("Serving on")).group()

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    def client(self, **options):
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False, **options)

    def end(self, number=signal.SIGTERM):
        """Send a signal, if it still runs, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


@contextmanager
def serving(*arguments, **options):
    server = Server(*arguments, **options)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.terminate()
            try:
                server.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                server.process.kill()
