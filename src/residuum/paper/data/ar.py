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
RAW_SHAPE = (576, 768)
RAW_CROP = (400, 287)  # centred; the proportions of 60x43
_SESSIONS = (range(1, 8), range(14, 21))
_IMAGE = re.compile(r"([mw])-(\d{3})-(\d{1,2})\.(bmp|raw|jpe?g|png|pgm|ppm|tiff?)", re.IGNORECASE)


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
    people = _chosen(folder)
    parts, unaligned = [], False
    for numbers in _SESSIONS:
        images, labels = [], []
        for label, files in enumerate(people, start=1):
            for number in numbers:
                if number in files:
                    image = _grey(files[number])
                    unaligned |= image.shape == RAW_SHAPE
                    images.append(_to_shape(files[number], image))
                    labels.append(label)
        parts.append((np.stack(images), np.array(labels, dtype=np.int64)))
    note = "Originals of 768x576 are cut at the centre, not aligned by the eyes: accuracy will be lower."
    return array_samples(folder, *parts, notes=(note,) if unaligned else ())


def _to_shape(path: Path, image: Array) -> npt.NDArray[np.uint8]:
    height, width = image.shape
    if (height, width) == RAW_SHAPE:
        top, left = (height - RAW_CROP[0]) // 2, (width - RAW_CROP[1]) // 2
        image = image[top : top + RAW_CROP[0], left : left + RAW_CROP[1]]
    elif height < SHAPE[0] or width < SHAPE[1] or not 1.25 < height / width < 1.55:
        raise DataFormatError(
            f"{path}: expected 768x576 originals or upright face crops of about 60:43 (such as 165x120), at "
            f"least 60x43 pixels; got {height} rows and {width} columns."
        )
    return box_resize(image, SHAPE)


def _grey(path: Path) -> npt.NDArray[np.uint8]:
    pixels = _read_raw(path) if path.suffix.lower() == ".raw" else read_picture(path, str(path))
    if pixels.ndim == 2:
        return pixels
    return np.rint(pixels @ np.array([0.299, 0.587, 0.114])).astype(np.uint8)


def _read_raw(path: Path) -> Array:
    """24-bit pixels (576, 768, 3) without any header."""
    expected = RAW_SHAPE[0] * RAW_SHAPE[1] * 3
    if path.stat().st_size != expected:
        raise DataFormatError(
            f"{path}: expected {expected} bytes (768x576, 24 bit), got {path.stat().st_size}."
        )
    flat = np.fromfile(path, dtype=np.uint8)
    steps = flat[: len(flat) // 3].astype(np.int16)
    # Copies exist pixel by pixel and plane by plane. In the first, equal colours stand 3 bytes apart.
    if np.abs(steps[3:] - steps[:-3]).mean() <= np.abs(steps[1:] - steps[:-1]).mean():
        return flat.reshape(*RAW_SHAPE, 3)
    return flat.reshape(3, *RAW_SHAPE).transpose(1, 2, 0)


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
            layout="the owner's images named like M-001-01.bmp and W-050-20.bmp (bmp, raw, jpg, png or pgm), "
            "in one folder or its sub-folders",
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
