"""Labels: of one kind, joined without loss, and found again.

NumPy turns labels of different types into one type without asking: numbers beside text become text, and a
negative number beside one from 2**63 on becomes a float64, in which neighbours are the same number. Here
labels are joined exactly or refused.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from residuum.errors import UsageError

# Labels of one group can be compared and sorted together.
_GROUPS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text", "O": "text"}
_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("text", (str,)),
    ("booleans", (bool, np.bool_)),
    ("numbers", (int, float, np.integer, np.floating)),
    ("None", (type(None),)),
)


def plain_labels(y: Any, owner: str) -> Any:
    """Labels in a type that holds each of them exactly; refuse lists and objects of more than one kind.

    Parameters
    ----------
    y : array-like
        What a user passed. Shape, length and anything but numbers and text are left to scikit-learn.
    owner : str
        Who takes the labels, for the error.
    """
    if isinstance(y, np.ma.MaskedArray):
        raise TypeError(
            f"The 'y' parameter of {owner} must hold a label for every sample. Got a masked array, whose "
            "mask would be ignored. Leave out the samples without a label."
        )
    if not isinstance(y, list | tuple) and str(getattr(y, "dtype", None)) != "object":
        return y
    entries = list(y)
    found = {_kind(label): label for label in reversed(entries)}
    if not set(found) <= {name for name, _ in _KINDS}:
        return y
    if len(found) > 1:
        kinds = ", ".join(f"{name} ({found[name]!r})" for name in sorted(found))
        raise UsageError(
            f"The 'y' parameter of {owner} must hold labels of one kind: text, numbers or booleans. Got "
            f"{kinds}. Convert them first, for example by [str(label) for label in y]."
        )
    if "numbers" in found and all(isinstance(label, int | np.integer) for label in entries):
        return whole_numbers([int(label) for label in entries], owner)
    return y


def whole_numbers(labels: list[int], owner: str) -> npt.NDArray[Any]:
    """Python integers as int64 or uint64, whichever holds them all."""
    for kind in (np.int64, np.uint64):
        limits = np.iinfo(kind)
        if limits.min <= min(labels) and max(labels) <= limits.max:
            return np.array(labels, dtype=kind)
    raise UsageError(
        f"The labels of {owner} must fit into one type of whole numbers: from -2**63 to 2**63 - 1, or from 0 "
        f"to 2**64 - 1. Got {min(labels)} and {max(labels)}. Pass them as text, for example by "
        "[str(label) for label in y]."
    )


def _kind(label: Any) -> str:
    return next((name for name, types in _KINDS if isinstance(label, types)), type(label).__name__)


def check_labels(y: np.ndarray) -> None:
    """Refuse what cannot be labels; one sample of each class is fine if the labels are text."""
    if y.dtype.kind == "U":
        return
    with warnings.catch_warnings():
        if y.dtype.kind == "O":  # text, or refused
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
        check_classification_targets(y)


def joined_labels(known: np.ndarray, new: np.ndarray, owner: str) -> np.ndarray:
    """All labels that occur, sorted, in a type that holds each of them exactly."""
    groups = [_GROUPS.get(labels.dtype.kind, str(labels.dtype)) for labels in (known, new)]
    if groups[0] != groups[1]:
        raise UsageError(
            f"The 'y' parameter of {owner} must hold {groups[0]}, like the labels so far. "
            f"Got {groups[1]}. Convert them, or fit anew."
        )
    if groups[0] != "numbers":
        return np.unique(np.concatenate([known, new]))
    if "f" not in known.dtype.kind + new.dtype.kind:
        kind = np.result_type(known, new)
        if kind.kind == "f":  # int64 beside uint64
            return np.unique(whole_numbers([*known.tolist(), *new.tolist()], owner))
        return np.unique(np.concatenate([known, new]))
    joined = np.concatenate([known, new])
    for label, kept in zip([*known.tolist(), *new.tolist()], joined.tolist(), strict=True):
        if label != kept:  # Python compares whole numbers and floats exactly
            raise UsageError(
                f"The 'y' parameter of {owner} must hold labels that can be joined with those so far, "
                f"which are {known.dtype}. Got {new.dtype}: no common type holds {label!r} exactly. Convert "
                "them, or fit anew."
            )
    return np.unique(joined)


def check_classes(y: Any, classes: Any) -> None:
    """Refuse labels that are not among the classes announced, if any were."""
    if classes is None:
        return
    announced = set(np.ravel(plain_labels(classes, "partial_fit")).tolist())
    foreign = [label for label in np.ravel(plain_labels(y, "partial_fit")).tolist() if label not in announced]
    if foreign:
        raise UsageError(
            f"The 'classes' parameter of partial_fit must hold every label of y. {foreign[0]!r} is "
            "missing: add it, or leave classes out."
        )


def which_among(name: str, wanted: Any, where: str, known: np.ndarray) -> npt.NDArray[np.bool_]:
    """Which known values are wanted by the parameter `name` of `forget`; all that is wanted must be known."""
    if wanted is None:
        return np.zeros(len(known), dtype=bool)
    values = np.ravel(plain_labels(wanted, "forget"))
    same = values.size == 0 or _GROUPS.get(values.dtype.kind) == _GROUPS.get(known.dtype.kind)
    position = {value: i for i, value in enumerate(known.tolist())} if same else {}
    unknown = [value for value in values.tolist() if value not in position]
    if unknown:
        raise UsageError(
            f"The {name!r} parameter of forget must hold values of {where}, {known.tolist()[:5]!r}"
            f"{' ...' if len(known) > 5 else ''}. {unknown[0]!r} is not one: never enrolled, "
            "a zero vector, or forgotten before."
        )
    found = np.zeros(len(known), dtype=bool)
    found[[position[value] for value in values.tolist()]] = True
    return found
