"""From samples in any order to shards sorted by class, in bounded memory.

The source is read once, block by block. The unit rows of each class are appended to a file of that class;
these files are then read in the order of the labels and cut into shards. Beside one block and one shard, 16
bytes for each sample are held in memory: a key by which equal rows are found.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import unit_rows
from residuum.errors import DataFormatError, UsageError
from residuum.estimators.labels import check_labels, plain_labels
from residuum.scale.shards import Atoms, Shards, open_shards, write_manifest, write_shard
from residuum.scale.sources import parts_of
from residuum.system.progress import tell_progress

PART_BYTES = 2**24  # of the atoms of a shard


def shard(
    source: Any,
    labels: Any,
    folder: str | Path,
    *,
    part_bytes: int = PART_BYTES,
    reading: dict[str, Any] | None = None,
) -> Shards:
    """Write the samples of a source as a dictionary in shards: unit float32 rows sorted by class.

    Parameters
    ----------
    source : array, dask array, zarr array or path
        Samples as rows: an array; an .npy, .npz, .csv or .parquet file; a folder of such parts; zarr.
    labels : array-like, path or None
        Label of every row, or an .npy file of them; None where the source has labels itself.
    folder : str or Path
        Where to write; made if it is not there. It must not hold a dictionary yet.
    part_bytes : int, default=2**24
        Bytes of the atoms in one shard. A worker holds one shard for each of its threads.
    reading : dict or None, default=None
        How tables are read: arguments of `residuum.inputs.read_data`, such as ``{"label": "species"}``.

    Returns
    -------
    shards : Shards
        What was written, as `open_shards` gives it.
    """
    folder = Path(folder)
    if (folder / "manifest.json").exists():
        raise UsageError(f"{folder} holds a dictionary already. Choose another folder, or remove it first.")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".sorting-") as place:
        by_class = _ByClass(Path(place))
        for part in parts_of(source, labels=labels, reading=reading):
            data = part.read()
            if data.features is None or data.labels is None:
                what = "images, which have no numbers yet" if data.features is None else "no labels"
                raise DataFormatError(f"{part}: a dictionary needs numbers and labels. Got {what}.")
            if not by_class.read_as:
                by_class.read_as = {"kind": data.kind, "columns": data.columns, "label": data.label}
            by_class.add(data.features, data.labels, str(part))
        _write(folder, by_class, part_bytes)
    return open_shards(folder)


class _ByClass:
    """Unit rows in one file for each class, with the numbers and norms of their samples."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.counts: dict[Any, int] = {}
        self.read_as: dict[str, Any] = {}
        self.n_samples = self.n_zero = self.n_features = 0

    def add(self, features: Any, labels: Any, name: str) -> None:
        """Append the rows of one part to the files of their classes."""
        labels = np.asarray(plain_labels(labels, "shard"))
        check_labels(labels)
        if self.n_features not in (0, features.shape[1]) and len(features):
            raise DataFormatError(
                f"{name} has {features.shape[1]} columns; the parts before have {self.n_features}."
            )
        self.n_features = features.shape[1]
        if not len(features):
            return
        # A dictionary in memory divides float32 samples in float32, too: the atoms are the same bits.
        kind = np.float32 if features.dtype == np.float32 else np.float64
        unit, scale, norm = unit_rows(np.asarray(features, dtype=kind))
        samples = np.arange(self.n_samples, self.n_samples + len(features))
        self.n_samples += len(features)
        present = scale > 0
        self.n_zero += int(np.count_nonzero(~present))
        for label in np.unique(labels[present]):
            some = present & (labels == label)
            number = self._number(label)
            # A negative zero becomes zero, so that equal rows have equal bytes.
            rows = unit[some].astype(np.float32) + np.float32(0)
            self._append(number, "atoms", rows)
            self._append(number, "samples", samples[some])
            self._append(number, "norms", scale[some].astype(np.float64) * norm[some])
        tell_progress("sorting by class", self.n_samples, None)

    def _number(self, label: Any) -> int:
        label = label.item() if hasattr(label, "item") else label
        kinds = {type(known) for known in self.counts} | {type(label)}
        if len(kinds) > 1 and not kinds <= {int, float}:
            raise DataFormatError(
                f"Labels must be of one kind. Got {', '.join(sorted(k.__name__ for k in kinds))}."
            )
        return self.counts.setdefault(label, len(self.counts))

    def _append(self, number: int, what: str, array: Any) -> None:
        with (self.place / f"{number}.{what}").open("ab") as file:
            file.write(np.ascontiguousarray(array).data)

    def runs(self, rows: int) -> Iterator[tuple[Any, Atoms, Any, Any]]:
        """Label, atoms, samples and norms of at most `rows` atoms at a time, sorted by label."""
        for label in sorted(self.counts):
            number = self.counts[label]
            kinds = {"atoms": np.float32, "samples": np.int64, "norms": np.float64}
            files = {
                what: np.memmap(self.place / f"{number}.{what}", kind, mode="r")
                for what, kind in kinds.items()
            }
            atoms = files["atoms"].reshape(-1, self.n_features)
            for first in range(0, len(atoms), rows):
                some = slice(first, first + rows)
                yield label, atoms[some], files["samples"][some], files["norms"][some]


