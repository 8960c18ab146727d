"""Processor time of answering queries as samples, features, queries and classes grow, measured here."""

import time

import numpy as np

from residuum import CRC, NRC, SoftNRC
from residuum.reports.plots import COLOURS

SIZE = (9.0, 5.6)
MODELS = {"CRC": CRC(), "NRC, five steps": NRC(), "NRC, exact": NRC(solver="exact"), "SoftNRC": SoftNRC()}
USUAL = {"training samples": 600, "features": 60, "queries": 60, "classes": 10}
GROWING = {
    "training samples": (300, 600, 1200, 2400),
    "features": (30, 60, 120, 240),
    "queries": (30, 60, 120, 240),
    "classes": (5, 10, 20, 40),
}


def seconds(model, sizes):
    """Processor time of one call of predict."""
    rng = np.random.default_rng(0)
    parts = rng.random((40, sizes["features"])) ** 4
    count = sizes["training samples"]

    def sample(n):
        return (rng.random((n, 40)) ** 8) @ parts + 0.05 * rng.random((n, sizes["features"]))

    model.fit(sample(count), np.arange(count) % sizes["classes"])
    queries = sample(sizes["queries"])
    model.predict(queries[:2])
    start = time.process_time()
    model.predict(queries)
    return time.process_time() - start


def draw(figure):
    unit = seconds(MODELS["CRC"], USUAL)
    said = []
    for axis, (what, values) in zip(figure.subplots(2, 2, sharey=True).flat, GROWING.items(), strict=True):
        grown = []
        for colour, (name, model) in zip(COLOURS, MODELS.items(), strict=False):
            times = [seconds(model, USUAL | {what: value}) / unit for value in values]
            axis.loglog(values, times, "o-", color=colour, label=name)
            grown.append(f"{name} {times[-1] / times[0]:.1f}")
        axis.set_xticks(values, [f"{value:,}" for value in values])
        axis.minorticks_off()
        axis.set_xlabel(what)
        axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        said.append(f"eight times as many {what}: {', '.join(grown)}")
    figure.supylabel("time, CRC with the usual sizes = 1", fontsize=10)
    handles, names = axis.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=len(names), frameon=False)
    return "Time of answering queries. Growth with " + "; ".join(said) + "."
