"""What an entry of `tables.py` is: a table of accuracies with its rows, a table of times, a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from residuum.errors import UsageError

Grid = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a table: which data, split and features."""

    name: int | str  # how run folders name it: 84, or cub200-bow_sift
    title: str  # how a report names it: d = 84
    dataset: str  # name in `residuum.paper.data.DATASETS`
    features: str  # name in `trials.FEATURES`, or for photographs in `residuum.features.EXTRACTORS`
    split: str  # name in `trials.SPLITS`; an official split can be run once only
    paper: Mapping[str, float] = field(default_factory=dict)  # method -> the paper's accuracy in per cent
    per_class: int | None = None  # training samples of each class; None is all of the official training part
    dimension: int | None = None  # number of features after PCA
    image_shape: tuple[int, int] | None = None  # where the data set comes in several sizes
    part: str = "paper"  # "paper", "added" by us, or a "subset" of the data: each kind gets its own table
    note: str = ""  # what a reader must know about the split

    @property
    def subset(self) -> bool:
        """Whether a part of the data set is used: such a row has no number of the paper beside it."""
        return self.part == "subset"


@dataclass(frozen=True)
class Quick:
    """What ``--quick`` leaves of a table; None keeps all rows, queries or validated samples."""

    rows: tuple[int | str, ...] | None = None
    queries: int | None = None
    validation: int | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of accuracies."""

    name: str  # table2
    title: str  # what the paper's caption says
    rows: tuple[Row, ...]  # in the order of the paper; those of subsets come last
    data: str = "arrays"  # or "photographs": name in `availability.TRIALS`
    axis: str = ""  # what the rows change, where they are points of one axis
    trials: int = 10  # random splits
    validation: int | None = None  # at most so many samples are validated; None is all that train
    # Protocol -> method -> parameters of its search that differ from those in `protocols.PROTOCOLS`.
    grids: Mapping[str, Mapping[str, Grid]] = field(default_factory=dict)
    quick: Quick = Quick()
    notes: tuple[str, ...] = ()  # lines under the table
    extra_methods: tuple[str, ...] = ()  # beside those of the protocols
    run_as: str = ""  # the table whose rows these are, where it is another one: rows are run and kept once
    # Data set -> system -> accuracy in per cent, as the paper reports them; never run here.
    quoted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    kind: str = "accuracy"

    def row(self, name: int | str) -> Row:
        """Row by its name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise UsageError(f"{self.name} has no row {name!r}.")


@dataclass(frozen=True)
class SpeedTable:
    """A table of seconds per query: the methods of one run at the setting of one row of `setting`."""

    name: str
    title: str
    setting: str  # name of the PaperTable
    row: int
    paper: Mapping[str, float]  # method -> seconds per query
    queries: int
    quick_queries: int
    kind: str = "speed"


@dataclass(frozen=True)
class Figure:
    """A figure: codes of one query (``codes``) or convergence curves (``curves``)."""

    name: str
    title: str
    setting: str  # name of the PaperTable whose data and features are used
    row: int
    quick_row: int
    shows: str
    classes: int | None = None
    per_class: int | None = None
    kind: str = "figure"
