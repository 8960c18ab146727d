"""The data home: find a copy of a data set, read it, verify it.

A data set is searched in the data home and in its sub-folder of the same name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residuum.errors import DataError, DataFormatError, DataNotFoundError
from residuum.paper.data.base import DataSet, Source
from residuum.paper.data.samples import LabelledSamples, Shape
from residuum.system.download import RemoteFile, check_file


@dataclass(frozen=True)
class Copy:
    """A copy that is complete as far as names go."""

    source: Source
    paths: tuple[Path, ...]


def places(dataset: DataSet, home: Path) -> tuple[Path, Path]:
    """Folders that are searched, in order."""
    return (home / dataset.name, home)


def sizes_of(dataset: DataSet) -> tuple[Shape | None, ...]:
    """Sizes that copies come in, the default first; None where there is one size only."""
    return dataset.sizes or (None,)


def complete_copies(
    dataset: DataSet, folders: Iterable[Path], size: Shape | None = None, *, subset: bool = False
) -> Iterator[Copy]:
    """Every complete copy in these folders, in the order of the declared sources."""
    folders = tuple(folders)
    for source in dataset.sources:
        for folder in folders if subset or not source.only_subset else ():
            present, missing = source.search(folder, size)
            if present and not missing:
                yield Copy(source, present)


def locate(dataset: DataSet, home: Path, size: Shape | None = None, *, subset: bool = False) -> Copy | None:
    """The copy that loading reads, or None."""
    wanted = size or sizes_of(dataset)[0]
    return next(complete_copies(dataset, places(dataset, home), wanted, subset=subset), None)


def load(dataset: DataSet, home: Path, size: Shape | None = None, *, subset: bool = False) -> LabelledSamples:
    """Read the copy in `home` in the size that it has, and check its counts."""
    copy = locate(dataset, home, size, subset=subset)
    if copy is None:
        raise DataNotFoundError(missing_text(dataset, home, size))
    return read_copy(dataset, copy, subset=subset)


def read_copy(dataset: DataSet, copy: Copy, *, subset: bool = False) -> LabelledSamples:
    """Read one copy, and raise DataFormatError unless it is the data set that was declared."""
    try:
        samples = copy.source.read(*copy.paths)
    except DataError:
        raise
    except OSError as error:
        raise DataFormatError(f"{copy.paths[0]}: cannot be read: {error.strerror or error}.") from error
    kind = copy.source.kind
    where = kind if dataset.access == "bundled" else f"{kind}: {copy.paths[0]}"
    return dataclasses.replace(samples, name=dataset.name, source=where).checked(
        dataset.counts, subset=subset
    )


def missing_text(dataset: DataSet, home: Path, size: Shape | None = None) -> str:
    """Where it was looked for, how to get it, and the exact layout."""
    size = size or sizes_of(dataset)[0]
    sources = [source for source in dataset.sources if not source.only_subset]
    lines = [f"The data set '{dataset.name}' ({dataset.title}) is not in the data home."]
    lines += ["Looked in:", *(f"  {place}" for place in places(dataset, home))]
    for source in sources:
        for place in places(dataset, home):
            present, missing = source.search(place, size)
            if present and missing:
                lines.append(f"Incomplete copy in {place}: {', '.join(missing)} missing.")
    if dataset.how_to_get:
        lines.append(dataset.how_to_get)
    lines.append(f"Put one of these there, or 'residuum data import {dataset.name} PATH':")
    text = "" if size is None else f"{size[0]}x{size[1]}"
    lines += [f"  - {source.layout.replace('{size}', text)}" for source in sources]
    if dataset.access == "open":
        lines.append(f"or download it with 'residuum data fetch {dataset.name}'.")
    lines.append(f"Licence: {dataset.licence}.")
    lines.append("Another data home is chosen with data_home=..., --data, or the variable RESIDUUM_DATA.")
    return "\n".join(lines)


def copies_at_home(dataset: DataSet, home: Path, *, subset: bool = False) -> list[Copy]:
    """Every copy in `home` that loading would read for one of the known sizes."""
    found = (locate(dataset, home, size, subset=subset) for size in sizes_of(dataset))
    return list({copy.paths: copy for copy in found if copy is not None}.values())


def status(dataset: DataSet, home: Path, *, subset: bool = False) -> dict[str, Any]:
    """What is there, by name and size only; nothing is read."""
    found = copies_at_home(dataset, home, subset=subset)
    paths = [] if dataset.access == "bundled" else [path for copy in found for path in copy.paths]
    return {
        "name": dataset.name,
        "title": dataset.title,
        "access": dataset.access,
        "present": bool(found),
        "kinds": [copy.source.kind for copy in found],
        "paths": [str(path) for path in paths],
        "bytes": sum(_bytes(path) for path in paths),
    }


def _bytes(path: Path) -> int:
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
    reports = []
    for copy in copies_at_home(dataset, home, subset=subset):
        checked = _checked_files(dataset, copy)
        samples = read_copy(dataset, copy, subset=subset)
        reports.append(
            {
                "source": samples.source,
                "samples": len(samples.labels),
                "classes": samples.n_classes,
                "image_shape": samples.image_shape,
                "checksums": checked,
                "notes": samples.notes,
            }
        )
    if not reports:
        raise DataNotFoundError(missing_text(dataset, home))
    return {"name": dataset.name, "copies": reports}


def _checked_files(dataset: DataSet, copy: Copy) -> list[str]:
    """Names of the files whose size and checksum are declared, after all were found right."""
    declared = {remote.name: remote for group in (dataset.files, *dataset.fallbacks) for remote in group}
    files = [path for path in copy.paths if path.name in declared and path.is_file()]
    for path in files:
        problem = check_file(path, pinned(declared[path.name], path.parent))
        if problem:
            raise DataFormatError(f"{path}: {problem}. Remove it and get it again.")
    return [path.name for path in files]


def pin_path(path: Path) -> Path:
    """File that keeps the SHA-256 of the first download of `path`, where the owner publishes no checksum."""
    return path.with_name(path.name + ".sha256")


def pinned(remote: RemoteFile, folder: Path) -> RemoteFile:
    """With the SHA-256 of the first download, where the owner publishes no checksum."""
    note = pin_path(folder / remote.name)
    if not remote.has_checksum and note.is_file():
        words = note.read_text("ascii", "replace")[:200].split()
        if words and len(words[0]) == 64:
            return dataclasses.replace(remote, sha256=words[0])
    return remote
