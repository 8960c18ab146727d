"""From the cells of run folders to means, deviations and paired tests, always from the raw predictions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest, ttest_rel

from residuum.errors import DataFormatError, UsageError
from residuum.experiments.runner import CELLS, SETTINGS
from residuum.experiments.runner import read_cell
from residuum.paper.entries import PaperTable
from residuum.paper.protocols import PROTOCOLS, methods_of
from residuum.paper.running import trial_path
from residuum.paper.tables import EXPERIMENTS

LEVEL = 0.05
MISSING = float("nan")


@dataclass(frozen=True)
class Outcome:
    """One table under one protocol.

    Attributes
    ----------
    table : PaperTable
        With the paper's numbers.
    protocol : str
        How parameters were chosen.
    rows, methods : tuple
        Those with at least one cell.
    hits : dict of (row, method) to dict of trial to ndarray of bool
        Whether each test sample got its label.
    quick : bool
        Whether any cell comes from a quick run.
    parameters : dict of (row, method) to list of dict
        The chosen parameters of each trial.
    notes : dict of row to tuple of str
        What is known about the copy of the data that was used.
    """

    table: PaperTable
    protocol: str
    rows: tuple[Any, ...]
    methods: tuple[str, ...]
    hits: dict[tuple[Any, str], dict[int, np.ndarray]]
    quick: bool
    parameters: dict[tuple[Any, str], list[dict[str, Any]]]
    notes: dict[Any, tuple[str, ...]] = field(default_factory=dict)

    def only(self, rows: Iterable[Any]) -> Outcome:
        """The same with some of its rows."""
        kept = tuple(rows)
        hits = {place: hit for place, hit in self.hits.items() if place[0] in kept}
        present = {method for _, method in hits}
        return replace(self, rows=kept, hits=hits, methods=tuple(m for m in self.methods if m in present))

    def accuracies(self, row: Any, method: str) -> dict[int, float]:
        """Trial -> accuracy in per cent."""
        return {t: 100 * float(hit.mean()) for t, hit in sorted(self.hits.get((row, method), {}).items())}

    def mean(self, row: Any, method: str) -> float:
        """Mean accuracy over the trials in per cent; nan where there is no cell."""
        values = self.accuracies(row, method)
        return math.fsum(values.values()) / len(values) if values else MISSING

    def deviation(self, row: Any, method: str) -> float | None:
        """Sample standard deviation over the trials; None for a single one."""
        values = list(self.accuracies(row, method).values())
        return float(np.std(values, ddof=1)) if len(values) > 1 else None

    def difference(self, row: Any, method: str) -> float:
        """Ours minus the paper's, points; nan where either is missing."""
        paper = self.table.paper_value(method, row)
        return MISSING if paper is None else self.mean(row, method) - paper

    @property
    def trials(self) -> int:
        """Largest number of trials of a cell."""
        return max(len(trials) for trials in self.hits.values())

    def p_value(self, row: Any, rival: str, method: str = "NRC") -> float:
        """Two-sided paired test of equal accuracy; nan where either is missing.

        Over several trials, a paired t-test of the accuracies of the trials; for one trial, the exact test
        of McNemar: a binomial test on the samples that only one of the two gets right.
        """
        ours, theirs = self.hits.get((row, method), {}), self.hits.get((row, rival), {})
        common = sorted(set(ours) & set(theirs))
        if not common:
            return MISSING
        if len(common) == 1:
            a, b = ours[common[0]], theirs[common[0]]
            only_a, only_b = int((a & ~b).sum()), int((~a & b).sum())
            return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
        gaps = [ours[t].mean() - theirs[t].mean() for t in common]
        if np.ptp(gaps) == 0:
            return 1.0 if gaps[0] == 0 else 0.0
        return float(ttest_rel([ours[t].mean() for t in common], [theirs[t].mean() for t in common]).pvalue)

    @property
    def test_name(self) -> str:
        """Which of the two tests `p_value` is."""
        mcnemar = "exact McNemar test on the test samples"
        if self.trials == 1:
            return mcnemar
        single = min(len(trials) for trials in self.hits.values()) == 1
        return "paired t-test over the trials" + f", for a single trial the {mcnemar}" * single


def read_folders(folders: Iterable[Path]) -> list[Outcome]:
    """Outcomes of all cells in the folders, in the order of the paper; a later folder replaces cells."""
    cells: dict[tuple[str, str], dict[tuple[Any, str, int], tuple[dict[str, Any], Path]]] = {}
    for folder in map(Path, folders):
        if not (folder / SETTINGS).is_file():
            raise UsageError(
                f"{folder} is not a run folder: it has no {SETTINGS}. Pass folders of 'reproduce'."
            )
        for path in sorted((folder / CELLS).glob("*/*/trial-*.json")):
            cell = read_cell(path)
            if cell is not None:
                recipe = cell["recipe"]
                place = (recipe["row"], recipe["method"], recipe["trial"])
                cells.setdefault((recipe["table"], recipe["protocol"]), {})[place] = (cell, folder)
    known = ((table, protocol) for table in EXPERIMENTS for protocol in PROTOCOLS)
    return [_outcome(*place, cells[place]) for place in known if place in cells]


def _outcome(
    name: str, protocol: str, cells: dict[tuple[Any, str, int], tuple[dict[str, Any], Path]]
) -> Outcome:
    table = EXPERIMENTS[name]
    hits: dict[tuple[Any, str], dict[int, np.ndarray]] = {}
    parameters: dict[tuple[Any, str], list[dict[str, Any]]] = {}
    labels: dict[Path, np.ndarray] = {}
    notes: dict[Any, tuple[str, ...]] = {}
    for (row, method, trial), (cell, folder) in sorted(cells.items()):
        path = trial_path(folder, name, row, trial)
        if path not in labels:
            labels[path], told = _labels(path)
            notes[row] = tuple(dict.fromkeys((*notes.get(row, ()), *told)))
        predictions = np.array(cell["predictions"])
        if len(predictions) != len(labels[path]):
            raise DataFormatError(
                f"The cell of {method} ({name}, row {row}, trial {trial}) has {len(predictions)} predictions "
                f"for {len(labels[path])} labels in {path}. Run 'reproduce {name} --fresh' again."
            )
        hits.setdefault((row, method), {})[trial] = predictions == labels[path]
        parameters.setdefault((row, method), []).append(cell["parameters"])
    if len({cell["recipe"]["quick"] for cell, _ in cells.values()}) > 1:
        raise UsageError(f"The folders hold quick and whole results of {name}. Pass one kind only.")
    present = {method for _, method in hits}
    rows = {row for row, _ in hits}
    return Outcome(
        table,
        protocol,
        tuple(row.name for row in table.rows if row.name in rows),
        tuple(m for m in methods_of(table, protocol) if m in present),
        hits,
        any(cell["recipe"]["quick"] for cell, _ in cells.values()),
        parameters,
        notes,
    )


def _labels(path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    try:
        trial = json.loads(path.read_text(encoding="utf-8"))
        return np.array(trial["labels"]), tuple(trial.get("notes", ()))
    except (OSError, ValueError, KeyError) as error:
        raise DataFormatError(f"The labels of a trial cannot be read from {path}. Run it again.") from error
