"""``read_data``: from a path to samples, by the kind of file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from residuum.errors import DataFormatError, DataNotFoundError, UsageError
from residuum.inputs.arrays import read_mat_file, read_npy_pair, read_npz
from residuum.inputs.columns import ColumnOptions, ExpectedColumns, TextFormat
from residuum.inputs.image_folder import read_image_folder
from residuum.inputs.own_data import OwnData
from residuum.inputs.parquet import read_parquet
from residuum.inputs.text import read_text

Reader = Callable[[Path, ColumnOptions, TextFormat], OwnData]

# Ending of the name -> reader.
READERS: dict[str, Reader] = {
    ".csv": read_text,
    ".tsv": read_text,
    ".txt": read_text,
    ".npz": read_npz,
    ".npy": read_npy_pair,
    ".parquet": read_parquet,
    ".mat": read_mat_file,
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
    text: TextFormat | None = None,
) -> OwnData:
    """Read samples, and labels where there are any, from a file or a folder.

    Parameters
    ----------
    path : path
        A text table (.csv, .tsv, .txt), .npz, .npy, .parquet, .mat, or a folder of images with one
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
    text : TextFormat, optional
        How a text table is written.

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
    path = Path(path)
    label_file = None if labels is None else Path(labels)
    options = ColumnOptions(label, split, group, tuple(drop), label_file, expected)
    ending = path.suffix.lower()
    if ending in _PICKLES:
        raise DataFormatError(
            f"{path} is a pickle, which may run code when it is read. Save the arrays as .npz."
        )
    if not path.exists():
        raise DataNotFoundError(f"{path} does not exist.")
    if label_file is not None and ending != ".npy":
        raise UsageError(f"--labels is for a .npy file of features. Got {path.name}.")
    if path.is_dir():
        return read_image_folder(path, options)
    if ending not in READERS:
        raise UsageError(
            f"{path}: the ending {ending or '(none)'} is not one of {', '.join(READERS)}, and it is not a "
            "folder of images."
        )
    return READERS[ending](path, options, text or TextFormat())
