"""Speed of the exact engine against its peers, in units of one float64 GEMM queries @ atoms.T.

    nonnegative  minimise_c ||y - Xc||^2                     s.t. c >= 0
    lasso        minimise_c ||y - Xc||^2 + l1 ||c||_1

Peers that are not installed give a row with ``status`` "skipped". Peers that solve one query at a time are
timed on a few queries.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.estimators.classifiers import NRC, SoftNRC
from residuum.features import EigenfacePCA
from residuum.solvers.active_set import prepare_atoms, solve_active_set
from residuum.system.folders import data_home

Row = dict[str, Any]


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


# A peer prepares what is not timed and returns the call that is.


def _scipy(atoms: FloatArray, queries: FloatArray, l1: float) -> Callable[[], Any]:
    from scipy.optimize import nnls

    return lambda: [nnls(atoms.T, query) for query in queries]


def _spams(atoms: FloatArray, queries: FloatArray, l1: float) -> Callable[[], Any]:
    import spams

    gram, products = np.asfortranarray(atoms @ atoms.T), np.asfortranarray(atoms @ queries.T)
    options = {"lambda1": max(l1 / 2, 1e-9), "mode": 2, "pos": l1 == 0, "numThreads": -1}
    return partial(spams.lasso, np.asfortranarray(queries.T), Q=gram, q=products, **options)


def _lasso(
    module: str, name: str, atoms: FloatArray, queries: FloatArray, l1: float, **options: Any
) -> Callable[[], Any]:
    """A model of the lasso, as scikit-learn writes it, fitted to each query."""
    alpha = max(l1, 1e-7) / (2 * atoms.shape[1])
    make = getattr(importlib.import_module(module), name)
    model = make(alpha=alpha, fit_intercept=False, positive=l1 == 0, **options)
    return lambda: [model.fit(np.asfortranarray(atoms.T), query) for query in queries]


# name -> (queries it is timed on, peer)
PEERS: dict[str, tuple[int, Callable[..., Callable[[], Any]]]] = {
    "spams": (200, _spams),
    "scipy": (10, _scipy),
    "scikit-learn Lasso": (3, partial(_lasso, "sklearn.linear_model", "Lasso", tol=1e-8, max_iter=100_000)),
    "scikit-learn LassoLars": (3, partial(_lasso, "sklearn.linear_model", "LassoLars", max_iter=5000)),
    "celer": (3, partial(_lasso, "celer", "Lasso", tol=1e-8, max_iter=200)),
    "skglm": (3, partial(_lasso, "skglm", "Lasso", tol=1e-8, max_iter=200)),
}


def _fastest(call: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Seconds of the fastest of some calls, and what the last one returned."""
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return best, result


def engine_rows(atoms: FloatArray, queries: FloatArray, l1: float, repeats: int) -> Iterator[Row]:
    """The engine (non-negative, or the lasso when l1 > 0): preparation, then its answers to all queries."""
    seconds, prepared = _fastest(lambda: prepare_atoms(atoms))
    yield {"method": "residuum: prepare atoms", "seconds": seconds / len(queries)}
    solve = partial(solve_active_set, prepared, l1=l1, signed=l1 > 0)
    solve(queries[:2])
    seconds, solution = _fastest(lambda: solve(queries), repeats)
    yield {
        "method": "residuum: exact",
        "seconds": seconds / len(queries),
        "violation": float(solution.violation.max()),
        "gap": float(solution.gap.max()),
        "converged": bool(solution.converged.all()),
        "support": solution.codes.nnz / len(queries),
    }


def own_rows(atoms: FloatArray, queries: FloatArray) -> Iterator[Row]:
    """Our other solvers of the same family: five steps of ADMM, and SoftNRC to its optimum."""
    solvers = {
        "residuum: ADMM, 5 steps": NRC(),
        "residuum: SoftNRC, gap 1e-6": SoftNRC(tol=1e-6),
        "residuum: SoftNRC, gap 1e-10": SoftNRC(),
    }
    for name, classifier in solvers.items():
        fitted = classifier.fit(atoms, np.arange(len(atoms)) % 10)
        fitted.encode(queries[:50])
        yield {"method": name, "seconds": _fastest(partial(fitted.encode, queries), 2)[0] / len(queries)}


def peer_rows(atoms: FloatArray, queries: FloatArray, l1: float) -> Iterator[Row]:
    """One row per peer."""
    for name, (count, peer) in PEERS.items():
        if l1 > 0 and name == "scipy":
            continue
        some = queries[:count]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a peer short of its own tolerance is still timed
                peer(atoms[:100], some[:1], l1)()  # compile and load
                yield {"method": name, "seconds": _fastest(peer(atoms, some, l1))[0] / len(some)}
        except ImportError as error:
            yield {"method": name, "status": f"skipped: {error.name} is not installed"}
        except Exception as error:  # a peer that fails is a result too
            yield {"method": name, "status": f"failed: {error}"}


def exact_benchmark(
    *, peers: bool = True, large: bool = False, l1: float = 0.01, n_queries: int = 2000
) -> Iterator[Row]:
    """All rows: both problems on both data sets at N = 3000, D = 500; with ``large`` also all of MNIST."""
    parts, digits = mixture_of_parts(3000, n_queries), mnist(300, n_queries)
    for name, data in (("mixture of parts", parts), ("MNIST 300 per class", digits)):
        yield from _rows(name, "nonnegative", data, peers=peers, own=True)
        yield from _rows(name, "lasso", data and (data[0], data[1][:400]), l1=l1, peers=peers)
    if large:
        yield from _rows("MNIST 60,000", "nonnegative", mnist(None, 10_000), repeats=1)


def _rows(
    name: str,
    problem: str,
    data: tuple[FloatArray, FloatArray] | None,
    *,
    l1: float = 0.0,
    repeats: int = 3,
    peers: bool = False,
    own: bool = False,
) -> Iterator[Row]:
    """The rows of one data set and problem, with milliseconds per query and multiples of the GEMM."""
    if data is None:
        status = "skipped: mnist.npz is not in the data home; see residuum data status mnist"
        yield {"data": name, "problem": problem, "method": "all", "status": status}
        return
    atoms, queries = data
    gemm = _fastest(lambda: queries @ atoms.T, 10)[0] / len(queries)
    rows = chain(
        [{"method": "GEMM queries @ atoms.T", "seconds": gemm}],
        engine_rows(atoms, queries, l1, repeats),
        own_rows(atoms, queries) if own else (),
        peer_rows(atoms, queries, l1) if peers else (),
    )
    for row in rows:
        seconds = row.pop("seconds", None)
        timed = {} if seconds is None else {"ms_per_query": 1e3 * seconds, "ratio": seconds / gemm}
        yield {"data": name, "problem": problem, **row, **timed}
