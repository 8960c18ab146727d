"""Features of a folder of photographs: one class per sub-folder, resumable, in bounded memory.

Every image's features are kept under

    key = (SHA-256 of the extractor and all it has learned, SHA-256 of the file's bytes)

as soon as they are computed. A run that is interrupted goes on where it stopped, a second run reads what the
first one left, and a renamed or moved image is found again. Files that are no usable images are named in the
report and skipped (``residuum.features.images`` has the rules). The final .npz is written row by row under a
temporary name and renamed, so it is whole or absent.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from residuum.errors import DataError, DataFormatError, DataNotFoundError, UsageError
from residuum.features._networks import file_sha256
from residuum.features._stream import in_order, n_threads
from residuum.features.bow_sift import BowSift
from residuum.features.cache import default_cache_dir
from residuum.features.images import ImageError, read_image

Progress = Callable[[int, int], None]
Row = npt.NDArray[np.float32]

_BATCH = 32
_FIT_IMAGES = 1000
_DIGEST = hashlib.sha256().digest_size


@dataclass(frozen=True)
class FolderFeatures:
    """Features of the images of a folder.

    Attributes
    ----------
    X : ndarray of float32, shape (n_images, n_features)
        Features.
    y : ndarray of str
        Name of the sub-folder of each image; empty strings where the folder has no sub-folders.
    paths : ndarray of str
        Path of each image within the folder.
    skipped : ndarray of str, shape (n_skipped, 2)
        Path and reason of every file that was left out.
    extractor : dict
        Name and parameters of what made the features.
    codebook : ndarray or None
        Visual words of BowSift: set ``BowSift.codebook_`` to it to transform more images.
    """

    X: npt.NDArray[np.float32]
    y: npt.NDArray[np.str_]
    paths: npt.NDArray[np.str_]
    skipped: npt.NDArray[np.str_]
    extractor: dict[str, Any]
    codebook: npt.NDArray[np.float32] | None = None


@dataclass(frozen=True)
class FolderReport:
    """What `extract_folder` did: counts, and every file that it left out with the reason."""

    out: Path
    n_images: int
    n_classes: int
    n_features: int
    n_computed: int
    n_reused: int
    skipped: tuple[tuple[str, str], ...]


def list_folder(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(path, label) of every file below the class folders, sorted, and (path, reason) of files beside them.

    Names that begin with a dot are passed over. A folder without sub-folders gives the label "" to all.
    """
    if not folder.is_dir():
        raise DataNotFoundError(f"{folder} is not a folder. Pass a folder with one sub-folder per class.")
    try:
        entries = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"Cannot look into {folder}: {error.strerror}.") from error
    classes = [name for name in entries if (folder / name).is_dir()]
    loose = [name for name in entries if name not in set(classes)]
    if not classes:
        return [(name, "") for name in loose], []
    files = [
        (path, name) for name in classes for path in sorted(_files_below(folder, folder / name))
    ]  # sorted within a class, and the classes are sorted
    return files, [(name, "lies beside the class folders, so its class is unknown") for name in loose]


def _files_below(folder: Path, start: Path) -> Iterator[str]:
    for place, folders, names in os.walk(start):  # links to folders are not followed: they may form a circle
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield (Path(place) / name).relative_to(folder).as_posix()


