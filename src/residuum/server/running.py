"""Run a service on a socket: in this process, or in several that share the socket.

SIGTERM and Ctrl-C stop accepting connections, let the requests that have begun come to their end, and then
end the process, with exit code 0 after SIGTERM and 130 after Ctrl-C. SIGHUP reads again what is served, while
requests go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from residuum.errors import ResiduumError, UsageError
from residuum.server.checks import LOOPBACK, Guards, Limits
from residuum.server.metrics import Layout, Metrics
from residuum.system.threads import limit_threads

TOKEN_VARIABLE = "RESIDUUM_TOKEN"
GRACE = 30  # seconds that requests which have begun may take after SIGTERM
_BACKLOG = 1024


@dataclass(frozen=True)
class Settings:
    """Where and how to serve.

    Attributes
    ----------
    host : str
        Address to listen on.
    port : int
        0 is any free one.
    workers : int
        Processes; 1 is this one alone.
    paths : tuple of str
        Addresses that the metrics tell apart.
    limits : Limits
    debug : bool
        Whether tracebacks go to standard error.
    n_jobs : int or None
        Threads of every worker; -1 is all cores, None as the libraries choose.
    token : str
        The secret that guards what needs it; by default the variable RESIDUUM_TOKEN, else a random one.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    paths: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    debug: bool = False
    n_jobs: int | None = None
    token: str = field(default_factory=lambda: os.environ.get(TOKEN_VARIABLE) or secrets.token_urlsafe(24))

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The address to open."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def guards(self, metrics: Metrics, **others: Any) -> Guards:
        """The guards of this address; on one that others can reach, every request needs the token."""
        wildcard = self.host in ("0.0.0.0", "::")
        hosts = {*LOOPBACK, self.host.lower()}
        if not self.is_loopback:
            hosts |= {socket.gethostname().lower()}
            others["needs_token"] = lambda scope: True
        return Guards(
            hosts=hosts,
            port=self.port,
            any_address=wildcard,
            token=self.token,
            limits=self.limits,
            observe=metrics.observe,
            unforeseen=lambda: metrics.add("residuum_unexpected_errors_total"),
            debug=self.debug,
            **others,
        )


@dataclass(frozen=True)
class Worker:
    """What a service is told by the process that runs it: the settings with the port that was bound."""

    settings: Settings
    metrics: Metrics


class Service(Protocol):
    """What is served."""

    app: Any  # an ASGI application

    def reload(self) -> str:
        """Read again what is served and return a sentence on it; called in a thread, after SIGHUP.

        Requests go on meanwhile. An error leaves everything as it was.
        """

    async def close(self) -> None:
        """Release threads; called when no request is left."""


Build = Callable[[Worker], Service]


def serve(build: Build, settings: Settings, *, opened: Callable[[str], None] | None = None) -> None:
    """Serve until SIGTERM, or Ctrl-C, which raises KeyboardInterrupt.

    Parameters
    ----------
    build : callable
        ``build(worker)`` returns the service. With several workers it is called in each of them, so it must
        be possible to pickle it.
    settings : Settings
    opened : callable or None, default=None
        Called with the address once requests are answered; None prints it.
    """
    listening = bind(settings)
    settings = replace(settings, port=listening.getsockname()[1])
    if not settings.is_loopback:
        say(
            f"Warning: {settings.host} can be reached from other machines, and nothing that is sent is "
            "encrypted. Every request must show the token."
        )
        if TOKEN_VARIABLE not in os.environ:
            say(f"Token: {settings.token}")

    def ready() -> None:
        if opened is None:
            say(f"Serving on {settings.url} (Ctrl-C ends it)")
        else:
            opened(settings.url)

    if settings.workers == 1:
        with listening:
            reason = run_here(build, Worker(settings, Metrics(Layout(settings.paths))), listening, ready)
    else:
        from residuum.server.workers import supervise

        with listening:
            reason = supervise(build, settings, listening, ready)
    if reason == signal.SIGINT:
        raise KeyboardInterrupt


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the address of the settings."""
    if not settings.host.strip():
        raise UsageError("--host must be an address or a name. Got an empty text; 0.0.0.0 is every address.")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
        listening.setblocking(False)
        listening.set_inheritable(True)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"{settings.host}:{settings.port} cannot be listened on: {error.strerror or error}. Choose "
            "another --port (0 is any free one) or --host."
        ) from error
    return listening


def run_here(
    build: Build,
    worker: Worker,
    listening: socket.socket,
    ready: Callable[[], None],
    *,
    parent: int | None = None,
) -> int:
    """Serve in this process; return the signal that ended it.

    `parent` is a file descriptor that can be read when the supervisor has ended, which is an end here too.
    """
    with limit_threads(worker.settings.n_jobs):
        return asyncio.run(_run(build, worker, listening, ready, parent))


async def _run(
    build: Build, worker: Worker, listening: socket.socket, ready: Callable[[], None], parent: int | None
) -> int:
    from residuum.server.connections import server_of

    service = build(worker)
    spare_collector()
    server = server_of(service.app, grace=GRACE)
    ended: list[int] = []

    def end(number: int) -> None:
        server.force_exit = bool(ended)  # the second signal does not wait for requests
        server.should_exit = True
        ended.append(number)

    def orphaned() -> None:
        asyncio.get_running_loop().remove_reader(parent or 0)
        end(signal.SIGTERM)

    if parent is not None:
        asyncio.get_running_loop().add_reader(parent, orphaned)
    with _signals(end, _Reloading(service, worker.metrics).begin):
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        while not server.started and not running.done():
            await asyncio.sleep(0)
        if server.started:
            ready()
        await running
    await service.close()
    return ended[0] if ended else 0


class _Reloading:
    """Reads the model again in a thread, one time after the other; a signal meanwhile means once more."""

    def __init__(self, service: Service, metrics: Metrics) -> None:
        self._service, self._metrics = service, metrics
        self._asked = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin now, or again when the one that runs is done."""
        self._asked = True
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._reload())

    async def _reload(self) -> None:
        while self._asked:
            self._asked = False
            try:
                say(await asyncio.to_thread(self._service.reload))
                spare_collector()
                self._metrics.add("residuum_reloads_total")
            except Exception as error:
                told = str(error) if isinstance(error, ResiduumError) else f"unexpected {error!r}"
                say(f"Warning: what was served before is still served. {' '.join(told.split())}")
                self._metrics.add("residuum_reload_failures_total")


def spare_collector() -> None:
    """Take what is there now out of the garbage collector's rounds.

    Modules and the model are some 140,000 objects that stay. Looking at all of them again and again took a
    twelfth of the processor time of the requests.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def _signals(end: Callable[[int], None], reload: Callable[[], None]) -> Iterator[None]:
    """Let signals call these in the event loop; what they did before is set again at the end."""
    loop = asyncio.get_running_loop()
    handlers: dict[int, tuple[Any, ...]] = {
        signal.SIGINT: (end, signal.SIGINT),
        signal.SIGTERM: (end, signal.SIGTERM),
    }
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = (reload,)
    before = {number: signal.getsignal(number) for number in handlers}
    taken = [number for number in handlers if number != signal.SIGINT or before[number] != signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, *handlers[number])
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def say(text: str) -> None:
    """A line for whoever started the server; standard output stays free."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)
