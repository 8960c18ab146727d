"""Caltech-UCSD Birds 200-2011: 11,788 photographs, labels 1 to 200, official split 5,994 / 5,794.

A part of the set in the same layout (fewer lines in images.txt, or fewer files) is read with ``subset=True``;
its folder may have any name that begins with CUB_200_2011.
"""

from __future__ import annotations

from pathlib import Path

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, owners_folder, remote
from residuum.paper.data.readers import read_lines
from residuum.paper.data.samples import Counts, ImageSamples, image_samples

_NAME = "CUB_200_2011"
_LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")
_MARKS = ("images", *_LISTS)


def _numbered(path: Path) -> dict[int, str]:
    """Lines ``number value`` as a dict."""
    table: dict[int, str] = {}
    for line in read_lines(path):
        number, _, value = line.partition(" ")
        if not number.isdecimal() or not value or int(number) in table:
            raise DataFormatError(f"{path}: expected lines 'number value', each number once; got {line!r}.")
        table[int(number)] = value.strip()
    return table


def _read(folder: Path) -> ImageSamples:
    files, classes, split, names = (_numbered(folder / name) for name in _LISTS)
    if not files.keys() == classes.keys() == split.keys():
        raise DataFormatError(
            f"{folder}: {', '.join(_LISTS[:3])} must number the same images; "
            f"got {len(files)}, {len(classes)} and {len(split)} lines."
        )
    bad = [line for line in (*classes.values(), *split.values()) if not line.isdecimal()]
    if bad or not set(split.values()) <= {"0", "1"}:
        raise DataFormatError(f"{folder}: expected class numbers, and 1 (train) or 0 (test); got {bad[:3]}.")
    rows = ((files[n], int(classes[n]), "train" if split[n] == "1" else "test") for n in sorted(files))
    return image_samples(folder / "images", rows, names)


CUB200 = DataSet(
    name="cub200",
    title="Caltech-UCSD Birds 200-2011",
    access="open",
    licence="non-commercial research and education",
    citation="C. Wah, S. Branson, P. Welinder, P. Perona, S. Belongie. The Caltech-UCSD Birds-200-2011 "
    "dataset. CNS-TR-2011-001, Caltech, 2011.",
    photographs=True,
    counts=Counts(n_classes=200, parts={"train": (5994,), "test": (5794,)}),
    sources=(
        owners_folder(_NAME, *_MARKS, layout=f"the folder {_NAME} with {', '.join(_MARKS)}", read=_read),
        owners_folder(
            f"{_NAME}*",
            *_MARKS,
            layout="the same with fewer images",
            read=_read,
            only_subset=True,
            kind="subset",
        ),
    ),
    files=(
        remote(
            "CUB_200_2011.tgz",
            "https://data.caltech.edu/records/65de6-vp158/files/",
            "https://s3.amazonaws.com/fast-ai-imageclas/",
            size=1_150_585_339,
            sha256="0c685df5597a8b24909f6a7c9db6d11e008733779a671760afef78feb49bf081",
            unpack_to=_NAME,
        ),
    ),
)
