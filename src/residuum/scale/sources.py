"""Sources of samples and queries in parts: arrays, .npy files, folders of parts, zarr, dask, tables, images.

A part is described in a few bytes and read where it is worked on, except where only the whole file can be
read, block after block: then this process reads it and the part carries its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError, UsageError
from residuum.inputs import OwnData, read_blocks, read_data
from residuum.system.packages import package

Array = npt.NDArray[Any]
PART_ENDINGS = (".npy", ".npz", ".parquet", ".csv")
_BLOCK_BYTES = 2**24  # of the rows that are read at a time
_INSTALL = "pip install 'residuum[scale]' zarr"


@dataclass(frozen=True, eq=False)
class Part:
    """Some consecutive rows of a source."""

    name: str  # for people: the file, or the source and its rows
    kind: str  # a key of _READERS
    where: Any  # what the reader takes
    first: int = 0  # number of the first row in the whole source, where that is known
    reading: dict[str, Any] = field(default_factory=dict)  # arguments of `read_data`

    def __str__(self) -> str:
        return self.name

    def read(self) -> OwnData:
        """Its rows, checked: a number that is not finite is an error that names its place."""
        data = _READERS[self.kind](self)
        if data.features is not None and data.features.dtype.kind == "f":
            wrong = ~np.isfinite(data.features)
            if wrong.any() and data.kind == "array":
                row, column = np.argwhere(wrong)[0].tolist()
                raise DataFormatError(
                    f"{self.name}, row {row}, column {column}: {data.features[row, column]} is not a finite "
                    "number. Mend the part, or leave the row out."
                )
        return data


def parts_of(
    source: Any, *, labels: Any = None, rows: int | None = None, reading: dict[str, Any] | None = None
) -> Iterator[Part]:
    """The parts of a source, in order.

    Parameters
    ----------
    source : array, dask array, zarr array, path or Part list
        Rows are samples. A folder holds .npy, .npz, .parquet or .csv parts, in the order of their names, or
        is a zarr array, or has images in it.
    labels : array-like or path, optional
        Labels of all rows in order, where the source has none: an array, or an .npy file.
    rows : int, optional
        Rows of a part where the source does not say; about 16 MiB by default.
    reading : dict, optional
        Arguments of `read_data` for tables, such as ``label``.
    """
    reading = dict(reading or {})
    if isinstance(labels, str | Path):
        labels = np.load(labels, mmap_mode="r", allow_pickle=False)
    if isinstance(source, str | Path):
        yield from _from_path(Path(source), labels, rows, reading)
    else:
        yield from _from_array(source, labels, rows)


def _from_array(source: Any, labels: Any, rows: int | None) -> Iterator[Part]:
    """Parts of something with a shape: NumPy, dask or zarr."""
    source = np.asarray(source) if isinstance(source, list | tuple) else source
    shape = getattr(source, "shape", None)
    if shape is None or len(shape) != 2:
        raise UsageError(
            "The source must be a path, or an array of shape (n_samples, n_features). Got "
            f"{type(source).__name__}{'' if shape is None else f' of shape {shape}'}."
        )
    _check_lengths(labels, shape[0], "the source")
    blocks = getattr(source, "chunks", None) if hasattr(source, "dask") else None
    if blocks is not None and rows is None:
        sizes = list(blocks[0])
    else:
        step = rows or _rows_at_once(shape[1])
        sizes = [min(step, shape[0] - first) for first in range(0, shape[0], step)]
    first = 0
    for size in sizes:
        chosen = slice(first, first + size)
        block = source[chosen] if hasattr(source, "dask") else np.asarray(source[chosen])
        yield Part(f"rows {first} to {first + size - 1}", "array", (block, _taken(labels, chosen)), first)
        first += size


def _rows_at_once(n_features: int) -> int:
    return max(1, _BLOCK_BYTES // (4 * n_features))


def _taken(labels: Any, chosen: slice) -> Any:
    if labels is None:
        return None
    some = labels[chosen]
    return np.asarray(some.compute(scheduler="synchronous") if hasattr(some, "dask") else some)


def _check_lengths(labels: Any, n_rows: int, name: str) -> None:
    if labels is not None and len(labels) != n_rows:
        raise UsageError(
            f"There must be one label for each of the {n_rows} rows of {name}. Got {len(labels)}."
        )


def _from_path(path: Path, labels: Any, rows: int | None, reading: dict[str, Any]) -> Iterator[Part]:
    if path.is_dir() and ((path / "zarr.json").exists() or (path / ".zarray").exists()):
        array = package("zarr", _INSTALL).open_array(path, mode="r")
        yield from _from_file(path, "zarr", array.shape, labels, rows)
    elif path.suffix.lower() == ".npy" and path.is_file():
        shape = _mapped(path).shape
        yield from _from_file(path, "npy", shape, labels, rows)
    elif path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix.lower() in PART_ENDINGS)
        yield from _from_folder(path, found, labels, rows, reading)
    else:
        _refuse_labels(labels, path)
        first = 0
        for block in read_blocks(path, rows=rows or 4096, **reading):
            yield Part(f"{path}, rows {first} to {first + len(block) - 1}", "data", block, first)
            first += len(block)


def _from_file(path: Path, kind: str, shape: Any, labels: Any, rows: int | None) -> Iterator[Part]:
    """Parts of an array on disk, of which any rows can be read."""
    if len(shape) != 2:
        raise DataFormatError(f"{path}: expected an array (n_samples, n_features). Got shape {shape}.")
    _check_lengths(labels, shape[0], str(path))
    step = rows or _rows_at_once(shape[1])
    for first in range(0, shape[0], step):
        stop = min(first + step, shape[0])
        where = (str(path.resolve()), first, stop, _taken(labels, slice(first, stop)))
        yield Part(f"{path}, rows {first} to {stop - 1}", kind, where, first)


def _from_folder(
    path: Path, found: list[Path], labels: Any, rows: int | None, reading: dict[str, Any]
) -> Iterator[Part]:
    if not found:
        data = read_data(path, **reading)  # a folder of images, or an error that says what it should be
        for first in range(0, len(data), rows or 256):
            some = data.rows(slice(first, first + (rows or 256)))
            yield Part(f"{path}, images {first} to {first + len(some) - 1}", "data", some, first)
        return
    first = 0
    for file in found:
        if file.suffix.lower() != ".npy":
            _refuse_labels(labels, file)
            yield Part(str(file), "file", str(file.resolve()), reading=reading)
            continue
        n_rows = _mapped(file).shape[0]
        some = _taken(labels, slice(first, first + n_rows))
        _check_lengths(some, n_rows, str(file))
        yield Part(str(file), "npy", (str(file.resolve()), 0, n_rows, some), first)
        first += n_rows


def _refuse_labels(labels: Any, path: Path) -> None:
    if labels is not None:
        raise UsageError(f"Labels of their own are for arrays. {path} has them in a column: name it instead.")


def _mapped(path: Path) -> Array:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise DataFormatError(f"{path}: damaged or not an .npy file: {error}.") from error


def _array_data(part: Part, rows: Any, labels: Any) -> OwnData:
    rows = np.asarray(rows)
    if rows.dtype.kind not in "biuf" or rows.ndim != 2:
        raise DataFormatError(
            f"{part}: expected numbers (n_samples, n_features). Got {rows.dtype}, {rows.shape}."
        )
    names = np.arange(part.first, part.first + len(rows)).astype(np.str_)
    return OwnData(str(part), "array", rows, labels, names)


def _read_array(part: Part) -> OwnData:
    block, labels = part.where
    if hasattr(block, "dask"):
        block = block.compute(scheduler="synchronous")
    return _array_data(part, block, labels)


def _read_npy(part: Part) -> OwnData:
    path, first, stop, labels = part.where
    return _array_data(part, np.array(_mapped(Path(path))[first:stop]), labels)


def _read_zarr(part: Part) -> OwnData:
    path, first, stop, labels = part.where
    return _array_data(part, package("zarr", _INSTALL).open_array(path, mode="r")[first:stop], labels)


def _read_file(part: Part) -> OwnData:
    return read_data(part.where, **part.reading)


def _read_data(part: Part) -> OwnData:
    return part.where


_READERS = {
    "array": _read_array,
    "npy": _read_npy,
    "zarr": _read_zarr,
    "file": _read_file,
    "data": _read_data,
}
