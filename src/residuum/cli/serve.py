"""``residuum serve``: a saved model as a service over HTTP."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from residuum.cli.options import FILE, n_jobs_option


@click.command()
@click.argument("model", type=FILE)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0: any free one."
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on. One that other machines can reach makes every request need a token.",
)
@click.option(
    "--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that answer."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1, max=3600),
    default=30.0,
    show_default=True,
    help="Seconds that one request may take.",
)
@n_jobs_option
def serve(model: Path, port: int, host: str, workers: int, timeout: float, n_jobs: int | None) -> None:
    """Answer programs over HTTP by MODEL, a file from 'residuum fit'.

    POST /v1/predict and /v1/explain take JSON, CSV, NPY or a picture, and answer as 'residuum predict --json'
    and 'residuum explain --json' do; /v1/model, /healthz, /metrics and /openapi.json describe the rest.

    SIGHUP reads MODEL again without losing a request; SIGTERM and Ctrl-C finish what has begun. The token of
    an address that others can reach is printed, or taken from the variable RESIDUUM_TOKEN.
    """
    from residuum.system.packages import starlette_and_uvicorn

    starlette_and_uvicorn()
    from residuum.server.checks import Limits
    from residuum.server.running import Settings, serve
    from residuum.server.service import PATHS, ModelService

    debug = "--debug" in sys.argv  # taken out of the words of every command
    settings = Settings(host, port, workers, PATHS, Limits(seconds=timeout), debug, n_jobs)
    serve(ModelService(model), settings)
