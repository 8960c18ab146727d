"""docs/serve.md: runs of benchmarks/serve.py."""

from __future__ import annotations

from stored_figures.runs import origin, paragraph, stored, table

NAMES = ("mnist", "digits", "digits_16_rows", "crc")


def serve_speed() -> str:
    runs = [stored(f"serve_{name}") for name in NAMES]
    assert not any(run["errors"] for run in runs)
    rows = []
    for run in runs:
        asked = "one query" if run["rows"] == 1 else f"{run['rows']} queries"
        memory = run["memory MB after each tenth"]
        rows.append(
            [
                f"{run['method']}, {run['data']}, {run['atoms']:,} atoms",
                f"{run['requests']:,} of {asked}",
                f"{run['of bare, processor time']:.2f}",
                f"{run['of bare, wall time']:.2f}",
                f"{run['processor ms per query']:.2f}",
                f"{run['median latency ms']:.0f}",
                f"{min(memory):.0f} to {max(memory):.0f}",
            ]
        )
    heads = ["", "requests", "of bare, processor time", "of bare, wall time", "ms of processor per query"]
    heads += ["median latency, ms", "memory, MB"]
    cheap = runs[-1]
    http = cheap["processor ms per query"] - cheap["bare processor ms per query"]
    told = paragraph(
        f"No request failed. HTTP and JSON take some {http:.1f} ms of processor time for a request: that is",
        f"what {cheap['method']} takes beyond its {cheap['bare processor ms per query']:.3f} ms.",
    )
    return "\n\n".join([table(heads, rows), told, *map(origin, runs)])
