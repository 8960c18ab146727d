"""Caltech-256: 256 classes of objects, 29,780 photographs, labels 1 to 256; there is no official split.

The folder 257.clutter (827 images of no class) is left out; with it there are the 30,607 images of the
owner's report. The paper draws 30 random images per class for training, in 10 trials t:
``random_split(30, random_state=t)``.
"""

from __future__ import annotations

import re
from pathlib import Path

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, owners_folder, remote
from residuum.paper.data.samples import Counts, ImageSamples, image_samples

_NAME = "256_ObjectCategories"
_FOLDER = re.compile(r"(\d{3})\.(.+)")
_CLUTTER = 257


def _read(root: Path) -> ImageSamples:
    names: dict[int, str] = {}
    rows: list[tuple[str, int, str]] = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        match = _FOLDER.fullmatch(folder.name)
        if match is None or int(match.group(1)) == _CLUTTER:
            continue
        label = int(match.group(1))
        if label in names:
            raise DataFormatError(f"{root}: two folders have the number {label}.")
        names[label] = match.group(2)
        # The archive holds strays beside the images, such as 198.spider/RENAME2: only NNN_NNNN.jpg counts.
        wanted = re.compile(rf"{match.group(1)}_\d{{4}}\.jpg")
        files = sorted(path.name for path in folder.iterdir() if wanted.fullmatch(path.name))
        rows += [(f"{folder.name}/{file}", label, "") for file in files]
    return image_samples(root, rows, names)


CALTECH256 = DataSet(
    name="caltech256",
    title="Caltech-256 object categories",
    access="open",
    licence="CaltechDATA record, commonly stated as CC BY 4.0; check before you redistribute",
    citation="G. Griffin, A. Holub, P. Perona. Caltech-256 object category dataset. CNS-TR-2007-001, "
    "Caltech, 2007.",
    photographs=True,
    counts=Counts(n_classes=256, n_samples=(29_780, 29_781)),
    sources=(
        owners_folder(
            _NAME, "001.ak47", layout=f"the folder {_NAME} with 001.ak47 ... 257.clutter", read=_read
        ),
    ),
    files=(
        remote(
            "256_ObjectCategories.tar",
            "https://data.caltech.edu/records/nyy15-4j048/files/",
            md5="67b4f42ca05d46448c6bb8ecd2220f6d",
            unpack_to=_NAME,
        ),
    ),
)
