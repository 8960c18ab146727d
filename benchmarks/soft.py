"""Soft non-negative coding in units of one float64 GEMM queries x atoms of the same run.

    python benchmarks/soft.py [--queries 2000] [--atoms 3000] [--features 500] [--jobs 2] [--repeat 3]

Real digits are used when RESIDUUM_DATA names a folder with MNIST: 300 per class by uncentred PCA, or all of
them when more atoms are asked for.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from residuum.dictionary import Dictionary
from residuum.experiments.benchmark import mnist
from residuum.problem import CodingProblem
from residuum.solvers import Newton


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def data_sets(n_atoms: int, n_queries: int, n_features: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    digits = mnist(300 if n_atoms <= 3000 else None, n_queries, n_features)
    if digits is None:
        print("mnist skipped: RESIDUUM_DATA names no folder with it")
    else:
        yield "mnist", digits[0][:n_atoms], digits[1]
    rng = np.random.default_rng(0)
    parts = rng.random((60, n_features)) * (rng.random((60, n_features)) < 0.2)
    rows = rng.gamma(0.3, size=(n_atoms + n_queries, 60)) @ parts
    rows = unit(rows + 0.05 * rng.random(rows.shape))
    yield "mixture", rows[:n_atoms], rows[n_atoms:]
    rows = unit(rng.standard_normal((n_atoms + n_queries, n_features)))
    yield "gaussian", rows[:n_atoms], rows[n_atoms:]


def fastest(call: Callable[[], object], repeat: int) -> float:
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure(name: str, atoms: np.ndarray, queries: np.ndarray, jobs: int, repeat: int) -> None:
    """Print a row per precision and tolerance; solver and GEMM alternate to meet the same load."""
    classes = np.array([0, len(atoms)]), np.arange(len(atoms))
    for dtype, tol in [("float64", 1e-10), ("float64", 1e-6), ("float32", 1e-6)]:
        dictionary = Dictionary(atoms.astype(dtype), *classes)
        solver = Newton(CodingProblem(l2=0.01, neg_weight=1.0), dictionary, tol=tol, n_jobs=jobs)
        setup = fastest(solver.prepare, 1)
        solver.solve(queries[:4].astype(dtype))  # compiles on first use
        call = partial(solver.solve, queries.astype(dtype))
        gemm = seconds = np.inf
        for _ in range(repeat):
            with threadpool_limits(jobs):
                gemm = min(gemm, fastest(partial(np.matmul, queries, atoms.T), 5))
            seconds = min(seconds, fastest(call, 1))
        solution = call()
        print(
            f"{name:9} {dtype:8} {tol:7.0e} {seconds / gemm:7.1f} {1e3 * seconds / len(queries):9.3f} "
            f"{solution.gap.max():8.1e} {solution.violation.max():9.1e} {setup / gemm:8.1f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in [("queries", 2000), ("atoms", 3000), ("features", 500), ("jobs", 2), ("repeat", 3)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    print("data      type         tol   GEMMs  ms/query      gap violation  prepare")
    for name, atoms, queries in data_sets(args.atoms, args.queries, args.features):
        measure(name, atoms, queries, args.jobs, args.repeat)


if __name__ == "__main__":
    main()
