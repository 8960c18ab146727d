"""A dictionary in shards: a folder of unit float32 rows and the manifest that says what is in it.

Every shard is a pair of files: ``00000.npy``, unit-norm rows of float32 sorted by class, and
``00000.rows.npy``, two rows of whole numbers: the number of the sample behind each atom, and 1 where an atom
equals an earlier one of the whole dictionary, bit for bit. ``manifest.json`` is written last, so a folder
without it is no dictionary, and a manifest is always complete.

Atoms are numbered as in a dictionary that is held in one array: sorted by class, and within a class in the
order of the shards. So every shard holds, of each of its classes, a run of consecutive atoms.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import Integers
from residuum.errors import DataError, DataFormatError, DataNotFoundError
from residuum.scale.memory import remembered
from residuum.system.files import file_digest, sha256, view_npy, write_text, written_whole

MANIFEST = "manifest.json"
FORMAT, FORMAT_VERSION = "residuum-shards", 1
Atoms = npt.NDArray[np.float32]

_verified: set[tuple[Any, ...]] = set()  # files of this process whose checksum was right, as they were then


@dataclass(frozen=True)
class Run:
    """Consecutive atoms of one class in a shard."""

    label: int  # position of the class in the sorted labels
    first: int  # row in the shard
    stop: int
    position: int  # number of the first of these atoms in the whole dictionary


@dataclass(frozen=True)
class Shard:
    """One part of a dictionary: where it is, its checksums, and which classes it holds."""

    path: str
    sha256: str
    rows_sha256: str
    n_rows: int
    n_features: int
    n_duplicates: int
    norms: tuple[float, float]  # smallest and largest norm of its samples
    runs: tuple[Run, ...]

    def __str__(self) -> str:
        return f"shard {self.path}"

    @property
    def nbytes(self) -> int:
        """Bytes of its atoms."""
        return 4 * self.n_rows * self.n_features

    def atoms(self) -> Atoms:
        """Its atoms, shape (n_rows, n_features), verified; they hold until the thread reads another shard."""
        content = remembered((self.path, self.sha256), self._size(), self._fill)
        return self._checked(view_npy(content, str(self)), (self.n_rows, self.n_features), np.float32)

    def some_atoms(self, rows: Integers) -> Atoms:
        """Copies of some of its atoms, read alone where this process has verified the shard before."""
        if self._state() not in _verified:
            return self.atoms()[rows]
        content = np.asarray(np.memmap(self.path, np.uint8, mode="r"))
        return np.array(view_npy(content, str(self))[rows])

    def rows(self) -> Integers:
        """Numbers of its samples, and 1 for every duplicate: shape (2, n_rows)."""
        path = self.path.removesuffix(".npy") + ".rows.npy"
        try:
            content = np.fromfile(path, np.uint8)
        except OSError as error:
            raise _missing(path, error) from error
        if sha256(content) != self.rows_sha256:
            raise _damaged(path)
        return self._checked(view_npy(content, path), (2, self.n_rows), np.int64)

    def positions(self, rows: Integers) -> Integers:
        """Numbers in the whole dictionary of some of its rows."""
        firsts = np.array([run.first for run in self.runs], dtype=np.int64)
        shifts = np.array([run.position - run.first for run in self.runs], dtype=np.int64)
        return rows + shifts[np.searchsorted(firsts, rows, side="right") - 1]

    def _state(self) -> tuple[Any, ...]:
        try:
            found = Path(self.path).stat()
        except OSError as error:
            raise _missing(self.path, error) from error
        return self.path, self.sha256, found.st_size, found.st_mtime_ns, found.st_ino

    def _size(self) -> int:
        return self._state()[2]

    def _fill(self, target: npt.NDArray[np.uint8]) -> None:
        state = self._state()
        try:
            with open(self.path, "rb", buffering=0) as file:  # noqa: PTH123  (Path.open cannot do without a buffer)
                done = 0
                while done < len(target) and (more := file.readinto(target[done:].data)):
                    done += more
        except OSError as error:
            raise _missing(self.path, error) from error
        if done < len(target):
            raise _damaged(self.path)
        if state not in _verified:
            if sha256(target) != self.sha256:
                raise _damaged(self.path)
            _verified.add(state)

    def _checked(self, array: npt.NDArray[Any], shape: tuple[int, ...], dtype: Any) -> Any:
        if array.shape != shape or array.dtype != dtype:
            raise DataFormatError(f"{self}: {array.dtype} of shape {array.shape}. The manifest says {shape}.")
        return array


def _missing(path: str, error: OSError) -> DataError:
    return DataNotFoundError(
        f"The shard {path} cannot be read: {error.strerror or error}. Every worker must see it under this "
        "path; bring it back, or make the shards again."
    )


def _damaged(path: str) -> DataError:
    return DataFormatError(
        f"The shard {path} is damaged: its bytes are not those that were written. Bring back a good copy, or "
        "make the shards again."
    )


@dataclass(frozen=True)
class Shards:
    """A dictionary in shards.

    Attributes
    ----------
    folder : Path
        Where they are.
    classes : ndarray of shape (n_classes,)
        Sorted labels.
    shards : tuple of Shard
        In the order in which sums are formed.
    n_samples : int
        Samples that were read, with those that were left out because they are zero.
    read_as : dict
        Kind, names of columns and label of what was read, by which queries are read alike.
    """

    folder: Path
    classes: npt.NDArray[Any]
    shards: tuple[Shard, ...]
    n_features: int
    n_samples: int
    read_as: dict[str, Any]

    @property
    def sizes(self) -> Integers:
        """Atoms of every class."""
        counts = np.zeros(len(self.classes), dtype=np.int64)
        for shard in self.shards:
            for run in shard.runs:
                counts[run.label] += run.stop - run.first
        return counts


def write_shard(folder: Path, number: int, atoms: Atoms, rows: Integers) -> dict[str, Any]:
    """Write the files of one shard, each whole or not at all; what the manifest says of them."""
    digests = {}
    for name, array in ((f"{number:05}.npy", atoms), (f"{number:05}.rows.npy", rows)):
        with written_whole(folder / name) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)
        digests[name] = file_digest(folder / name)
    atoms_file, rows_file = digests
    return {
        "file": atoms_file,
        "sha256": digests[atoms_file],
        "rows_sha256": digests[rows_file],
        "rows": len(atoms),
        "duplicates": int(rows[1].sum()),
    }


def write_manifest(
    folder: Path, *, parts: list[dict[str, Any]], n_features: int, n_samples: int, read_as: dict[str, Any]
) -> None:
    """Write the manifest; from then on the folder is a dictionary, or has the parts of this one."""
    described = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "n_features": n_features,
        "n_samples": n_samples,
        "input": read_as,
        "parts": parts,
    }
    write_text(folder / MANIFEST, json.dumps(described, indent=1) + "\n")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The content of a manifest."""
    path = folder / MANIFEST
    if not path.is_file():
        raise DataNotFoundError(
            f"{folder} holds no dictionary in shards: there is no {MANIFEST}. Make one with residuum shard."
        )
    try:
        described = json.loads(path.read_text("utf-8"))
        if (described["format"], described["format_version"]) != (FORMAT, FORMAT_VERSION):
            raise ValueError(f"format version {described['format_version']!r} is not {FORMAT_VERSION}")
        return described
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise DataFormatError(f"{path}: does not describe a dictionary in shards: {error!r}.") from error


