"""Features of many image files: each computed once, kept at once, in bounded memory.

The features of an image are kept in the cache as soon as they are computed, under

    key = SHA-256(fingerprint of the extractor and all it has learned, SHA-256 of the file's bytes)

so a run that is interrupted goes on where it stopped, a second run computes nothing, and a renamed or moved
image is found again. Files that cannot be used as images are skipped and named with the reason
(``residuum.features.image_files`` has the rules). A folder is only a way to make the list of files.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from residuum.errors import DataError, DataFormatError, UsageError
from residuum.features.cache import FeatureStore
from residuum.features.image_files import ImageError, Pixels, check_regular, list_folder, read_image
from residuum.system.files import file_digest, sha256, written_whole
from residuum.system.threads import in_order

Progress = Callable[[int, int], None]
Paths = Sequence[str | os.PathLike[str]]
Row = npt.NDArray[np.float32]

_BATCH = 32
_FIT_IMAGES = 1000


@dataclass(frozen=True)
class ImageFeatures:
    """Features of the usable images of a list; they stay in the cache until they are asked for.

    Attributes
    ----------
    usable : ndarray of int64, shape (n_usable,)
        Position in the list of each image that has features.
    skipped : tuple of (str, str)
        Path and reason of every file that cannot be used as an image.
    n_computed : int
        How many were not in the cache.
    store : FeatureStore
        Where the features are.
    keys : tuple of str, length n_usable
        Under which keys.
    """

    usable: npt.NDArray[np.int64]
    skipped: tuple[tuple[str, str], ...]
    n_computed: int
    store: FeatureStore
    keys: tuple[str, ...]

    @cached_property
    def n_features(self) -> int:
        """Number of features of an image."""
        return len(self._row(self.keys[0]))

    @cached_property
    def X(self) -> npt.NDArray[np.float32]:
        """All features in memory, float32, shape (n_usable, n_features)."""
        features = np.empty((len(self.keys), self.n_features), dtype=np.float32)
        for i, row in enumerate(self.rows()):
            features[i] = row
        return features

    def rows(self) -> Iterator[Row]:
        """Yield the features of one image after the other."""
        for key in self.keys:
            row = self._row(key)
            if len(row) != self.n_features:
                raise DataFormatError(f"Rows of {len(row)} and {self.n_features} features were found.")
            yield row

    def _row(self, key: str) -> Row:
        row = self.store.get(key)
        if row is None:
            raise DataError(f"Features vanished from {self.store.folder} while they were read. Run it again.")
        return row


def extract_images(
    paths: Paths,
    extractor: Any,
    *,
    fit_on: Paths | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    on_bad: str = "skip",
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> ImageFeatures:
    """Compute the features of image files, except those that are in the cache.

    Parameters
    ----------
    paths : sequence of paths
        Image files.
    extractor : BowSift, CNNFeatures or another transformer of images with a method `fingerprint`
        Fitted here if it needs to be and is not.
    fit_on : sequence of paths or None, default=None
        The images it may be fitted on, of which at most 1,000 are used; None is all of `paths`.
    cache_dir : path or None, default=None
        Where the features of single images are kept. None is ``features`` in the cache folder of the
        platform.
    on_bad : {"skip", "raise"}, default="skip"
        What to do with a file that cannot be used as an image: skip and report it, or stop with ImageError.
    n_jobs : int or None, default=None
        Threads that read images; None is 1. The extractor has its own.
    progress : callable, optional
        Called with the number of files done and their total.

    Returns
    -------
    ImageFeatures
        Which files have features, which were skipped and why, and the features themselves.
    """
    if on_bad not in ("skip", "raise"):
        raise UsageError(f"The 'on_bad' parameter must be 'skip' or 'raise'. Got {on_bad!r} instead.")
    store = FeatureStore(cache_dir)
    if not _is_fitted(extractor):
        fit_extractor(extractor, paths if fit_on is None else fit_on, cache_dir=cache_dir)
    look = partial(_look, extractor, _fingerprint(extractor), store)
    looked_at = in_order(look, paths, n_jobs=n_jobs, ahead=2 * _BATCH)
    keys: dict[int, str] = {}  # by position in the list
    skipped: list[tuple[str, str]] = []
    done = n_computed = 0
    while batch := list(islice(looked_at, _BATCH)):
        fresh: dict[str, Pixels] = {}
        for position, found in enumerate(batch, start=done):
            if isinstance(found, ImageError):
                if on_bad == "raise":
                    raise found
                skipped.append((os.fspath(paths[position]), found.reason))
                continue
            keys[position], pixels = found
            if pixels is not None:
                fresh[keys[position]] = pixels  # the same bytes twice are computed once
        if fresh:
            rows = np.asarray(extractor.transform(list(fresh.values())), dtype=np.float32)
            for key, row in zip(fresh, rows, strict=True):
                store.put(key, row)
        n_computed += len(fresh)
        done += len(batch)
        if progress is not None:
            progress(done, len(paths))
    if not keys:
        raise _no_usable_image(skipped, len(paths))
    usable = np.fromiter(keys, dtype=np.int64)
    return ImageFeatures(usable, tuple(skipped), n_computed, store, tuple(keys.values()))


def fit_extractor(extractor: Any, paths: Paths, *, cache_dir: str | os.PathLike[str] | None = None) -> Any:
    """Fit an extractor to at most 1,000 of these images, without files that cannot be read.

    An array that takes long to learn, which the extractor names in `learned_array`, is kept in the cache.

    Parameters
    ----------
    extractor : BowSift, CNNFeatures or another transformer of images
        What to fit.
    paths : sequence of paths
        Image files.
    cache_dir : path or None, default=None
        As in `extract_images`.

    Returns
    -------
    transformer
        The extractor itself.
    """
    chosen = _fit_sample(extractor, [os.fspath(path) for path in paths])
    learned = getattr(extractor, "learned_array", None)
    parameters = extractor.get_params()
    if learned is None or not isinstance(parameters.get("random_state", 0), int):
        return extractor.fit(chosen)
    relevant = {k: v for k, v in sorted(parameters.items()) if k not in ("n_jobs", "verbose")}
    kind = type(extractor)
    about = (kind.__qualname__, getattr(kind, "feature_version", 0), relevant, [*map(_digest, chosen)])
    key, store = sha256(f"fit {about}".encode()), FeatureStore(cache_dir)
    known = store.get(key)
    if known is not None:
        setattr(extractor, learned, known)
        return extractor
    extractor.fit(chosen)
    store.put(key, getattr(extractor, learned))
    return extractor


def _fit_sample(extractor: Any, paths: list[str]) -> list[str]:
    """At most 1,000 usable images, drawn evenly, in the order of their names."""
    chosen: list[str] = []
    skipped: list[tuple[str, str]] = []
    for i in np.random.default_rng(0).permutation(len(paths)):
        try:
            _read(extractor, paths[i])
        except ImageError as error:
            skipped.append((paths[i], error.reason))
            continue
        chosen.append(paths[i])
        if len(chosen) == _FIT_IMAGES:
            break
    if not chosen:
        raise _no_usable_image(skipped, len(paths))
    return sorted(chosen)


def _look(
    extractor: Any, fingerprint: str, store: FeatureStore, path: str | os.PathLike[str]
) -> tuple[str, Pixels | None] | ImageError:
    """Key of an image, and its pixels where the features are not in the store; or why it is refused."""
    try:
        key = sha256(f"{fingerprint} {_digest(path)}".encode())
        return key, None if store.get(key, mmap=True) is not None else _read(extractor, path)
    except ImageError as error:
        return error


def _digest(path: str | os.PathLike[str]) -> str:
    place = Path(path)
    check_regular(place)
    try:
        return file_digest(place)
    except OSError as error:
        raise ImageError(str(place), f"cannot be read: {error.strerror or error}") from error


def _read(extractor: Any, path: str | os.PathLike[str]) -> Pixels:
    return getattr(extractor, "read", read_image)(path)


def _is_fitted(extractor: Any) -> bool:
    try:
        check_is_fitted(extractor)
    except NotFittedError:
        return False
    return True


def _fingerprint(extractor: Any) -> str:
    if not hasattr(extractor, "fingerprint"):
        raise UsageError(
            "The extractor must have a method 'fingerprint' that identifies it and all it has learned. "
            f"Got {type(extractor).__name__}; wrap your network in CNNFeatures(network=...)."
        )
    return str(extractor.fingerprint())


def _no_usable_image(skipped: Sequence[tuple[str, str]], n_files: int) -> DataError:
    reasons = "; ".join(f"{path}: {reason}" for path, reason in skipped[:3])
    return DataError(f"There is no usable image among {n_files} files. {reasons}".rstrip())


@dataclass(frozen=True)
class FolderReport:
    """What `extract_folder` did: counts, and every file that it skipped with the reason."""

    n_images: int
    n_classes: int
    n_features: int
    n_computed: int
    skipped: tuple[tuple[str, str], ...]


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

    The file holds ``X`` (float32, one row per image), ``y`` (the name of the sub-folder of each image, empty
    where there are no sub-folders), ``paths`` (within the folder), ``skipped`` (path and reason of every
    file that was left out), ``extractor`` (its name and parameters, as JSON) and, after BowSift,
    ``codebook``: set ``BowSift.codebook_`` to it to transform more images. It is written row by row, whole or
    not at all.

    Parameters
    ----------
    folder : path
        One sub-folder per class; or images without classes, directly in it.
    extractor : BowSift, CNNFeatures or another transformer of images
        Fitted here, on at most 1,000 images of the folder, if it needs to be and is not.
    out : path
        The .npz to write; ``numpy.load`` reads it, and so does ``residuum fit``.
    cache_dir, on_bad, n_jobs, progress
        As in `extract_images`.

    Returns
    -------
    FolderReport
        Counts, and every skipped file with the reason.

    Examples
    --------
    >>> from residuum.features import BowSift, extract_folder
    >>> extract_folder("photos", BowSift(), out="features.npz")  # doctest: +SKIP
    >>> numpy.load("features.npz")["X"].shape                   # doctest: +SKIP
    (2889, 5120)
    """
    root, target = Path(folder), Path(out)
    files, beside = list_folder(root)
    found = extract_images(
        [root / path for path, _ in files],
        extractor,
        cache_dir=cache_dir,
        on_bad=on_bad,
        n_jobs=n_jobs,
        progress=progress,
    )
    bad = [(Path(path).relative_to(root).as_posix(), reason) for path, reason in found.skipped]
    skipped = sorted(bad + beside)
    images = [files[i] for i in found.usable]
    parameters = {k: repr(v) for k, v in extractor.get_params(deep=False).items()}
    about = {
        "name": type(extractor).__name__,
        "fingerprint": extractor.fingerprint(),
        "parameters": parameters,
    }
    arrays: dict[str, npt.NDArray[Any]] = {
        "y": np.array([label for _, label in images], dtype=np.str_),
        "paths": np.array([path for path, _ in images], dtype=np.str_),
        "skipped": np.array(skipped, dtype=np.str_).reshape(-1, 2),
        "extractor": np.array(json.dumps(about)),
    }
    if hasattr(extractor, "codebook_"):
        arrays["codebook"] = extractor.codebook_
    try:
        _write_npz(target, found, arrays)
    except OSError as error:
        raise DataError(
            f"{target} cannot be written: {error.strerror or error}. The features are kept in the cache; "
            "run the same again, or with another place for the file."
        ) from error
    n_classes = len({label for _, label in images})
    return FolderReport(len(images), n_classes, found.n_features, found.n_computed, tuple(skipped))


def _write_npz(out: Path, found: ImageFeatures, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write X row by row, which numpy.savez cannot, and then the small arrays."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(found.keys), found.n_features)}
    with written_whole(out) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open(_member("X"), "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for row in found.rows():
                stream.write(row.astype("<f4", copy=False).tobytes())
        for name, array in arrays.items():
            with archive.open(_member(name), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{name}.npy")  # its date is fixed, so equal features make equal files
