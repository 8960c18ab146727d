"""Import of a user's own file or folder: copied, read back, counted, and only then put into the data home."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from residuum.errors import DataError, DataFormatError, DataNotFoundError, UsageError
from residuum.paper.data.base import DataSet, Source
from residuum.paper.data.photos import ImageSamples
from residuum.paper.data.store import (
    Loaded,
    Located,
    Shape,
    load,
    move,
    read_in_its_size,
    read_located,
    unpack,
)

_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


def import_copy(dataset: DataSet, path: Path, home: Path, *, force: bool = False) -> Loaded:
    """Copy `path` into the data home after it has been recognised and read in full.

    Parameters
    ----------
    dataset : DataSet
        What the file or folder holds.
    path : Path
        A prepared .npz, an original file, a folder with the original files, or an archive of it.
    home : Path
        Data home; the copy goes to its sub-folder of the data set's name.
    force : bool, default=False
        Replace what is there under the same name.

    Returns
    -------
    Samples or ImageSamples
        The data set as read from the copy.
    """
    if dataset.access == "bundled":
        raise UsageError(f"The data set '{dataset.name}' is always there and is never imported.")
    if not path.exists():
        raise DataNotFoundError(f"{path} does not exist.")
    target = home / dataset.name
    try:
        target.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(dir=target, prefix=".import-"))
        try:
            staged, samples = _staged(dataset, path, stage)
            taken = [entry.name for entry in staged if (target / entry.name).exists()]
            if taken and not force:
                raise DataError(f"{target} holds {', '.join(taken)} already. Use --force to replace it.")
            for entry in staged:
                move(entry, target / entry.name)
        finally:
            shutil.rmtree(stage, ignore_errors=True)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"Cannot copy {path} to {target}: {error.strerror or error}.") from error
    # Photographs stay on disk: their paths must be those of the final place.
    return load(dataset, home) if isinstance(samples, ImageSamples) else samples


def _staged(dataset: DataSet, path: Path, stage: Path) -> tuple[list[Path], Loaded]:
    """Copies in `stage`, and the samples that they hold."""
    errors: list[str] = []
    for number, (source, entries, shape) in enumerate(_candidates(dataset, path, stage / "unpacked", errors)):
        folder = stage / str(number)
        folder.mkdir()
        copied = []
        for entry, name in entries:
            if entry.is_dir():
                shutil.copytree(entry, folder / name)
            else:
                shutil.copyfile(entry, folder / name)
            copied.append(folder / name)
        present, _ = source.search(folder, shape)
        try:
            # A name that states a size must not be given to images of another one.
            read = read_located if source.names[0][0] != source.spellings(shape)[0][0] else read_in_its_size
            return copied, read(dataset, Located(source, present, shape))
        except DataError as error:
            errors.append(str(error).replace(str(folder), str(path if path.is_dir() else path.parent)))
            shutil.rmtree(folder)
    layouts = "\n".join(f"  - {source.layout}" for source in dataset.sources)
    reasons = "".join(f"\n{error}" for error in dict.fromkeys(errors))
    raise DataFormatError(
        f"{path} is not a copy of '{dataset.name}' that can be imported.{reasons}\n"
        f"Expected one of:\n{layouts}"
    )


Entries = list[tuple[Path, str]]  # what to copy, and its name in the data home


def _candidates(
    dataset: DataSet, path: Path, scratch: Path, errors: list[str]
) -> Iterator[tuple[Source, Entries, Shape | None]]:
    shapes = (dataset.image_shape, *dataset.other_shapes)
    if path.is_dir():
        yield from _in_folder(dataset, path)
        return
    for source in dataset.sources:
        if len(source.names) != 1 or source.find is not None:
            continue
        named = {
            source.spellings(shape)[0]: shape for shape in reversed(shapes)
        }  # once when size is not named
        for options, shape in reversed(named.items()):
            if path.name in options:
                yield source, [(path, path.name)], shape
            elif path.name.lower().endswith(_suffix(options[0])):
                yield source, [(path, options[0])], shape
    if path.name.lower().endswith(_ARCHIVES):
        try:
            unpack(path, scratch)
        except DataError as error:
            errors.append(str(error))
            return
        yield from _in_folder(dataset, scratch)


def _in_folder(dataset: DataSet, folder: Path) -> Iterator[tuple[Source, Entries, Shape | None]]:
    for source in dataset.sources:
        for shape in (dataset.image_shape, *dataset.other_shapes):
            present, missing = source.search(folder, shape)
            if present and not missing:
                canonical = [options[0] for options in source.spellings(shape)]
                named = [name if entry.is_dir() else entry.name for entry, name in zip(present, canonical)]
                yield source, list(zip(present, named)), shape
                break


def _suffix(name: str) -> str:
    return "".join(Path(name).suffixes[-2:] if name.endswith((".gz", ".bz2")) else Path(name).suffixes[-1:])
