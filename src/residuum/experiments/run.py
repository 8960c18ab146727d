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
from pathlib import Path
from typing import Any

from residuum.experiments.photo_tables import PhotoTable
from residuum.experiments.photos import PhotoPreparation
from residuum.experiments.plans import Clock, Key, Plan
from residuum.experiments.preparation import Preparation, Prepared
from residuum.experiments.protocol import PROTOCOLS, Answer, answer, grid
from residuum.experiments.run_folder import plain, to_json, write_atomic

FORMAT = "residuum cell 1"
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
    preparation: Preparation | PhotoPreparation | None = None
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

            def tell(text: str) -> None:
                on_step(text, len(keys) - len(clock.pending), len(keys), clock.left())

            preparation = _preparation(plan, data_home, cache_dir, tell)
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
    write_atomic(path, to_json(cell))


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
    write_atomic(path, to_json(content))


def read_cell(path: Path) -> dict[str, Any] | None:
    """A finished cell; None where there is none that can be read."""
    try:
        cell = json.loads(path.read_text(encoding="utf-8"))
        return cell if cell["format"] == FORMAT and cell["predictions"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
