"""The paper's tables of photographs as data: Table 6, which is run, and Tables 7 to 11, which it quotes.

Table 6 has a row for every data set and feature. Tables 7 to 11 set its NRC beside other people's systems,
whose figures are quoted from the paper and never run here; what is run for them are the rows of Table 6 of
the same data set. EfficientNet-Lite0 is ours: its weights come with pip packages, the paper has no number for
it, and its rows stand in a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from residuum.errors import UsageError

Grid = Mapping[str, Any]

SUBSET = "_subset"
TITLES = {
    "stanford40": "Stanford 40",
    "caltech256": "Caltech-256",
    "cub200": "CUB200-2011",
    "flowers102": "Flowers 102",
    "aircraft": "Aircraft",
    "cars": "Cars",
    "bow_sift": "BOW-SIFT",
    "vgg19": "VGG19",
    "vgg16": "VGG16",
    "efficientnet_lite0": "EfficientNet-Lite0",
}
ADDED = ("efficientnet_lite0",)  # features that the paper does not have


@dataclass(frozen=True)
class PhotoRow:
    """One data set with one kind of features.

    Attributes
    ----------
    dataset : str
        Name in `residuum.paper.data.DATASETS`.
    features : str
        Name in `residuum.features.EXTRACTORS`.
    paper : mapping
        Method -> the paper's accuracy in per cent; empty where the paper has none.
    per_class : int or None
        Random training images of each class; None is the official split.
    trials : int
        Random splits; 1 for the official one.
    subset : bool
        Whether a part of the data set is used: such a row has no number of the paper beside it.
    """

    dataset: str
    features: str
    paper: Mapping[str, float] = field(default_factory=dict)
    per_class: int | None = None
    trials: int = 1
    subset: bool = False

    @property
    def name(self) -> str:
        """``cub200-bow_sift``, or ``cub200_subset-bow_sift``."""
        return f"{self.dataset}{SUBSET * self.subset}-{self.features}"

    @property
    def title(self) -> str:
        """As a reader knows it."""
        return f"{TITLES[self.dataset]}{', subset' * self.subset}, {TITLES[self.features]}"

    @property
    def part(self) -> str:
        """Which of the tables shown the row belongs to: the paper's, our addition, or a subset."""
        return "subset" if self.subset else "added" if self.features in ADDED else "paper"

    def of_subset(self) -> PhotoRow:
        """The same row for a part of the data set."""
        return replace(self, subset=True, paper={})


@dataclass(frozen=True)
class PhotoTable:
    """A table of accuracies on photographs; the attributes are those of `tables.PaperTable` where they agree.

    Attributes
    ----------
    entries : tuple of PhotoRow
        Rows, in the order of the paper.
    validation : int
        At most so many samples in all are validated in cross-validation.
    quick_queries, quick_validation : int
        What ``--quick`` leaves of test images and validated samples of each row.
    """

    name: str
    title: str
    entries: tuple[PhotoRow, ...]
    validation: int | None = None
    grids: Mapping[str, Mapping[str, Grid]] = field(default_factory=dict)
    quick_queries: int = 200
    quick_validation: int = 200
    notes: tuple[str, ...] = ()
    extra_methods: tuple[str, ...] = ("softmax",)
    kind: str = "photos"

    @property
    def rows(self) -> tuple[str, ...]:
        """Names of all rows, those of subsets last."""
        return tuple(row.name for row in self.entries) + tuple(row.of_subset().name for row in self.entries)

    def row(self, name: str) -> PhotoRow:
        """Row by its name; ``cub200_subset-bow_sift`` is the subset of ``cub200-bow_sift``."""
        for row in self.entries:
            for candidate in (row, row.of_subset()):
                if candidate.name == name:
                    return candidate
        raise UsageError(f"{self.name} has no row {name!r}.")

    def row_title(self, row: str) -> str:
        """How a row is called in a report."""
        return self.row(row).title

    def paper_value(self, method: str, row: str) -> float | None:
        """The paper's accuracy in per cent; None where it has none, and for every subset."""
        return self.row(row).paper.get(method)


