"""``residuum serve``: the interface ``/v1`` to one model, for programs."""

from __future__ import annotations

import asyncio
import json
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from residuum.errors import UsageError
from residuum.inputs import OwnData
from residuum.server.batching import Lane
from residuum.server.errors import RequestError
from residuum.server.guards import Guarded
from residuum.server.model import ServedModel
from residuum.server.openapi import description
from residuum.server.running import Worker
from residuum.system.json_text import plain

PATHS = ("/v1/predict", "/v1/explain", "/v1/model", "/healthz", "/metrics", "/openapi.json")
SMALL = 2**15  # bytes of a body that is read at once, rather than in a thread
MOST_ATOMS = 1000


@dataclass(frozen=True)
class ModelService:
    """Build with ``build(worker)``; see `ServingModel`. This is what is sent to worker processes."""

    path: Path

    def __call__(self, worker: Worker) -> ServingModel:
        return ServingModel(self.path, worker)


class ServingModel:
    """A `Service` of one model file.

    `routes` and `lane` are there for pages that stand on the same model: they may be given more routes.
    """

    def __init__(self, path: Path, worker: Worker, *, routes: tuple[Any, ...] = (), **guards: Any) -> None:
        warnings.simplefilter("ignore")  # what they say of a query is in its answer
        self.path, self.worker = path, worker
        self.model = ServedModel.open(path)
        self.app = Guarded([*self._routes(), *routes], worker.settings.guards(worker.metrics, **guards))
        self.lane = Lane(expected=lambda: self.app.in_flight, told=self._count)
        self._readers = ThreadPoolExecutor(2, thread_name_prefix="residuum-reading")

    def reload(self) -> str:
        """Read the model file again; requests that have begun are answered by the model before."""
        self.model = ServedModel.open(self.path)
        return f"Read {self.path.name} again."

    async def close(self) -> None:
        """End the threads."""
        await self.lane.close()
        self._readers.shutdown(wait=True, cancel_futures=True)

    def _count(self, requests: int, rows: int) -> None:
        metrics = self.worker.metrics
        metrics.add("residuum_turns_total")
        metrics.add("residuum_turn_requests_total", requests)

    def _routes(self) -> list[Route]:
        return [
            Route("/v1/predict", self.predict, methods=["POST"]),
            Route("/v1/explain", self.explain, methods=["POST"]),
            Route("/v1/model", self.about, methods=["GET"]),
            Route("/healthz", self.health, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/openapi.json", self.openapi, methods=["GET"]),
        ]

    async def predict(self, request: Request) -> Response:
        """Answer every query of the body."""
        options = _options(request, {"all_probabilities"})
        model = self.model
        all_probabilities = _truth(options, "all_probabilities")
        if all_probabilities and not model.has_probabilities:
            raise UsageError("The model has no probabilities. Fit it with --probability to get them.")
        queries = await self.queries(model, request)
        work = model.answer_with_probabilities if all_probabilities else model.answer_rows
        key = str(np.asarray(queries.features).dtype)
        found = await self.lane.by_turns(work, queries.features, key=key)
        listed = [record for answered in found for record in answered.records]
        for record, name in zip(listed, queries.names.tolist(), strict=True):
            record["name"] = name
        self.worker.metrics.add("residuum_queries_total", len(listed))
        return as_json(
            {
                "model": model.name,
                "features_used": model.features_used,
                "not_converged": sum(answered.not_converged for answered in found),
                "notes": queries.notes,
                "answers": listed,
            }
        )

    async def explain(self, request: Request) -> Response:
        """Say why the single query of the body gets its label."""
        options = _options(request, {"atoms"})
        model = self.model
        atoms = _count(options, "atoms", default=10, most=MOST_ATOMS)
        queries = await self.queries(model, request)
        if len(queries) != 1:
            raise RequestError(400, f"/v1/explain takes one query. Got {len(queries)}: send one at a time.")
        content = await self.lane.alone(lambda: model.explain(queries, atoms=atoms))
        self.worker.metrics.add("residuum_queries_total")
        head = {"model": model.name, "features_used": model.features_used, "name": str(queries.names[0])}
        return as_json({**head, **content})

    async def queries(self, model: ServedModel, request: Request) -> OwnData:
        """The queries of a request, with features."""
        body = await request.body()
        kind = request.headers["content-type"].partition(";")[0].strip().lower()
        most = self.worker.settings.limits.pixels

        def read() -> OwnData:
            return model.read(body, kind, most_pixels=most)

        if len(body) <= SMALL and not model.takes_pictures:
            return read()
        queries = await asyncio.get_running_loop().run_in_executor(self._readers, read)
        if queries.features is None:
            queries = await self.lane.alone(model.with_features, queries)
        return queries

    async def about(self, request: Request) -> Response:
        """Describe the model."""
        _options(request, set())
        return as_json(self.model.description())

    async def health(self, request: Request) -> Response:
        """Say that requests are answered."""
        return as_json({"status": "ok", "model": self.model.name})

    async def metrics(self, request: Request) -> Response:
        """Numbers for Prometheus."""
        self.worker.metrics.set("residuum_requests_in_flight", self.app.in_flight)
        self.worker.metrics.set("residuum_waiting", len(self.lane))
        return PlainTextResponse(self.worker.metrics.text(), media_type="text/plain; version=0.0.4")

    async def openapi(self, request: Request) -> Response:
        """Describe this interface."""
        return JSONResponse(description(self.model))


def as_json(content: Any) -> Response:
    """Results as JSON: infinite numbers as text, unknown ones as null."""
    text = json.dumps(plain(content), allow_nan=False, separators=(",", ":"))
    return Response(text, media_type="application/json")


def _options(request: Request, known: set[str]) -> dict[str, str]:
    """What the address says after the question mark, once each."""
    given = request.query_params.multi_items()
    unknown = [name for name, _ in given if name not in known | {"token"}]
    if unknown or len({name for name, _ in given}) < len(given):
        allowed = ", ".join(sorted(known)) or "none"
        raise RequestError(400, f"The options of this address are: {allowed}. Give each at most once.")
    return dict(given)


def _truth(options: dict[str, str], name: str) -> bool:
    text = options.get(name, "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise RequestError(400, f"The option {name} must be true or false.")
    return text in ("true", "1")


def _count(options: dict[str, str], name: str, *, default: int, most: int) -> int:
    text = options.get(name, str(default))
    if not (text.isdecimal() and text.isascii() and len(text) < 10 and 1 <= int(text) <= most):
        raise RequestError(400, f"The option {name} must be a whole number from 1 to {most}.")
    return int(text)
