"""What `guards` checks of the headers of a request, and the settings of these checks."""

from __future__ import annotations

import contextlib
import ipaddress
import re
import secrets
from collections.abc import Callable, Collection, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from residuum.server.errors import RequestError

Scope = MutableMapping[str, Any]
Observe = Callable[[str, int, float], None]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
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
MOST_HEADERS, HEADER_BYTES = 100, 32 * 2**10
_HOST = re.compile(r"(?:\[(?P<six>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?")


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
    unforeseen : callable
        Called after every error that nobody foresaw, which the client sees as status 422.
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
    unforeseen: Callable[[], None] = lambda: None
    debug: bool = False


def check_headers(scope: Scope) -> None:
    """Refuse more headers, or longer ones, than any honest client sends."""
    headers = scope["headers"]
    if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > HEADER_BYTES:
        raise RequestError(431, f"A request may have {MOST_HEADERS} headers of {HEADER_BYTES} bytes in all.")


def split_host(text: str) -> tuple[str, str]:
    """Name and port of a Host header; both are empty where it is no host, the port where there is none."""
    found = _HOST.fullmatch(text.lower())
    return ("", "") if found is None else (found["six"] or found["name"], found["port"] or "")


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
