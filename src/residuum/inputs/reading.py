"""``read_data`` and ``read_blocks``: from a path to samples, by the kind of file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from residuum.errors import DataFormatError, DataNotFoundError, UsageError
from residuum.inputs.arrays import read_mat_file, read_npy_pair, read_npz
from residuum.inputs.columns import ColumnOptions, ExpectedColumns, TableFormat
from residuum.inputs.image_folder import read_image_folder
from residuum.inputs.own_data import OwnData
from residuum.inputs.parquet import read_parquet
from residuum.inputs.text import read_text
from residuum.inputs.workbook import read_workbook

Reader = Callable[[Path, ColumnOptions, TableFormat], Iterator[OwnData]]

# Ending of the name -> reader, which yields the samples in one piece, or in blocks if it is asked to and can.
READERS: dict[str, Reader] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".npz": read_npz,
    ".npy": read_npy_pair,
    ".parquet": read_parquet,
    ".mat": read_mat_file,
    ".xlsx": read_workbook,
}
_PICKLES = (".pkl", ".pickle", ".joblib", ".p", ".dill")


def read_data(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    split: str | int | None = None,
    group: str | int | None = None,
    drop: Sequence[str | int] = (),
    labels: str | os.PathLike[str] | None = None,
    expected: ExpectedColumns | None = None,
    text: TableFormat | None = None,
) -> OwnData:
    """Read samples, and labels where there are any, from a file or a folder.

    Parameters
    ----------
    path : path
        A text table (.csv, .tsv, .txt), .xlsx, .parquet, .npz, .npy, .mat, or a folder of images with one
        sub-folder per class.
    label : str or int, optional
        Column of the labels by name or position (negative ones from the end), or the name of their array.
        By default a column called label, class, target or y; else the only column of text; else the last.
    split : str or int, optional
        Column that says train or test.
    group : str or int, optional
        Column of groups that must not be divided between train and test.
    drop : sequence of str or int
        Columns to leave out.
    labels : path, optional
        For .npy: the file of the labels.
    expected : ExpectedColumns, optional
        What a saved model takes; columns are then found by name, checked and put in its order.
    text : TableFormat, optional
        How a table is written, and what its cells stand for.

    Returns
    -------
    OwnData
        With `notes` that say what was guessed.

    Raises
    ------
    DataError
        Where the file cannot be read as samples; the message names the file, the line and the column.

    Examples
    --------
    >>> from residuum.inputs import read_data
    >>> data = read_data("iris.csv", label="species")  # doctest: +SKIP
    >>> data.features.shape, data.labels[0]           # doctest: +SKIP
    ((150, 4), 'setosa')
    """
    label_file = None if labels is None else Path(labels)
    options = ColumnOptions(label, split, group, tuple(drop), label_file, expected)
    (data,) = _blocks(Path(path), options, text or TableFormat())
    _refuse_none_left(data.source, len(data))
    if data.left_out:
        every = len(data) + data.left_out
        data = data.noted(f"{data.left_out} of {every} rows with missing values are left out")
    return data


def read_blocks(
    path: str | os.PathLike[str],
    *,
    rows: int,
    label: str | int | None = None,
    split: str | int | None = None,
    drop: Sequence[str | int] = (),
    labels: str | os.PathLike[str] | None = None,
    expected: ExpectedColumns | None = None,
    text: TableFormat | None = None,
) -> Iterator[OwnData]:
    """Read samples by blocks, so that a table of any length takes little memory.

    Parameters
    ----------
    path : path
        What `read_data` reads. Tables are read block by block; arrays are read or mapped as a whole, and a
        folder of images is one block.
    rows : int
        How many rows a block has at most.
    label, split, drop, labels, expected, text
        As in `read_data`.

    Yields
    ------
    OwnData
        Blocks that are not empty, in the order of the file; the first has all notes.
    """
    label_file = None if labels is None else Path(labels)
    options = ColumnOptions(label, split, None, tuple(drop), label_file, expected, rows)
    source, n_rows = Path(path), 0
    for found in _blocks(source, options, text or TableFormat()):
        step = len(found) if found.kind == "images" else rows
        for first in range(0, len(found), step or 1):
            block = found.rows(slice(first, first + step))
            yield replace(block, left_out=found.left_out if not first else 0)
            n_rows += len(block)
    _refuse_none_left(str(path), n_rows)


def _refuse_none_left(source: str, n_rows: int) -> None:
    if not n_rows:
        raise DataFormatError(f"{source}: every row has a missing value, so none is left.")


def _blocks(path: Path, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """What the reader for this kind of file yields."""
    ending = path.suffix.lower()
    if ending in _PICKLES:
        raise DataFormatError(
            f"{path} is a pickle, which may run code when it is read. Save the arrays as .npz."
        )
    if not path.exists():
        raise DataNotFoundError(f"{path} does not exist.")
    if options.labels is not None and ending != ".npy":
        raise UsageError(f"--labels is for a .npy file of features. Got {path.name}.")
    if path.is_dir():
        return iter([read_image_folder(path, options)])
    if ending not in READERS:
        raise UsageError(
            f"{path}: the ending {ending or '(none)'} is not one of {', '.join(READERS)}, and it is not a "
            "folder of images."
        )
    return READERS[ending](path, options, form)
