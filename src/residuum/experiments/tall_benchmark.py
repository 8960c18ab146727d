"""Speed of least squares with few columns and many right-hand sides against what people use for it.

    nonnegative  minimise_x ||b - Ax||^2                   s.t. x >= 0
    sum to one   minimise_x ||b - Ax||^2                   s.t. x >= 0, sum(x) = 1
    Tikhonov     minimise_x ||b - Ax||^2 + l2 ||x||^2      s.t. x >= 0

Times are those of the processor, in one thread, and multiples of the product A'B. Each peer has its own
stopping rule, so the accuracy stands beside the time: by how much its objective exceeds ours, relative to
||b||^2. Peers that are not installed give a row with ``status`` "skipped"; peers that take one right-hand
side at a time are timed on a few.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.lstsq import least_squares, nnls
from residuum.system.threads import limit_threads

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One problem with its right-hand sides."""

    name: str
    A: FloatArray  # (n_rows, n)
    B: FloatArray  # (n_rows, n_rhs)
    problem: str = "nonnegative"
    l2: float = 0.0

    @property
    def stacked(self) -> tuple[FloatArray, FloatArray]:
        """A and B with the rows that stand for the ridge."""
        n = self.A.shape[1]
        if not self.l2:
            return self.A, self.B
        zeros = np.zeros((n, self.B.shape[1]))
        return np.vstack([self.A, np.sqrt(self.l2) * np.eye(n)]), np.vstack([self.B, zeros])

    def first(self, count: int) -> Case:
        """The same with a few right-hand sides."""
        return Case(self.name, self.A, np.ascontiguousarray(self.B[:, :count]), self.problem, self.l2)

    def objective(self, X: FloatArray) -> FloatArray:
        """Of solutions in columns, relative to ||b||^2."""
        A, B = self.stacked
        return np.sum((B - A @ X) ** 2, axis=0) / np.sum(self.B**2, axis=0)


