"""Where ``--cluster`` leads: threads of this process, workers on this machine, or a cluster that is there."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from residuum.errors import UsageError
from residuum.scale.runner import INSTALL, ClusterError, Dask, Local, Runner
from residuum.system.packages import package
from residuum.system.threads import allowed_cores

_PATIENCE = "30s"  # until a scheduler answers


@contextmanager
def connected(where: str | None, memory: str | None = None, n_jobs: int | None = None) -> Iterator[Runner]:
    """A runner for None (threads), "local", "local:4", the address of a scheduler or its FILE.json."""
    if where is None:
        yield Local(n_jobs=n_jobs, memory=memory)
        return
    distributed = package("distributed", INSTALL)
    if where == "local" or where.startswith("local:"):
        count = where.removeprefix("local").removeprefix(":")
        if where != "local" and not (count.isdecimal() and int(count)):
            raise UsageError(f"--cluster local:N takes a number of workers from 1 on. Got {where!r}.")
        n_workers = int(count) if count else allowed_cores(n_jobs)
        with local_workers(n_workers) as client:
            yield Dask(client, memory=memory)
        return
    with _client(distributed, where) as client:
        yield Dask(client, memory=memory)


@contextmanager
def local_workers(n_workers: int, **settings: Any) -> Iterator[Any]:
    """A client of worker processes on this machine, each with one thread; settings go to `LocalCluster`.

    15 seconds after a worker is lost, Dask looks whether it is back, and if not gives it up for good. A
    worker that was lost twice, or that starts slowly on a busy machine, is just not back yet. So here nobody
    looks: the nanny of a worker restarts it, as often as it takes.
    """
    import dask

    distributed = package("distributed", INSTALL)
    wanted = {
        "n_workers": n_workers,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",  # any free port, for this machine alone
    }
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1000 days"}),
        distributed.LocalCluster(**(wanted | settings)) as cluster,
        distributed.Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


def _client(distributed: Any, where: str) -> Any:
    if where.endswith(".json"):
        if not Path(where).is_file():
            raise UsageError(f"--cluster {where}: there is no such scheduler file.")
        address: dict[str, Any] = {"scheduler_file": where}
    elif "://" in where or ":" in where:
        address = {"address": where}
    else:
        raise UsageError(
            "--cluster takes local, local:N, the ADDRESS of a Dask scheduler such as tcp://host:8786, or its "
            f"FILE.json. Got {where!r}."
        )
    # A scheduler that is lost is told once, by `ClusterError`, and not also by a traceback of Dask.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    try:
        return distributed.Client(**address, timeout=_PATIENCE, direct_to_workers=True)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(f"--cluster {where}: no Dask scheduler answers there ({error}).") from error
