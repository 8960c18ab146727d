"""Exact non-negative codes over many atoms, in products of all queries with all atoms, by processor time.

    OMP_NUM_THREADS=1 RESIDUUM_DATA=folder python benchmarks/wide_bars.py [--large]

3,000 atoms of 500 features, mixtures of parts and MNIST, 2,000 queries; SPAMS, where it is installed, codes
the first 400 of them. With --large all 60,000 samples of MNIST, without a Gram matrix, 480 queries. The sides
take turns, and the fastest of their rounds counts, so that a busy machine matters less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

from stored import add_option, store

from residuum.experiments.benchmark import _spams, mixture_of_parts, mnist
from residuum.solvers.active_set import prepare_atoms, solve_active_set

ROUNDS, FEW = 3, 400


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a call, and what it returned."""
    begun = time.process_time()
    found = call()
    return time.process_time() - begun, found


def report(name: str, atoms: Any, queries: Any, large: bool) -> dict[str, Any]:
    """One line: milliseconds for each query, and multiples of the product; the same as figures."""
    prepared = prepare_atoms(atoms, build_gram=not large)
    sides: dict[str, tuple[int, Callable[[], Any]]] = {
        "product": (len(queries), lambda: queries @ atoms.T),
        "residuum": (len(queries), lambda: solve_active_set(prepared, queries)),
    }
    if not large:
        try:
            sides["SPAMS"] = (FEW, _spams(atoms, queries[:FEW], 0.0))
        except ImportError:
            print("SPAMS is not installed.")
    solve_active_set(prepared, queries[:48])  # compiles
    best, solution = dict.fromkeys(sides, float("inf")), None
    for _ in range(ROUNDS):
        for side, (count, call) in sides.items():
            taken, found = seconds(call)
            best[side] = min(best[side], taken / count)
            solution = found if side == "residuum" else solution
    each = ", ".join(f"{side} {1e3 * t:.3g} ms ({t / best['product']:.3g})" for side, t in best.items())
    print(f"{name}, {len(atoms)} atoms of {atoms.shape[1]} features: {each}; {solution}", flush=True)
    assert solution is not None
    figures = {"data": name, "atoms": len(atoms), "features": atoms.shape[1], "queries": len(queries)}
    figures |= {"gap": float(solution.gap.max()), "converged": int(solution.converged.sum())}
    return figures | {"ms": {side: 1e3 * t for side, t in best.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--large", action="store_true", help="all samples of MNIST")
    add_option(parser)
    args, rows = parser.parse_args(), []
    if not args.large:
        rows.append(report("mixtures of parts", *mixture_of_parts(3000, 2000), args.large))
    images = mnist(None, 480) if args.large else mnist(300, 2000)
    if images is not None:
        rows.append(report("MNIST", *images, args.large))
    store(args.json, {"rows": rows})


if __name__ == "__main__":
    main()
