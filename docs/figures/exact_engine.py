"""Rows of a stored `residuum bench --shape wide --json` as bars: time per query, the bare product = 1."""

import json
from pathlib import Path

from residuum.reports.plots import COLOURS

SIZE = (9.0, 4.2)
STORED = Path(__file__).parents[1] / "data" / "bench_wide.json"
PLACE = ("MNIST 300 per class", "nonnegative")


def draw(figure):
    stored = json.loads(STORED.read_text())
    rows = [row for row in stored["rows"] if (row["data"], row["problem"]) == PLACE and "ratio" in row]
    rows = sorted((row for row in rows if "prepare" not in row["method"]), key=lambda row: row["ratio"])
    axis = figure.subplots()
    colours = [COLOURS[0] if row["method"].startswith("residuum") else COLOURS[7] for row in rows]
    bars = axis.barh([row["method"] for row in rows], [row["ratio"] for row in rows], color=colours)
    axis.bar_label(bars, fmt=lambda ratio: f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}", padding=3)
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_xlabel(
        f"time per query, product = 1 ({stored['machine']['cpu']}, {stored['machine']['cores']} cores)"
    )
    return "Time per query: " + ", ".join(f"{row['method']} {row['ratio']:.3g}" for row in rows) + "."
