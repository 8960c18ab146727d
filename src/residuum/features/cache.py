"""Features kept on disk under the hash of everything they depend on.

    key = SHA-256(class, version, parameters, fitted state, shape and dtype and bytes of X)

One entry is one folder ``<key>/`` with ``features.npy`` and ``entry.json`` (shape, dtype, SHA-256 of the
array file, what made it). A folder is filled under a temporary name and renamed into place, so an entry is
either whole or absent; whoever renames first wins and the others use their own copy.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

FORMAT = 1
_ARRAY = "features.npy"
_ENTRY = "entry.json"
_TEMPORARY = ".writing-"
_STALE_SECONDS = 24 * 3600
# Parameters that say how to compute, not what.
_IRRELEVANT = frozenset({"n_jobs", "verbose"})


def default_cache_dir() -> Path:
    """Return the folder used when none is given: ``features`` in the data home, else in the platform's cache.

    The data home is ``RESIDUUM_DATA``; it is passed over where it cannot be written, as on a shared volume.
    """
    home = os.environ.get("RESIDUUM_DATA")
    if home and os.access(home, os.W_OK):
        return Path(home) / "features"
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "residuum" / "features"


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
    X : array-like
        Numbers; sparse matrices and object arrays are refused.
    cache_dir : path or None, default=None
        Folder for the entries, made if missing. None is ``default_cache_dir()``.
    mmap : bool, default=False
        Whether to return a read-only memory map of the file in place of an array in memory.

    Returns
    -------
    ndarray or numpy.memmap
        The features.
    """
    folder = Path(cache_dir) if cache_dir is not None else default_cache_dir()
    key = cache_key(transformer, X)
    features = _read(folder, key, mmap)
    if features is not None:
        return features
    features = np.asarray(transformer.transform(X))
    try:
        _write(folder, key, features, _describe(transformer))
    except OSError as error:
        warnings.warn(
            f"The features could not be kept in {folder} ({error}); they will be computed again next time. "
            "Free some space or pass another cache_dir.",
            stacklevel=2,
        )
        return features
    if mmap:
        mapped = _read(folder, key, mmap)
        return features if mapped is None else mapped
    return features


def cache_key(transformer: BaseEstimator, X: npt.ArrayLike) -> str:
    """Return the hexadecimal SHA-256 of a transformer, its learned state and the data."""
    digest = hashlib.sha256(f"residuum features {FORMAT}\n".encode())
    _feed(digest, transformer, "transformer")
    if hasattr(X, "toarray"):
        raise TypeError("cached_transform takes dense arrays as X. Got a sparse matrix; use X.toarray().")
    _feed(digest, np.asarray(X), "X")
    return digest.hexdigest()


def _feed(digest: Any, value: Any, where: str) -> None:
    """Add a value to the digest, with its type and length so that no two structures look the same."""
    if isinstance(value, BaseEstimator):
        params = value.get_params(deep=False)
        learned = {k: v for k, v in vars(value).items() if k not in params and not k.startswith("_sklearn")}
        relevant = {k: v for k, v in params.items() if k not in _IRRELEVANT}
        _feed(digest, [_describe(value), relevant, learned], where)
    elif isinstance(value, np.ndarray):
        _feed_array(digest, value, where)
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        text = repr(value).encode()
        digest.update(f"{type(value).__name__} {len(text)}:".encode() + text)
    elif isinstance(value, np.generic):
        _feed_array(digest, np.asarray(value), where)
    elif isinstance(value, (list, tuple)):
        digest.update(f"{type(value).__name__} {len(value)}:".encode())
        for i, item in enumerate(value):
            _feed(digest, item, f"{where}[{i}]")
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)}:".encode())
        for name in sorted(value, key=repr):
            _feed(digest, name, where)
            _feed(digest, value[name], f"{where}.{name}")
    elif isinstance(value, np.ufunc):  # without a __qualname__ before numpy 2
        _feed(digest, f"numpy.{value.__name__}", where)
    elif isinstance(value, type) or hasattr(value, "__qualname__"):
        if "<" in value.__qualname__:
            raise TypeError(f"cached_transform cannot identify {where}={value!r}. Use a named function.")
        _feed(digest, f"{value.__module__}.{value.__qualname__}", where)
    else:
        raise TypeError(
            f"cached_transform cannot make a key of {where}, a {type(value).__name__}. It takes estimators "
            "made of numbers, strings, arrays, lists and dicts; call transform directly for others."
        )


def _feed_array(digest: Any, array: npt.NDArray[Any], where: str) -> None:
    if array.dtype.hasobject:
        if array.ndim == 1 and all(isinstance(item, str) for item in array):  # column names
            _feed(digest, array.tolist(), where)
            return
        raise TypeError(
            f"cached_transform takes arrays of numbers. Got {where} with dtype {array.dtype}; convert it, "
            "for example with .astype(float)."
        )
    digest.update(f"array {array.dtype.str} {array.shape}:".encode())
    rows = max(1, 2**24 // max(1, array[:1].nbytes)) if array.ndim else 1
    for start in range(0, len(array) if array.ndim else 1, rows):
        part = array[start : start + rows] if array.ndim else array
        digest.update(np.ascontiguousarray(part).data)


@lru_cache
def _version(package: str) -> str:
    try:
        return importlib.metadata.version("scikit-learn" if package == "sklearn" else package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _describe(transformer: Any) -> str:
    kind = type(transformer)
    version = _version(kind.__module__.partition(".")[0])
    # A transformer whose output changes within one release of its package counts up feature_version.
    return f"{kind.__module__}.{kind.__qualname__} {version} {getattr(kind, 'feature_version', 0)}"


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read(folder: Path, key: str, mmap: bool) -> npt.NDArray[Any] | None:
    """Return a checked entry, or None where there is none that can be trusted."""
    path = folder / key / _ARRAY
    try:
        entry = json.loads((folder / key / _ENTRY).read_text(encoding="utf-8"))
        # The checksum comes before numpy sees the file, so a damaged header is never obeyed.
        if entry["key"] != key or entry["format"] != FORMAT or entry["sha256"] != _file_digest(path):
            return None
        return np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(folder: Path, key: str, features: npt.NDArray[Any], made_by: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    temporary = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))
    try:
        with (temporary / _ARRAY).open("wb") as file:
            np.save(file, features, allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        entry = {
            "format": FORMAT,
            "key": key,
            "made_by": made_by,
            "shape": list(features.shape),
            "dtype": features.dtype.str,
            "sha256": _file_digest(temporary / _ARRAY),
        }
        with (temporary / _ENTRY).open("w", encoding="utf-8") as text:
            json.dump(entry, text, indent=2)
            text.flush()
            os.fsync(text.fileno())
        _publish(temporary, folder, key)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _publish(temporary: Path, folder: Path, key: str) -> None:
    """Rename a finished folder into place; a damaged one in the way is moved out first."""
    for _ in range(3):
        try:
            temporary.rename(folder / key)
            return
        except OSError:
            if not (folder / key).exists():
                raise
        if _read(folder, key, mmap=True) is not None:  # another process was first
            return
        aside = Path(tempfile.mkdtemp(prefix=_TEMPORARY, dir=folder))
        try:
            (folder / key).rename(aside / "damaged")
        except FileNotFoundError:  # another process moved it
            pass
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    raise OSError(f"{folder / key} is being replaced by other processes")


def _sweep(folder: Path) -> None:
    """Remove what processes killed while writing left behind."""
    for path in folder.glob(_TEMPORARY + "*"):
        try:
            if time.time() - path.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            continue