@dataclass(frozen=True)
class QuotedTable:
    """Figures of other people's systems as the paper reports them, and the rows of Table 6 they belong to."""

    name: str
    title: str
    quoted: Mapping[str, Mapping[str, float]]  # data set -> system -> accuracy in per cent
    paper: Mapping[str, float]  # data set -> the paper's NRC
    setting: str = "table6"
    kind: str = "quoted"

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets of this table."""
        return tuple(self.quoted)


_METHODS = ("softmax", "NSC", "SRC", "CRC", "CROC", "ProCRC", "NRC")


def _row(dataset: str, features: str, *values: float, **rest: Any) -> PhotoRow:
    return PhotoRow(dataset, features, dict(zip(_METHODS, values, strict=True)) if values else {}, **rest)


_RANDOM: dict[str, Any] = {"per_class": 30, "trials": 10}

TABLE6 = PhotoTable(
    name="table6",
    title="classifiers on six sets of photographs",
    entries=(
        _row("stanford40", "bow_sift", 21.1, 22.1, 24.2, 24.6, 24.5, 28.4, 29.0),
        _row("stanford40", "vgg19", 77.2, 74.7, 78.7, 78.2, 79.2, 80.9, 81.9),
        _row("stanford40", "efficientnet_lite0"),
        _row("caltech256", "bow_sift", 25.8, 25.8, 26.9, 27.4, 27.9, 29.6, 30.5, **_RANDOM),
        _row("caltech256", "vgg19", 75.3, 80.2, 81.3, 81.1, 81.7, 83.3, 84.4, **_RANDOM),
        _row("caltech256", "efficientnet_lite0", **_RANDOM),
        _row("cub200", "bow_sift", 8.2, 8.4, 7.7, 9.4, 9.1, 9.9, 10.2),
        _row("cub200", "vgg19", 72.1, 74.5, 76.0, 76.2, 76.2, 78.3, 79.1),
        _row("cub200", "efficientnet_lite0"),
        _row("flowers102", "bow_sift", 46.5, 46.7, 47.2, 49.9, 49.4, 51.2, 54.4),
        _row("flowers102", "vgg19", 87.3, 90.1, 93.2, 93.0, 93.1, 94.8, 95.3),
        _row("flowers102", "efficientnet_lite0"),
        _row("aircraft", "vgg16", 85.6, 85.5, 86.1, 86.7, 86.9, 86.8, 87.5),
        _row("aircraft", "efficientnet_lite0"),
        _row("cars", "vgg16", 88.7, 88.3, 89.2, 90.0, 90.3, 90.1, 90.8),
        _row("cars", "efficientnet_lite0"),
    ),
    validation=1000,
    grids={
        protocol: {
            # At l1 = 0.01, 50 codes over 1,500 training images did not finish in half a minute.
            "SRC": {"l1s": (0.3, 0.1, 0.03)},
            "softmax": {"Cs": (0.1, 1.0, 10.0)},
            "SVM": {"Cs": (0.01, 0.1, 1.0, 10.0)},
            **({"SoftNRC": {"neg_weights": (0.1, 1.0, 10.0)}} if protocol == "best" else {}),
        }
        for protocol in ("published", "authors", "best")
    },
)

# What a reader must know about a data set's split.
SPLIT_NOTES = {
    "stanford40": "Stanford 40: the owner's lists, 100 training images of each action.",
    "caltech256": "Caltech-256: 30 random training images of each class, all others test, without the "
    "folder of clutter; the codebook of BOW-SIFT is learned anew from the training images of every trial.",
    "cub200": "CUB200-2011: the owner's split.",
    "flowers102": "Flowers 102: trnid and valid train together (20 images of each class), tstid tests. The "
    "paper does not say which parts it trained on.",
    "aircraft": "Aircraft: variants; the owner's train and val parts train together, test tests.",
    "cars": "Cars: the owner's split.",
}

TABLE7 = QuotedTable(
    "table7",
    "Stanford 40 beside other systems",
    {"stanford40": {"AlexNet": 68.6, "EPM": 72.3, "ASPD": 75.4, "VGG19": 77.2}},
    {"stanford40": 81.9},
)
TABLE8 = QuotedTable(
    "table8",
    "Caltech-256 beside other systems",
    {
        "caltech256": {
            "M-HMP": 50.7,
            "ZF": 70.6,
            "AlexNet": 71.1,
            "CNN-S": 74.2,
            "NAC": 81.4,
            "VGG19": 82.3,
            "SJFT": 83.8,
        }
    },
    {"caltech256": 84.4},
)
TABLE9 = QuotedTable(
    "table9",
    "CUB200-2011 beside other systems",
    {
        "cub200": {
            "AlexNet": 52.2,
            "POOF": 56.9,
            "FV-CNN": 66.7,
            "VGG19": 71.9,
            "PN-CNN": 75.7,
            "NAC": 81.0,
        }
    },
    {"cub200": 79.1},
)
TABLE10 = QuotedTable(
    "table10",
    "Flowers 102 beside other systems",
    {
        "flowers102": {
            "BiCoS": 79.4,
            "DAS": 80.7,
            "GMP": 84.6,
            "OverFeat": 86.8,
            "AlexNet": 90.4,
            "VGG19": 93.1,
            "NAC": 95.3,
        }
    },
    {"flowers102": 95.3},
)
TABLE11 = QuotedTable(
    "table11",
    "Aircraft and Cars beside other systems",
    {
        "aircraft": {"VGG16": 85.6, "Symbiotic": 72.5, "FV-FGC": 80.7, "B-CNN": 84.1},
        "cars": {"VGG16": 88.7, "Symbiotic": 78.0, "FV-FGC": 82.7, "B-CNN": 90.6},
    },
    {"aircraft": 87.5, "cars": 90.8},
)
PHOTO_TABLES = (TABLE6, TABLE7, TABLE8, TABLE9, TABLE10, TABLE11)
