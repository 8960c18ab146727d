"""Numbers are read as they are meant: what NumPy would silently misread is refused."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

_TIMES = (np.datetime64, np.timedelta64, datetime.date, datetime.time, datetime.timedelta)
# How the types of table columns that hold times are called by pandas, polars and pyarrow.
_TIME_TYPES = ("datetime", "date32", "date64", "date", "timedelta", "timestamp", "duration", "time", "period")


def check_numbers(value: Any, name: str, owner: str) -> Any:
    """Refuse what NumPy would read as other numbers than were meant, or fail on without saying where.

    Parameters
    ----------
    value : array-like
        What a user passed; nothing else about it is checked.
    name, owner : str
        Of the argument, and of who takes it, for the error.

    Returns
    -------
    value : array-like
        A list or tuple as an array, anything else as it was.
    """
    if isinstance(value, list | tuple):
        if any(isinstance(row, np.ma.MaskedArray) for row in value):
            value = np.ma.asarray(value)
        else:
            value = np.asarray(value)
    if sp.issparse(value):
        fewer = ", or reduce its features first (sklearn.decomposition.TruncatedSVD)" if name == "X" else ""
        raise TypeError(
            f"The {name!r} parameter of {owner} must be a dense array. Got a sparse one: codes come from "
            f"products with dense arrays, so it would save nothing. Pass {name}.toarray(){fewer}."
        )
    wanted = f"The {name!r} parameter of {owner} must hold plain numbers."
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"{wanted} Got a masked array, whose mask would be ignored. Fill the gaps ({name}.filled(...)) "
            "or leave out the samples that have them."
        )
    if getattr(value, "requires_grad", False) is True:
        raise TypeError(f"{wanted} Got a tensor that requires grad. Pass {name}.detach() instead.")
    entries = _objects(value)
    found = next(_times_in(value, entries), None)
    if found is not None:
        raise TypeError(
            f"{wanted} Got {found}. Turn times into numbers of a unit that you choose, such as "
            "(times - first) / numpy.timedelta64(1, 'D')."
        )
    if entries is not None:
        _check_range(entries, wanted)
    return value


def _objects(value: Any) -> np.ndarray | None:
    """The entries of an array or table that holds Python objects, which may be anything; else None."""
    return np.asarray(value, dtype=object) if "object" in _types(value) else None


def _types(value: Any) -> list[str]:
    """Names of the types of the columns of a table, or of the entries of anything else."""
    columns: Any = getattr(value, "dtypes", None)
    if not hasattr(columns, "__iter__"):
        columns = [value.dtype] if hasattr(value, "dtype") else []
    return [str(kind) for kind in columns]


def _times_in(value: Any, entries: np.ndarray | None) -> Iterator[str]:
    """Names of the types in an array or table that stand for times or spans of time."""
    yield from (kind for kind in _types(value) if kind.lower().startswith(_TIME_TYPES))
    if entries is not None:
        yield from (type(entry).__name__ for entry in entries.flat if isinstance(entry, _TIMES))


def _check_range(entries: np.ndarray, wanted: str) -> None:
    try:
        entries.astype(np.float64)
    except OverflowError:
        largest = np.finfo(np.float64).max
        raise ValueError(
            f"{wanted} Got a whole number beyond {largest:.1e}, the largest that float64 holds. Divide the "
            "samples by a power of ten first: their lengths do not matter."
        ) from None
    except (TypeError, ValueError):
        pass  # scikit-learn names what is not a number