def open_shards(folder: str | Path, only: Iterable[str] | None = None) -> Shards:
    """The dictionary of a folder; with `only`, the shards that have these checksums."""
    folder = Path(folder).resolve()
    described = read_manifest(folder)
    try:
        parts = described["parts"]
        if only is not None:
            by_digest = {part["sha256"]: part for part in parts}
            lacking = [digest for digest in only if digest not in by_digest]
            if lacking:
                raise DataFormatError(
                    f"{folder} has no shard with the checksum {lacking[0]}, of which the model was made. "
                    "Bring the shards back as they were, or fit anew."
                )
            parts = [by_digest[digest] for digest in only]
        labels = [label for part in parts for label in part["classes"]]
        classes = np.unique(np.array(labels)) if labels else np.array([], dtype=np.int64)
        shards = _numbered(folder, parts, classes, described["n_features"])
        known = (described["n_features"], described["n_samples"], dict(described["input"]))
        return Shards(folder, classes, shards, *known)
    except (ValueError, LookupError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataFormatError(f"{folder / MANIFEST}: does not describe shards: {error!r}.") from error


def _numbered(folder: Path, parts: list[Any], classes: Any, n_features: int) -> tuple[Shard, ...]:
    """The shards, whose runs know where their atoms stand in the whole dictionary."""
    where = {label: k for k, label in enumerate(classes.tolist())}
    counts = np.zeros(len(classes) + 1, dtype=np.int64)
    shards = []
    for part in parts:
        runs = []
        for label, (first, stop) in zip(part["classes"], pairwise(part["starts"]), strict=True):
            runs.append(Run(where[label], first, stop, int(counts[where[label]])))
            counts[where[label]] += stop - first
        shards.append(
            Shard(
                path=str(folder / part["file"]),
                sha256=part["sha256"],
                rows_sha256=part["rows_sha256"],
                n_rows=part["rows"],
                n_features=n_features,
                n_duplicates=part["duplicates"],
                norms=tuple(part["norms"]),
                runs=tuple(runs),
            )
        )
    starts = np.concatenate([[0], np.cumsum(counts)])
    return tuple(
        replace(
            shard,
            runs=tuple(replace(run, position=run.position + int(starts[run.label])) for run in shard.runs),
        )
        for shard in shards
    )
