"""What to run of a table, cell by cell, and how a cell is computed.

A cell is one method under one protocol on one row and trial of a table. It holds the raw predictions, so that
accuracies are always derived and never only stored; the labels of a trial are in a file of their own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from residuum.experiments.runner import Cell, Job, Say
from residuum.features import EXTRACTORS
from residuum.paper.availability import TRIALS
from residuum.paper.entries import PaperTable, Row
from residuum.paper.protocols import PROTOCOLS, MethodResult, grid, methods_of, run_method
from residuum.paper.trials import TrialData
from residuum.system.files import write_text
from residuum.system.json_text import plain, to_json
from residuum.system.machine import free_memory, machine_facts

PROCESS_BYTES = 2 * 2**30  # what a process may need: about 1 GB for the largest row of MNIST


@dataclass(frozen=True)
class Plan:
    """What to run of one table; `listings` tells copies of a set of photographs apart, by row."""

    table: PaperTable
    rows: tuple[Row, ...]
    trials: int
    protocols: tuple[str, ...]
    seed: int = 0
    queries: int | None = None
    validation: int | None = None
    quick: bool = False
    methods: tuple[str, ...] | None = None
    listings: Mapping[int | str, str | None] = field(default_factory=dict)

    def cells(self) -> list[Cell]:
        """Every cell, trial by trial, so that an interrupted run has whole trials.

        The last row of a trial takes longest and comes first: no process is left with it at the end.
        """
        return [
            self._cell(row, trial, protocol, method)
            for trial in range(self.trials)
            for row in reversed(self.rows)
            if trial == 0 or row.split != "official"
            for protocol in self.protocols
            for method in methods_of(self.table, protocol)
            if self.methods is None or method in self.methods
        ]

    def _cell(self, row: Row, trial: int, protocol: str, method: str) -> Cell:
        """The recipe has everything that decides the cell."""
        name = self.table.name
        shown_only = ("name", "title", "paper", "part", "note")
        recipe = {
            "table": name,
            "row": row.name,
            "trial": trial,
            "protocol": protocol,
            "method": method,
            "seed": [self.seed, trial],
            **{key: value for key, value in asdict(row).items() if key not in shown_only},
            "subset": row.subset,
            "listing": self.listings.get(row.name),
            "queries": self.queries,
            "quick": self.quick,
            "chosen_on": "test samples" if PROTOCOLS[protocol].on_test else "training samples",
            "validation": self.validation,
            # The grid of the protocol may depend on N, which follows from the split.
            "grid": grid(self.table, protocol, method, 700),
        }
        version = (
            getattr(EXTRACTORS[row.features](), "feature_version", 1) if row.features in EXTRACTORS else 1
        )
        if version > 1:  # cells of an earlier version are computed anew
            recipe["feature_version"] = version
        title = f"{name} {row.name} trial {trial + 1}: {method}, {protocol}"
        path = cell_name(name, row.name, trial, protocol, method)
        return Cell(path, title, plain(recipe), group=(trial, row.name))


def cell_name(table: str, row: int | str, trial: int, protocol: str, method: str) -> str:
    """Path of a cell below the folder of cells."""
    return f"{table}/{row}/trial-{trial:03d}-{protocol}-{method}"


def make_plan(
    table: PaperTable,
    rows: tuple[Row, ...],
    *,
    trials: int | None = None,
    quick: bool = False,
    protocols: tuple[str, ...] = tuple(PROTOCOLS),
    seed: int = 0,
    listings: Mapping[int | str, str | None] | None = None,
) -> Plan:
    """The rows, trials and queries of a whole or a quick run; None is as many trials as the paper has."""
    small = table.quick
    return Plan(
        table,
        tuple(row for row in rows if not quick or small.rows is None or row.name in small.rows),
        trials or (1 if quick else table.trials),
        protocols,
        seed,
        small.queries if quick else None,
        (small.validation if quick else None) or table.validation,
        quick,
        listings=listings or {},
    )


def accuracy_job(
    plan: Plan, folder: Path, *, data_home: str | None = None, cache_dir: Path | None = None
) -> Job:
    """The cells of a plan. Rows and trials of arrays may be computed in processes of their own, of one thread
    each: the threads of one process would wait for each other most of the time.
    """
    make = partial(trials_of, plan, data_home=data_home, cache_dir=cache_dir)

    def keep_features(cells: list[Cell], say: Say) -> None:
        # Not the object that is sent to the processes: it would take the data with it.
        trials = replace(make(), say=say)
        trials.keep_slow_features(dict.fromkeys(cell.recipe["trial"] for cell in cells))

    photographs = make().uses_all_cores
    most = 1 if photographs else max(1, (free_memory() or 2**40) // PROCESS_BYTES)
    kept = "Features of images are kept as well: none is computed twice." if photographs else ""
    return Job(plan.cells(), _TrialWork(plan, folder, make()), most, keep_features, kept)


def trials_of(plan: Plan, *, data_home: str | None, cache_dir: Path | None) -> Any:
    """The data of the rows of a plan."""
    kind = TRIALS[plan.table.data]
    return kind(plan.rows, plan.seed, plan.queries, data_home=data_home, cache_dir=cache_dir)


class _TrialWork:
    """Computes cells of a plan."""

    def __init__(self, plan: Plan, folder: Path, trials: Any) -> None:
        self._plan, self._folder, self._trials = plan, folder, trials

    def __call__(self, cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
        plan, trial = self._plan, cells[0].recipe["trial"]
        row = next(row for row in plan.rows if row.name == cells[0].recipe["row"])
        self._trials.say = say
        data = self._trials.features(row, trial)
        self._write_trial(row, trial, data)
        say(cells[0].title)  # the features are complete
        machine = machine_facts()
        answered: dict[str, MethodResult] = {}
        for method, protocol in ((cell.recipe["method"], cell.recipe["protocol"]) for cell in cells):
            parameters = grid(plan.table, protocol, method, len(data.train))
            on_test = PROTOCOLS[protocol].on_test
            # Two protocols may ask the same of a method: it is asked once, and each gets its own file.
            question = f"{method} {on_test} {sorted(parameters.items())}"
            shared = question in answered
            started, busy = time.perf_counter(), time.process_time()
            if not shared:
                answered[question] = run_method(
                    method, parameters, data, on_test=on_test, validation=plan.validation
                )
            yield {
                "n_train": len(data.train),
                "n_features": data.train.shape[1],
                **asdict(answered[question]),
                "seconds": time.perf_counter() - started,
                "cpu_seconds": time.process_time() - busy,
                "shared": shared,
                "machine": machine,
            }

    def _write_trial(self, row: Row, trial: int, data: TrialData) -> None:
        path = trial_path(self._folder, self._plan.table.name, row.name, trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        source, notes = self._trials.about(row, trial)
        content = {
            "table": self._plan.table.name,
            "row": row.name,
            "trial": trial,
            "seed": [self._plan.seed, trial],
            "source": source,
            "notes": notes,
            **asdict(self._trials.split(row, trial)),
            "labels": data.test_labels,
        }
        write_text(path, to_json(content))


def trial_path(folder: Path, table: str, row: int | str, trial: int) -> Path:
    """The file with the split and the labels of a trial."""
    return folder / "trials" / table / f"{row}-{trial:03d}.json"