class _Store:
    """Rows of numbers on disk by key, each with its checksum in front; written whole or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.f32"

    def get(self, key: str) -> Row | None:
        try:
            content = self._path(key).read_bytes()
        except OSError:
            return None
        payload = content[_DIGEST:]
        if not payload or len(payload) % 4 or hashlib.sha256(payload).digest() != content[:_DIGEST]:
            return None  # damaged: computed and written again
        return np.frombuffer(payload, dtype="<f4")

    def has(self, key: str) -> bool:
        return self.get(key) is not None

    def put(self, key: str, row: npt.NDArray[Any]) -> None:
        payload = np.ascontiguousarray(row, dtype="<f4").tobytes()
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(payload).digest() + payload)
            Path(scratch).replace(path)
        except BaseException:
            with suppress(OSError):
                Path(scratch).unlink()
            raise


def extract_folder(
    folder: str | os.PathLike[str],
    extractor: Any,
    *,
    out: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str] | None = None,
    on_bad: str = "skip",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> FolderReport:
    """Write the features of every image below a folder to one .npz file.

    Parameters
    ----------
    folder : path
        One sub-folder per class; or images without classes, directly in it.
    extractor : BowSift, CNNFeatures or another transformer of images
        Fitted here, on at most 1,000 images of the folder, if it needs to be and is not.
    out : path
        The .npz to write: X, y, paths, skipped, extractor, codebook; `load_features` reads it.
    cache_dir : path or None, default=None
        Where the features of single images are kept. None is ``images`` in ``default_cache_dir()``.
    on_bad : {"skip", "raise"}, default="skip"
        What to do with a file that is no usable image: name it in the report, or stop with ImageError.
    n_jobs : int or None, default=None
        Threads that read images; the extractor has its own.
    progress : callable, optional
        Called with the number of files done and their total.

    Returns
    -------
    FolderReport
        Counts, and every skipped file with the reason.

    Examples
    --------
    >>> from residuum.features import BowSift, extract_folder, load_features
    >>> extract_folder("photos", BowSift(), out="features.npz")  # doctest: +SKIP
    >>> load_features("features.npz").X.shape                   # doctest: +SKIP
    (2889, 5120)
    """
    if on_bad not in ("skip", "raise"):
        raise UsageError(
            f"The 'on_bad' parameter of extract_folder must be 'skip' or 'raise'. Got {on_bad!r} instead."
        )
    root, target = Path(folder), Path(out)
    files, skipped = list_folder(root)
    _check_target(target)
    store = _Store(Path(cache_dir) if cache_dir is not None else default_cache_dir() / "images")
    run = _Run(root, extractor, store, on_bad == "raise", n_threads(n_jobs))
    try:
        run.prepare([path for path, _ in files])
        kept, bad = run.extract(files, progress or (lambda done, total: None))
        if not kept:
            first = "; ".join(f"{path}: {reason}" for path, reason in (bad + skipped)[:3])
            raise DataError(f"{root} holds no usable image. {first or 'It is empty'}.")
        skipped = sorted(bad + skipped)
        n_features = run.write(target, kept, skipped)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"Features of {root} could not be kept: {error.strerror or error} "
            f"({error.filename or store.folder}). "
            "What is done stays in the cache; run the same command again, or with another cache_dir."
        ) from error
    return FolderReport(
        target,
        len(kept),
        len({label for _, label, _ in kept}),
        n_features,
        run.n_computed,
        len(kept) - run.n_computed,
        tuple(skipped),
    )


class _Run:
    """One extraction: the extractor, its key, and what was computed so far."""

    def __init__(self, root: Path, extractor: Any, store: _Store, strict: bool, threads: int) -> None:
        self.root, self.extractor, self.store = root, extractor, store
        self.strict, self.threads = strict, threads
        self.n_computed = 0
        self.key = ""

    def prepare(self, paths: Sequence[str]) -> None:
        """Fit the extractor if it is not, and take its fingerprint."""
        try:
            check_is_fitted(self.extractor)
        except NotFittedError:
            self._fit(paths)
        if not hasattr(self.extractor, "fingerprint"):
            raise UsageError(
                "The extractor of extract_folder must have a method 'fingerprint' that identifies it. "
                f"Got {type(self.extractor).__name__}; wrap your network in CNNFeatures(network=...)."
            )
        self.key = self.extractor.fingerprint()

    def _fit(self, paths: Sequence[str]) -> None:
        order = np.random.default_rng(0).permutation(len(paths))
        chosen: list[str] = []
        for path in (paths[i] for i in order):  # unreadable files must not end up in the sample
            try:
                self._read(path)
            except ImageError:
                continue
            chosen.append(path)
            if len(chosen) == _FIT_IMAGES:
                break
        if not chosen:
            return self._refuse_all(paths)
        chosen.sort()
        parameters = self.extractor.get_params()
        relevant = {k: v for k, v in sorted(parameters.items()) if k not in ("n_jobs", "verbose")}
        digests = [file_sha256(self.root / path) for path in chosen]
        version = getattr(self.extractor, "feature_version", 0)
        text = f"fit {type(self.extractor).__qualname__} {version} {relevant} {digests}"
        key = hashlib.sha256(text.encode()).hexdigest()
        known = self.store.get(key) if isinstance(relevant.get("random_state", 0), int) else None
        if known is not None and isinstance(self.extractor, BowSift):
            self.extractor.codebook_ = known.reshape(parameters["n_words"], -1).copy()
            return None
        self.extractor.fit([self.root / path for path in chosen])
        if isinstance(self.extractor, BowSift):
            self.store.put(key, self.extractor.codebook_)
        return None

    def _refuse_all(self, paths: Sequence[str]) -> None:
        first = self._reason(paths[0]) if paths else "it is empty"
        raise DataError(f"{self.root} holds no usable image: {first}.")

    def _reason(self, path: str) -> str:
        try:
            self._read(path)
        except ImageError as error:
            return f"{path}: {error.reason}"
        return path

    def _read(self, path: str) -> Any:
        return getattr(self.extractor, "read", read_image)(self.root / path)

    def extract(
        self, files: Sequence[tuple[str, str]], progress: Progress
    ) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
        """(path, label, key) of all images whose features are in the store, and the files that are bad."""
        kept: list[tuple[str, str, str]] = []
        bad: list[tuple[str, str]] = []
        looked_at = in_order(self._look, files, self.threads, ahead=2 * _BATCH)
        done = 0
        while batch := list(islice(looked_at, _BATCH)):
            fresh: dict[str, Any] = {}
            for path, label, key, found in batch:
                if isinstance(found, ImageError):
                    if self.strict:
                        raise found
                    bad.append((path, found.reason))
                    continue
                kept.append((path, label, key))
                if found is not None:
                    fresh[key] = found  # the same bytes twice are computed once
            if fresh:
                for key, row in zip(fresh, np.asarray(self.extractor.transform(list(fresh.values())))):
                    self.store.put(key, row)
                self.n_computed += len(fresh)
            done += len(batch)
            progress(done, len(files))
        return kept, bad

    def _look(self, file: tuple[str, str]) -> tuple[str, str, str, Any]:
        path, label = file
        try:
            key = self._key(path)
            return path, label, key, None if self.store.has(key) else self._read(path)
        except ImageError as error:
            return path, label, "", error

    def _key(self, path: str) -> str:
        full = self.root / path
        try:
            if not full.is_file():
                raise ImageError(str(full), "not a regular file")
            return hashlib.sha256(f"{self.key} {file_sha256(full)}".encode()).hexdigest()
        except OSError as error:
            raise ImageError(str(full), f"cannot be read: {error.strerror or error}") from error

    def write(self, out: Path, kept: Sequence[tuple[str, str, str]], skipped: list[tuple[str, str]]) -> int:
        """Write the .npz row by row, and return the number of features."""
        first = self._row(kept[0][2])
        handle, scratch = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.", suffix=".writing")
        os.close(handle)
        try:
            with zipfile.ZipFile(scratch, "w") as archive:
                with archive.open(_member("X"), "w", force_zip64=True) as stream:
                    head = {"descr": "<f4", "fortran_order": False, "shape": (len(kept), len(first))}
                    np.lib.format.write_array_header_1_0(stream, head)
                    for _, _, key in kept:
                        row = self._row(key)
                        if len(row) != len(first):
                            raise DataFormatError(f"Rows of {len(row)} and {len(first)} features were found.")
                        stream.write(row.tobytes())
                self._write_rest(archive, kept, skipped)
            Path(scratch).chmod(0o644)
            Path(scratch).replace(out)
        except BaseException:
            with suppress(OSError):
                Path(scratch).unlink()
            raise
        return len(first)

    def _write_rest(
        self, archive: zipfile.ZipFile, kept: Sequence[tuple[str, str, str]], skipped: list[tuple[str, str]]
    ) -> None:
        parameters = {k: repr(v) for k, v in self.extractor.get_params(deep=False).items()}
        about = {"name": type(self.extractor).__name__, "fingerprint": self.key, "parameters": parameters}
        arrays: dict[str, npt.NDArray[Any]] = {
            "y": np.array([label for _, label, _ in kept], dtype=np.str_),
            "paths": np.array([path for path, _, _ in kept], dtype=np.str_),
            "skipped": np.array(skipped, dtype=np.str_).reshape(-1, 2),
            "extractor": np.array(json.dumps(about)),
        }
        if hasattr(self.extractor, "codebook_"):
            arrays["codebook"] = self.extractor.codebook_
        for name, array in arrays.items():
            with archive.open(_member(name), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)

    def _row(self, key: str) -> Row:
        row = self.store.get(key)
        if row is None:
            raise DataError(
                f"Features vanished from {self.store.folder} while they were put together. Run it again."
            )
        return row


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy")  # its date is fixed, so equal features make equal files


def _check_target(out: Path) -> None:
    if out.is_dir():
        raise UsageError(f"The 'out' parameter must be a file such as features.npz. Got the folder {out}.")
    if not out.parent.is_dir():
        raise UsageError(f"The folder {out.parent} for {out.name} does not exist. Make it first.")
    if not os.access(out.parent, os.W_OK):
        raise DataError(f"The folder {out.parent} cannot be written. Choose another place for {out.name}.")


def load_features(path: str | os.PathLike[str]) -> FolderFeatures:
    """Read what `extract_folder` wrote.

    Parameters
    ----------
    path : path
        The .npz file.

    Returns
    -------
    FolderFeatures
        Features, labels, paths, skipped files and the extractor.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return FolderFeatures(
                arrays["X"],
                arrays["y"],
                arrays["paths"],
                arrays["skipped"],
                json.loads(str(arrays["extractor"])),
                arrays.get("codebook"),
            )
    except FileNotFoundError as error:
        raise DataNotFoundError(f"{path} does not exist.") from error
    except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise DataFormatError(f"{path} is not a file of features, or is damaged: {error}.") from error
