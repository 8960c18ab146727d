"""``residuum bench``: exact solvers against their peers and the bare matrix product, in one run."""

from __future__ import annotations

import json
import sys
from itertools import chain
from typing import Any

import click


@click.command()
@click.option("--quick", is_flag=True, help="Fewer queries: a first look in under a minute.")
@click.option("--large", is_flag=True, help="Also all 60,000 MNIST samples as atoms (needs RESIDUUM_DATA).")
@click.option(
    "--shape",
    type=click.Choice(["wide", "tall", "all"]),
    default="all",
    show_default=True,
    help="Wide: many atoms, as in classifiers. Tall: few columns and many right-hand sides; one thread "
    "unless --n-jobs says more.",
)
@click.option("--no-peers", is_flag=True, help="Leave out the other packages.")
@click.option(
    "--l1",
    type=click.FloatRange(min=0, min_open=True),
    default=0.01,
    show_default=True,
    help="Weight of the 1-norm of the lasso rows.",
)
@click.option("--n-jobs", type=int, help="Threads; -1 is all cores.  [default: as the libraries choose]")
@click.option("--json", "as_json", is_flag=True, help="Print rows and machine facts as JSON.")
def bench(
    quick: bool, large: bool, shape: str, no_peers: bool, l1: float, n_jobs: int | None, as_json: bool
) -> None:
    """Time exact coding of many queries as multiples of one float64 product queries x atoms.

    Tall shapes are least squares for many right-hand sides: non-negative, with a sum, with Tikhonov.

    Everything runs in this one process, so the ratios mean something on a busy machine too. Peers that are
    not installed are named and skipped.
    """
    from residuum.experiments.benchmark import exact_benchmark
    from residuum.experiments.tall_benchmark import tall_benchmark
    from residuum.reports.table import print_table
    from residuum.system.machine import machine_facts
    from residuum.system.threads import limit_threads

    with limit_threads(n_jobs):
        machine = machine_facts()
        rows, runs = [], []
        if shape != "tall":
            runs.append(
                exact_benchmark(peers=not no_peers, large=large, l1=l1, n_queries=400 if quick else 2000)
            )
        if shape != "wide":
            runs.append(tall_benchmark(peers=not no_peers, n_rhs=2000 if quick else 20_000, n_jobs=n_jobs))
        for row in chain.from_iterable(runs):
            rows.append(row)
            click.echo(f"{row['data']}, {row['problem']}: {row['method']}", err=True)
    if as_json:
        click.echo(json.dumps({"machine": machine, "l1": l1, "rows": rows}, indent=2))
        return
    for place in dict.fromkeys((row["data"], row["problem"]) for row in rows):
        own = [row for row in rows if (row["data"], row["problem"]) == place]
        print_table(_table(": ".join(place), own, machine), sys.stdout)


def _table(title: str, rows: list[dict[str, Any]], machine: dict[str, Any]) -> Any:
    from residuum.reports.numbers import scientific, significant
    from residuum.reports.table import Table

    timed = [row for row in rows if "status" not in row]
    if any("us_per_rhs" in row for row in timed):
        heads: tuple[str, ...] = (
            "Method",
            "µs of the processor",
            "µs that went by",
            "Product = 1",
            "Objective above the best",
        )
        lines: list[tuple[str, ...]] = [
            (
                row["method"],
                significant(row["us_per_rhs"]),
                significant(row["elapsed_us_per_rhs"]),
                significant(row["ratio"]),
                scientific(row.get("excess")),
            )
            for row in timed
        ]
    else:
        heads = ("Method", "ms per query", "GEMM = 1", "Support", "Violation", "Gap")
        lines = [
            (
                row["method"],
                significant(row["ms_per_query"]),
                significant(row["ratio"]),
                significant(row["support"]) if "support" in row else "",
                scientific(row.get("violation")),
                scientific(row.get("gap")),
            )
            for row in timed
        ]
    skipped = [f"{row['method']}: {row['status']}" for row in rows if "status" in row]
    return Table(title, heads, tuple(lines), notes=(*skipped, f"{machine['cpu']}, {machine['cores']} cores."))
