"""Expected calibration errors of docs/data/calibration.json as bars."""

import json
from pathlib import Path

from residuum.reports.plots import COLOURS

SIZE = (7.6, 6.4)
STORED = Path(__file__).parents[1] / "data" / "calibration.json"
SHOWN = {
    "ECE t = 1": "softmax of residuals",
    "ECE ours": "ConfidentClassifier",
    "ECE sklearn": "CalibratedClassifierCV",
}


def draw(figure):
    rows = json.loads(STORED.read_text())["rows"]
    axis = figure.subplots()
    for k, ((key, name), colour) in enumerate(zip(SHOWN.items(), COLOURS)):
        bars = axis.barh(
            [i + 0.27 * k for i in range(len(rows))], [row[key] for row in rows], 0.25, color=colour
        )
        bars.set_label(name)
        axis.bar_label(bars, fmt="%.3f", padding=2, fontsize=7)
    names = [row["classifier"].replace(", ", ",\n").replace("(rule", "(\nrule") for row in rows]
    axis.set_yticks([i + 0.27 for i in range(len(rows))], names)
    axis.invert_yaxis()
    axis.set_xlabel("expected calibration error")
    axis.set_xlim(right=0.9)
    figure.legend(frameon=False, loc="outside upper center", ncols=3)
    worst = max(row["ECE ours"] for row in rows)
    return f"Bars for {len(rows)} classifiers; the largest error of ConfidentClassifier is {worst:.3f}."
