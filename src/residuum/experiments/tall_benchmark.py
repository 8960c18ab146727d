"""Speed of least squares with few columns and many right-hand sides against what people use for it.

    nonnegative  minimise_x ||b - Ax||^2                   s.t. x >= 0
    sum to one   minimise_x ||b - Ax||^2                   s.t. x >= 0, sum(x) = 1
    Tikhonov     minimise_x ||b - Ax||^2 + l2 ||x||^2      s.t. x >= 0

Times are those of the processor, summed over all threads, and multiples of the product A'B; the time that
went by stands beside them. Each peer has its own stopping rule, so the accuracy stands there too: by how much
its objective exceeds ours, relative to ||b||^2. Peers that are not installed give a row with ``status``
"skipped"; peers that take one right-hand side at a time are timed on a few.

"spectra" have noise on their columns, as measured libraries have. "smooth spectra" have none: their columns
are nearly dependent, up to a condition number of 1e10 at 80 columns, which is hard for active sets.
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
from residuum.system.threads import limit_threads, thread_count

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


def smooth_spectra(n_bands: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Positive spectra, as those of minerals: absorption bands on a slope."""
    at = np.linspace(0, 1, n_bands)[:, None]
    spectra = 0.3 + 0.6 * rng.random(n) + 0.4 * (rng.random(n) - 0.5) * at
    for _ in range(6):
        centre, width, depth = rng.random(n), rng.uniform(0.02, 0.1, n), rng.uniform(0.0, 0.4, n)
        spectra = spectra * (1 - depth * np.exp(-0.5 * ((at - centre) / width) ** 2))
    return spectra


def spectra(n_bands: int, n: int, rng: np.random.Generator) -> FloatArray:
    """The same with the noise of a library."""
    smooth = smooth_spectra(n_bands, n, rng)
    return smooth + 0.002 * rng.standard_normal(smooth.shape)


def mixtures(name: str, A: FloatArray, n_rhs: int, rng: np.random.Generator) -> Case:
    """Sums of some columns with noise of 1 %."""
    n = A.shape[1]
    clean = A @ (rng.random((n, n_rhs)) * (rng.random((n, n_rhs)) < 0.4))
    return Case(name, A, clean + 0.01 * clean.mean() * rng.standard_normal(clean.shape))


def shares(name: str, A: FloatArray, n_rhs: int, rng: np.random.Generator) -> Case:
    """Shares of all columns with noise of 1 %."""
    clean = A @ rng.dirichlet(np.full(A.shape[1], 0.3), n_rhs).T
    return Case(name, A, clean + 0.01 * rng.standard_normal(clean.shape), "sum to one")


def cases(n_rhs: int) -> Iterator[Case]:
    """The shapes that people have."""
    rng = np.random.default_rng(0)
    for n in (10, 30, 50, 80):
        yield mixtures(f"200 x {n}", spectra(200, n, rng), n_rhs, rng)
    for n in (10, 30):
        yield shares(f"200 x {n}", spectra(200, n, rng), n_rhs, rng)
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
    rng = np.random.default_rng(1)
    for n in (10, 30, 50, 80):
        yield mixtures(f"smooth spectra, 200 x {n}", smooth_spectra(200, n, rng), n_rhs, rng)
    yield shares("smooth spectra, 200 x 30", smooth_spectra(200, 30, rng), n_rhs, rng)


def _ours(case: Case) -> Callable[[], FloatArray]:
    if case.problem == "sum to one":
        return lambda: least_squares(case.A, case.B, sum_to=1.0).x
    if case.l2:
        return lambda: least_squares(case.A, case.B, l2=case.l2).x
    return lambda: nnls(case.A, case.B, dense=True).x


# A peer prepares what is not timed and returns the call that is, or None if it does not solve the problem.


def _scipy(case: Case) -> Callable[[], FloatArray] | None:
    from scipy.optimize import nnls as one

    if case.problem == "sum to one":
        return None
    A, B = case.stacked
    return lambda: np.column_stack([one(A, b)[0] for b in B.T])


