"""Processor time of a query against the number of training samples, for several classifiers."""

import time

import numpy as np

from residuum import CRC, NRC, SRC, SoftNRC
from residuum.reports.plots import COLOURS

SIZE = (9.0, 3.6)
MODELS = {
    "CRC": CRC(),
    "NRC, five steps": NRC(),
    "NRC, exact": NRC(solver="exact"),
    "SoftNRC": SoftNRC(),
    "SRC": SRC(l1=0.1),
}


def draw(figure):
    rng = np.random.default_rng(0)
    parts, sizes = rng.random((40, 100)) ** 4, (250, 500, 1000, 2000)

    def sample(count):
        return (rng.random((count, 40)) ** 8) @ parts + 0.05 * rng.random((count, 100))

    X, y, queries = sample(max(sizes)), np.arange(max(sizes)) % 10, sample(100)
    times = {}
    for name, model in MODELS.items():
        for size in sizes:
            model.fit(X[:size], y[:size]).predict(queries[:4])
            start = time.process_time()
            model.predict(queries)
            times[name, size] = time.process_time() - start
    unit = times["CRC", sizes[0]]
    axis = figure.subplots()
    for colour, name in zip(COLOURS, MODELS, strict=False):
        axis.loglog(sizes, [times[name, size] / unit for size in sizes], "o-", color=colour, label=name)
    axis.set(xlabel="training samples", ylabel="time of a query")
    axis.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axis.minorticks_off()
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    grown = ", ".join(f"{name} {times[name, sizes[-1]] / times[name, sizes[0]]:.1f}" for name in MODELS)
    return f"Time per query for {sizes[0]} to {sizes[-1]} samples of 100 features; growth: {grown}."
