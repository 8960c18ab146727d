"""Features kept on disk under the SHA-256 of everything they depend on.

One entry is one ``.npy`` file, followed by the SHA-256 of all that stands before it. It is written whole or
not at all, and a file that is truncated or altered is taken for missing. Any number of processes may use one
folder: the last to write an entry wins, and all write the same.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import warnings
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
# Parameters that say how to compute, not what.
_IRRELEVANT = frozenset({"n_jobs", "verbose"})


class FeatureStore:
    """Arrays on disk by key.

    Parameters
    ----------
    folder : path or None, default=None
        Made when the first entry is written. None is ``features`` in the cache folder of residuum.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder) if folder is not None else cache_folder() / "features"

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.npy"

    def get(self, key: str, *, mmap: bool = False) -> npt.NDArray[Any] | None:
        """Return the array of a key, or None where there is no intact one; `mmap` leaves it on the disk."""
        path = self._path(key)
        try:
            content = np.memmap(path, dtype=np.uint8, mode="r")
            # The checksum comes before numpy reads the header, so a damaged header is never obeyed.
            if sha256(content[:-_DIGITS]).encode() != content[-_DIGITS:].tobytes():
                return None
            return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
        except (OSError, ValueError):
            return None

    def put(self, key: str, array: npt.NDArray[Any]) -> None:
        """Keep an array; DataError where the folder cannot be written."""
        path = self._path(key)
        array = np.ascontiguousarray(array)
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(array))
        pieces: tuple[Any, ...] = (header.getvalue(), array.reshape(-1).view(np.uint8))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with written_whole(path) as file:
                for piece in (*pieces, sha256(*pieces).encode()):
                    file.write(piece)
        except OSError as error:
            raise DataError(
                f"Features could not be kept in {self.folder}: {error.strerror or error}. "
                "What is there already will be reused: free some space, or choose another cache folder, and "
                "run the same again."
            ) from error


def cached_transform(
    transformer: BaseEstimator,
    X: npt.ArrayLike,
    *,
    cache_dir: str | os.PathLike[str] | None = None,
    mmap: bool = False,
) -> npt.NDArray[Any]:
    """Return ``transformer.transform(X)``, computed once and read from disk afterwards.

    An entry that is incomplete, truncated or altered is noticed by its checksum, computed again and replaced.
    Any number of processes may use one folder. Where the folder cannot be written the features are returned
    all the same, with a warning.

    Parameters
    ----------
    transformer : estimator with a transform method
        Fitted, where it needs to be. Change any parameter or learned value and it gets another entry.
    X : array-like of numbers
        Sparse matrices, text and objects are refused. For image files see `extract_images`.
    cache_dir : path or None, default=None
        Folder for the entries, made if missing. None is ``features`` in the cache folder of the platform.
    mmap : bool, default=False
        Whether to return a read-only memory map of the file in place of an array in memory.

    Returns
    -------
    ndarray or numpy.memmap
        The features.
    """
    store = FeatureStore(cache_dir)
    key = cache_key(transformer, X)
    kept = store.get(key, mmap=mmap)
    if kept is not None:
        return kept
    features = _numbers(transformer.transform(X), "features")
    try:
        store.put(key, features)
    except DataError as error:
        warnings.warn(f"{error} The features will be computed again next time.", stacklevel=2)
        return features
    mapped = store.get(key, mmap=True) if mmap else None
    return features if mapped is None else mapped


def cache_key(transformer: BaseEstimator, X: npt.ArrayLike) -> str:
    """Return the hexadecimal SHA-256 of a transformer, its learned state and the data."""
    kind = type(transformer)
    state = {name: value for name, value in vars(transformer).items() if name not in _IRRELEVANT}
    try:
        state_hash = joblib.hash(state, hash_name="sha1")
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"cached_transform cannot identify the parameters of {kind.__name__}: {error}. Use functions "
            "that are defined in a module, or call transform directly."
        ) from error
    package = sys.modules[kind.__module__.partition(".")[0]]
    # A transformer whose output changes within one release of its package counts up feature_version.
    versions = (FORMAT, getattr(package, "__version__", ""), getattr(kind, "feature_version", 0))
    X = _numbers(X, "X")
    text = repr((kind.__module__, kind.__qualname__, versions, state_hash, X.dtype.str, X.shape))
    return sha256(text.encode(), np.ascontiguousarray(X).reshape(-1).view(np.uint8))


def _numbers(values: Any, name: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biufc":
        raise UsageError(
            f"cached_transform takes and keeps dense arrays of numbers. Got {name} of type "
            f"{type(values).__name__} and dtype {array.dtype}; convert it, for example with .astype(float), "
            "or with .toarray() if it is sparse."
        )
    return array
