"""Samples in any container: the same labels as from a float64 array, and the container is left as it was."""

from __future__ import annotations

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from battery import Case, Scope, Skipped, refusal
from battery.subjects import CLASSIFIERS, classifier, digits


def library(name: str) -> Any:
    """An optional package, or a case that is skipped."""
    try:
        return import_module(name)
    except ImportError:
        raise Skipped(f"needs {name}") from None


def memmap(X: np.ndarray) -> np.ndarray:
    """X mapped from a file that is already unlinked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "X.npy"
        np.save(path, X)
        return np.load(path, mmap_mode="r")


def read_only(X: np.ndarray) -> np.ndarray:
    """A copy that cannot be written to."""
    X = X.copy()
    X.flags.writeable = False
    return X


def columns(X: np.ndarray) -> list[str]:
    return [f"f{i}" for i in range(X.shape[1])]


TAKEN: dict[str, Callable[[np.ndarray], Any]] = {
    "list of lists": lambda X: X.tolist(),
    "tuple of arrays": tuple,
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "negative strides": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only,
    "memmap": memmap,
    "float16": lambda X: X.astype(np.float16),
    "float32": lambda X: X.astype(np.float32),
    "long double": lambda X: X.astype(np.longdouble),
    "big-endian": lambda X: X.astype(">f8"),
    **{
        kind: partial(lambda X, kind: X.astype(kind), kind=kind)
        for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "object of numbers": lambda X: X.astype(object),
    "object of numeric text": lambda X: X.astype(str).astype(object),
    "pandas": lambda X: library("pandas").DataFrame(X, columns=columns(X)),
    "pandas Int64": lambda X: library("pandas").DataFrame(X, columns=columns(X)).astype("Int64"),
    "polars": lambda X: library("polars").DataFrame(X, schema=columns(X)),
    "pyarrow": lambda X: library("pyarrow").table({n: X[:, i] for i, n in enumerate(columns(X))}),
    "torch": lambda X: library("torch").from_numpy(X.copy()),
    "array_api_strict": lambda X: library("array_api_strict").asarray(X),
}
REFUSED: dict[str, Callable[[np.ndarray], Any]] = {
    "masked array": lambda X: np.ma.masked_array(X, mask=X > 15),
    "masked array, nothing masked": lambda X: np.ma.masked_array(X),
    "np.matrix": lambda X: np.asmatrix(X.copy()),
    "CSR array": sp.csr_array,
    "CSR matrix": sp.csr_matrix,
    "CSC array": sp.csc_array,
    "torch that needs a gradient": lambda X: library("torch").from_numpy(X.copy()).requires_grad_(),
}


def cases(scope: Scope) -> Iterator[Case]:
    """Every container for every classifier, and booleans, which are data of their own."""
    for name in CLASSIFIERS:
        for kind, convert in TAKEN.items():
            yield Case(f"{name}, {kind}", partial(taken, name, convert))
        yield Case(f"{name}, bool", partial(booleans, name))
        for kind, convert in REFUSED.items():
            yield Case(f"{name}, {kind} refused", partial(refused, name, convert))


def taken(name: str, convert: Callable[[np.ndarray], Any]) -> None:
    """The same labels; what was given is what it was."""
    X, y, Q = digits()
    expected = classifier(name).fit(X, y).predict(Q)
    samples, queries = convert(X), convert(Q)
    before = [np.array(as_array(each), copy=True) for each in (samples, queries)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = classifier(name).fit(samples, y).predict(queries)
    np.testing.assert_array_equal(found, expected)
    for given, kept in zip((samples, queries), before, strict=True):
        np.testing.assert_array_equal(as_array(given), kept)


def as_array(container: Any) -> np.ndarray:
    """Its content, for a comparison."""
    if hasattr(container, "detach"):
        container = container.detach()
    if hasattr(container, "to_pandas"):
        container = container.to_pandas()
    return np.asarray(container)


def booleans(name: str) -> None:
    """True and False count as 1 and 0."""
    X, y, Q = (part > 7 if part.ndim == 2 else part for part in digits())
    found = classifier(name).fit(X, y).predict(Q)
    np.testing.assert_array_equal(found, classifier(name).fit(X.astype(float), y).predict(Q.astype(float)))


def refused(name: str, convert: Callable[[np.ndarray], Any]) -> None:
    """A TypeError or ValueError from fit and from predict, and a fitted classifier that is as before."""
    X, y, Q = digits()
    fitted = classifier(name).fit(X, y)
    expected = fitted.predict(Q)
    samples, queries = convert(X), convert(Q)
    before = copy.deepcopy(samples)
    refusal(lambda: classifier(name).fit(samples, y), TypeError, ValueError)
    refusal(lambda: fitted.predict(queries), TypeError, ValueError)
    np.testing.assert_array_equal(fitted.predict(Q), expected)
    assert type(samples) is type(before)
