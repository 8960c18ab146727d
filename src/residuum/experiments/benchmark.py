"""Speed of the exact engine against its peers, in units of one float64 GEMM queries @ atoms.T.

    nonnegative  minimise_c ||y - Xc||^2                     s.t. c >= 0
    lasso        minimise_c ||y - Xc||^2 + l1 ||c||_1

Peers that are not installed give a row with ``status`` "skipped". Peers that solve one query at a time are
timed on a few queries.
"""

from __future__ import annotations

import contextlib
import importlib
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from residuum.estimators.classifiers import NRC, SoftNRC
from residuum.features import EigenfacePCA
from residuum.solvers.active_set import prepare_atoms, solve_active_set
from residuum.solvers.base import FloatArray
from residuum.system.folders import data_home

Row = dict[str, Any]
Peer = Callable[[FloatArray, FloatArray, float], Any]


def mixture_of_parts(
    n_atoms: int, n_queries: int, n_features: int = 500, seed: int = 0
) -> tuple[FloatArray, FloatArray]:
    """Unit atoms and queries: sparse non-negative mixtures of sparse non-negative parts, with noise."""
    rng = np.random.default_rng(seed)
    parts = rng.random((200, n_features)) * (rng.random((200, n_features)) < 0.1)

    def draw(n: int) -> FloatArray:
        weights = rng.random((n, 200)) * (rng.random((n, 200)) < 0.05)
        rows = weights @ parts + 0.02 * rng.random((n, n_features))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    return draw(n_atoms), draw(n_queries)


def mnist(
    per_class: int | None, n_queries: int, n_features: int = 500
) -> tuple[FloatArray, FloatArray] | None:
    """MNIST by uncentred PCA to unit norm, or None when the data home has no mnist.npz."""
    path = data_home() / "mnist.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as data:
        train, labels, test = data["x_train"], data["y_train"], data["x_test"][:n_queries]
    if per_class is not None:
        rng = np.random.default_rng(0)
        chosen = [rng.choice(np.flatnonzero(labels == k), per_class, replace=False) for k in range(10)]
        train = train[np.concatenate(chosen)]
    train, test = (part.reshape(len(part), -1).astype(np.float64) for part in (train, test))
    pca = EigenfacePCA(n_features).fit(train)
    return pca.transform(train), pca.transform(test)


