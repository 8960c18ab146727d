"""A folder of images: one sub-folder per class, or train/ and test/ with the classes below them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.features.image_files import list_folder
from residuum.inputs.data import OwnData
from residuum.inputs.roles import Asked, as_split

_PARTS = {"train", "training", "test", "testing", "val", "valid", "validation"}


def read_folder(path: Path, asked: Asked) -> OwnData:
    """List the images of a folder with their classes; nothing is decoded yet."""
    for option, value in (("--label", asked.label), ("--split", asked.split), ("--drop", asked.drop or None)):
        if value is not None:
            raise UsageError(f"{option} goes with tables; {path} is a folder of images.")
    if asked.group is not None:
        raise UsageError(f"--groups goes with tables and arrays; {path} is a folder of images.")
    files, beside = list_folder(path)
    if not files:
        raise DataFormatError(f"{path} holds no files. Put images into one sub-folder per class.")
    notes = [f"{len(beside)} files beside the class folders are passed over"] if beside else []
    names = np.array([name for name, _ in files], dtype=np.str_)
    labels = np.array([label for _, label in files], dtype=np.str_)
    split = None
    tops = set(labels.tolist())
    if len(tops) > 1 and {top.lower() for top in tops} <= _PARTS:
        split, more = as_split(labels.tolist(), "", lambda i: str(path / str(names[i])))
        notes.extend(("the sub-folders are the parts of a split, with the classes below them", *more))
        labels = np.array([_class_below(path, name) for name in names], dtype=np.str_)
    return OwnData(
        source=str(path),
        kind="images",
        features=None,
        labels=None if set(labels.tolist()) == {""} else labels,
        names=names,
        label="folder",
        split=split,
        paths=tuple(path / name for name in names),
        notes=tuple(notes),
    )


def _class_below(path: Path, name: str) -> str:
    parts = Path(name).parts
    if len(parts) < 3:
        raise DataFormatError(
            f"{path / name} lies directly in '{parts[0]}': it belongs into the folder of a class."
        )
    return parts[1]
