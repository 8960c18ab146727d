"""Images: one sub-folder per class, train/ and test/ with the classes below them, or a list of files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from residuum.errors import DataFormatError, DataNotFoundError, UsageError
from residuum.features.image_files import list_folder
from residuum.inputs.columns import ColumnOptions
from residuum.inputs.own_data import PART_NAMES, OwnData, as_split


def read_image_folder(path: Path, options: ColumnOptions) -> OwnData:
    """List the images of a folder with their classes; nothing is decoded yet."""
    if (options.label, options.split, options.group, options.drop) != (None, None, None, ()):
        raise UsageError(
            f"--label, --split, --groups and --drop are for tables and arrays; {path} is a folder of images."
        )
    files, beside = list_folder(path)
    if not files:
        raise DataFormatError(f"{path} holds no files. Put images into one sub-folder per class.")
    notes = [f"{len(beside)} files beside the class folders are ignored"] if beside else []
    names = np.array([name for name, _ in files], dtype=np.str_)
    labels = np.array([label for _, label in files], dtype=np.str_)
    split = None
    tops = set(labels.tolist())
    if len(tops) > 1 and {top.lower() for top in tops} <= PART_NAMES:
        split, more = as_split(labels.tolist(), lambda i: str(path / str(names[i])))
        notes.extend(("the sub-folders are the parts of a split, with the classes below them", *more))
        loose = next((name for name in names if len(Path(name).parts) < 3), None)
        if loose is not None:
            raise DataFormatError(f"{path / loose} lies beside the folders of the classes: move it into one.")
        labels = np.array([Path(name).parts[1] for name in names], dtype=np.str_)
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


def read_image_list(paths: Sequence[Path], *, source: str) -> OwnData:
    """Image files by name, without labels; nothing is decoded yet. `source` says who named them."""
    if not paths:
        raise DataFormatError(f"There is no name of an image in {source}. Give one file on each line.")
    for path in paths:
        if path.is_dir():
            raise UsageError(f"{path} is a folder. DATA is one folder of images, or one or more image files.")
        if not path.exists():
            raise DataNotFoundError(f"{path} does not exist. All files that DATA names must be there.")
    names = np.array([str(path) for path in paths], dtype=np.str_)
    return OwnData(source=source, kind="images", features=None, labels=None, names=names, paths=tuple(paths))
