"""Features of a list of image files, kept image by image as `extract_folder` keeps them.

An extractor that learns (the codebook of BowSift) learns from `fit_on` alone: in an experiment, the training
images. Everything is kept under the hash of the extractor, all it has learned, and the bytes of the image.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError
from residuum.features._stream import n_threads
from residuum.features.cache import default_cache_dir
from residuum.features.folder import Progress, _Run, _Store


@dataclass(frozen=True)
class ListedFeatures:
    """Features of the usable images of a list.

    Attributes
    ----------
    X : ndarray of float32, shape (n_usable, n_features)
        Features.
    usable : ndarray of int64, shape (n_usable,)
        Position of each row's image in the list.
    skipped : tuple of (str, str)
        Path and reason of every file that is no usable image.
    n_computed : int
        How many were not in the cache.
    """

    X: npt.NDArray[np.float32]
    usable: npt.NDArray[np.int64]
    skipped: tuple[tuple[str, str], ...]
    n_computed: int


def extract_list(
    paths: Sequence[str | os.PathLike[str]],
    extractor: Any,
    *,
    fit_on: Sequence[str | os.PathLike[str]] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: Progress = lambda done, total: None,
) -> ListedFeatures:
    """Return the features of image files; what was computed before is read from the cache.

    Parameters
    ----------
    paths : sequence of paths
        Image files.
    extractor : BowSift, CNNFeatures or another transformer of images with a `fingerprint`
        Fitted here if it needs to be and is not.
    fit_on : sequence of paths or None, default=None
        The images it may be fitted on, of which at most 1,000 are used; None is all of `paths`.
    cache_dir : path or None, default=None
        Where the features of single images are kept. None is ``images`` in ``default_cache_dir()``.
    n_jobs : int or None, default=None
        Threads that read images; the extractor has its own.
    progress : callable
        Called with the number of files done and their total.

    Returns
    -------
    ListedFeatures
        Features, which files they belong to, and which files were left out and why.
    """
    store = _Store(Path(cache_dir) if cache_dir is not None else default_cache_dir() / "images")
    run = _Run(Path(), extractor, store, False, n_threads(n_jobs))
    names = [os.fspath(path) for path in paths]
    try:
        run.prepare(names if fit_on is None else [os.fspath(path) for path in fit_on])
        kept, bad = run.extract([(name, str(i)) for i, name in enumerate(names)], progress)
    except OSError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"Features could not be kept in {store.folder}: {error.strerror or error}. What is done stays "
            "there; run the same command again, or with another data home."
        ) from error
    if not kept:
        raise DataError(f"None of {len(names)} files is a usable image. {': '.join(bad[0]) if bad else ''}")
    first = run._row(kept[0][2])
    features = np.empty((len(kept), len(first)), dtype=np.float32)
    for i, (_, _, key) in enumerate(kept):
        features[i] = run._row(key)
    usable = np.array([int(position) for _, position, _ in kept], dtype=np.int64)
    return ListedFeatures(features, usable, tuple(bad), run.n_computed)
