"""Answers of the closed forms as multiples of one float64 product queries x atoms.

    OMP_NUM_THREADS=1 python benchmarks/moments.py [--atoms 60000] [--features 256] [--classes 10]

Processor time, the smallest of five runs each.
"""

from __future__ import annotations

import argparse
import time

from core import mixtures
from stored import add_option, store

from residuum import CRC, CROC, NSC, ProCRC


def smallest(function) -> float:
    times = []
    for _ in range(5):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (("atoms", 60_000), ("features", 256), ("classes", 10), ("queries", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    add_option(parser)
    args, kept = parser.parse_args(), []
    X, y = mixtures(args.atoms, args.features, args.classes, seed=1)
    Q, _ = mixtures(args.queries, args.features, args.classes, seed=2)
    product = smallest(lambda: Q @ X.T)
    print(f"float64 GEMM {args.queries} x {args.features} x {args.atoms}: {1e3 * product:.0f} ms = 1")
    for model in (NSC(), CRC(), CROC(), ProCRC()):
        model.fit(X, y)
        ratio = smallest(lambda model=model: model.predict(Q)) / product
        print(f"{type(model).__name__:8}{ratio:8.3f}")
        kept.append({"method": type(model).__name__, "ratio": ratio})
    store(args.json, {"arguments": {**vars(args), "json": None}, "rows": kept})


if __name__ == "__main__":
    main()
