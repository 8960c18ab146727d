"""Input that no classifier can use: one TypeError or ValueError that says why, and nothing is changed by it.

Bad samples are given to fit, predict and partial_fit, bad labels to fit and partial_fit, bad parameters to
fit. After each error the classifier that was fitted before must answer as before.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import polars
import scipy.sparse as sp
from sklearn.base import clone

from battery import Case, Scope, refusal
from battery.subjects import CLASSIFIERS, classifier

RNG = np.random.default_rng(0)
X = np.abs(RNG.normal(size=(12, 6))).round(3)
Y = np.repeat([0, 1, 2], 4)
Q = np.abs(RNG.normal(size=(5, 6)))


def put(value: Any, dtype: Any = np.float64) -> np.ndarray:
    """The samples with one other cell."""
    bad = X.astype(dtype)
    bad[3, 2] = value
    return bad


def frame(value: Any) -> pd.DataFrame:
    return pd.DataFrame(put(value, object), columns=list("abcdef")).astype(object)


# Name -> (samples, words that the message must hold).
SAMPLES: dict[str, tuple[Callable[[], Any], str]] = {
    "NaN": (lambda: put(np.nan), "X contains NaN"),
    "infinity": (lambda: put(np.inf), "X contains infinity"),
    "minus infinity": (lambda: put(-np.inf), "X contains infinity"),
    "NaN in float32": (lambda: put(np.nan, np.float32), "X contains NaN"),
    "NaN in float16": (lambda: put(np.nan, np.float16), "X contains NaN"),
    "NaN among objects": (lambda: put(np.nan, object), "X contains NaN"),
    "None among objects": (lambda: put(None, object), "NaN|convert|number"),
    "None in a list": (lambda: put(None, object).tolist(), "NaN|convert|number"),
    "text among objects": (lambda: put("two", object), "convert|number|two"),
    "text in a list": (lambda: put("two", object).tolist(), "convert|number|two"),
    "the text inf": (lambda: put("inf", object), "infinity"),
    "the text nan": (lambda: put("nan", object), "NaN"),
    "10**400": (lambda: put(10**400, object), "large|infinity|range|convert"),
    "10**400 in a list": (lambda: put(10**400, object).tolist(), "large|infinity|range|convert"),
    "a list as cell": (lambda: put([1, 2], object), "sequence|convert|number"),
    "long double beyond float64": (lambda: put(np.longdouble("1e4000"), np.longdouble), "infinity"),
    "complex": (lambda: X + 1j, "[Cc]omplex"),
    "complex cell among objects": (lambda: put(1j, object), "[Cc]omplex|number|convert"),
    "text": (lambda: X.astype(str).astype("U8").tolist() and np.full(X.shape, "a"), "convert|number"),
    "bytes": (lambda: np.full(X.shape, b"a"), "convert|number"),
    "one text": (lambda: "samples.csv", "array|2D|convert|number"),
    "dates": (lambda: np.full(X.shape, np.datetime64("2026-01-01")), "date|number|type|convert"),
    "durations": (lambda: np.full(X.shape, np.timedelta64(3, "s")), "time|number|type|convert"),
    "a record array": (lambda: np.zeros(12, [("a", float), ("b", float)]), "2D|type|convert|number|dtype"),
    "one dimension": (lambda: X[:, 0].copy(), "2D array"),
    "three dimensions": (lambda: X[None], "dim 3|3 dimension|<= 2|2D"),
    "a number": (lambda: 5.0, "2D array|scalar"),
    "None": (lambda: None, "2D|None|scalar|array|number"),
    "no samples": (lambda: X[:0], "0 sample"),
    "no features": (lambda: X[:, :0], "0 feature"),
    "an empty list": (lambda: [], "2D|empty|0 sample"),
    "rows of unequal length": (lambda: [*X[:-1].tolist(), [1.0]], "sequence|inhomogeneous|shape"),
    "a dictionary": (lambda: {"a": [1, 2]}, "dict|2D|number|convert"),
    "a set": (lambda: {1, 2, 3}, "set|2D|number|convert"),
    "a generator": (lambda: (row for row in X), "generator|2D|number|convert"),
    "CSR": (lambda: sp.csr_array(X), "toarray|[Ss]parse"),
    "COO": (lambda: sp.coo_array(X), "toarray|[Ss]parse"),
    "masked": (lambda: np.ma.masked_array(X, mask=X > 1), "mask"),
    "np.matrix": (lambda: np.asmatrix(X), "matrix"),
    "pandas with NaN": (lambda: pd.DataFrame(put(np.nan)), "X contains NaN"),
    "pandas with pd.NA": (lambda: pd.DataFrame(X.round()).astype("Int64").mask(X > 2), "NaN|NA"),
    "pandas with text": (lambda: frame("two"), "convert|number|two"),
    "polars with null": (
        lambda: polars.DataFrame(X).with_columns(polars.lit(None).alias("column_0")),
        "NaN|null",
    ),
}
# Only a fitted classifier can tell that these are wrong.
WIDTHS: dict[str, tuple[Callable[[], Any], str]] = {
    "a feature too few": (lambda: X[:, :-1], "5 features.*expecting 6"),
    "a feature too many": (lambda: np.hstack([X, X[:, :1]]), "7 features.*expecting 6"),
}
# What is wrong with these is found after their width is: the earlier width must stay in force.
REFITS: dict[str, tuple[Callable[[], Any], str]] = {
    "zero samples only": (lambda: (np.zeros((12, 4)), Y), "zero"),
    "another width and measured labels": (lambda: (X[:, :4], Y + 0.25 * (Y > 0)), "continuous|[Ll]abel"),
}
LABELS: dict[str, tuple[Callable[[], Any], str]] = {
    "no labels": (lambda: None, "y"),
    "a label too few": (lambda: Y[:-1], "inconsistent|length|samples"),
    "a label too many": (lambda: np.append(Y, 1), "inconsistent|length|samples"),
    "labels that are measurements": (lambda: Y + 0.25 * (Y > 0), "continuous|[Ll]abel"),
    "NaN as label": (lambda: np.where(Y == 1, np.nan, Y), "NaN"),
    "infinity as label": (lambda: np.where(Y == 1, np.inf, Y), "infinity"),
    "None as label": (lambda: [*"aabb", None, *"aabbcca"], "[Ll]abel|str|NaN|None|type"),
    "text and numbers": (lambda: np.array([*"aabb", 1, 2, *"aabbcc"], dtype=object), "[Ll]abel|str|type"),
    "two labels for each": (lambda: np.column_stack([Y, Y]), "1d|shape|multi"),
    "one label for all": (lambda: 3, "y|1d|shape"),
    "no label at all": (lambda: [], "y|inconsistent|samples"),
    "complex labels": (lambda: Y + 1j, "[Cc]omplex"),
    "masked labels": (lambda: np.ma.masked_array(Y, mask=Y > 1), "mask"),
    "sparse labels": (lambda: sp.csr_array(Y[None]), "[Ss]parse|y"),
}
PARAMETERS: dict[str, Any] = {"an object": object(), "NaN": float("nan"), "a list": [1.0]}


def cases(scope: Scope) -> Iterator[Case]:
    """Every bad input of every classifier at every method that takes it."""
    for name in CLASSIFIERS:
        for kind, (make, words) in SAMPLES.items():
            for method in ("fit", "predict", "partial_fit"):
                yield Case(f"{name}.{method}, {kind}", partial(bad_samples, name, method, make, words))
        for kind, (make, words) in WIDTHS.items():
            for method in ("predict", "partial_fit"):
                yield Case(f"{name}.{method}, {kind}", partial(bad_samples, name, method, make, words))
        for kind, (make, words) in LABELS.items():
            for method in ("fit", "partial_fit"):
                yield Case(f"{name}.{method}, {kind}", partial(bad_labels, name, method, make, words))
        for kind, (make, words) in REFITS.items():
            yield Case(f"{name}.fit, {kind}", partial(bad_refit, name, make, words))
        for kind, value in PARAMETERS.items():
            yield Case(f"{name}, parameter {kind}", partial(bad_parameters, name, value))


def bad_samples(name: str, method: str, make: Callable[[], Any], words: str) -> None:
    """Samples that cannot be used."""
    labels = () if method == "predict" else (Y,)
    refused(name, method, words, make(), *labels)


def bad_labels(name: str, method: str, make: Callable[[], Any], words: str) -> None:
    """Labels that cannot be used."""
    refused(name, method, words, X, make())


def bad_refit(name: str, make: Callable[[], Any], words: str) -> None:
    """Samples and labels that only fit can refuse."""
    refused(name, "fit", words, *make())


def refused(name: str, method: str, words: str, *arguments: Any) -> None:
    """An error with these words, after which the fitted classifier answers as before."""
    fitted = classifier(name).fit(X, Y)
    expected = fitted.residuals(Q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = refusal(lambda: getattr(fitted, method)(*arguments), TypeError, ValueError)
    assert re.search(words, said), f"{words!r} is not in {said}"
    np.testing.assert_array_equal(fitted.residuals(Q), expected)


def bad_parameters(name: str, value: Any) -> int:
    """Every parameter in turn: the error names it."""
    names = list(CLASSIFIERS[name].get_params())
    for parameter in names:
        bad = clone(CLASSIFIERS[name]).set_params(**{parameter: value})
        said = refusal(partial(bad.fit, X, Y), ValueError)
        assert f"'{parameter}' parameter of {type(bad).__name__} must be" in said, said
    return len(names)
