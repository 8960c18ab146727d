"""A connection of a client: uvicorn's, with a limit on the time for headers and refusals in JSON.

This and `running` are the modules that import uvicorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from residuum.server.checks import HEADER_BYTES

HEADER_SECONDS = 20.0  # for the headers of a request
IDLE_SECONDS = 75  # between two requests; most clients close earlier themselves


class Connection(H11Protocol):
    """One connection. It is closed if the headers of a request do not come to an end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection."""
        super().connection_made(transport)
        self._patience = self.loop.call_later(HEADER_SECONDS, self._look, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._patience.cancel()
        super().connection_lost(exc)

    def _look(self, before: Any) -> None:
        """Close the connection if the headers of a request have not come to an end since the last look."""
        if self.transport.is_closing():
            return
        between = self.cycle is None or self.cycle.response_complete
        if between and self.cycle is before and (self.cycle is None or self._pending()):
            self._refuse(408, f"The headers did not come within {HEADER_SECONDS:g} seconds.")
            return
        self._patience = self.loop.call_later(HEADER_SECONDS, self._look, self.cycle)

    def _pending(self) -> bool:
        """Whether a part of a request has come."""
        return self.conn.their_state is not h11.IDLE or bool(self.conn.trailing_data[0])

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP."""
        self._refuse(400, "The request is not valid HTTP, or its headers are too long.")

    def _refuse(self, status: int, sentence: str) -> None:
        body = json.dumps({"error": sentence}).encode()
        # h11 knows whether an answer may still be sent here; if not, closing says enough.
        with contextlib.suppress(h11.LocalProtocolError):
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            if self._pending() and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                for event in (
                    h11.Response(status_code=status, headers=headers),
                    h11.Data(data=body),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """uvicorn's server, with the signals left to `running`."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Change no signal."""
        yield


def server_of(app: Any, *, grace: int) -> Server:
    """A server for an ASGI application, which logs nothing and trusts no header of a proxy."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what a client does wrong is told to the client
        access_log=False,
        proxy_headers=False,
        server_header=False,
        h11_max_incomplete_event_size=HEADER_BYTES,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=grace,
    )
    return Server(config)