def _spams(case: Case) -> Callable[[], FloatArray]:
    import spams

    A, B, threads = *map(np.asfortranarray, case.stacked), thread_count(None)
    if case.problem == "sum to one":
        return lambda: spams.decompSimplex(B, A, computeXtX=True, numThreads=threads)
    return lambda: spams.lasso(B, A, lambda1=1e-9, mode=2, pos=True, numThreads=threads)


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


def _pysptools(case: Case) -> Callable[[], FloatArray] | None:
    from pysptools.abundance_maps.amaps import FCLS

    if case.problem != "sum to one":
        return None  # its NNLS is SciPy's
    return lambda: FCLS(case.B.T, case.A.T).T


def _pymcr(case: Case) -> Callable[[], FloatArray] | None:
    from pymcr.regressors import NNLS

    if case.problem == "sum to one":
        return None
    A, B = case.stacked

    def solve() -> FloatArray:
        regressor = NNLS()
        regressor.fit(A, B)
        return np.asarray(regressor.X_)

    return solve


def _jaxopt(case: Case) -> Callable[[], FloatArray]:
    """Projected gradients for all right-hand sides at once, in float64."""
    import jax
    from jaxopt import ProjectedGradient, projection

    jax.config.update("jax_enable_x64", True)
    A, B = case.stacked
    Q, H = A.T @ A, (A.T @ B).T
    allowed = projection.projection_simplex if case.problem == "sum to one" else _non_negative
    solver = ProjectedGradient(lambda x, h: 0.5 * x @ Q @ x - h @ x, allowed, maxiter=500, tol=1e-6)
    start = np.full(len(Q), 1.0 / len(Q))
    solve = jax.jit(jax.vmap(lambda h: solver.run(start, None, h).params))
    return lambda: np.asarray(solve(H)).T


def _non_negative(x: Any, _: Any) -> Any:
    from jaxopt.projection import projection_non_negative

    return projection_non_negative(x)


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
    "osqp loop (qpsolvers)": (50, _qpsolvers("osqp")),
    "pysptools FCLS": (30, _pysptools),
    "pyMCR NNLS": (200, _pymcr),
    "jaxopt, projected gradient": (200, _jaxopt),
}


def _fastest(call: Callable[[], Any], repeats: int) -> tuple[FloatArray, Any]:
    """Least processor time and least time that went by, in seconds, and the result."""
    best, result = np.full(2, np.inf), None
    for _ in range(repeats):
        start = time.process_time(), time.perf_counter()
        result = call()
        best = np.minimum(best, np.subtract((time.process_time(), time.perf_counter()), start))
    return best, result


def tall_benchmark(*, peers: bool = True, n_rhs: int = 20_000, n_jobs: int | None = None) -> Iterator[Row]:
    """One row for each case and method; one thread by default."""
    with limit_threads(n_jobs or 1):
        for case in cases(n_rhs):
            yield from _rows(case, peers)


def _rows(case: Case, peers: bool) -> Iterator[Row]:
    place, n_rhs = {"data": case.name, "problem": case.problem}, case.B.shape[1]
    product = _fastest(lambda: case.A.T @ case.B, 5)[0] / n_rhs
    yield {**place, "method": "product A'B", **_timed(product, product)}
    _ours(case.first(2))()
    seconds, X = _fastest(_ours(case), 3)
    yield {**place, "method": "residuum", **_timed(seconds / n_rhs, product)}
    best = case.objective(X)
    for name, (count, peer) in PEERS.items() if peers else ():
        few = case.first(count)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call = peer(few)
                if call is None:
                    continue
                (peer(case.first(2)) or call)()  # compile and load
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


def _timed(seconds: FloatArray, product: FloatArray) -> Row:
    processor, elapsed = (float(1e6 * each) for each in seconds)
    return {
        "us_per_rhs": processor,
        "elapsed_us_per_rhs": elapsed,
        "ratio": float(seconds[0] / product[0]),
    }
