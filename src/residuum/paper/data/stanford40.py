"""Stanford 40 Actions: 9,532 photographs of 40 actions, official split 100 per class / 5,532.

Labels are 1 to 40 in the alphabetical order of the actions. The paper prints 9,352 images, a slip of the pen:
the owner's lists name 4,000 + 5,532.
"""

from __future__ import annotations

from pathlib import Path

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, remote
from residuum.paper.data.readers import read_lines
from residuum.paper.data.samples import Counts, ImageSamples, image_samples

_FROM = "http://vision.stanford.edu/Datasets/"


def _read(images: Path, splits: Path) -> ImageSamples:
    actions = sorted(path.name.removesuffix("_train.txt") for path in splits.glob("*_train.txt"))
    if not actions:
        raise DataFormatError(f"{splits}: holds no list named like applauding_train.txt.")
    names = {label: action.replace("_", " ") for label, action in enumerate(actions, 1)}
    rows = [
        (file, label, part)
        for label, action in enumerate(actions, 1)
        for part in ("train", "test")
        for file in read_lines(splits / f"{action}_{part}.txt")
    ]
    return image_samples(images, rows, names)


STANFORD40 = DataSet(
    name="stanford40",
    title="Stanford 40 Actions",
    access="open",
    licence="not stated by the owner; for research, with citation",
    citation="B. Yao, X. Jiang, A. Khosla, A. L. Lin, L. Guibas, L. Fei-Fei. Human action recognition by "
    "learning bases of action attributes and parts. ICCV, 2011.",
    photographs=True,
    counts=Counts(n_classes=40, parts={"train": (4000,), "test": (5532,)}),
    sources=(
        Source(
            kind="owner's folders",
            layout="the folders JPEGImages (applauding_001.jpg ...) and ImageSplits (applauding_train.txt, "
            "applauding_test.txt ...)",
            names=("JPEGImages/", "ImageSplits/"),
            read=_read,
        ),
    ),
    files=(
        remote("Stanford40_JPEGImages.zip", _FROM, unpack_to="JPEGImages"),
        remote("Stanford40_ImageSplits.zip", _FROM, unpack_to="ImageSplits"),
    ),
)
