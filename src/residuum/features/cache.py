"""Features kept on disk under the SHA-256 of everything they depend on.

One entry is one ``.npy`` file, followed by the SHA-256 of all that stands before it. It is written whole or
not at all, and a file that is truncated or altered is taken for missing. Any number of processes may use one
folder: the last to write an entry wins, and all write the same.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

from residuum.errors import DataError, UsageError
from residuum.system.files import sha256, written_whole
from residuum.system.folders import cache_folder

FORMAT = 2
_DIGITS = 64  # of a SHA-256 in hexadecimal


class FeatureStore:
    """Arrays on disk by key, in `folder`; None is ``features`` in the cache folder of residuum."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder) if folder is not None else cache_folder() / "features"

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.npy"

    def get(self, key: str) -> npt.NDArray[Any] | None:
        """Return a read-only memory map of the array of a key, or None where there is no intact one."""
        path = self._path(key)
        try:
            content = np.memmap(path, dtype=np.uint8, mode="r")
            # The checksum comes before numpy reads the header, so a damaged header is never obeyed.
            if sha256(content[:-_DIGITS]).encode() != content[-_DIGITS:].tobytes():
                return None
            return np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError):
            return None

    def put(self, key: str, array: npt.NDArray[Any]) -> None:
        """Keep an array; DataError where the folder cannot be written."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
                file.flush()
                file.write(sha256(np.memmap(file, dtype=np.uint8, mode="r")).encode())
        except OSError as error:
            raise DataError(
                f"Features could not be kept in {self.folder}: {error.strerror or error}. "
                "What is there already will be reused: free some space, or choose another cache folder, and "
                "run the same again."
            ) from error


def cached_transform(
    transformer: BaseEstimator, X: npt.ArrayLike, *, cache_dir: str | os.PathLike[str] | None = None
) -> npt.NDArray[Any]:
    """Return ``transformer.transform(X)``, computed once and read from disk afterwards.

    An entry that is incomplete, truncated or altered is noticed by its checksum, computed again and replaced.
    Any number of processes may use one folder.

    Parameters
    ----------
    transformer : estimator with a transform method
        Fitted, where it needs to be. Change any parameter or learned value and it gets another entry.
    X : array-like of numbers
        Sparse matrices, text and objects are refused. For image files see `extract_images`.
    cache_dir : path or None, default=None
        Folder for the entries, made if missing. None is ``features`` in the cache folder of the platform.

    Returns
    -------
    ndarray
        The features, when they come from disk as a read-only memory map.
    """
    store = FeatureStore(cache_dir)
    key = cache_key(transformer, X)
    kept = store.get(key)
    if kept is not None:
        return kept
    features = _numbers(transformer.transform(X), "features")
    store.put(key, features)
    kept = store.get(key)
    return features if kept is None else kept


def cache_key(transformer: BaseEstimator, X: npt.ArrayLike) -> str:
    """Return the hexadecimal SHA-256 of a transformer, its learned state and the data."""
    kind = type(transformer)
    state = {name: value for name, value in vars(transformer).items() if name != "n_jobs"}
    release = getattr(sys.modules[kind.__module__.partition(".")[0]], "__version__", "")
    version = (release, getattr(kind, "feature_version", 1))
    X = np.ascontiguousarray(_numbers(X, "X"))
    about = (FORMAT, kind.__module__, kind.__qualname__, version, joblib.hash(state, hash_name="sha1"))
    return sha256(repr((*about, X.dtype.str, X.shape)).encode(), X.reshape(-1).view(np.uint8))


def _numbers(values: Any, name: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biufc":
        raise UsageError(
            f"cached_transform takes and keeps dense arrays of numbers. Got {name} of type "
            f"{type(values).__name__} and dtype {array.dtype}; convert it with .astype(float) or .toarray()."
        )
    return array
