"""What an entry of `tables.py` is: a table of accuracies with its rows, a table of times, a figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from residuum.errors import UsageError

Grid = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One row of a table: which data, split and features.

    Attributes
    ----------
    name : int or str
        How run folders name the row: 84, or ``cub200-bow_sift``.
    title : str
        How a report names it: ``d = 84``.
    dataset : str
        Name in `residuum.paper.data.DATASETS`.
    features : str
        Name in `trials.FEATURES`, or for photographs in `residuum.features.EXTRACTORS`.
    split : str
        Name in `trials.SPLITS`. An official split can be run once only.
    paper : mapping
        Method -> the paper's accuracy in per cent; empty where the paper has none.
    per_class : int or None
        Training samples of each class; None is all of the official training part.
    dimension : int or None
        Number of features after PCA.
    image_shape : (int, int) or None
        Size of the images, where the data set comes in several.
    part : {"paper", "added", "subset"}
        Whether the row is the paper's, is our addition, or uses a part of a data set. Each kind gets a table
        of its own.
    note : str
        What a reader must know about the split.
    """

    name: int | str
    title: str
    dataset: str
    features: str
    split: str
    paper: Mapping[str, float] = field(default_factory=dict)
    per_class: int | None = None
    dimension: int | None = None
    image_shape: tuple[int, int] | None = None
    part: str = "paper"
    note: str = ""

    @property
    def subset(self) -> bool:
        """Whether a part of the data set is used: such a row has no number of the paper beside it."""
        return self.part == "subset"


@dataclass(frozen=True)
class Quick:
    """What ``--quick`` leaves of a table; None keeps all rows, queries or validated samples."""

    trials: int = 1
    rows: tuple[int | str, ...] | None = None
    queries: int | None = None
    validation: int | None = None


@dataclass(frozen=True)
class PaperTable:
    """A table of accuracies.

    Attributes
    ----------
    name, title : str
        ``table2``, and what the paper's caption says.
    rows : tuple of Row
        In the order of the paper; those of subsets come last.
    data : {"arrays", "photographs"}
        Name in `availability.TRIALS`: whether samples are arrays, or files of a folder.
    axis : str
        What the rows change, where they are points of one axis.
    trials : int
        Random splits.
    validation : int or None
        At most so many samples in all are validated in cross-validation; None is every training sample.
    grids : mapping
        Protocol -> method -> parameters of its search that differ from those in `protocols.PROTOCOLS`.
    quick : Quick
        What ``--quick`` leaves.
    notes : tuple of str
        Lines under the table.
    extra_methods : tuple of str
        Methods beside those of the protocols.
    run_as : str
        The table whose rows these are, where it is another one: rows are run and kept once.
    quoted : mapping
        Data set -> system -> accuracy in per cent, as the paper reports them; never run here.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    data: str = "arrays"
    axis: str = ""
    trials: int = 10
    validation: int | None = None
    grids: Mapping[str, Mapping[str, Grid]] = field(default_factory=dict)
    quick: Quick = Quick()
    notes: tuple[str, ...] = ()
    extra_methods: tuple[str, ...] = ()
    run_as: str = ""
    quoted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    kind: str = "accuracy"

    def row(self, name: int | str) -> Row:
        """Row by its name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise UsageError(f"{self.name} has no row {name!r}.")

    def row_title(self, row: int | str) -> str:
        """How a row is called in a report."""
        return self.row(row).title

    def paper_value(self, method: str, row: int | str) -> float | None:
        """The paper's accuracy in per cent; None where it has none."""
        return self.row(row).paper.get(method)


@dataclass(frozen=True)
class SpeedTable:
    """A table of seconds per query: the methods of one run at the setting of one row of `setting`."""

    name: str
    title: str
    setting: str  # name of the PaperTable
    row: int
    paper: Mapping[str, float]  # method -> seconds per query
    queries: int
    quick: Quick
    kind: str = "speed"


@dataclass(frozen=True)
class Figure:
    """A figure: codes of one query (``codes``) or convergence curves (``curves``)."""

    name: str
    title: str
    setting: str  # name of the PaperTable whose data and features are used
    row: int
    shows: str
    quick_row: int
    classes: int | None = None
    per_class: int | None = None
    kind: str = "figure"
