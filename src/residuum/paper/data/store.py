"""The data home at work: find a copy, load it, fetch it, import it, verify it.

A data set is searched in the data home and in its sub-folder of the same name. Whatever is written there
goes to a temporary name first and is renamed when it has been read back and its counts are right.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residuum.errors import DataError, DataFormatError, DataNotFoundError, DownloadError, UsageError
from residuum.paper.data.base import DataSet, RemoteFile, Samples, Source, WrongSizeError, check_counts
from residuum.paper.data.photos import ImageSamples, checked_images
from residuum.system.archives import safe_extract
from residuum.system.download import Policy, Progress, check_file, download, file_hash, locked

Shape = tuple[int, int]
Loaded = Samples | ImageSamples


@dataclass(frozen=True)
class Located:
    """A copy that is complete as far as names go."""

    source: Source
    paths: tuple[Path, ...]
    image_shape: Shape | None


def places(dataset: DataSet, home: Path) -> tuple[Path, Path]:
    """Folders that are searched, in order."""
    return (home / dataset.name, home)


def locate(
    dataset: DataSet, home: Path, image_shape: Shape | None = None, *, subset: bool = False
) -> Located | None:
    """First complete copy in the order of the declared sources, or None."""
    shape = image_shape or dataset.image_shape
    for source in (*dataset.sources, *(dataset.subset_sources if subset else ())):
        for place in places(dataset, home):
            present, missing = source.search(place, shape)
            if present and not missing:
                return Located(source, present, shape)
    return None


def load(dataset: DataSet, home: Path, image_shape: Shape | None = None, *, subset: bool = False) -> Loaded:
    """Read the copy in `home` and check its counts."""
    shape = _checked_shape(dataset, image_shape)
    found = locate(dataset, home, shape, subset=subset)
    if found is None:
        raise DataNotFoundError(missing_text(dataset, home, shape))
    return read_located(dataset, found, subset=subset)


def read_located(dataset: DataSet, found: Located, *, subset: bool = False) -> Loaded:
    """Read one copy, and raise DataFormatError unless it is the data set that was declared."""
    try:
        samples = found.source.read(found.paths, found.image_shape)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataFormatError(f"{found.paths[0]}: cannot be read: {error.strerror or error}.") from error
    where = found.source.kind if dataset.access == "bundled" else f"{found.source.kind}: {found.paths[0]}"
    samples = dataclasses.replace(samples, source=where)
    if isinstance(samples, ImageSamples):
        return checked_images(samples, dataset.expected, subset=subset)
    check_counts(samples, dataset.expected)
    return samples


def _checked_shape(dataset: DataSet, image_shape: Shape | None) -> Shape | None:
    if image_shape is None:
        return dataset.image_shape
    valid = len(image_shape) == 2 and all(isinstance(side, int) and side > 0 for side in image_shape)
    if not valid:
        raise UsageError(
            f"The 'image_shape' parameter of load_dataset must be (height, width). "
            f"Got {image_shape!r} instead."
        )
    only = dataset.expected.image_shapes
    if dataset.image_shape is None and only is not None and tuple(image_shape) not in only:
        raise UsageError(
            f"The 'image_shape' parameter of load_dataset must be None or {only[0]} for '{dataset.name}', "
            f"which comes in one size. Got {image_shape!r} instead."
        )
    return (image_shape[0], image_shape[1])


def missing_text(dataset: DataSet, home: Path, image_shape: Shape | None = None) -> str:
    """Where it was looked for, how to get it, and the exact layout."""
    size = "" if image_shape is None else f"{image_shape[0]}x{image_shape[1]}"
    lines = [f"The data set '{dataset.name}' ({dataset.title}) is not in the data home."]
    lines += ["Looked in:", *(f"  {place}" for place in places(dataset, home))]
    for source in dataset.sources:
        for place in places(dataset, home):
            present, missing = source.search(place, image_shape)
            if present and missing:
                lines.append(f"Incomplete copy in {place}: {', '.join(missing)} missing.")
    if dataset.how_to_get:
        lines.append(dataset.how_to_get)
    lines.append("Put one of these there, or 'residuum data import " + dataset.name + " PATH':")
    lines += [f"  - {source.layout.replace('{size}', size)}" for source in dataset.sources]
    if dataset.access == "open":
        lines.append(f"or download it with 'residuum data fetch {dataset.name}'.")
    lines.append(f"Licence: {dataset.licence}.")
    lines.append("Another data home is chosen with data_home=..., --data, or the variable RESIDUUM_DATA.")
    return "\n".join(lines)


def copies(dataset: DataSet, home: Path, *, subset: bool = False) -> Iterator[Located]:
    """Every copy in `home` that loading would use for one of the known image sizes."""
    seen: set[tuple[Path, ...]] = set()
    for shape in (dataset.image_shape, *dataset.other_shapes):
        found = locate(dataset, home, shape, subset=subset)
        if found is not None and found.paths not in seen:
            seen.add(found.paths)
            yield found


def status(dataset: DataSet, home: Path, *, subset: bool = False) -> dict[str, Any]:
    """What is there, by name and size only; nothing is read."""
    found = list(copies(dataset, home, subset=subset))
    paths = [] if dataset.access == "bundled" else [path for copy in found for path in copy.paths]
    return {
        "name": dataset.name,
        "title": dataset.title,
        "access": dataset.access,
        "present": bool(found),
        "kinds": [copy.source.kind for copy in found],
        "paths": [str(path) for path in paths],
        "bytes": sum(_size(path) for path in paths),
    }


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(entry.stat().st_size for entry in path.rglob("*") if entry.is_file())
    return path.stat().st_size


def verify(dataset: DataSet, home: Path, *, subset: bool = False) -> dict[str, Any]:
    """Check declared checksums and read every copy in full.

    Raises
    ------
    DataNotFoundError
        When there is none.
    DataFormatError
        At the first copy that is not as declared.
    """
    declared = {remote.name: remote for group in (dataset.files, *dataset.fallbacks) for remote in group}
    reports = []
    for found in copies(dataset, home, subset=subset):
        checked = []
        for path in found.paths:
            remote = declared.get(path.name)
            if remote is not None and path.is_file():
                problem = check_file(path, _pinned(remote, path.parent))
                if problem:
                    raise DataFormatError(f"{path}: {problem}. Remove it and get it again.")
                checked.append(path.name)
        samples = read_in_its_size(dataset, found, subset=subset)
        reports.append(
            {
                "source": samples.source,
                "samples": len(samples.labels),
                "classes": samples.n_classes,
                "image_shape": None if isinstance(samples, ImageSamples) else list(samples.image_shape),
                "checksums": checked,
                "notes": list(samples.notes),
            }
        )
    if not reports:
        raise DataNotFoundError(missing_text(dataset, home, dataset.image_shape))
    return {"name": dataset.name, "copies": reports}


def read_in_its_size(dataset: DataSet, found: Located, *, subset: bool = False) -> Loaded:
    """Read a copy in the first known size that it has: MATLAB copies come in one size each."""
    shapes = dict.fromkeys((found.image_shape, *dataset.other_shapes))
    errors = []
    for shape in shapes:
        try:
            return read_located(dataset, dataclasses.replace(found, image_shape=shape), subset=subset)
        except WrongSizeError as error:
            errors.append(error)
    raise errors[0]


def fetch(
    dataset: DataSet,
    home: Path,
    *,
    mirror: str | None = None,
    force: bool = False,
    policy: Policy | None = None,
    progress: Progress | None = None,
) -> Loaded:
    """Download a data set, unless a readable copy is there, and load it.

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
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / ".fetch.lock"):
            if not force and locate(dataset, home) is not None:
                return load(dataset, home)
            failures = []
            for group in (dataset.files, *dataset.fallbacks):
                try:
                    return _fetch_group(dataset, group, folder, mirror, policy, progress)
                except (DownloadError, DataFormatError) as error:
                    failures.append(str(error))
            raise DownloadError("\n".join(failures))
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DownloadError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def _fetch_group(
    dataset: DataSet,
    group: tuple[RemoteFile, ...],
    folder: Path,
    mirror: str | None,
    policy: Policy | None,
    progress: Progress | None,
) -> Loaded:
    written: list[Path] = []
    for remote in group:
        wanted = _pinned(remote, folder)
        if mirror:
            wanted = dataclasses.replace(wanted, urls=(f"{mirror.rstrip('/')}/{remote.name}", *remote.urls))
        path = download(wanted, folder, policy=policy, progress=progress)
        if wanted.sha256 is None and wanted.md5 is None:
            written.append(path)
    try:
        samples = _read_group(dataset, group, folder)
    except DataFormatError:
        for path in written:  # no published checksum vouches for these: they must not stay
            path.unlink(missing_ok=True)
        raise
    for path in written:
        _atomic_text(path.with_name(path.name + ".sha256"), f"{file_hash(path)}  {path.name}\n")
    for remote in group:
        if remote.unpack_to:
            (folder / remote.name).unlink(missing_ok=True)
    # Photographs stay on disk: their paths must be those of the final place.
    return load(dataset, folder.parent) if isinstance(samples, ImageSamples) else samples


