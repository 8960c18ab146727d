"""Cross-validation: the whole continuum at once
=============================================

`SoftNRCCV` chooses the ridge and the price of negative coefficients, from collaborative (0) to non-negative
(infinity). Its scores are those of GridSearchCV; its candidates share their work.

::

    python examples/cross_validation.py
"""

# %%
# Twenty samples of each digit to choose from.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import SoftNRC, SoftNRCCV

X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
X, y = X[shuffled], y[shuffled]
train = np.concatenate([np.flatnonzero(y == digit)[:20] for digit in range(10)])
test = np.setdiff1d(np.arange(len(y)), train)
l2s, neg_weights = [1e-3, 1e-2, 1e-1, 1.0], [0.0, 0.1, 1.0, np.inf]
search = SoftNRCCV(l2s=l2s, neg_weights=neg_weights, rules=["residual"]).fit(X[train], y[train])
print("chosen:", search.best_params_)
print(f"{100 * search.score(X[test], y[test]):.1f} % of the other digits are right, ", end="")
print(f"{100 * SoftNRC().fit(X[train], y[train]).score(X[test], y[test]):.1f} % with the defaults")

# %%
# The scores of all candidates are in `cv_results_`, with the keys of GridSearchCV.

grid = np.empty((len(l2s), len(neg_weights)))
for setting, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
    grid[l2s.index(setting["l2"]), neg_weights.index(setting["neg_weight"])] = 100 * score
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
picture = ax.imshow(grid, cmap="viridis")
for (row, column), score in np.ndenumerate(grid):
    ax.text(
        column,
        row,
        f"{score:.1f}",
        ha="center",
        va="center",
        color="white" if score < grid.mean() else "black",
    )
ax.set_xticks(range(4), ["0 (CRC)", "0.1", "1", "inf (NRC)"])
ax.set_yticks(range(4), l2s)
ax.set(title="Score of each candidate in five folds, %", xlabel="neg_weight", ylabel="l2")
plt.show()
