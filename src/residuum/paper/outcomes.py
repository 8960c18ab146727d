"""From the cells of run folders to means, deviations and paired tests, always from the raw predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.experiments.paired import MCNEMAR, T_TEST, paired_test
from residuum.experiments.runner import CELLS, SETTINGS, read_cell
from residuum.paper.entries import PaperTable
from residuum.paper.protocols import PROTOCOLS, methods_of
from residuum.paper.running import trial_path
from residuum.paper.tables import EXPERIMENTS
from residuum.reports.numbers import mean_and_deviation


@dataclass(frozen=True)
class Outcome:
    """One table under one protocol, with the rows and methods that have at least one cell."""

    table: PaperTable
    protocol: str
    rows: tuple[Any, ...]  # names
    methods: tuple[str, ...]
    hits: dict[tuple[Any, str], dict[int, np.ndarray]]  # row, method -> trial -> which test samples are right
    quick: bool  # whether the cells come from a quick run
    parameters: dict[tuple[Any, str], list[dict[str, Any]]]  # row, method -> those chosen in each trial
    notes: dict[Any, tuple[str, ...]] = field(default_factory=dict)  # row -> what is known about the data

    def only(self, rows: Iterable[Any]) -> Outcome:
        """The same with some of its rows."""
        kept = tuple(rows)
        hits = {place: hit for place, hit in self.hits.items() if place[0] in kept}
        present = {method for _, method in hits}
        return replace(self, rows=kept, hits=hits, methods=tuple(m for m in self.methods if m in present))

    def accuracies(self, row: Any, method: str) -> list[float]:
        """Accuracy of each trial in per cent."""
        return [100 * float(hit.mean()) for _, hit in sorted(self.hits.get((row, method), {}).items())]

    def spread(self, row: Any, method: str) -> tuple[float, float | None]:
        """Mean and standard deviation over the trials; nan where there is no cell, None for a single one."""
        values = self.accuracies(row, method)
        return mean_and_deviation(values) if values else (math.nan, None)

    def mean(self, row: Any, method: str) -> float:
        """Mean accuracy over the trials in per cent; nan where there is no cell."""
        return self.spread(row, method)[0]

    def difference(self, row: Any, method: str) -> float:
        """Ours minus the paper's, points; nan where either is missing."""
        return self.mean(row, method) - self.table.row(row).paper.get(method, math.nan)

    @property
    def trials(self) -> int:
        """Largest number of trials of a cell."""
        return max(map(len, self.hits.values()))

    def p_value(self, row: Any, rival: str, method: str = "NRC") -> float:
        """Two-sided paired test of equal accuracy of a method and a rival; nan where either is missing.

        The test is `paired_test` over the trials that both have.
        """
        ours, theirs = self.hits.get((row, method), {}), self.hits.get((row, rival), {})
        common = sorted(set(ours) & set(theirs))
        if not common:
            return math.nan
        return paired_test([ours[trial] for trial in common], [theirs[trial] for trial in common])[0]

    @property
    def test_name(self) -> str:
        """Which of the two tests `p_value` is."""
        if self.trials == 1:
            return MCNEMAR
        single = min(map(len, self.hits.values())) == 1
        return T_TEST + f", for a single trial the {MCNEMAR}" * single


Cells = dict[tuple[Any, str, int], tuple[dict[str, Any], Path]]  # row, method, trial -> cell and its folder


def read_folders(folders: Iterable[Path]) -> list[Outcome]:
    """Outcomes of all cells in the folders, in the order of the paper; a later folder replaces cells."""
    cells: dict[tuple[str, str], Cells] = {}
    for folder in map(Path, folders):
        if not (folder / SETTINGS).is_file():
            raise UsageError(
                f"{folder} is not a run folder: it has no {SETTINGS}. Pass folders of 'reproduce'."
            )
        for path in sorted((folder / CELLS).glob("*/*/trial-*.json")):
            cell = read_cell(path)
            if cell is not None:
                recipe = _recipe(cell, path)
                place = (recipe["row"], recipe["method"], recipe["trial"])
                cells.setdefault((recipe["table"], recipe["protocol"]), {})[place] = (cell, folder)
    return [_outcome(*place, cells[place]) for place in _places() if place in cells]


def _places() -> Iterator[tuple[str, str]]:
    """Every table of accuracies under every protocol, in the order of the paper."""
    for name, table in EXPERIMENTS.items():
        if table.kind == "accuracy":
            yield from ((name, protocol) for protocol in PROTOCOLS)


def _recipe(cell: dict[str, Any], path: Path) -> dict[str, Any]:
    """The recipe of a cell that has all that is read of one, each of its type."""
    kinds = {"table": str, "protocol": str, "row": int | str, "method": str, "trial": int, "quick": bool}
    recipe, predictions = cell.get("recipe"), cell.get("predictions")
    if not (
        isinstance(recipe, dict)
        and all(isinstance(recipe.get(name), kind) for name, kind in kinds.items())
        and isinstance(predictions, list)
        and all(isinstance(label, int | float | str) for label in predictions)
        and isinstance(cell.get("parameters"), dict)
        and _is_known(recipe)
    ):
        raise DataFormatError(
            f"{path} is not as 'reproduce' writes it. Remove it and run the same again, or get a fresh copy."
        )
    return recipe


def _is_known(recipe: dict[str, Any]) -> bool:
    """Whether a row and a method are those of their table; tables of other versions are left alone."""
    if (recipe["table"], recipe["protocol"]) not in set(_places()):
        return True
    table = EXPERIMENTS[recipe["table"]]
    methods = methods_of(table, recipe["protocol"])
    return recipe["row"] in [row.name for row in table.rows] and recipe["method"] in methods


def _outcome(name: str, protocol: str, cells: Cells) -> Outcome:
    table, labels = EXPERIMENTS[name], {}
    hits: dict[tuple[Any, str], dict[int, np.ndarray]] = {}
    parameters: dict[tuple[Any, str], list[dict[str, Any]]] = {}
    notes: dict[Any, tuple[str, ...]] = {}
    for (row, method, trial), (cell, folder) in sorted(cells.items()):
        path = trial_path(folder, name, row, trial)
        if path not in labels:
            labels[path], more = _labels(path)
            notes[row] = tuple(dict.fromkeys((*notes.get(row, ()), *more)))
        predictions = np.array(cell["predictions"])
        if len(predictions) != len(labels[path]):
            raise DataFormatError(
                f"The cell of {method} ({name}, row {row}, trial {trial}) has {len(predictions)} predictions "
                f"for {len(labels[path])} labels in {path}. Run 'reproduce {name} --fresh' again."
            )
        hits.setdefault((row, method), {})[trial] = predictions == labels[path]
        parameters.setdefault((row, method), []).append(cell["parameters"])
    quick = {cell["recipe"]["quick"] for cell, _ in cells.values()}
    if len(quick) > 1:
        raise UsageError(f"The folders hold quick and whole results of {name}. Pass one kind only.")
    rows = tuple(row.name for row in table.rows if row.name in notes)
    methods = tuple(m for m in methods_of(table, protocol) if any(place[1] == m for place in hits))
    return Outcome(table, protocol, rows, methods, hits, quick.pop(), parameters, notes)


def _labels(path: Path) -> tuple[np.ndarray, list[str]]:
    try:
        trial = json.loads(path.read_text(encoding="utf-8"))
        return np.array(trial["labels"]), trial["notes"]
    except (OSError, ValueError, KeyError) as error:
        raise DataFormatError(f"The labels of a trial cannot be read from {path}. Run it again.") from error
