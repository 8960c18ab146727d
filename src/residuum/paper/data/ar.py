"""AR faces: 100 persons, 7 + 7 images without occlusion from two sessions, 60x43 pixels, labels 1 to 100.

The owner gives the database out on application only and forbids passing it on: nothing is downloaded, a
user's own copy is read. Training part: session 1, images 01 to 07; test part: session 2, images 14 to 20;
men 1 to 50, women 51 to 100. The public research file has 699 test images, since one woman lacks one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, prepared_split
from residuum.paper.data.pixels import box_resize, grey_images
from residuum.paper.data.readers import read_mat, read_picture, whole
from residuum.paper.data.samples import Counts, Samples, array_samples

Array = npt.NDArray[Any]

SHAPE = (60, 43)
_SESSIONS = (range(1, 8), range(14, 21))
_IMAGE = re.compile(r"([mw])-(\d{3})-(\d{1,2})\.(bmp|jpe?g|png|pgm|ppm|tiff?)", re.IGNORECASE)


def _read_mat(path: Path) -> Samples:
    arrays = read_mat(path, ("NewTrain_DAT", "NewTest_DAT", "trainlabels", "testlabels"))
    parts = []
    for part, columns in (("train", arrays["NewTrain_DAT"]), ("test", arrays["NewTest_DAT"])):
        labels = whole(path, arrays[f"{part}labels"].ravel())
        if columns.ndim != 2 or len(columns) != SHAPE[0] * SHAPE[1] or columns.shape[1] != len(labels):
            raise DataFormatError(
                f"{path}: expected New{part.capitalize()}_DAT with 2580 rows (60x43 pixels), one image per "
                f"column, and as many {part}labels; got {columns.shape} and {labels.size} labels."
            )
        if not 1 <= labels.min() <= labels.max() <= 100:
            raise DataFormatError(f"{path}: expected labels 1 to 100, got {labels.min()} to {labels.max()}.")
        parts.append((grey_images(path, columns, SHAPE), labels))
    return array_samples(path, *parts)


def _images_in(folder: Path) -> dict[tuple[str, int], dict[int, Path]]:
    """Image files by (sex, person number) and image number, in `folder` and the folders directly in it."""
    people: dict[tuple[str, int], dict[int, Path]] = defaultdict(dict)
    for path in sorted([*folder.glob("*"), *folder.glob("*/*")]):
        match = _IMAGE.fullmatch(path.name)
        if match:
            people[match[1].upper(), int(match[2])].setdefault(int(match[3]), path)
    return people


def _find_folder(folder: Path) -> Path | None:
    candidates = (candidate for candidate in (folder / "AR", folder) if candidate.is_dir())
    return next((candidate for candidate in candidates if _images_in(candidate)), None)


def _chosen(folder: Path) -> list[dict[int, Path]]:
    """The first 50 men, then 50 women, who have all of session 1 and all but one image of session 2."""
    people = _images_in(folder)
    chosen = []
    for sex, word in (("M", "men"), ("W", "women")):
        complete = [
            images
            for (its_sex, _), images in sorted(people.items())
            if its_sex == sex
            and set(_SESSIONS[0]) <= set(images)
            and len(set(_SESSIONS[1]) - set(images)) <= 1
        ]
        if len(complete) < 50:
            raise DataFormatError(
                f"{folder}: expected 50 {word} with the images 01-07 and 14-20 (one of 14-20 may lack), "
                f"named like {sex}-001-01.bmp; got {len(complete)}."
            )
        chosen += complete[:50]
    return chosen


def _read_folder(folder: Path) -> Samples:
    parts = []
    people = _chosen(folder)
    for numbers in _SESSIONS:
        files = [(label, files[n]) for label, files in enumerate(people, 1) for n in numbers if n in files]
        images = np.stack([_read_face(path) for _, path in files])
        parts.append((images, np.array([label for label, _ in files])))
    return array_samples(folder, *parts)


def _read_face(path: Path) -> npt.NDArray[np.uint8]:
    image = read_picture(path, str(path))
    if image.ndim == 3:
        image = np.rint(image @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)
    height, width = image.shape
    if height < SHAPE[0] or width < SHAPE[1] or not 1.25 < height / width < 1.55:
        raise DataFormatError(
            f"{path}: expected an upright face crop of about 60:43 (such as 165x120), at least 60x43 pixels; "
            f"got {height} rows and {width} columns."
        )
    return box_resize(image, SHAPE)


AR = DataSet(
    name="ar",
    title="AR faces (100 persons, no occlusion)",
    access="registration",
    licence="research only; the owner forbids passing the images on to third parties",
    citation="A. M. Martinez, R. Benavente. The AR face database. CVC Technical Report 24, 1998.",
    counts=Counts(n_classes=100, parts={"train": (700,), "test": (699, 700)}, image_shape=SHAPE),
    sources=(
        prepared_split("ar"),
        Source(
            kind="MATLAB",
            layout="AR_DAT.mat with NewTrain_DAT 2580x700, NewTest_DAT "
            "2580x699 (60x43 images, one per column), trainlabels, testlabels (1 to 100)",
            names=("AR_DAT.mat",),
            read=_read_mat,
        ),
        Source(
            kind="image folder",
            layout="the owner's images named like M-001-01.bmp and W-050-20.bmp (bmp, jpg, png or pgm), "
            "cropped to the face (such as 165x120 pixels), in one folder or its sub-folders",
            names=("AR",),
            read=_read_folder,
            find=_find_folder,
        ),
    ),
    how_to_get="The AR database is given out on application only: write from your university account to its "
    "owner, Prof. Aleix M. Martinez, The Ohio State University "
    "(https://www2.ece.ohio-state.edu/~aleix/ARdatabase.html), and accept the terms (research only, no "
    "passing on).",
)