def _best(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result


def _scipy(atoms: FloatArray, queries: FloatArray, l1: float) -> None:
    from scipy.optimize import nnls

    for query in queries:
        nnls(atoms.T, query)


def _lasso(
    module: str, name: str, options: dict[str, Any], atoms: FloatArray, queries: FloatArray, l1: float
) -> None:
    """Fit a model of the lasso, as scikit-learn writes it, to each query."""
    alpha = max(l1, 1e-7) / (2 * atoms.shape[1])
    make = getattr(importlib.import_module(module), name)
    model = make(alpha=alpha, fit_intercept=False, positive=l1 == 0, **options)
    for query in queries:
        model.fit(np.asfortranarray(atoms.T), query)


def _daqp(atoms: FloatArray, queries: FloatArray, l1: float) -> None:
    import daqp

    if l1 > 0:
        raise _CannotRun("daqp has no l1 term")
    n = len(atoms)
    if n > 1000:
        raise _CannotRun("daqp factorises a dense Hessian per query, minutes at this many atoms")
    gram = np.ascontiguousarray(2.0 * (atoms @ atoms.T) + 1e-9 * np.eye(n))
    upper, lower, sense = np.full(n, 1e30), np.zeros(n), np.zeros(n, dtype=np.int32)
    for query in queries:
        daqp.solve(gram, -2.0 * (atoms @ query), np.zeros((0, n)), upper, lower, sense)


def _spams(atoms: FloatArray, queries: FloatArray, l1: float) -> None:
    import spams

    gram = np.asfortranarray(atoms @ atoms.T)
    corr = np.asfortranarray(atoms @ queries.T)
    data = np.asfortranarray(queries.T)
    start = time.perf_counter()
    spams.lasso(data, Q=gram, q=corr, lambda1=max(l1 / 2, 1e-9), mode=2, pos=l1 == 0, numThreads=-1)
    raise _Timed(time.perf_counter() - start)


class _CannotRun(Exception):
    """A peer is installed but cannot take part, and says why."""


class _Timed(Exception):
    """Carries the seconds of a peer whose preparation is not to be counted."""


# name -> (module, queries it is timed on, call)
PEERS: dict[str, tuple[str, int, Peer]] = {
    "spams": ("spams", 200, _spams),
    "scipy": ("scipy", 10, _scipy),
    "scikit-learn Lasso": (
        "sklearn",
        3,
        partial(_lasso, "sklearn.linear_model", "Lasso", {"tol": 1e-8, "max_iter": 100_000}),
    ),
    "scikit-learn LassoLars": (
        "sklearn",
        3,
        partial(_lasso, "sklearn.linear_model", "LassoLars", {"max_iter": 5000}),
    ),
    "celer": ("celer", 3, partial(_lasso, "celer", "Lasso", {"tol": 1e-8, "max_iter": 200})),
    "skglm": ("skglm", 3, partial(_lasso, "skglm", "Lasso", {"tol": 1e-8, "max_iter": 200})),
    "daqp": ("daqp", 2, _daqp),
}


def engine_rows(
    atoms: FloatArray, queries: FloatArray, l1: float = 0.0, *, repeats: int = 3
) -> Iterator[Row]:
    """GEMM, preparation and engine (non-negative, or the lasso when l1 > 0) on one data set."""
    n = len(queries)
    gemm, _ = _best(lambda: queries @ atoms.T, 10)
    yield {"method": "GEMM queries @ atoms.T", "ms_per_query": 1e3 * gemm / n, "ratio": 1.0}
    setup, prepared = _best(lambda: prepare_atoms(atoms), 1)
    yield {"method": "residuum: prepare atoms", "ms_per_query": 1e3 * setup / n, "ratio": setup / gemm}
    solve_active_set(prepared, queries[:2], l1=l1, signed=l1 > 0)
    seconds, solution = _best(lambda: solve_active_set(prepared, queries, l1=l1, signed=l1 > 0), repeats)
    yield {
        "method": "residuum: exact",
        "ms_per_query": 1e3 * seconds / n,
        "ratio": seconds / gemm,
        "violation": float(solution.violation.max()),
        "gap": float(solution.gap.max()),
        "converged": bool(solution.converged.all()),
        "support": solution.codes.nnz / n,
    }


def peer_rows(atoms: FloatArray, queries: FloatArray, l1: float = 0.0) -> Iterator[Row]:
    """One row per peer; ratios are to the GEMM of the same queries."""
    gemm, _ = _best(lambda: queries @ atoms.T, 10)
    per_query = gemm / len(queries)
    for name, (module, count, call) in PEERS.items():
        row: Row = {"method": name, "ms_per_query": None, "ratio": None}
        if l1 > 0 and name == "scipy":
            continue
        try:
            importlib.import_module(module)
            some = queries[:count]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a peer short of its own tolerance is still timed
                with contextlib.suppress(_Timed, _CannotRun):
                    call(atoms[:100], queries[:1], l1)  # compile and load
                start = time.perf_counter()
                call(atoms, some, l1)
            seconds = time.perf_counter() - start
        except _Timed as timed:
            seconds = timed.args[0]
        except ImportError:
            yield {**row, "status": f"skipped: {module} is not installed"}
            continue
        except _CannotRun as error:
            yield {**row, "status": f"skipped: {error}"}
            continue
        yield {**row, "ms_per_query": 1e3 * seconds / len(some), "ratio": seconds / len(some) / per_query}


def own_rows(atoms: FloatArray, queries: FloatArray) -> Iterator[Row]:
    """Our other solvers of the same family: five steps of ADMM, and SoftNRC to its optimum."""
    gemm, _ = _best(lambda: queries @ atoms.T, 10)
    solvers = {
        "residuum: ADMM, 5 steps": NRC(),
        "residuum: SoftNRC, gap 1e-6": SoftNRC(tol=1e-6),
        "residuum: SoftNRC, gap 1e-10": SoftNRC(),
    }
    for name, classifier in solvers.items():
        fitted = classifier.fit(atoms, np.arange(len(atoms)) % 10)
        fitted.encode(queries[:50])
        seconds, _ = _best(partial(fitted.encode, queries), 2)
        yield {"method": name, "ms_per_query": 1e3 * seconds / len(queries), "ratio": seconds / gemm}


def exact_benchmark(
    *, peers: bool = True, large: bool = False, l1: float = 0.01, n_queries: int = 2000
) -> Iterator[Row]:
    """All rows: both problems on both data sets at N = 3000, D = 500; with ``large`` also all of MNIST."""
    sets = {
        "mixture of parts": mixture_of_parts(3000, n_queries),
        "MNIST 300 per class": mnist(300, n_queries),
    }
    missing = "skipped: mnist.npz is not in the data home; see residuum data status mnist"
    for name, data in sets.items():
        for problem, weight in (("nonnegative", 0.0), ("lasso", l1)):
            label = {"data": name, "problem": problem}
            if data is None:
                yield {**label, "method": "all", "status": missing}
                continue
            atoms, queries = data
            if weight:
                queries = queries[:400]
            yield from ({**label, **row} for row in engine_rows(atoms, queries, weight))
            if not weight:
                yield from ({**label, **row} for row in own_rows(atoms, queries))
            if peers:
                yield from ({**label, **row} for row in peer_rows(atoms, queries, weight))
    if large:
        label = {"data": "MNIST 60,000", "problem": "nonnegative"}
        data = mnist(None, 10_000)
        if data is None:
            yield {**label, "method": "all", "status": missing}
        else:
            yield from ({**label, **row} for row in engine_rows(*data, repeats=1))
