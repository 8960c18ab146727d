"""Print the exact engine against its peers: ``python benchmarks/exact.py [--large] [--no-peers]``."""

from __future__ import annotations

import sys

from residuum.benchmark import exact_benchmark, machine


def main(arguments: list[str]) -> None:
    print(machine())
    for row in exact_benchmark(peers="--no-peers" not in arguments, large="--large" in arguments):
        label = f"{row['data']:20} {row['problem']:12} {row['method']:26}"
        if row.get("ms_per_query") is None:
            print(label, row["status"], flush=True)
            continue
        extra = {key: row[key] for key in ("violation", "gap", "converged", "support") if key in row}
        print(
            f"{label} {row['ms_per_query']:10.4f} ms/query {row['ratio']:10.2f} GEMM", extra or "", flush=True
        )


if __name__ == "__main__":
    main(sys.argv[1:])
