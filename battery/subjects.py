"""Whom the groups try: every classifier, and samples that all of them can answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits

from residuum import NRC
from residuum.estimators import METHODS

CLASSIFIERS: dict[str, Any] = {name: make() for name, make in METHODS.items()}
CLASSIFIERS["NRC exact"] = NRC(solver="exact")


def classifier(name: str) -> Any:
    """A new, unfitted one."""
    return clone(CLASSIFIERS[name])


def digits(n_samples: int = 80, n_queries: int = 20) -> tuple[Any, Any, Any]:
    """Training samples, their labels, and queries: whole numbers from 0 to 16 as float64."""
    X, y = load_digits(return_X_y=True)
    return X[:n_samples], y[:n_samples], X[n_samples : n_samples + n_queries]


def dense(codes: Any) -> Any:
    """Codes as an ndarray."""
    return codes.toarray() if sp.issparse(codes) else np.asarray(codes)


def by_sample(fitted: Any, queries: Any) -> Any:
    """Codes (n_queries, n_samples) in the order in which the training samples were given."""
    codes = dense(fitted.encode(queries))
    ordered = np.zeros((len(codes), fitted.n_samples_seen_))
    ordered[:, fitted.dictionary_.samples] = codes
    return ordered
