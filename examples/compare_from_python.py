"""`residuum compare` from Python
==============================

The command compares all methods with linear SVM, softmax, nearest neighbours and gradient boosting, and
writes a folder with every raw prediction. This script calls it as a shell would, and reads what it wrote.

::

    python examples/compare_from_python.py
"""

# %%
# One split with ten training samples of each digit, a few methods.

import json
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

from residuum.cli.main import main

with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "run"
    words = ["compare", "--trials", "1", "--train-per-class", "10", "--methods", "CRC,NRC,SoftNRC,SVM,kNN"]
    code = main([*words, "--out", str(run), "--n-jobs", "1"])
    results = json.loads((run / "results.json").read_text())
print("exit code", code)

# %%
# `results.json` has a summary, the machine, and every cell with its answers. `report.html` shows the same
# as a page.

print("kept:", ", ".join(results))
rows = results["summary"]
figure, ax = plt.subplots(figsize=(7, 3), layout="constrained")
bars = ax.barh([row["method"] for row in rows], [100 * row["accuracy_mean"] for row in rows])
ax.bar_label(bars, fmt="%.1f", padding=3)
ax.invert_yaxis()
ax.set(title="Right answers with ten samples of each digit, %", xlim=(0, 110))
plt.show()
