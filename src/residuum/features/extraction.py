"""Features of many image files: each computed once, kept at once, in bounded memory.

The features of an image are kept in the cache as soon as they are computed, under

    key = SHA-256(fingerprint of the extractor and all it has learned, SHA-256 of the file's bytes)

so a run that is interrupted goes on where it stopped, a second run computes nothing, and a renamed or moved
image is found again. Files that cannot be used as images are skipped and named with the reason
(``residuum.features.image_files`` has the rules). A folder is only a way to make the list of files.
"""

from __future__ import annotations

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

from residuum.errors import DataError
from residuum.features.cache import FeatureStore, cache_key
from residuum.features.image_files import ImageError, Pixels, list_folder, refusing
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
    store, keys : FeatureStore, tuple of str
        Where the features of each usable image are kept.
    """

    usable: npt.NDArray[np.int64]
    skipped: tuple[tuple[str, str], ...]
    n_computed: int
    store: FeatureStore
    keys: tuple[str, ...]

    @cached_property
    def X(self) -> npt.NDArray[np.float32]:
        """All features in memory, float32, shape (n_usable, n_features)."""
        row_type = np.dtype((np.float32, len(next(self.rows()))))
        return np.fromiter(self.rows(), dtype=row_type, count=len(self.keys))

    def rows(self) -> Iterator[Row]:
        """Yield the features of one image after the other."""
        for key in self.keys:
            row = self.store.get(key)
            if row is None:
                raise DataError(f"Features vanished from {self.store.folder}. Run the same again.")
            yield row


def extract_images(
    paths: Paths,
    extractor: Any,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> ImageFeatures:
    """Compute the features of image files, except those that are in the cache.

    Parameters
    ----------
    paths : sequence of paths
        Image files.
    extractor : BowSift, CNNFeatures or another transformer with their methods `read` and `fingerprint`
        Fitted to these images, as by `fit_extractor`, if it needs to be and is not.
    cache_dir : path or None, default=None
        Where the features of single images are kept. None is ``features`` in the cache folder of the
        platform.
    n_jobs : int or None, default=None
        Threads that read images; None is 1. The extractor has its own.
    progress : callable, optional
        Called with the number of files done and their total.

    Returns
    -------
    ImageFeatures
        Which files have features, which were skipped and why, and the features themselves.
    """
    store = FeatureStore(cache_dir)
    fit_extractor(extractor, paths, cache_dir=cache_dir)
    look = partial(_look, extractor, extractor.fingerprint(), store)
    looked_at = in_order(look, paths, n_jobs=n_jobs, ahead=2 * _BATCH)
    keys: dict[int, str] = {}  # by position in the list
    skipped: list[tuple[str, str]] = []
    done = n_computed = 0
    while batch := list(islice(looked_at, _BATCH)):
        fresh: dict[str, Pixels] = {}
        for position, (key, pixels, reason) in enumerate(batch, start=done):
            if reason:
                skipped.append((os.fspath(paths[position]), reason))
                continue
            keys[position] = key
            if pixels is not None:
                fresh[key] = pixels  # the same bytes twice are computed once
        if fresh:
            rows = np.asarray(extractor.transform(list(fresh.values())), dtype=np.float32)
            for key, row in zip(fresh, rows, strict=True):
                store.put(key, row)
        n_computed += len(fresh)
        done += len(batch)
        if progress is not None:
            progress(done, len(paths))
    if not keys:
        reasons = "; ".join(f"{path}: {reason}" for path, reason in skipped[:3])
        files = "1 file" if len(paths) == 1 else f"{len(paths)} files"
        raise DataError(f"There is no usable image among {files}. {reasons}".rstrip())
    usable = np.fromiter(keys, dtype=np.int64)
    return ImageFeatures(usable, tuple(skipped), n_computed, store, tuple(keys.values()))


def fit_extractor(extractor: Any, paths: Paths, *, cache_dir: str | os.PathLike[str] | None = None) -> None:
    """Fit an extractor that is not fitted to at most 1,000 of these images; what it learns is kept.

    The extractor names what it learns in `learned_array`; without that there is nothing to fit. Files that
    cannot be used as images are left out.
    """
    learned = getattr(extractor, "learned_array", None)
    if learned is None or hasattr(extractor, learned):
        return
    chosen = _fit_sample(extractor, paths)
    digests = "".join(file_digest(Path(path)) for path in chosen)
    key = cache_key(extractor, np.frombuffer(bytes.fromhex(digests), np.uint8))
    store = FeatureStore(cache_dir)
    known = store.get(key)
    if known is None:
        store.put(key, getattr(extractor.fit(chosen), learned))
    else:
        setattr(extractor, learned, np.array(known))


def _fit_sample(extractor: Any, paths: Paths) -> list[str]:
    """At most 1,000 usable images, drawn evenly, in the order of their names."""
    chosen: list[str] = []
    refused: list[str] = []
    for i in np.random.default_rng(0).permutation(len(paths)):
        try:
            extractor.read(paths[i])
            chosen.append(os.fspath(paths[i]))
        except ImageError as error:
            refused.append(str(error))
        if len(chosen) == _FIT_IMAGES:
            break
    if not chosen:
        some = " ".join(refused[:3])
        raise DataError(f"There is no usable image among the {len(paths)} files to learn from. {some}")
    return sorted(chosen)


def _look(
    extractor: Any, fingerprint: str, store: FeatureStore, path: str | os.PathLike[str]
) -> tuple[str, Pixels | None, str]:
    """Key of an image, its pixels where its features are not in the store, and the reason of a refusal."""
    try:
        with refusing(Path(path)):
            key = sha256(f"{fingerprint} {file_digest(Path(path))}".encode())
        return key, None if store.get(key) is not None else extractor.read(path), ""
    except ImageError as error:
        return "", None, error.reason


def extract_folder(
    folder: str | os.PathLike[str],
    extractor: Any,
    *,
    out: str | os.PathLike[str],
    cache_dir: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write the features of every image below a folder to one .npz file.

    The file holds ``X`` (float32, one row per image), ``y`` (the name of the sub-folder of each image, empty
    where there are no sub-folders), ``paths`` (within the folder), ``skipped`` (path and reason of every
    file that was left out), ``extractor`` (its name and parameters) and, after BowSift, ``codebook``: set
    ``BowSift.codebook_`` to it to transform more images. It is written row by row, whole or not at all. The
    result says how many images, classes and features there are, and which files were skipped.
    """
    root = Path(folder)
    files, beside = list_folder(root)
    found = extract_images(
        [root / path for path, _ in files], extractor, cache_dir=cache_dir, n_jobs=n_jobs, progress=progress
    )
    bad = [(Path(path).relative_to(root).as_posix(), reason) for path, reason in found.skipped]
    skipped = sorted(bad + beside)
    paths, labels = zip(*(files[i] for i in found.usable))
    arrays = {
        "y": np.array(labels, dtype=np.str_),
        "paths": np.array(paths, dtype=np.str_),
        "skipped": np.array(skipped, dtype=np.str_).reshape(-1, 2),
        "extractor": np.array(repr(extractor)),
    }
    if hasattr(extractor, "codebook_"):
        arrays["codebook"] = extractor.codebook_
    n_features = len(next(found.rows()))
    try:
        _write_npz(Path(out), found, n_features, arrays)
    except OSError as error:
        raise DataError(
            f"{out} cannot be written: {error.strerror or error}. The features are kept in the cache; "
            "run the same again, or with another place for the file."
        ) from error
    return {
        "images": len(paths),
        "classes": len(set(labels)),
        "features": n_features,
        "computed": found.n_computed,
        "reused": len(paths) - found.n_computed,
        "skipped": [{"path": path, "reason": reason} for path, reason in skipped],
    }


def _write_npz(out: Path, found: ImageFeatures, n_features: int, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write X row by row, which numpy.savez cannot, and then the small arrays."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (len(found.keys), n_features)}
    with written_whole(out) as file, zipfile.ZipFile(file, "w") as archive:
        with archive.open("X.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for row in found.rows():
                stream.write(row.astype("<f4", copy=False).tobytes())
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)
