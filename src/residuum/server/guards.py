"""The ASGI application around all endpoints: who may ask, how much, and for how long.

=====================================  ================================================================
what                                   status
=====================================  ================================================================
Host that is not this server           421; so a foreign name that resolves to this machine is no way in
Origin of another site                 403
content type that is not taken         415
too many headers                       431
token missing or wrong                 401
body of more than 10 MB                413
too many requests, or bytes, at once   429, with Retry-After
slower than the time limit             408
error of residuum, `RequestError`      400, or the status of the error
anything else that goes wrong          422; standard error gets the type of the error, or its traceback
=====================================  ================================================================

Every refusal is JSON: ``{"error": "one sentence"}``. A client that goes away cancels its endpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
import traceback
from collections.abc import MutableMapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router

from residuum.errors import ResiduumError
from residuum.server.checks import (
    BODILESS,
    Guards,
    Limits,
    Scope,
    changes_state,
    check_content_type,
    check_headers,
    check_host,
    check_origin,
    check_token,
)
from residuum.server.errors import RequestError, too_busy

__all__ = ["Guarded", "Guards", "Limits", "changes_state"]

Message = MutableMapping[str, Any]

# Nothing but what this server itself sends is loaded, run or framed.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(self), microphone=(), geolocation=()"),
)
_DRAINED = 8  # times the body limit that is read and thrown away, so that the client can read the refusal


class Guarded:
    """An ASGI application: these routes, behind these guards.

    ``in_flight`` is the number of requests that are being handled.
    """

    def __init__(self, routes: Sequence[BaseRoute], guards: Guards) -> None:
        self.router = Router(routes=list(routes), redirect_slashes=False)
        self.guards = guards
        self.in_flight = 0
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Handle one request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        if scope["type"] != "http":
            return
        began, answer = time.monotonic(), _Answer(send)
        exchange = _Exchange(self, scope, receive, answer)
        self.in_flight += 1
        try:
            await exchange.run()
        finally:
            self.in_flight -= 1
            self._held -= exchange.held
            self.guards.observe(scope["path"], answer.status, time.monotonic() - began)

    def hold(self, size: int) -> None:
        """Count bytes of a body that are held from now on."""
        if self._held + size > self.guards.limits.bodies:
            raise too_busy("the requests that it is reading fill its memory")
        self._held += size


class _Answer:
    """``send`` with the security headers, which knows whether and how the answer has begun."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name.lower() for name, _ in message.get("headers", ())}
            more = [(name, value) for name, value in HEADERS if name not in given]
            if b"cache-control" not in given:
                more.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message.get("headers", ()), *more]}
        await self._send(message)

    async def refuse(self, error: RequestError, *, close: bool = False) -> None:
        body = json.dumps({"error": str(error)}).encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        if error.retry is not None:
            headers.append((b"retry-after", str(error.retry).encode()))
        if error.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if close:
            headers.append((b"connection", b"close"))
        await self({"type": "http.response.start", "status": error.status, "headers": headers})
        await self({"type": "http.response.body", "body": body})


class _Exchange:
    """One request and its answer."""

    def __init__(self, app: Guarded, scope: Scope, receive: Any, answer: _Answer) -> None:
        self.app, self.guards, self.scope = app, app.guards, scope
        self.receive, self.answer = receive, answer
        self.held = 0
        self.read_all = False
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}

    async def run(self) -> None:
        limit = self.guards.limits.seconds
        try:
            async with asyncio.timeout(limit):
                try:
                    await self._handle()
                except _GoneError:
                    return
                except Exception as error:
                    await self._refuse(_as_refusal(error, self.guards))
        except TimeoutError:
            with contextlib.suppress(Exception):
                await self._refuse(RequestError(408, f"The request took longer than {limit:g} seconds."))
        except asyncio.CancelledError:  # uvicorn would answer 500
            with contextlib.suppress(Exception):
                await self._refuse(RequestError(408, "The server ended before the request was answered."))

    async def _refuse(self, error: RequestError) -> None:
        if self.answer.status:
            return  # the answer had begun: the server closes the connection
        if not self.read_all and error.status not in (408, 429) and "expect" not in self.headers:
            await self._drain()
        await self.answer.refuse(error, close=not self.read_all)

    async def _drain(self) -> None:
        """Read the rest of a body that is refused; some clients read no answer before they have sent all."""
        left = _DRAINED * self.guards.limits.body
        while left > 0:
            message = await self.receive()
            left -= len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body"):
                self.read_all = message["type"] != "http.disconnect"
                return

    async def _handle(self) -> None:
        guards = self.guards
        if self.app.in_flight > guards.limits.requests:
            raise too_busy(f"it handles {guards.limits.requests} requests")
        check_headers(self.scope)
        check_host(self.headers.get("host"), guards)
        check_origin(self.headers, guards)
        if guards.needs_token(self.scope):
            check_token(self.headers, self.scope, guards.token)
        if self.scope["method"] not in BODILESS:
            check_content_type(self.headers.get("content-type"), guards.content_types)
        body = await self._body()
        self.scope["app"] = self.app  # Starlette then raises for unknown paths, rather than answering itself
        await self._unless_gone(self.app.router(self.scope, _replay(body), self.answer))

    async def _body(self) -> bytes:
        most = self.guards.limits.body
        declared = self.headers.get("content-length", "0")
        too_large = RequestError(413, f"The body of a request may have {most} bytes. Send fewer at a time.")
        if not declared.isdecimal() or len(declared) > 18 or int(declared) > most:
            raise too_large
        pieces: list[bytes] = []
        size = 0
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            piece = message.get("body", b"")
            size += len(piece)
            self.read_all = not message.get("more_body", False)
            if size > most:
                raise too_large
            self.app.hold(len(piece))
            self.held += len(piece)
            pieces.append(piece)
            if self.read_all:
                return b"".join(pieces)

    async def _unless_gone(self, endpoint: Any) -> None:
        """Run the endpoint; cancel it if the client goes."""
        work = asyncio.ensure_future(endpoint)
        gone = asyncio.ensure_future(self.receive())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise _GoneError
            work.result()
        finally:
            for task in (work, gone):
                if not task.done():
                    task.cancel()
                    with contextlib.suppress(asyncio.CancelledError, Exception):
                        await task


class _GoneError(Exception):
    """The client has closed the connection."""


def _replay(body: bytes) -> Any:
    """``receive`` for an endpoint, from a body that was read."""
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            return {"type": "http.disconnect"}
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _as_refusal(error: Exception, guards: Guards) -> RequestError:
    """What to tell the client of an error; whoever runs the server is told of one that nobody foresaw."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, HTTPException):
        sentences = {404: "There is nothing at this address.", 405: "This address does not take this method."}
        status = error.status_code if 400 <= error.status_code < 500 else 422
        return RequestError(status, sentences.get(status, str(error.detail)))
    if isinstance(error, ResiduumError):
        return RequestError(400, " ".join(str(error).split()))
    if isinstance(error, MemoryError):
        return RequestError(413, "There is not enough memory for this request. Send fewer queries at a time.")
    guards.unforeseen()
    if guards.debug:
        traceback.print_exception(error)
    else:
        name = type(error).__name__
        print(f"residuum: unexpected {name} in a request; --debug shows where.", file=sys.stderr, flush=True)
    return RequestError(422, f"The request could not be answered ({type(error).__name__}).")
