"""What to run of a table, cell by cell, and how long it will take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from residuum.errors import UsageError
from residuum.experiments.run_folder import CELLS
from residuum.paper.photo_tables import PhotoTable
from residuum.paper.protocol import PROTOCOLS, methods_of
from residuum.paper.tables import PaperTable

# How long a cell takes beside the others of its row, for the first estimate of the time left; measured times
# replace it as soon as there are any.
COSTS = {
    "softmax": 8.0,
    "NSC": 2.0,
    "SVM": 4.0,
    "SRC": 8.0,
    "CROC": 3.0,
    "ProCRC": 6.0,
    "NRC": 8.0,
    "SoftNRC": 15.0,
}


@dataclass(frozen=True)
class Plan:
    """What to run of one table; `listings` tells copies of a set of photographs apart, by row."""

    table: PaperTable | PhotoTable
    rows: tuple[Any, ...]
    trials: int
    protocols: tuple[str, ...]
    seed: int = 0
    queries: int | None = None
    validation: int | None = None
    quick: bool = False
    methods: tuple[str, ...] | None = None
    listings: Mapping[str, str] = field(default_factory=dict)

    def keys(self) -> Iterator[Key]:
        """Every cell, trial by trial, so that an interrupted run has whole trials."""
        for trial in range(self.trials):
            for row in self.rows:
                if trial >= self.row_trials(row):
                    continue
                for protocol in self.protocols:
                    for method in methods_of(self.table, protocol):
                        if self.methods is None or method in self.methods:
                            yield Key(self.table.name, row, trial, protocol, method)

    def row_trials(self, row: Any) -> int:
        """Trials of one row: an official split can be run once only."""
        official = isinstance(self.table, PhotoTable) and self.table.row(row).per_class is None
        return 1 if official else self.trials


@dataclass(frozen=True)
class Key:
    """Which cell; a row is a number, or the name of a data set with its features."""

    table: str
    row: Any
    trial: int
    protocol: str
    method: str

    def path(self, folder: Path) -> Path:
        """The file of this cell."""
        name = f"trial-{self.trial:03d}-{self.protocol}-{self.method}.json"
        return folder / CELLS / self.table / str(self.row) / name

    def __str__(self) -> str:
        return f"{self.table} {self.row} trial {self.trial + 1}: {self.method}, {self.protocol}"


def plan(
    table: PaperTable,
    *,
    trials: int | None = None,
    quick: bool = False,
    protocols: tuple[str, ...] = tuple(PROTOCOLS),
    seed: int = 0,
) -> Plan:
    """The rows, trials and queries of a whole or a quick run."""
    _check(trials, seed)
    most = table.trials if table.split == "official" else 1000
    small = table.quick
    return Plan(
        table,
        (small.rows or table.rows) if quick else table.rows,
        min(most, trials or (small.trials if quick else table.trials)),
        protocols,
        seed,
        small.queries if quick else None,
        (small.validation or table.validation) if quick else table.validation,
        quick,
    )


def photo_plan(
    table: PhotoTable,
    listings: Mapping[str, str],
    *,
    trials: int | None = None,
    quick: bool = False,
    protocols: tuple[str, ...] = tuple(PROTOCOLS),
    seed: int = 0,
) -> Plan:
    """The same for some rows of a table of photographs: row -> fingerprint of the list of its images."""
    _check(trials, seed)
    rows = tuple(listings)
    usual = max((table.row(row).trials for row in rows), default=1)
    return Plan(
        table,
        rows,
        trials or (1 if quick else usual),
        protocols,
        seed,
        table.quick_queries if quick else None,
        table.quick_validation if quick else table.validation,
        quick,
        listings=listings,
    )


def _check(trials: int | None, seed: int) -> None:
    if trials is not None and not 1 <= trials <= 1000:
        raise UsageError(f"trials must be from 1 to 1000. Got {trials}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must be from 0 to {2**32 - 1}. Got {seed}.")


@dataclass
class Clock:
    """Seconds left, from the measured times of like cells, or else in proportion to `COSTS`."""

    pending: list[Key]
    workers: int = 1  # cells computed side by side
    seconds: dict[tuple[Any, ...], list[float]] = field(default_factory=dict)
    _spent: float = 0.0
    _guessed: float = 0.0

    @staticmethod
    def _like(key: Key) -> tuple[Any, ...]:
        return (key.table, key.row, key.protocol, key.method)

    def guess(self, key: Key) -> float:
        """Relative cost of a cell."""
        return COSTS.get(key.method, 1.0) * (key.row if isinstance(key.row, int) else 1.0)

    def done(self, key: Key, seconds: float) -> None:
        """A cell is finished."""
        self.seconds.setdefault(self._like(key), []).append(seconds)
        self._spent += seconds
        self._guessed += self.guess(key)
        self.pending.remove(key)

    def left(self) -> float | None:
        """Seconds left; None before anything was measured."""
        if not self._guessed:
            return None
        rate = self._spent / self._guessed
        total = 0.0
        for key in self.pending:
            like = self.seconds.get(self._like(key))
            total += sum(like) / len(like) if like else rate * self.guess(key)
        return total / self.workers
