"""Data sets brought into the data home: downloaded, or copied from a user's own files.

Both go the same way: everything goes to a scratch folder first, is read there in full and counted, and only
then moves to its place.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from residuum.errors import DataError, DataFormatError, DataNotFoundError, DownloadError, UsageError
from residuum.paper.data.base import DataSet
from residuum.paper.data.samples import LabelledSamples
from residuum.paper.data.store import (
    Copy,
    complete_copies,
    load,
    locate,
    missing_text,
    pin_path,
    pinned,
    read_copy,
    sizes_of,
)
from residuum.system.archives import safe_extract
from residuum.system.download import Policy, RemoteFile, download
from residuum.system.files import file_digest, write_text
from residuum.system.locks import locked
from residuum.system.progress import Report

_ARCHIVES = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz")


def fetch(
    dataset: DataSet,
    home: Path,
    *,
    mirror: str | None = None,
    force: bool = False,
    policy: Policy | None = None,
    progress: Report | None = None,
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
    policy : Policy, optional
        Time limits and number of attempts.
    progress : callable, optional
        Called with file name, bytes so far, and total bytes or None.
    """
    if dataset.access == "registration":
        raise DataNotFoundError(missing_text(dataset, home))
    if dataset.access == "bundled":
        return load(dataset, home)
    folder = home / dataset.name
    with _scratch(folder) as scratch:
        copy = None if force else locate(dataset, home)
        if copy is not None:
            return read_copy(dataset, copy)
        failures = []
        for number, group in enumerate((dataset.files, *dataset.fallbacks)):
            if mirror is not None:
                group = tuple(_mirrored(remote, mirror) for remote in group)
            try:
                return _fetch_group(dataset, group, folder, scratch / str(number), policy, progress)
            except (DownloadError, DataFormatError) as error:
                failures.append(str(error))
        raise DownloadError("\n".join(failures))


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
            return _settle(dataset, _offered(dataset, path, scratch), folder, force=force)
        except DataFormatError as error:
            reason = str(error).replace(str(scratch / "in"), str(path if path.is_dir() else path.parent))
            reason = reason.replace(str(scratch / "unpacked"), str(path))
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
        with locked(folder / ".intake.lock"):
            scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".intake-"))
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def _mirrored(remote: RemoteFile, mirror: str) -> RemoteFile:
    return dataclasses.replace(remote, urls=(f"{mirror.rstrip('/')}/{remote.name}", *remote.urls))


def _fetch_group(
    dataset: DataSet,
    group: tuple[RemoteFile, ...],
    folder: Path,
    scratch: Path,
    policy: Policy | None,
    progress: Report | None,
) -> LabelledSamples:
    wanted = [pinned(remote, folder) for remote in group]
    paths = [download(remote, folder, policy=policy, progress=progress) for remote in wanted]
    unknown = [path for path, remote in zip(paths, wanted) if not remote.has_checksum]
    try:
        scratch.mkdir()
        for remote, path in zip(group, paths):
            if remote.unpack_to:
                _unpack(path, scratch / remote.unpack_to)
            else:
                shutil.copyfile(path, scratch / remote.name)
        samples = _settle(dataset, _copies_in(dataset, scratch), folder, force=True)
    except DataFormatError as error:
        for path in unknown:  # neither a checksum nor the content vouches for these: they must not stay
            path.unlink(missing_ok=True)
        raise DataFormatError(str(error).replace(str(scratch), str(folder))) from error
    for path in unknown:
        write_text(pin_path(path), f"{file_digest(path)}  {path.name}\n")
    for remote, path in zip(group, paths):
        if remote.unpack_to:
            path.unlink(missing_ok=True)
    return samples


def _copies_in(dataset: DataSet, folder: Path) -> Iterator[Copy]:
    """Every copy in one folder, whatever the size of its images."""
    found = (copy for size in sizes_of(dataset) for copy in complete_copies(dataset, (folder,), size))
    yield from {copy.paths: copy for copy in found}.values()


def _offered(dataset: DataSet, path: Path, scratch: Path) -> Iterator[Copy]:
    """What a user's file or folder may be, copied into `scratch`."""
    inside = scratch / "in"
    if path.is_dir():
        for copy in _copies_in(dataset, path):
            inside.mkdir()
            names = [options[0] for options in copy.source.names]
            entries = [
                _copied(entry, inside / (entry.name if entry.is_file() else name))
                for entry, name in zip(copy.paths, names)
            ]
            yield Copy(copy.source, tuple(entries))
            shutil.rmtree(inside)
        return
    staged = None
    for source in dataset.sources:
        one_file = len(source.names) == 1 and source.find is None
        if one_file and path.suffix.lower() in {Path(name).suffix.lower() for name in source.names[0]}:
            if staged is None:
                inside.mkdir()
                staged = _copied(path, inside / path.name)
            yield Copy(source, (staged,))
    if path.name.lower().endswith(_ARCHIVES):
        _unpack(path, scratch / "unpacked")
        yield from _copies_in(dataset, scratch / "unpacked")


def _copied(entry: Path, target: Path) -> Path:
    if entry.is_dir():
        # The data home itself may lie inside the folder that is imported.
        return Path(shutil.copytree(entry, target, ignore=shutil.ignore_patterns(".intake*")))
    return Path(shutil.copyfile(entry, target))


def _unpack(archive: Path, target: Path) -> None:
    """Extract, without the single folder that most archives wrap their content in."""
    safe_extract(archive, target)
    inner = list(target.iterdir())
    if len(inner) == 1 and inner[0].is_dir():
        aside = target.with_name(target.name + ".inner")
        inner[0].rename(aside)
        target.rmdir()
        aside.rename(target)


def _settle(dataset: DataSet, copies: Iterable[Copy], folder: Path, *, force: bool) -> LabelledSamples:
    """Move the first of these copies that is the data set into `folder`, and read it there."""
    problems: list[str] = []
    for copy in copies:
        try:
            samples = read_copy(dataset, copy)
        except DataError as error:
            problems.append(str(error))
            continue
        targets = _named(copy, samples, folder)
        taken = [target.name for target in targets if target.exists()]
        if taken and not force:
            raise DataError(f"{folder} holds {', '.join(taken)} already. Use --force to replace it.")
        # The deepest first: a list may lie inside a folder that moves too.
        for entry, target in sorted(zip(copy.paths, targets), key=lambda pair: -len(pair[0].parts)):
            _move(entry, target)
        return read_copy(dataset, Copy(copy.source, targets))
    raise DataFormatError(
        "\n".join(dict.fromkeys(problems)) or f"It holds no complete copy of '{dataset.name}'."
    )


def _named(copy: Copy, samples: LabelledSamples, folder: Path) -> tuple[Path, ...]:
    """Where the entries of a copy belong: files keep a known name, everything else gets the preferred one."""
    spellings = copy.source.spellings(samples.image_shape)
    return tuple(
        folder / (entry.name if entry.is_file() and entry.name in options else options[0])
        for entry, options in zip(copy.paths, spellings)
    )


def _move(entry: Path, target: Path) -> None:
    """Rename `entry` to `target`, which it replaces."""
    if target.is_dir():
        old = Path(tempfile.mkdtemp(dir=target.parent, prefix=".old-"))
        target.rename(old / target.name)
        entry.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        entry.replace(target)
