"""Data sets brought into the data home: downloaded, or copied from a user's own files.

Both go the same way: a copy is read in full and counted where it is, and only then moves to its place.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from residuum.errors import DataError, DataFormatError, DataNotFoundError, UsageError
from residuum.paper.data.base import DataSet
from residuum.paper.data.samples import LabelledSamples
from residuum.paper.data.store import Copy, copies, load, missing_text, read_copy
from residuum.system.archives import safe_extract
from residuum.system.download import download
from residuum.system.locks import locked

_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


def fetch(
    dataset: DataSet,
    home: Path,
    *,
    mirror: str | None = None,
    force: bool = False,
) -> LabelledSamples:
    """Download a data set, unless a readable copy is there, and read it.

    Parameters
    ----------
    dataset : DataSet
        What to fetch; it must be openly available.
    home : Path
        Data home; files go to its sub-folder of the data set's name.
    mirror : str, optional
        Address of a folder that holds the files, tried before the declared ones.
    force : bool, default=False
        Download even if there is a copy.
    """
    if dataset.access == "registration":
        raise DataNotFoundError(missing_text(dataset, home))
    if dataset.access == "bundled":
        return load(dataset, home)
    folder = home / dataset.name
    files = dataset.files
    if mirror is not None:
        base = mirror.rstrip("/")
        files = tuple(dataclasses.replace(f, urls=(f"{base}/{f.name}", *f.urls)) for f in files)
    with _scratch(folder) as scratch:
        there = copies(dataset, home, shape=dataset.default_shape)
        copy = None if force else next(there, None)
        if copy is not None:
            return read_copy(dataset, copy)
        paths = [download(file, folder) for file in files]
        try:
            for file, path in zip(files, paths):
                if file.unpack_to:
                    _unpack(path, scratch / file.unpack_to)
                else:
                    path.rename(scratch / file.name)
            samples = _settle(dataset, copies(dataset, scratch), folder, scratch, force=True)
        except DataFormatError as error:
            for path in paths:  # a file without a checksum would be taken for a good one
                path.unlink(missing_ok=True)
            raise DataFormatError(str(error).replace(str(scratch), str(folder))) from error
        for file, path in zip(files, paths):
            if file.unpack_to:
                path.unlink()
        return samples


def import_copy(dataset: DataSet, path: Path, home: Path, *, force: bool = False) -> LabelledSamples:
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
    folder = home / dataset.name
    with _scratch(folder) as scratch:
        try:
            return _settle(dataset, _offered(dataset, path, scratch), folder, scratch, force=force)
        except DataFormatError as error:
            reason = str(error).replace(str(scratch / "unpacked"), str(path))
            layouts = "\n".join(
                f"  - {source.layout}" for source in dataset.sources if not source.only_subset
            )
            raise DataFormatError(
                f"{path} is not a copy of '{dataset.name}' that can be imported.\n{reason}\n"
                f"Expected one of:\n{layouts}"
            ) from None


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder inside `folder` for what is on its way; one process at a time brings something in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            locked(folder / ".intake.lock"),
            tempfile.TemporaryDirectory(dir=folder, prefix=".intake-", ignore_cleanup_errors=True) as scratch,
        ):
            yield Path(scratch)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def _offered(dataset: DataSet, path: Path, scratch: Path) -> Iterator[Copy]:
    """What a user's file or folder may be."""
    if path.is_dir():
        yield from copies(dataset, path)
        return
    for source in dataset.sources:
        if source.find is None and [Path(name).suffix for name in source.names] == [path.suffix.lower()]:
            yield Copy(source, (path,))
    if path.name.lower().endswith(_ARCHIVES):
        _unpack(path, scratch / "unpacked")
        yield from copies(dataset, scratch / "unpacked")


def _unpack(archive: Path, target: Path) -> None:
    """Extract, without the single folder that most archives wrap their content in."""
    safe_extract(archive, target)
    inner = list(target.iterdir())
    if len(inner) == 1 and inner[0].is_dir():
        aside = target.with_name(target.name + ".inner")
        inner[0].rename(aside)
        target.rmdir()
        aside.rename(target)


def _settle(
    dataset: DataSet, offered: Iterable[Copy], folder: Path, scratch: Path, *, force: bool
) -> LabelledSamples:
    """Bring the first of these copies that is the data set into `folder`, and read it there."""
    problems: list[str] = []
    for copy in offered:
        try:
            read_copy(dataset, copy)
        except DataError as error:
            problems.append(str(error))
            continue
        names = copy.source.names
        # A single file or folder may have had any name; several were found by theirs.
        targets = tuple(folder / (names[0] if len(names) == 1 else path.name) for path in copy.paths)
        taken = [target.name for target in targets if target.exists()]
        if taken and not force:
            raise DataError(f"{folder} holds {', '.join(taken)} already. Use --force to replace it.")
        for path, target in zip(copy.paths, targets):
            _place(path, target, scratch)
        return read_copy(dataset, Copy(copy.source, targets))
    raise DataFormatError(
        "\n".join(dict.fromkeys(problems)) or f"It holds no complete copy of '{dataset.name}'."
    )


def _place(path: Path, target: Path, scratch: Path) -> None:
    """Replace `target` by `path` in one step; what is not on its way already is copied first."""
    if not path.is_relative_to(scratch):
        ready = scratch / f"ready-{target.name}"
        if path.is_dir():
            # The data home itself may lie inside the folder that is imported.
            shutil.copytree(path, ready, ignore=shutil.ignore_patterns(".intake*"))
        else:
            shutil.copyfile(path, ready)
        path = ready
    if target.is_dir():
        target.rename(scratch / f"old-{target.name}")
    path.replace(target)
