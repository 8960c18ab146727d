"""Processor time of `predict` as multiples of one float64 product queries x atoms, in one run.

    OMP_NUM_THREADS=1 python benchmarks/core.py [--features 500] [--atoms 3000] [--queries 2000] [--repeats 5]

Non-negative mixtures of sparse parts stand in for images. Ratios are the smallest over the repeats, so a busy
machine disturbs them little. Memory is what `predict` allocates beyond its inputs.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings

import numpy as np
from stored import add_option, store
from threadpoolctl import threadpool_limits

from residuum import CRC, CROC, NRC, NSC, ProCRC, SoftNRC


def mixtures(n_samples: int, n_features: int, n_classes: int, seed: int):
    """Samples of each class are non-negative mixtures of the parts of that class, plus noise."""
    parts = np.random.default_rng(0)
    bank = parts.exponential(size=(n_classes, 20, n_features)) * (
        parts.random((n_classes, 20, n_features)) < 0.2
    )
    rng = np.random.default_rng(seed)
    labels = np.arange(n_samples) % n_classes
    weights = rng.exponential(size=(n_samples, 20)) ** 2
    samples = np.einsum("ip,ipf->if", weights, bank[labels])
    return samples + 0.1 * np.abs(rng.normal(size=samples.shape)) * samples.mean(), labels


def smallest(function, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def extra_memory(function) -> float:
    tracemalloc.start()
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (
        ("features", 500),
        ("atoms", 3000),
        ("queries", 2000),
        ("repeats", 5),
        ("threads", 1),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    add_option(parser)
    args, kept = parser.parse_args(), []
    X, y = mixtures(args.atoms, args.features, 10, seed=1)
    Q, truth = mixtures(args.queries, args.features, 10, seed=2)
    methods = {
        "NSC": NSC(),
        "CRC": CRC(),
        "CROC": CROC(),
        "ProCRC": ProCRC(),
        "NRC (ADMM, T=5)": NRC(),
        "SoftNRC (gap 1e-6)": SoftNRC(tol=1e-6),
        "SoftNRC (gap 1e-10)": SoftNRC(tol=1e-10),
    }
    warnings.simplefilter("ignore")
    with threadpool_limits(args.threads):
        gemm = smallest(lambda: Q @ X.T, 3 * args.repeats)
        print(f"float64 GEMM {args.queries} x {args.features} x {args.atoms}: {1e3 * gemm:.1f} ms = 1")
        print(f"{'method':22} {'float64':>8} {'float32':>8} {'speed-up':>8} {'MiB':>7} {'accuracy':>9}")
        for name, method in methods.items():
            row = []
            for dtype in (np.float64, np.float32):
                fitted, queries = method.fit(X.astype(dtype), y), Q.astype(dtype)
                fitted.predict(queries[:100])  # compile and warm up
                row.append(smallest(lambda f=fitted, q=queries: f.predict(q), args.repeats))
                gemm = min(gemm, smallest(lambda: Q @ X.T, args.repeats))
            fitted = method.fit(X, y)
            memory = extra_memory(lambda f=fitted: f.predict(Q))
            accuracy = np.mean(fitted.predict(Q) == truth)
            print(
                f"{name:22} {row[0] / gemm:8.1f} {row[1] / gemm:8.1f} {row[0] / row[1]:8.2f}"
                f" {memory:7.0f} {accuracy:9.3f}",
                flush=True,
            )
            ratios = {"float64": row[0] / gemm, "float32": row[1] / gemm}
            kept.append({"method": name, **ratios, "MiB": memory, "accuracy": float(accuracy)})
    store(args.json, {"arguments": {**vars(args), "json": None}, "rows": kept})


if __name__ == "__main__":
    main()
