"""Numbers about the requests, in the text format of Prometheus.

Every worker process counts in a row of its own of one array in shared memory, so that ``/metrics`` can add up
all of them, whichever worker answers. A worker that is started again goes on with the row of the one before.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field
from typing import Any

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds
STATUSES = (200, 304, 400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 429, 431)
OTHER = "other"  # of a path or a status that has no name of its own

# Counter -> what it counts.
COUNTERS = {
    "residuum_queries_total": "Queries that were answered.",
    "residuum_turns_total": "Calls of the solver, each for all the requests that were waiting.",
    "residuum_turn_requests_total": "Requests, or parts of large ones, in these calls.",
    "residuum_unexpected_errors_total": "Errors that were not foreseen, which clients saw as status 422.",
    "residuum_reloads_total": "Models that were read again after SIGHUP.",
    "residuum_reload_failures_total": "Models that could not be read again, so that the old one stayed.",
}
# Gauge -> what it measures, in every worker that runs.
GAUGES = {
    "residuum_requests_in_flight": "Requests that are being handled.",
    "residuum_waiting": "Computations that are waiting for their turn.",
}


@dataclass(frozen=True)
class Layout:
    """Which number of a row counts what; `paths` are the addresses that are told apart."""

    paths: tuple[str, ...]
    places: dict[tuple[str, ...], int] = field(init=False)

    def __post_init__(self) -> None:
        names: list[tuple[str, ...]] = [(name,) for name in (*GAUGES, *COUNTERS)]
        for path in (*self.paths, OTHER):
            names += [("requests", path, str(status)) for status in (*STATUSES, OTHER)]
            names += [("seconds", path, str(bound)) for bound in (*BUCKETS, "+Inf", "sum")]
        object.__setattr__(self, "places", {name: place for place, name in enumerate(names)})

    def __len__(self) -> int:
        return len(self.places)


def shared_rows(layout: Layout, workers: int) -> Any:
    """Memory for the numbers of all workers, zero at first, to be passed to each of them."""
    return multiprocessing.get_context("spawn").RawArray("d", len(layout) * workers)


class Metrics:
    """The numbers of one worker, and the sums over all.

    Parameters
    ----------
    layout : Layout
    rows : array of float or None, default=None
        From `shared_rows`; None where there is one worker.
    worker : int, default=0
        Whose row to count in.
    """

    def __init__(self, layout: Layout, rows: MutableSequence[float] | None = None, worker: int = 0) -> None:
        self.layout = layout
        self._rows: MutableSequence[float] = [0.0] * len(layout) if rows is None else rows
        self._start = worker * len(layout)
        for name in GAUGES:
            self.set(name, 0)

    def add(self, name: str, count: float = 1) -> None:
        """Count something of COUNTERS."""
        self._rows[self._start + self.layout.places[name,]] += count

    def set(self, name: str, value: float) -> None:
        """Say how large something of GAUGES is now."""
        self._rows[self._start + self.layout.places[name,]] = value

    def observe(self, path: str, status: int, seconds: float) -> None:
        """Count a request that is over; status 0 is one whose client has gone."""
        path = path if path in self.layout.paths else OTHER
        kind = str(status if status in STATUSES else OTHER)
        bound = next((str(b) for b in BUCKETS if seconds <= b), "+Inf")
        for name, count in (
            (("requests", path, kind), 1.0),
            (("seconds", path, bound), 1.0),
            (("seconds", path, "sum"), seconds),
        ):
            self._rows[self._start + self.layout.places[name]] += count

    def value(self, *name: str) -> float:
        """The sum of a number over all workers."""
        place, step = self.layout.places[name], len(self.layout)
        return float(sum(self._rows[i] for i in range(place, len(self._rows), step)))

    def text(self) -> str:
        """All numbers in the text format of Prometheus, version 0.0.4."""
        lines: list[str] = []
        for kind, names in (("gauge", GAUGES), ("counter", COUNTERS)):
            for name, told in names.items():
                lines += _heading(name, told, kind)
                lines.append(f"{name} {self.value(name):.17g}")
        lines += _heading("residuum_requests_total", "Requests by address and status.", "counter")
        paths = (*self.layout.paths, OTHER)
        for path in paths:
            for status in (*STATUSES, OTHER):
                if count := self.value("requests", path, str(status)):
                    labels = f'{{path="{path}",status="{status}"}}'
                    lines.append(f"residuum_requests_total{labels} {count:.17g}")
        lines += _heading("residuum_request_seconds", "Time from header to answer.", "histogram")
        for path in paths:
            lines += self._histogram(path)
        return "\n".join(lines) + "\n"

    def _histogram(self, path: str) -> Sequence[str]:
        counts = [self.value("seconds", path, str(bound)) for bound in (*BUCKETS, "+Inf")]
        if not any(counts):
            return []
        name, lines, so_far = "residuum_request_seconds", [], 0.0
        for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
            so_far += count
            lines.append(f'{name}_bucket{{path="{path}",le="{bound}"}} {so_far:.17g}')
        lines.append(f'{name}_sum{{path="{path}"}} {self.value("seconds", path, "sum"):.17g}')
        lines.append(f'{name}_count{{path="{path}"}} {so_far:.17g}')
        return lines


def _heading(name: str, told: str, kind: str) -> list[str]:
    return [f"# HELP {name} {told}", f"# TYPE {name} {kind}"]
