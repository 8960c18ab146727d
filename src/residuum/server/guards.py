"""The ASGI application around all endpoints: who may ask, how much, and for how long.

=====================================  ================================================================
what                                   status
=====================================  ================================================================
Host that is not this server           421; so a foreign name that resolves to this machine is no way in
Origin of another site                 403
content type that is not taken         415
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
import ipaddress
import json
import secrets
import sys
import time
import traceback
from collections.abc import Callable, Collection, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Router

from residuum.errors import ResiduumError
from residuum.server.errors import RequestError, too_busy

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Observe = Callable[[str, int, float], None]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
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
BODILESS = ("GET", "HEAD", "OPTIONS")
CONTENT_TYPES = (
    "application/json",
    "application/x-npy",
    "text/csv",
    "image/jpeg",
    "image/png",
    "image/gif",
    "image/bmp",
    "image/tiff",
    "image/webp",
    "image/x-portable-anymap",
)
_DRAINED = 8  # times the body limit that is read and thrown away, so that the client can read the refusal


@dataclass(frozen=True)
class Limits:
    """How much a client may ask for.

    Attributes
    ----------
    body : int
        Bytes of the body of a request.
    bodies : int
        Bytes of all bodies that are held at once.
    requests : int
        Requests that are handled at once.
    seconds : float
        Time for one request, from its header to the end of its answer.
    pixels : int
        Of one picture.
    """

    body: int = 10 * 2**20
    bodies: int = 128 * 2**20
    requests: int = 256
    seconds: float = 30.0
    pixels: int = 20_000_000


def _no_token(scope: Scope) -> bool:
    return False


def changes_state(scope: Scope) -> bool:
    """Whether a request may change something, by its method: the usual `needs_token` of a page."""
    return scope["method"] not in BODILESS


@dataclass
class Guards:
    """What `Guarded` checks.

    Attributes
    ----------
    hosts : collection of str
        Names that the Host header may have, without port.
    port : int
        The port that it may have.
    any_address : bool
        Whether Host may also be any address in digits, for a server that listens on all of them. Only a name
        can be made to point here by a stranger.
    token : str
        The secret of this run; in ``Authorization: Bearer``, or ``?token=`` in the address.
    needs_token : callable
        Which requests must show it, by their ASGI scope.
    content_types : collection of str
        What a body may be.
    limits : Limits
    observe : callable
        Called as ``observe(path, status, seconds)`` after every request.
    debug : bool
        Whether standard error gets the traceback of an unexpected error.
    """

    hosts: Collection[str] = LOOPBACK
    port: int = 80
    any_address: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    needs_token: Callable[[Scope], bool] = _no_token
    content_types: Collection[str] = CONTENT_TYPES
    limits: Limits = field(default_factory=Limits)
    observe: Observe = lambda path, status, seconds: None
    debug: bool = False


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
                    await self._refuse(_as_refusal(error, self.guards.debug))
        except TimeoutError:
            with contextlib.suppress(Exception):
                await self._refuse(RequestError(408, f"The request took longer than {limit:g} seconds."))

    async def _refuse(self, error: RequestError) -> None:
        if self.answer.status:
            return  # the answer had begun: the server closes the connection
        if not self.read_all and error.status != 408 and "expect" not in self.headers:
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


def _as_refusal(error: Exception, debug: bool) -> RequestError:
    """What to tell the client of an error."""
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
    if debug:
        traceback.print_exception(error)
    else:
        name = type(error).__name__
        print(f"residuum: unexpected {name} in a request; --debug shows where.", file=sys.stderr, flush=True)
    return RequestError(422, f"The request could not be answered ({type(error).__name__}).")


def split_host(text: str) -> tuple[str, str]:
    """Name and port of a Host header or the like; the port is empty where there is none."""
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        return name.lower(), rest.removeprefix(":")
    name, _, port = text.partition(":")
    return name.lower(), port


def _is_ours(host: str, guards: Guards) -> bool:
    name, port = split_host(host)
    if port not in ("", str(guards.port)):
        return False
    if name in guards.hosts:
        return True
    if guards.any_address:
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True
    return False


def check_host(host: str | None, guards: Guards) -> None:
    """Refuse a request that was meant for another name."""
    if host is None:
        raise RequestError(400, "A request must have one Host header.")
    if not _is_ours(host, guards):
        raise RequestError(421, "This server does not answer for the host that the request names.")


def check_origin(headers: dict[str, str], guards: Guards) -> None:
    """Refuse what a page of another site asks a browser to send."""
    origin = headers.get("origin")
    if origin is not None:
        scheme, _, host = origin.partition("://")
        if scheme not in ("http", "https") or host.lower() != headers["host"].lower():
            raise RequestError(403, "A page of another origin may not ask this server.")
    elif headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
        raise RequestError(403, "A page of another site may not ask this server.")


def check_token(headers: dict[str, str], scope: Scope, token: str) -> None:
    """Refuse a request without the secret of this run."""
    kind, _, shown = headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer":
        query = scope.get("query_string", b"").decode("latin-1")
        with contextlib.suppress(ValueError):  # too many fields
            shown = parse_qs(query, max_num_fields=50).get("token", [""])[-1]
    if not secrets.compare_digest(shown.strip().encode("utf-8", "replace"), token.encode()):
        raise RequestError(401, "This request needs the token that the server printed when it started.")


def check_content_type(content_type: str | None, known: Collection[str]) -> None:
    """Refuse a body of a kind that no endpoint reads; forms are among them, which any page can send."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    if kind not in known:
        raise RequestError(415, f"The Content-Type must be one of {', '.join(sorted(known))}.")
