"""Episodes: small classification problems drawn at random from embeddings, the same for every method.

An episode has `ways` known classes with a few training samples ("shots") and some queries each, and queries
of `unknown` further classes, which a method should not take for known ones. The classes that are left over
play the base classes of few-shot learning: SimpleShot subtracts their mean.

A cell is a few episodes with one number of shots, answered by every method. Tables come from the cells.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from residuum.dictionary import unit_rows
from residuum.errors import DataFormatError, UsageError
from residuum.estimators.answers import margin
from residuum.experiments.compared_data import Data
from residuum.experiments.episode_methods import CONTENDERS, SIMPLESHOT
from residuum.experiments.episode_report import summarise
from residuum.experiments.runner import CELLS, Cell, Job, OnStep, Say, read_cell, run_job
from residuum.system.files import write_text
from residuum.system.json_text import to_json

FORMAT = "residuum episodes 1"
RESULTS = "results.json"
BLOCK = 10  # episodes of one cell

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Settings:
    """What decides the result, together with the data.

    Attributes
    ----------
    methods : tuple of str
        Keys of CONTENDERS.
    shots : tuple of int
        Training samples of each known class.
    ways, queries : int
        Known classes of an episode, and queries of every class.
    unknown : int
        Classes of an episode that have queries but no training samples.
    episodes : int
        Number of episodes.
    centre : {"none", "others", "train"}
        What is subtracted from all samples before they get norm 1: nothing, the mean of the classes outside
        the episode, or the mean of its training samples. SimpleShot always has "others".
    seed : int
        Episode i depends on (seed, i) alone.
    """

    methods: tuple[str, ...]
    shots: tuple[int, ...]
    ways: int = 5
    queries: int = 15
    unknown: int = 0
    episodes: int = 600
    centre: str = "none"
    seed: int = 0


@dataclass(frozen=True)
class Episode:
    """Row numbers, the known classes as 0, 1, ..., and the classes outside the episode."""

    train: Array
    train_classes: Array
    queries: Array
    query_classes: Array  # those of the known classes, which come first
    outside: Array


class Embeddings:
    """Samples by class, ready to draw episodes from."""

    def __init__(self, data: Data, settings: Settings) -> None:
        self.samples, self.settings = data.samples, settings
        labels, index = np.unique(data.labels, return_inverse=True)
        self.members = [np.flatnonzero(index == k) for k in range(len(labels))]
        self.counts = np.bincount(index)
        self.usable = np.flatnonzero(self.counts >= max(settings.shots) + settings.queries)
        self.sums = np.array([data.samples[rows].sum(axis=0, dtype=np.float64) for rows in self.members])

    def draw(self, number: int, shots: int) -> Episode:
        """The episode of this number: its classes and queries are the same for all numbers of shots."""
        settings = self.settings
        generator = np.random.default_rng([settings.seed, number])
        chosen = generator.permutation(self.usable)[: settings.ways + settings.unknown]
        rows = np.array([generator.permutation(self.members[k])[: self._most_rows] for k in chosen])
        known = np.arange(settings.ways)
        return Episode(
            train=rows[: settings.ways, settings.queries : settings.queries + shots].ravel(),
            train_classes=np.repeat(known, shots),
            queries=rows[:, : settings.queries].ravel(),
            query_classes=np.repeat(known, settings.queries),
            outside=np.setdiff1d(np.arange(len(self.members)), chosen),
        )

    @property
    def _most_rows(self) -> int:
        return self.settings.queries + max(self.settings.shots)

    def unit_samples(self, episode: Episode, centre: str) -> tuple[Array, Array]:
        """Training samples and queries of an episode, centred and of norm 1, in float64."""
        train, queries = (self.samples[rows].astype(np.float64) for rows in (episode.train, episode.queries))
        if centre == "train":
            mean = train.mean(axis=0)
        elif centre == "others":
            mean = self.sums[episode.outside].sum(axis=0) / self.counts[episode.outside].sum()
        else:
            mean = np.zeros(train.shape[1])
        return in_few_dimensions(unit_rows(train - mean)[0], unit_rows(queries - mean)[0])


def in_few_dimensions(train: Array, queries: Array) -> tuple[Array, Array]:
    """The same inner products with the training samples from fewer features, where there are many.

    These are coordinates in the span of the training samples, and one more for what a query has outside of
    it. Every method here answers by such inner products and by norms, so its answers stay the same.
    """
    if train.shape[1] <= len(train) + 1:
        return train, queries
    basis = np.linalg.qr(train.T)[0]  # (n_features, n_train)
    inside = queries @ basis
    outside = np.linalg.norm(queries - inside @ basis.T, axis=1)
    return np.column_stack([train @ basis, np.zeros(len(train))]), np.column_stack([inside, outside])


def completed(
    settings: Settings, data: Data, *, guess_unknown: bool, all_methods: bool
) -> tuple[Settings, list[str]]:
    """The same settings with what the user left open, and notes on it; what cannot be drawn is refused.

    With `guess_unknown`, there are as many unknown classes as known ones, but at most half of those that are
    not known. With `all_methods`, SimpleShot is left out where no class is outside the episode.
    """
    limits = {"ways": 2, "queries": 1, "unknown": 0, "episodes": 2, "seed": 0}
    for name, least in limits.items():
        if getattr(settings, name) < least:
            raise UsageError(f"--{name} must be {least} or more. Got {getattr(settings, name)}.")
    counts = np.unique(data.labels, return_counts=True)[1]
    n_classes, least = len(counts), max(settings.shots) + settings.queries
    enough, notes = int(np.count_nonzero(counts >= least)), []
    if guess_unknown:
        spare = min(enough - settings.ways, (n_classes - settings.ways) // 2)
        settings = replace(settings, unknown=max(0, min(settings.ways, spare)))
    wanted = settings.ways + settings.unknown
    if enough < wanted:
        raise DataFormatError(
            f"{data.name}: an episode needs {wanted} classes (--ways and --unknown) of at least {least} "
            f"samples (--shots and --queries). Of its {n_classes} classes, {enough} have so many; the "
            f"largest has {counts.max()} samples. Lower one of these options."
        )
    _refuse_zeros(data)
    if n_classes == wanted:
        if settings.centre == "others" or (not all_methods and SIMPLESHOT in settings.methods):
            raise UsageError(
                f"{SIMPLESHOT} and --centre others subtract the mean of the classes outside the episode, but "
                f"--ways and --unknown take all {n_classes} classes of {data.name}. Lower one of them."
            )
        kept = tuple(name for name in settings.methods if name != SIMPLESHOT)
        settings = replace(settings, methods=kept)
        notes.append(f"{SIMPLESHOT} is left out: no class is outside the episodes, whose mean it subtracts")
    if enough < n_classes:
        notes.append(
            f"{n_classes - enough} of {n_classes} classes have fewer than {least} samples and are never drawn"
        )
    return settings, notes


def _refuse_zeros(data: Data) -> None:
    zero = np.flatnonzero(~data.samples.any(axis=1))
    if len(zero):
        raise DataFormatError(
            f"{data.name}: row {zero[0]} is all zeros, so it has no direction to compare. There are "
            f"{len(zero)} such rows: leave them out."
        )


def auroc(known: Array, unknown: Array) -> float:
    """``P(s > t) + P(s = t)/2`` for a score s of a known query and t of an unknown one."""
    ranks = rankdata(np.concatenate([known, unknown]))[: len(known)]
    return float((ranks.sum() - len(known) * (len(known) + 1) / 2) / (len(known) * len(unknown)))


def false_positive_rate(known: Array, unknown: Array, true_positive_rate: float = 0.95) -> float:
    """Share of unknown queries that are accepted where this share of the known ones is, or a little more."""
    accepted = int(np.ceil(true_positive_rate * len(known)))
    return float(np.mean(unknown >= np.sort(known)[len(known) - accepted]))


def measure(method: str, episode: Episode, samples: Array, queries: Array) -> dict[str, float]:
    """Accuracy on queries of known classes, how well unknown ones are found, and queries not converged.

    A query is the more likely known, the larger the score of its winning class, or ("margin") the larger the
    distance to the score of the runner-up.
    """
    found = CONTENDERS[method](samples, episode.train_classes, queries)
    n_known = len(episode.query_classes)
    right = found.values[:n_known].argmax(axis=1) == episode.query_classes
    measures = {"accuracy": float(right.mean()), "unconverged": found.unconverged}
    if len(queries) > n_known:
        best, distance = found.values.max(axis=1), margin(-found.values)
        measures["auroc"] = auroc(best[:n_known], best[n_known:])
        measures["fpr"] = false_positive_rate(best[:n_known], best[n_known:])
        measures["margin_auroc"] = auroc(distance[:n_known], distance[n_known:])
        measures["margin_fpr"] = false_positive_rate(distance[:n_known], distance[n_known:])
    return measures


def measure_all(embeddings: Embeddings, episode: Episode) -> dict[str, dict[str, float]]:
    """The measures of every method on one episode."""
    settings, found = embeddings.settings, {}
    samples = embeddings.unit_samples(episode, settings.centre)
    for method in settings.methods:
        own = embeddings.unit_samples(episode, "others") if method == SIMPLESHOT else samples
        found[method] = measure(method, episode, *own)
    return found


def _work(data: Data, settings: Settings, cells: list[Cell], say: Say) -> Iterator[dict[str, Any]]:
    embeddings = Embeddings(data, settings)
    for recipe in (cell.recipe for cell in cells):
        numbers = range(recipe["first"], recipe["stop"])
        found = [measure_all(embeddings, embeddings.draw(number, recipe["shots"])) for number in numbers]
        yield {
            "methods": {
                method: {name: [each[method][name] for each in found] for name in found[0][method]}
                for method in settings.methods
            }
        }


def _cells(settings: Settings) -> list[Cell]:
    return [
        Cell(
            name=f"shots-{shots}/episode-{first}",
            title=f"{shots} shots, episode {first + 1}",
            recipe={"shots": shots, "first": first, "stop": min(first + BLOCK, settings.episodes)},
            group=(first, shots),
        )
        for first in range(0, settings.episodes, BLOCK)
        for shots in settings.shots
    ]


def run(
    settings: Settings,
    data: Data,
    folder: Path,
    machine: dict[str, Any],
    *,
    n_jobs: int = 1,
    on_step: OnStep = lambda text, done, total: None,
) -> dict[str, Any]:
    """Measure every cell that the folder does not hold yet, write results.json, and return its content.

    Parameters
    ----------
    settings : Settings
        Checked by `check`.
    data : Data
        Samples with labels.
    folder : Path
        From `open_folder`.
    machine : dict
        From `machine_facts`.
    n_jobs : int, default=1
        Cores; each further one is a process that holds a copy of the data.
    on_step : callable
        Called with (what, cells done, cells in all).
    """
    finished = read_cell(folder / RESULTS, FORMAT)
    if finished is not None:
        return finished
    cells = _cells(settings)
    job = Job(cells, partial(_work, data, settings), most_workers=n_jobs)
    run_job(job, folder, n_jobs=n_jobs, on_step=on_step)
    values: dict[str, dict[str, dict[str, list[float]]]] = {}
    for cell in cells:
        content = read_cell(cell.path(folder))
        assert content is not None
        of_shots = values.setdefault(str(cell.recipe["shots"]), {})
        for method, measures in content["methods"].items():
            for name, found in measures.items():
                of_shots.setdefault(method, {}).setdefault(name, []).extend(found)
    results = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "data": {
            "name": data.name,
            "n_samples": len(data.labels),
            "n_features": data.samples.shape[1],
            "n_classes": len(np.unique(data.labels)),
        },
        "settings": asdict(settings),
        "machine": machine,
        "summary": summarise(values),
        "episodes": values,
    }
    text = to_json(results)
    write_text(folder / RESULTS, text)
    shutil.rmtree(folder / CELLS)  # results.json now holds every episode
    return json.loads(text)
