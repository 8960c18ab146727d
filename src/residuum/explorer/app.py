"""The page and its questions over HTTP: files of the folder ``page``, and JSON below ``/api``.

Whoever may ask is decided by `residuum.server.guards`. The files of the page are the same for everyone and
hold nothing of the data; everything below ``/api`` needs the token of the printed address.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from residuum.errors import UsageError
from residuum.explorer.asking import asked_query
from residuum.explorer.removal import smallest_set
from residuum.explorer.session import Exploration, Removed
from residuum.reports.thumbnails import png
from residuum.server.batching import Lane
from residuum.server.bodies import parsed_json
from residuum.server.errors import RequestError
from residuum.server.guards import Guarded
from residuum.server.running import Worker
from residuum.system.json_text import plain

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PATHS = ("/", "/api/summary", "/api/explain", "/api/confusion", "/api/smallest")
SEARCH_SECONDS = 20.0  # for the smallest set; a request may take 30


class ExplorerService:
    """A `Service` of one exploration; see `residuum.server.running`.

    Explanations take turns in the lane. What may take seconds has a thread of its own, so that sliders stay
    quick meanwhile.
    """

    def __init__(self, exploration: Exploration, worker: Worker) -> None:
        self.exploration = exploration
        guards = worker.settings.guards(worker.metrics, content_types=("application/json",))
        self.app = Guarded(self._routes(), replace(guards, needs_token=_asks_for_data))
        self.lane = Lane()
        self._slow = ThreadPoolExecutor(1, thread_name_prefix="residuum-slow")
        self._files = {path.name: path.read_bytes() for path in PAGE.iterdir() if path.suffix in TYPES}
        self._picture = lru_cache(4096)(self._encoded_picture)

    def reload(self) -> str:
        """Nothing is read again."""
        return "The explorer goes on with what it has read."

    async def close(self) -> None:
        """End the threads."""
        await self.lane.close()
        self._slow.shutdown(wait=True, cancel_futures=True)

    def _routes(self) -> list[Route]:
        return [
            Route("/", self.page, methods=["GET"]),
            Route("/page/{name}", self.file, methods=["GET"]),
            Route("/api/summary", self.summary, methods=["GET"]),
            Route("/api/pictures/{part}/{number}", self.picture, methods=["GET"]),
            Route("/api/explain", self.explain, methods=["POST"]),
            Route("/api/confusion", self.confusion, methods=["POST"]),
            Route("/api/smallest", self.smallest, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """The page itself."""
        return Response(self._files["index.html"], media_type=TYPES[".html"])

    async def file(self, request: Request) -> Response:
        """A script or style of the page."""
        name = request.path_params["name"]
        if name not in self._files:
            raise RequestError(404, "There is nothing at this address.")
        return Response(self._files[name], media_type=TYPES[Path(name).suffix])

    async def summary(self, request: Request) -> Response:
        """What is explored."""
        return _as_json(await self.lane.alone(self.exploration.summary))

    async def picture(self, request: Request) -> Response:
        """A training sample or a held-out one as PNG."""
        part, number = request.path_params["part"], request.path_params["number"]
        content = None
        if number.isdecimal() and len(number) < 12:
            content = self._picture(part, int(number))
        if content is None:
            raise RequestError(404, "There is no such picture.")
        return Response(content, media_type="image/png", headers={"cache-control": "private, max-age=3600"})

    def _encoded_picture(self, part: str, number: int) -> bytes | None:
        exploration = self.exploration
        known = {"train": exploration.pictures, "held-out": exploration.held_out.pictures}
        pictures = known.get(part)
        return None if pictures is None or number >= len(pictures) else png(np.asarray(pictures[number]))

    async def explain(self, request: Request) -> Response:
        """Why one query is answered as it is."""
        asked = await _asked(request, {"query", "settings", "removed"})
        return _as_json(await self.lane.alone(self._explained, asked))

    def _explained(self, asked: dict[str, Any]) -> dict[str, Any]:
        found = asked_query(self.exploration, asked.get("query"))
        settings, removed = self._context(asked)
        values = None if found.values is None else found.values.tolist()
        return {**self.exploration.explain(found.query, settings, removed), "values": values}

    def _context(self, asked: dict[str, Any]) -> tuple[Any, Removed]:
        settings = self.exploration.controls.checked(asked.get("settings"))
        return settings, Removed.checked(asked.get("removed"), self.exploration)

    async def confusion(self, request: Request) -> Response:
        """What every held-out sample is answered."""
        asked = await _asked(request, {"settings"})
        settings = self.exploration.controls.checked(asked.get("settings"))
        return _as_json(await self._in_slow_thread(lambda _: self.exploration.confusion(settings)))

    async def smallest(self, request: Request) -> Response:
        """The smallest set of training samples without which the answer changes."""
        asked = await _asked(request, {"query", "settings", "removed"})
        query = asked_query(self.exploration, asked.get("query")).query
        settings, removed = self._context(asked)
        found = await self._in_slow_thread(
            lambda goes_on: smallest_set(self.exploration, query, settings, removed, goes_on=goes_on)
        )
        return _as_json(plain({**asdict(found), "exact": found.exact}))

    async def _in_slow_thread(self, work: Callable[[Callable[[], bool]], Any]) -> Any:
        """``work(goes_on)``; `goes_on` says no when the client has gone or time is up."""
        gone, until = [False], time.monotonic() + SEARCH_SECONDS

        def goes_on() -> bool:
            return not gone[0] and time.monotonic() < until

        def unless_gone() -> Any:
            return None if gone[0] else work(goes_on)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._slow, unless_gone)
        finally:
            gone[0] = True


def _asks_for_data(scope: Any) -> bool:
    return scope["path"].startswith("/api/")


async def _asked(request: Request, keys: set[str]) -> dict[str, Any]:
    content = parsed_json(await request.body())
    if not isinstance(content, dict) or not set(content) <= keys:
        raise UsageError(f"The body must be a JSON object with the keys {', '.join(sorted(keys))}.")
    return content


def _as_json(content: Any) -> Response:
    return Response(json.dumps(content, allow_nan=False), media_type="application/json")
