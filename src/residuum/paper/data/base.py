"""What a data set is: files declared with their checksums, the copies that are read, and their counts.

A data set comes in several kinds of copies: as its owner distributes it, prepared as .npz, as a MATLAB file.
Each kind is a `Source`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residuum.paper.data.readers import read_npz
from residuum.paper.data.samples import Counts, LabelledSamples, Samples, Shape, array_samples
from residuum.system.download import RemoteFile


@dataclass(frozen=True)
class Source:
    """One kind of copy: which files or folders make it up, and how they are read.

    `names` holds the name of each entry; one that ends in a slash is a folder, and a compressed file may also
    be there unpacked.
    `find` replaces the search by name where the entry is a folder recognised by its content.
    `read` takes the paths of the entries.
    """

    kind: str
    layout: str
    names: tuple[str, ...]
    read: Callable[..., LabelledSamples]
    find: Callable[[Path], Path | None] | None = None
    image_shape: Shape | None = None  # where a data set comes in several sizes: the only one of this kind
    only_subset: bool = False  # looked for only when a part of the data set is asked for

    def search(self, folder: Path) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        """Entries present in `folder`, and the names of those that are missing."""
        found = [self.find(folder)] if self.find else [_entry(folder, name) for name in self.names]
        present = tuple(path for path in found if path is not None)
        return present, tuple(name for name, path in zip(self.names, found) if path is None)


def _entry(folder: Path, name: str) -> Path | None:
    if name.endswith("/"):
        return folder / name if (folder / name).is_dir() else None
    unpacked = name.removesuffix(".gz").removesuffix(".bz2")
    return next((path for path in (folder / name, folder / unpacked) if path.is_file()), None)


def owners_folder(
    name: str, *marks: str, read: Callable[[Path], LabelledSamples], layout: str, **rest: Any
) -> Source:
    """A folder called `name` (a glob pattern), or the folder searched itself, that holds all `marks`."""

    def find(folder: Path) -> Path | None:
        candidates = [*sorted(folder.glob(name)), *sorted(folder.glob(f"{name}/{name}")), folder]
        return next((path for path in candidates if all((path / mark).exists() for mark in marks)), None)

    return Source(**{"kind": "owner's folder", **rest}, layout=layout, names=(name,), read=read, find=find)


def remote(name: str, *folders: str, **values: Any) -> RemoteFile:
    """A file that lies under its name at several addresses, with what is known about its content."""
    return RemoteFile(name, tuple(folder + name for folder in folders), **values)


def prepared_split(name: str) -> Source:
    """``NAME.npz`` with x_train, y_train, x_test, y_test; images are (n, height, width)."""

    def read(path: Path) -> Samples:
        arrays = read_npz(path, ("x_train", "y_train", "x_test", "y_test"))
        train, test = ((arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test"))
        return array_samples(path, train, test)

    layout = f"{name}.npz with the arrays x_train, y_train, x_test, y_test (images n x height x width)"
    return Source(kind="prepared", layout=layout, names=(f"{name}.npz",), read=read)


@dataclass(frozen=True)
class DataSet:
    """One data set: where it comes from, what may be done with it, and how a copy is recognised."""

    name: str
    title: str
    access: str  # "bundled", "open" or "registration"
    licence: str
    citation: str
    counts: Counts
    sources: tuple[Source, ...]
    files: tuple[RemoteFile, ...] = ()
    how_to_get: str = ""
    photographs: bool = False  # loaded as paths of image files, not as pixels
    default_shape: Shape | None = None  # where images come in several sizes, or are shrunk on loading
