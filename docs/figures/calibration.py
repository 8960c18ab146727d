"""Expected calibration errors of docs/data/calibration.json as bars."""

import json
from pathlib import Path

from residuum.reports.plots import COLOURS

SIZE = (9.0, 4.0)
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
    axis.set_yticks([i + 0.27 for i in range(len(rows))], [row["classifier"] for row in rows])
    axis.invert_yaxis()
    axis.set_xlabel("expected calibration error")
    axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    worst = max(row["ECE ours"] for row in rows)
    return f"Bars for {len(rows)} classifiers; the largest error of ConfidentClassifier is {worst:.3f}."
