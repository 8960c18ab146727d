"""What a data set is: files declared with their checksums, the copies that are read, and their counts.

A data set comes in several kinds of copies: as its owner distributes it, prepared as .npz, as a MATLAB file.
Each kind is a `Source`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residuum.errors import DataError
from residuum.paper.data.readers import read_npz
from residuum.paper.data.samples import Counts, LabelledSamples, Samples, Shape, split_samples
from residuum.system.download import RemoteFile


@dataclass(frozen=True)
class Source:
    """One kind of copy: which files or folders make it up, and how they are read.

    `names` holds one tuple per required entry, with the accepted spellings, preferred first; a name that ends
    in a slash is a folder, and ``{size}`` stands for the size of the images.
    `find` replaces the search by name where the entry is a folder recognised by its content.
    `read` takes the paths of the entries.
    """

    kind: str
    layout: str
    names: tuple[tuple[str, ...], ...]
    read: Callable[..., LabelledSamples]
    find: Callable[[Path], Path | None] | None = None
    only_subset: bool = False  # looked for only when a part of the data set is asked for

    def spellings(self, size: Shape | None) -> tuple[tuple[str, ...], ...]:
        """`names` with the size of the images filled in."""
        text = "" if size is None else f"{size[0]}x{size[1]}"
        return tuple(tuple(name.format(size=text) for name in options) for options in self.names)

    def search(self, folder: Path, size: Shape | None = None) -> tuple[tuple[Path, ...], tuple[str, ...]]:
        """Entries present in `folder`, and the preferred names of those that are missing."""
        names = self.spellings(size)
        try:
            if self.find is not None:
                found = [self.find(folder)]
            else:
                found = [
                    next((folder / name for name in options if _is_there(folder, name)), None)
                    for options in names
                ]
        except PermissionError as error:
            raise DataError(
                f"Cannot look into {folder}: {error.strerror}. Choose another data home."
            ) from error
        present = tuple(path for path in found if path is not None)
        return present, tuple(options[0] for options, path in zip(names, found) if path is None)


def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() if name.endswith("/") else (folder / name).is_file()


def folder_holding(name: str, *marks: str) -> Callable[[Path], Path | None]:
    """Find a folder called `name` (a glob pattern), or the folder searched itself, that holds all `marks`."""

    def find(folder: Path) -> Path | None:
        candidates = [*sorted(folder.glob(name)), *sorted(folder.glob(f"{name}/{name}")), folder]
        return next((path for path in candidates if all((path / mark).exists() for mark in marks)), None)

    return find


def remote(name: str, *folders: str, **values: Any) -> RemoteFile:
    """A file that lies under its name at several addresses, with what is known about its content."""
    return RemoteFile(name, tuple(folder + name for folder in folders), **values)


def prepared_split(name: str) -> Source:
    """``NAME.npz`` with x_train, y_train, x_test, y_test; images are (n, height, width)."""

    def read(path: Path) -> Samples:
        arrays = read_npz(path, ("x_train", "y_train", "x_test", "y_test"))
        train, test = ((arrays[f"x_{part}"], arrays[f"y_{part}"]) for part in ("train", "test"))
        return split_samples(path, train, test)

    return Source(
        kind="prepared",
        layout=f"{name}.npz with the arrays x_train, y_train, x_test, y_test (images n x height x width)",
        names=((f"{name}.npz",),),
        read=read,
    )


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
    fallbacks: tuple[tuple[RemoteFile, ...], ...] = ()  # whole replacements for `files`, tried in order
    how_to_get: str = ""
    photographs: bool = False  # loaded as paths of image files, not as pixels
    sizes: tuple[Shape, ...] = ()  # where copies come in several sizes: the default first, the owner's last