def _write(folder: Path, by_class: _ByClass, part_bytes: int) -> None:
    if by_class.n_zero:
        warnings.warn(
            f"{by_class.n_zero} of {by_class.n_samples} training samples are zero vectors and were dropped "
            "as atoms. Remove them from the training data to silence this warning.",
            UserWarning,
            stacklevel=3,
        )
    if not by_class.counts:
        raise DataFormatError(
            f"All {by_class.n_samples} training samples are zero vectors, so no class has a direction to "
            "compare with. Pass samples with at least one non-zero feature."
        )
    n_rows = max(1, part_bytes // (4 * by_class.n_features))
    duplicates = _duplicates(by_class, n_rows)
    parts: list[dict[str, Any]] = []
    waiting: list[tuple[Any, Atoms, Any, Any]] = []
    done, total = 0, by_class.n_samples - by_class.n_zero

    def flush() -> None:
        nonlocal done
        atoms = np.concatenate([run[1] for run in waiting])
        samples = np.concatenate([run[2] for run in waiting])
        is_duplicate = duplicates[done : done + len(atoms)].astype(np.int64)
        norms = np.concatenate([run[3] for run in waiting])
        described = write_shard(folder, len(parts), atoms, np.stack([samples, is_duplicate]))
        parts.append(
            described | part_content([run[0] for run in waiting], [len(run[1]) for run in waiting], norms)
        )
        done += len(atoms)
        waiting.clear()
        tell_progress("writing shards", done, total)

    for run in by_class.runs(n_rows):
        rest = run
        while len(rest[1]):
            room = n_rows - sum(len(held[1]) for held in waiting)
            waiting.append((rest[0], *(array[:room] for array in rest[1:])))
            rest = (rest[0], *(array[room:] for array in rest[1:]))
            if sum(len(held[1]) for held in waiting) == n_rows:
                flush()
    if waiting:
        flush()
    write_manifest(
        folder,
        parts=parts,
        n_features=by_class.n_features,
        n_samples=by_class.n_samples,
        read_as=by_class.read_as,
    )


def part_content(labels: list[Any], counts: list[int], norms: Any) -> dict[str, Any]:
    """What the manifest says of the classes in a shard, whose runs may follow each other within a class."""
    classes: list[Any] = []
    starts = [0]
    for label, count in zip(labels, counts, strict=True):
        if classes and classes[-1] == label:
            starts[-1] += count
        else:
            classes.append(label)
            starts.append(starts[-1] + count)
    return {"classes": classes, "starts": starts, "norms": [float(norms.min()), float(norms.max())]}


def _duplicates(by_class: _ByClass, n_rows: int) -> npt.NDArray[np.bool_]:
    """Which atoms, in the order of the dictionary, equal an earlier one bit for bit."""
    keys = np.concatenate([row_keys(atoms) for _, atoms, _, _ in by_class.runs(n_rows)])
    order = np.argsort(keys, kind="stable")
    later = np.zeros(len(keys), dtype=bool)
    later[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return later


def row_keys(atoms: Atoms) -> Any:
    """A key of 128 bits for every row, equal for equal rows and, but for a chance of 2**-128, no others."""
    rng = np.random.default_rng(20190602)
    bits = np.ascontiguousarray(atoms).view(np.uint32).astype(np.uint64)
    keys = np.empty((len(atoms), 2), np.uint64)
    with np.errstate(over="ignore"):
        for half in range(2):
            factors = rng.integers(0, 2**63, size=(2, atoms.shape[1]), dtype=np.uint64) * 2 + 1  # odd
            mixed = bits * factors[0]
            mixed ^= mixed >> np.uint64(29)
            keys[:, half] = (mixed * factors[1]).sum(axis=1, dtype=np.uint64)
    return keys.view([("first", np.uint64), ("second", np.uint64)])[:, 0]
