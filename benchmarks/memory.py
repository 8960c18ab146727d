"""What a fit keeps and needs at its peak, and what `predict` allocates, for many training samples.

    OMP_NUM_THREADS=1 python benchmarks/memory.py [--atoms 100000 400000] [--features 256]

By `tracemalloc`, which counts the arrays of NumPy. Fits are in multiples of the float32 array of samples that
they are given, with the array itself not counted; `predict` is asked for 200 queries, in megabytes.
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc

import numpy as np
from stored import add_option, store

from residuum import CRC, NRC, NSC, ProCRC

MODELS = {"NSC": NSC, "CRC": CRC, "ProCRC": ProCRC, "NRC": NRC}


def traced(function, *arguments) -> tuple[float, float]:
    """Bytes that stay allocated after a call, and at most during it."""
    gc.collect()
    tracemalloc.start()
    kept = function(*arguments)
    gc.collect()
    now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return now, peak


def main() -> None:
    """Print one line for every classifier and size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--atoms", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--features", type=int, default=256)
    add_option(parser)
    args, rows = parser.parse_args(), []
    for n_atoms in args.atoms:
        rng = np.random.default_rng(0)
        X = rng.random((n_atoms, args.features), dtype=np.float32)
        y, queries = np.arange(n_atoms) % 10, rng.random((200, args.features), dtype=np.float32)
        for name, make in MODELS.items():
            model = make()
            kept, peak = (size / X.nbytes for size in traced(model.fit, X, y))
            model.predict(queries[:2])  # what is made once, for the first query
            extra = traced(model.predict, queries)[1] / 2**20
            print(
                f"{name:8}{n_atoms:8}  kept {kept:.2f}  peak {peak:.2f}  predict {extra:.0f} MB", flush=True
            )
            rows.append({"method": name, "atoms": n_atoms, "kept": kept, "peak": peak, "predict MB": extra})
    store(args.json, {"features": args.features, "rows": rows})


if __name__ == "__main__":
    main()
