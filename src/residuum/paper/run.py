"""Running the paper's experiments: every finished cell is one file, written whole or not at all.

A cell is one method under one protocol on one row and trial of a table. It holds the raw predictions, so that
accuracies are always derived and never only stored; the labels of a trial are in a file of their own.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from residuum.paper.photo_tables import PhotoTable
from residuum.paper.photos import PhotoPreparation
from residuum.paper.plans import Clock, Key, Plan
from residuum.paper.preparation import SLOW_FEATURES, Preparation, Prepared
from residuum.paper.protocol import PROTOCOLS, Answer, answer, grid
from residuum.system.files import write_text
from residuum.system.json_text import plain, to_json
from residuum.system.machine import free_memory, machine_facts
from residuum.system.processes import Tell, side_by_side

FORMAT = "residuum cell 1"
PROCESS_BYTES = 2 * 2**30  # what a process may need: about 1 GB for the largest row of MNIST
TRIALS = "trials"

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
    n_jobs: int = 1,
) -> int:
    """Compute every cell that the folder does not hold yet; return how many were computed.

    Parameters
    ----------
    plan : Plan
        What to run.
    folder : Path
        Run folder.
    machine : dict
        From `machine_facts`; stored in every cell. Processes of their own say what they find.
    resume : bool
        Whether cells of an earlier run are kept.
    data_home, cache_dir : path or None
        Data sets, and slow features.
    on_step : callable
        Called before each cell with (what, cells done, cells in all, seconds left or None).
    n_jobs : int
        Cores. With more than one, rows and trials are computed side by side, each in a process of its own:
        the threads of one process would wait for each other most of the time.
    """
    keys = list(plan.keys())
    clock = Clock(list(keys))
    pending = []
    for key in keys:
        kept = read_cell(key.path(folder)) if resume else None
        if kept is not None and kept["recipe"] == _recipe(plan, key):
            clock.done(key, 0.0 if kept["shared"] else kept["seconds"])
        else:
            pending.append(key)
    groups = [list(cells) for _, cells in groupby(pending, key=lambda key: (key.trial, key.row))]
    # Photographs: the features take the time, and their extractors use all cores by themselves.
    most = 1 if isinstance(plan.table, PhotoTable) else (free_memory() or 2**40) // PROCESS_BYTES
    clock.workers = max(1, min(n_jobs, len(groups), most))

    def step(text: str) -> None:
        on_step(text, len(keys) - len(clock.pending), len(keys), clock.left())

    make = partial(Trials, plan, folder, data_home=data_home, cache_dir=cache_dir)
    reports: dict[str, Callable[..., None]] = {"begin": step, "done": clock.done}

    def on_report(name: str, *told: Any) -> None:
        reports[name](*told)

    if clock.workers == 1:
        trials = make(machine=machine)
        for group in groups:
            trials(group, on_report)
    else:
        _keep_features(make(), groups, on_report)
        # The longest of a trial first, so that none of them is left over for one process at the end.
        groups.sort(key=lambda group: (group[0].trial, -sum(map(clock.guess, group))))
        threads = n_jobs // clock.workers
        side_by_side(make, groups, on_report, workers=clock.workers, threads=threads)
    on_step("report", len(keys), len(keys), 0.0)
    return len(pending)


class Trials:
    """Computes cells of a plan; what cells of the same row and trial share is made once.

    Called with a list of such cells and ``tell``, which hears ``("begin", what)`` before each and
    ``("done", key, seconds)`` after it.
    """

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        *,
        data_home: str | None,
        cache_dir: Path | None,
        machine: dict[str, Any] | None = None,
    ) -> None:
        self.plan, self._folder = plan, folder
        self._machine = machine_facts() if machine is None else machine
        self._homes = (data_home, cache_dir)
        self._preparation: Preparation | PhotoPreparation | None = None

    def preparation(self, tell: Tell) -> Preparation | PhotoPreparation:
        """The data set, loaded when it is first needed."""
        if self._preparation is None:
            self._preparation = _preparation(self.plan, *self._homes, lambda text: tell("begin", text))
        return self._preparation

    def __call__(self, cells: list[Key], tell: Tell) -> None:
        tell("begin", str(cells[0]))
        preparation = self.preparation(tell)
        data = preparation.features(cells[0].row, cells[0].trial)
        _write_trial(self._folder, self.plan, cells[0], preparation, data)
        answers: dict[str, tuple[Answer, float, float]] = {}
        for key in cells:
            tell("begin", str(key))
            parameters = grid(self.plan.table, key.protocol, key.method, len(data.train))
            on_test = PROTOCOLS[key.protocol].on_test
            # Two protocols may ask the same of a method: it is asked once, and each gets its own file.
            question = f"{key.method} {on_test} {sorted(parameters.items())}"
            shared = question in answers
            if not shared:
                started, busy = time.perf_counter(), time.process_time()
                found = answer(key.method, parameters, data, on_test=on_test, validation=self.plan.validation)
                answers[question] = (found, time.perf_counter() - started, time.process_time() - busy)
            found, seconds, cpu_seconds = answers[question]
            times = {"seconds": seconds, "cpu_seconds": cpu_seconds, "shared": shared}
            recipe = _recipe(self.plan, key)
            _write_cell(key.path(self._folder), recipe, found, data, times, self._machine)
            tell("done", key, 0.0 if shared else seconds)


def _keep_features(trials: Trials, groups: list[list[Key]], tell: Tell) -> None:
    """Put slow features on disk, where all processes find them, instead of letting each compute its own."""
    table: Any = trials.plan.table
    if table.features not in SLOW_FEATURES:
        return
    preparation: Any = trials.preparation(tell)
    for trial in dict.fromkeys(group[0].trial for group in groups):
        tell("begin", f"{table.name} trial {trial + 1}: {table.features}")
        preparation.keep(trial)


def _preparation(
    plan: Plan, data_home: str | None, cache_dir: Path | None, tell: Callable[[str], None]
) -> Preparation | PhotoPreparation:
    common: dict[str, Any] = {
        "seed": plan.seed,
        "queries": plan.queries,
        "data_home": data_home,
        "cache_dir": cache_dir,
    }
    if isinstance(plan.table, PhotoTable):
        return PhotoPreparation(plan.table, on_images=tell, **common)
    return Preparation(plan.table, plan.rows, **common)


def _setting(plan: Plan, row: Any) -> dict[str, Any]:
    table = plan.table
    if isinstance(table, PhotoTable):
        entry = table.row(row)
        return {
            "dataset": entry.dataset,
            "subset": entry.subset,
            "listing": plan.listings.get(row),
            "split": "official" if entry.per_class is None else "random",
            "per_class": entry.per_class,
            "features": entry.features,
        }
    return {
        "dataset": table.dataset,
        "image_shape": table.image_shape,
        "split": table.split,
        "per_class": table.per_class(row),
        "features": table.features,
        "dimension": table.dimension(row),
    }


def _recipe(plan: Plan, key: Key) -> dict[str, Any]:
    """Everything that decides a cell, as plain JSON; a cell is only kept under an equal recipe."""
    table = plan.table
    return plain(
        {
            **asdict(key),
            "seed": [plan.seed, key.trial],
            **_setting(plan, key.row),
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
    write_text(path, to_json(cell))


def trial_path(folder: Path, table: str, row: Any, trial: int) -> Path:
    """The file with the split and the labels of a trial."""
    return folder / TRIALS / table / f"{row}-{trial:03d}.json"


def _write_trial(folder: Path, plan: Plan, key: Key, preparation: Any, data: Prepared) -> None:
    path = trial_path(folder, key.table, key.row, key.trial)
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = preparation.split(key.row, key.trial)
    source, notes = preparation.about(key.row, key.trial)
    content = {
        "table": key.table,
        "row": key.row,
        "trial": key.trial,
        "seed": [plan.seed, key.trial],
        "source": source,
        "notes": list(notes),
        "train": parts.train,
        "test": parts.test,
        "labels": data.test_labels,
    }
    write_text(path, to_json(content))


def read_cell(path: Path) -> dict[str, Any] | None:
    """A finished cell; None where there is none that can be read."""
    try:
        cell = json.loads(path.read_text(encoding="utf-8"))
        return cell if cell["format"] == FORMAT and cell["predictions"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
