"""The data home: find a copy of a data set, read it, verify it.

A data set is searched in the data home and in its sub-folder of the same name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from residuum.errors import DataFormatError, DataNotFoundError
from residuum.paper.data.base import DataSet, Source
from residuum.paper.data.samples import ImageSamples, LabelledSamples, Shape
from residuum.system.download import check_file


@dataclass(frozen=True)
class Copy:
    """A copy that is complete as far as names go."""

    source: Source
    paths: tuple[Path, ...]


def copies(
    dataset: DataSet, folder: Path, *, shape: Shape | None = None, subset: bool = False
) -> Iterator[Copy]:
    """Complete copies in `folder`, one of each kind, preferred first; of one size, if given."""
    for source in dataset.sources:
        if (source.only_subset and not subset) or (shape and source.image_shape not in (None, shape)):
            continue
        for place in _places(dataset, folder):
            present, missing = source.search(place)
            if present and not missing:
                yield Copy(source, present)
                break


def _places(dataset: DataSet, folder: Path) -> tuple[Path, Path]:
    return (folder / dataset.name, folder)


def load(
    dataset: DataSet, home: Path, shape: Shape | None = None, *, subset: bool = False
) -> LabelledSamples:
    """Read the copy in `home` in the size that it has, and check its counts."""
    copy = next(copies(dataset, home, shape=shape, subset=subset), None)
    if copy is None:
        raise DataNotFoundError(missing_text(dataset, home))
    return read_copy(dataset, copy, subset=subset)


def read_copy(dataset: DataSet, copy: Copy, *, subset: bool = False) -> LabelledSamples:
    """Read one copy, and raise DataFormatError unless it is the data set that was declared."""
    source, counts = copy.source, dataset.counts
    try:
        samples = source.read(*copy.paths)
    except OSError as error:
        raise DataFormatError(f"{copy.paths[0]}: cannot be read: {error.strerror or error}.") from error
    where = source.kind if dataset.access == "bundled" else f"{source.kind}: {copy.paths[0]}"
    if source.image_shape is not None:
        counts = dataclasses.replace(counts, image_shape=source.image_shape)
    samples = dataclasses.replace(samples, name=dataset.name, source=where)
    if subset and dataset.photographs:
        return cast(ImageSamples, samples).subset()
    problems = samples.problems(counts)
    if problems:
        hint = " Say subset=True if it is meant to be a part." if dataset.photographs else ""
        raise DataFormatError(
            f"{dataset.name} ({where}) is not the expected data set: {'; '.join(problems)}. "
            f"The copy may be incomplete, or a different set of the same name.{hint}"
        )
    return samples


def missing_text(dataset: DataSet, home: Path) -> str:
    """Where it was looked for, how to get it, and the exact layout."""
    sources = [source for source in dataset.sources if not source.only_subset]
    lines = [f"The data set '{dataset.name}' ({dataset.title}) is not in the data home."]
    lines += ["Looked in:", *(f"  {place}" for place in _places(dataset, home))]
    for source in sources:
        for place in _places(dataset, home):
            present, missing = source.search(place)
            if present and missing:
                lines.append(f"Incomplete copy in {place}: {', '.join(missing)} missing.")
    if dataset.how_to_get:
        lines.append(dataset.how_to_get)
    lines.append(f"Put one of these there, or 'residuum data import {dataset.name} PATH':")
    lines += [f"  - {source.layout}" for source in sources]
    if dataset.access == "open":
        lines.append(f"or download it with 'residuum data fetch {dataset.name}'.")
    lines.append(f"Licence: {dataset.licence}.")
    lines.append("Another data home is chosen with data_home=..., --data, or the variable RESIDUUM_DATA.")
    return "\n".join(lines)


def status(dataset: DataSet, home: Path, *, subset: bool = False) -> dict[str, Any]:
    """What is there, by name and size only; nothing is read."""
    found = list(copies(dataset, home, subset=subset))
    bundled = dataset.access == "bundled"
    paths = [] if bundled else list(dict.fromkeys(path for copy in found for path in copy.paths))
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else (path,))]
    return {
        **{key: getattr(dataset, key) for key in ("name", "title", "access", "licence", "citation")},
        "layouts": [source.layout for source in dataset.sources],
        "present": bool(found),
        "kinds": list(dict.fromkeys(copy.source.kind for copy in found)),
        "paths": [str(path) for path in paths],
        "bytes": sum(file.stat().st_size for file in files if file.is_file()),
    }


def verify(dataset: DataSet, home: Path, *, subset: bool = False) -> list[dict[str, Any]]:
    """Check declared checksums and read every copy in full; gives one report per copy.

    Raises
    ------
    DataNotFoundError
        When there is none.
    DataFormatError
        At the first copy that is not as declared.
    """
    reports = []
    for copy in copies(dataset, home, subset=subset):
        checked = _checked_files(dataset, copy)
        samples = read_copy(dataset, copy, subset=subset)
        reports.append(
            {
                "name": dataset.name,
                "ok": True,
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
    return reports


def _checked_files(dataset: DataSet, copy: Copy) -> list[str]:
    """Names of the files whose size and checksum are declared, after all were found right."""
    declared = {remote.name: remote for remote in dataset.files}
    files = [path for path in copy.paths if path.name in declared and path.is_file()]
    for path in files:
        problem = check_file(path, declared[path.name])
        if problem:
            raise DataFormatError(f"{path}: {problem}. Remove it and get it again.")
    return [path.name for path in files]