def spectra(n_bands: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Positive spectra, as those of minerals: absorption bands on a slope, and the noise of a library."""
    at = np.linspace(0, 1, n_bands)[:, None]
    spectra = 0.3 + 0.6 * rng.random(n) + 0.4 * (rng.random(n) - 0.5) * at
    for _ in range(6):
        centre, width, depth = rng.random(n), rng.uniform(0.02, 0.1, n), rng.uniform(0.0, 0.4, n)
        spectra = spectra * (1 - depth * np.exp(-0.5 * ((at - centre) / width) ** 2))
    return spectra + 0.002 * rng.standard_normal(spectra.shape)


def cases(n_rhs: int) -> Iterator[Case]:
    """The shapes that people have."""
    rng = np.random.default_rng(0)
    for n in (10, 30, 50, 80):
        A = spectra(200, n, rng)
        weights = rng.random((n, n_rhs)) * (rng.random((n, n_rhs)) < 0.4)
        clean = A @ weights
        yield Case(f"200 x {n}", A, clean + 0.01 * clean.mean() * rng.standard_normal(clean.shape))
    for n in (10, 30):
        A = spectra(200, n, rng)
        clean = A @ rng.dirichlet(np.full(n, 0.3), n_rhs).T
        yield Case(f"200 x {n}", A, clean + 0.01 * rng.standard_normal(clean.shape), "sum to one")
    echoes, times = 0.01 * np.arange(1, 33), np.geomspace(0.01, 2, 60)
    decays = np.exp(-echoes[:, None] / times)
    peaks = rng.uniform(0.01, 0.3, (2, 1, n_rhs))
    spread = np.exp(-0.5 * (np.log(times[:, None] / peaks) / 0.2) ** 2)  # (2, 60, n_rhs)
    clean = decays @ (spread[0] + 0.3 * spread[1])
    noisy = clean + 0.005 * clean.mean() * rng.standard_normal(clean.shape)
    yield Case("T2 relaxometry, 32 + 60 x 60", decays, noisy, "Tikhonov", l2=0.05)
    genes = rng.lognormal(0, 1.5, (2000, 25)) * (rng.random((2000, 25)) < 0.3)
    mixed = rng.random((25, n_rhs)) * (rng.random((25, n_rhs)) < 0.3) + 0.01
    counts = rng.poisson(genes @ mixed).astype(float)
    yield Case("spots, 2000 x 25", genes, counts)


def _ours(case: Case) -> Callable[[], FloatArray]:
    if case.problem == "sum to one":
        return lambda: least_squares(case.A, case.B, sum_to=1.0).x
    if case.l2:
        return lambda: least_squares(case.A, case.B, l2=case.l2).x
    return lambda: nnls(case.A, case.B, dense=True, n_jobs=1).x


# A peer prepares what is not timed and returns the call that is, or None if it does not solve the problem.


def _scipy(case: Case) -> Callable[[], FloatArray] | None:
    from scipy.optimize import nnls as one

    if case.problem == "sum to one":
        return None
    A, B = case.stacked
    return lambda: np.column_stack([one(A, b)[0] for b in B.T])


def _spams(case: Case) -> Callable[[], FloatArray]:
    import spams

    A, B = map(np.asfortranarray, case.stacked)
    if case.problem == "sum to one":
        return lambda: spams.decompSimplex(B, A, computeXtX=True, numThreads=1)
    return lambda: spams.lasso(B, A, lambda1=1e-9, mode=2, pos=True, numThreads=1)


def _fnnls(case: Case) -> Callable[[], FloatArray] | None:
    from fnnls import fnnls

    if case.problem == "sum to one":
        return None
    A, B = case.stacked
    return lambda: np.column_stack([fnnls(A, b)[0] for b in B.T])


def _cvxopt(case: Case) -> Callable[[], FloatArray]:
    """The quadratic program for each right-hand side, as pysptools and its copies solve it."""
    from cvxopt import matrix, solvers

    solvers.options["show_progress"] = False
    A, B = case.stacked
    n = A.shape[1]
    P, G, h = matrix(A.T @ A), matrix(-np.eye(n)), matrix(0.0, (n, 1))
    sums = (matrix(1.0, (1, n)), matrix(1.0)) if case.problem == "sum to one" else ()
    return lambda: np.column_stack(
        [np.array(solvers.qp(P, matrix(-A.T @ b), G, h, *sums)["x"])[:, 0] for b in B.T]
    )


def _qpsolvers(solver: str) -> Callable[[Case], Callable[[], FloatArray]]:
    def prepare(case: Case) -> Callable[[], FloatArray]:
        __import__(solver if solver != "proxqp" else "proxsuite")
        from qpsolvers import solve_qp

        solve: Any = solve_qp

        A, B = case.stacked
        n = A.shape[1]
        P = A.T @ A
        sums: Any = {"A": np.ones((1, n)), "b": np.ones(1)} if case.problem == "sum to one" else {}
        bounds: Any = {"lb": np.zeros(n), "ub": np.full(n, 1e9)}
        return lambda: np.column_stack([solve(P, -A.T @ b, solver=solver, **bounds, **sums) for b in B.T])

    return prepare


# name -> (right-hand sides it is timed on, peer)
PEERS: dict[str, tuple[int, Callable[[Case], Callable[[], FloatArray] | None]]] = {
    "SPAMS": (20_000, _spams),
    "SciPy loop": (200, _scipy),
    "fnnls loop": (50, _fnnls),
    "cvxopt loop": (30, _cvxopt),
    "daqp loop (qpsolvers)": (50, _qpsolvers("daqp")),
    "proxqp loop (qpsolvers)": (50, _qpsolvers("proxqp")),
}


def _fastest(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    best, result = np.inf, None
    for _ in range(repeats):
        start = time.process_time()
        result = call()
        best = min(best, time.process_time() - start)
    return best, result


def tall_benchmark(*, peers: bool = True, n_rhs: int = 20_000) -> Iterator[Row]:
    """One row for each case and method."""
    with limit_threads(1):
        for case in cases(n_rhs):
            yield from _rows(case, peers)


def _rows(case: Case, peers: bool) -> Iterator[Row]:
    place = {"data": case.name, "problem": case.problem}
    product = _fastest(lambda: case.A.T @ case.B, 5)[0] / case.B.shape[1]
    yield {**place, "method": "product A'B", **_timed(product, product)}
    _ours(case.first(2))()
    seconds, X = _fastest(_ours(case), 3)
    yield {**place, "method": "residuum", **_timed(seconds / case.B.shape[1], product)}
    best = case.objective(X)
    for name, (count, peer) in PEERS.items() if peers else ():
        few = case.first(count)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                warm, call = peer(case.first(2)), peer(few)
                if warm is None or call is None:
                    continue
                warm()  # compile and load
                seconds, theirs = _fastest(call, 2)
        except ImportError as error:
            yield {**place, "method": name, "status": f"skipped: {error.name} is not installed"}
            continue
        except Exception as error:  # a peer that fails is a result too
            yield {**place, "method": name, "status": f"failed: {error}"}
            continue
        theirs = theirs.toarray() if hasattr(theirs, "toarray") else theirs
        excess = float(np.max(few.objective(theirs) - best[: few.B.shape[1]]))
        yield {**place, "method": name, **_timed(seconds / few.B.shape[1], product), "excess": excess}


def _timed(seconds: float, product: float) -> Row:
    return {"us_per_rhs": 1e6 * seconds, "ratio": seconds / product}