def _read_group(dataset: DataSet, group: tuple[RemoteFile, ...], folder: Path) -> Loaded:
    """Unpack into a scratch folder, read, and move what was unpacked into place when it is right."""
    archives = [remote for remote in group if remote.unpack_to]
    names = {remote.name for remote in group}
    if not archives:
        for source in dataset.sources:
            present, missing = source.search(folder, dataset.image_shape)
            if present and not missing and names == {path.name for path in present}:
                return read_located(dataset, Located(source, present, dataset.image_shape))
        raise DataFormatError(
            f"{folder}: {', '.join(sorted(names))} do not make up a copy of {dataset.name}."
        )
    scratch = Path(tempfile.mkdtemp(dir=folder, prefix=".unpack-"))
    try:
        for remote in archives:
            assert remote.unpack_to is not None
            unpack(folder / remote.name, scratch / remote.unpack_to)
        for remote in group:
            if not remote.unpack_to:
                shutil.copyfile(folder / remote.name, scratch / remote.name)
        found = next(_complete(dataset, scratch), None)
        if found is None:
            raise DataFormatError(f"{dataset.name}: the archive does not hold what its owner distributes.")
        samples = read_located(dataset, found)
        for remote in archives:
            assert remote.unpack_to is not None
            move(scratch / remote.unpack_to, folder / remote.unpack_to)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return dataclasses.replace(samples, source=samples.source.replace(str(scratch), str(folder)))


