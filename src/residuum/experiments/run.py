"""Running the paper's experiments: every finished cell is one file, written whole or not at all.

A cell is one method under one protocol on one row and trial of a table. It holds the raw predictions, so that
accuracies are always derived and never only stored; the labels of a trial are in a file of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from residuum.errors import UsageError
from residuum.experiments.preparation import Preparation, Prepared
from residuum.experiments.protocol import PROTOCOLS, Answer, answer, grid
from residuum.experiments.run_folder import CELLS, plain, to_json, write_atomic
from residuum.experiments.tables import PaperTable

FORMAT = "residuum cell 1"
TRIALS = "trials"

# How long a cell takes beside the others of its row, for the first estimate of the time left; measured times
# replace it as soon as there are any.
COSTS = {"NSC": 2.0, "SVM": 4.0, "SRC": 8.0, "CROC": 3.0, "ProCRC": 6.0, "NRC": 8.0, "SoftNRC": 15.0}


@dataclass(frozen=True)
class Plan:
    """What to run of one table."""

    table: PaperTable
    rows: tuple[int, ...]
    trials: int
    protocols: tuple[str, ...]
    seed: int = 0
    queries: int | None = None
    validation: int | None = None
    quick: bool = False
    methods: tuple[str, ...] | None = None

    def keys(self) -> Iterator[Key]:
        """Every cell, trial by trial, so that an interrupted run has whole trials."""
        for trial in range(self.trials):
            for row in self.rows:
                for protocol in self.protocols:
                    for method in PROTOCOLS[protocol].methods:
                        if self.methods is None or method in self.methods:
                            yield Key(self.table.name, row, trial, protocol, method)


@dataclass(frozen=True)
class Key:
    """Which cell."""

    table: str
    row: int
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
    most = table.trials if table.split == "official" else 1000
    if trials is not None and not 1 <= trials <= 1000:
        raise UsageError(f"trials must be from 1 to 1000. Got {trials}.")
    if not 0 <= seed < 2**32:
        raise UsageError(f"seed must be from 0 to {2**32 - 1}. Got {seed}.")
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


@dataclass
class Clock:
    """Seconds left, from the measured times of like cells, or else in proportion to `COSTS`."""

    pending: list[Key]
    seconds: dict[tuple[Any, ...], list[float]] = field(default_factory=dict)
    _spent: float = 0.0
    _guessed: float = 0.0

    @staticmethod
    def _like(key: Key) -> tuple[Any, ...]:
        return (key.table, key.row, key.protocol, key.method)

    def guess(self, key: Key) -> float:
        """Relative cost of a cell."""
        return COSTS.get(key.method, 1.0) * key.row

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
        return total


OnStep = Callable[[str, int, int, float | None], None]


def run_plan(
    plan: Plan,
    folder: Path,
    machine: dict[str, Any],
    *,
    resume: bool = True,
    data_home: str | None = None,
    cache_dir: Path | None = None,
    on_step: OnStep = lambda text, done, total, left: None,
) -> int:
    """Compute every cell that the folder does not hold yet; return how many were computed.

    Parameters
    ----------
    plan : Plan
        What to run.
    folder : Path
        Run folder.
    machine : dict
        From `machine_facts`; stored in every cell.
    resume : bool
        Whether cells of an earlier run are kept.
    data_home, cache_dir : path or None
        Data sets, and slow features.
    on_step : callable
        Called before each cell with (what, cells done, cells in all, seconds left or None).
    """
    keys = list(plan.keys())
    clock = Clock(list(keys))
    preparation: Preparation | None = None
    held: tuple[tuple[int, int], Prepared] | None = None
    answers: dict[str, tuple[Answer, float, float]] = {}
    computed = 0
    for key in keys:
        recipe = _recipe(plan, key)
        path = key.path(folder)
        kept = read_cell(path) if resume else None
        if kept is not None and kept["recipe"] == recipe:
            clock.done(key, 0.0 if kept["shared"] else kept["seconds"])
            continue
        on_step(str(key), len(keys) - len(clock.pending), len(keys), clock.left())
        if preparation is None:
            preparation = Preparation(
                plan.table,
                plan.rows,
                seed=plan.seed,
                queries=plan.queries,
                data_home=data_home,
                cache_dir=cache_dir,
            )
        if held is None or held[0] != (key.row, key.trial):
            held, answers = ((key.row, key.trial), preparation.features(key.row, key.trial)), {}
            _write_trial(folder, plan, key, preparation, held[1])
        data = held[1]
        parameters = grid(plan.table, key.protocol, key.method, len(data.train))
        # Two protocols may ask the same of a method: it is asked once, and each gets its own file.
        question = f"{key.method} {PROTOCOLS[key.protocol].on_test} {sorted(parameters.items())}"
        shared = question in answers
        if not shared:
            started, busy = time.perf_counter(), time.process_time()
            found = answer(
                key.method,
                parameters,
                data,
                on_test=PROTOCOLS[key.protocol].on_test,
                validation=plan.validation,
            )
            answers[question] = (found, time.perf_counter() - started, time.process_time() - busy)
        found, seconds, cpu_seconds = answers[question]
        times = {"seconds": seconds, "cpu_seconds": cpu_seconds, "shared": shared}
        _write_cell(path, recipe, found, data, times, machine)
        clock.done(key, 0.0 if shared else seconds)
        computed += 1
    on_step("report", len(keys), len(keys), 0.0)
    return computed


def _recipe(plan: Plan, key: Key) -> dict[str, Any]:
    """Everything that decides a cell, as plain JSON; a cell is only kept under an equal recipe."""
    table = plan.table
    per_class = table.per_class(key.row)
    return plain(
        {
            **asdict(key),
            "seed": [plan.seed, key.trial],
            "dataset": table.dataset,
            "image_shape": table.image_shape,
            "split": table.split,
            "per_class": per_class,
            "features": table.features,
            "dimension": table.dimension(key.row),
            "queries": plan.queries,
            "quick": plan.quick,
            "chosen_on": "test samples" if PROTOCOLS[key.protocol].on_test else "training samples",
            "validation": plan.validation,
            # The grid of the protocol may depend on N, which follows from the split.
            "grid": grid(table, key.protocol, key.method, 700),
        }
    )


def _write_cell(
    path: Path,
    recipe: dict[str, Any],
    found: Answer,
    data: Prepared,
    times: dict[str, Any],
    machine: dict[str, Any],
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "recipe": recipe,
        "n_train": len(data.train),
        "n_features": data.train.shape[1],
        "rule": found.parameters.get("rule"),
        **asdict(found),
        **times,
        "machine": machine,
    }
    write_atomic(path, to_json(cell))


def trial_path(folder: Path, table: str, row: int, trial: int) -> Path:
    """The file with the split and the labels of a trial."""
    return folder / TRIALS / table / f"{row}-{trial:03d}.json"


def _write_trial(folder: Path, plan: Plan, key: Key, preparation: Preparation, data: Prepared) -> None:
    path = trial_path(folder, key.table, key.row, key.trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = preparation.split(key.row, key.trial)
    content = {
        "table": key.table,
        "row": key.row,
        "trial": key.trial,
        "seed": [plan.seed, key.trial],
        "source": preparation.samples.source,
        "notes": list(preparation.samples.notes),
        "train": parts.train,
        "test": parts.test,
        "labels": data.test_labels,
    }
    write_atomic(path, to_json(content))


def read_cell(path: Path) -> dict[str, Any] | None:
    """A finished cell; None where there is none that can be read."""
    try:
        cell = json.loads(path.read_text(encoding="utf-8"))
        return cell if cell["format"] == FORMAT and cell["predictions"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