def unpack(archive: Path, target: Path) -> None:
    """Extract, without the single folder that most archives wrap their content in."""
    safe_extract(archive, target)
    inner = list(target.iterdir())
    if len(inner) == 1 and inner[0].is_dir():
        aside = target.with_name(target.name + ".inner")
        inner[0].rename(aside)
        target.rmdir()
        aside.rename(target)


def _complete(dataset: DataSet, folder: Path) -> Iterator[Located]:
    for shape in (dataset.image_shape, *dataset.other_shapes):
        for source in dataset.sources:
            present, missing = source.search(folder, shape)
            if present and not missing:
                yield Located(source, present, shape)


def _pinned(remote: RemoteFile, folder: Path) -> RemoteFile:
    """With the SHA-256 of the first fetch, where the owner publishes no checksum."""
    note = folder / (remote.name + ".sha256")
    if remote.sha256 is None and remote.md5 is None and note.is_file():
        words = note.read_text("ascii", "replace")[:200].split()
        if words and len(words[0]) == 64:
            return dataclasses.replace(remote, sha256=words[0])
    return remote


def _atomic_text(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.write_text(text, "ascii")
    scratch.replace(path)


def move(entry: Path, target: Path) -> None:
    """Rename `entry` to `target`, which it replaces."""
    if target.is_dir():
        old = Path(tempfile.mkdtemp(dir=target.parent, prefix=".old-"))
        target.rename(old / target.name)
        entry.rename(target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        entry.replace(target)
