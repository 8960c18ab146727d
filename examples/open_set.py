"""Open set: "none of these"
=========================

Digits 0 to 6 are known, 7 to 9 are not. Which score tells a query of an unknown class? The residual of the
winner asks how well any class explains the query; the margin asks whether one class is better than the
next.

::

    python examples/open_set.py
"""

# %%
# Train on the known classes and answer all queries once.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import RocCurveDisplay, roc_auc_score

from residuum import ConfidentClassifier, SoftNRC

X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
X, y = X[shuffled], y[shuffled]
first, rest = slice(0, 600), slice(600, None)
known = y[first] < 7
model = SoftNRC().fit(X[first][known], y[first][known])
answers = model.answer(X[rest])
unknown = y[rest] >= 7

# %%
# The area under the ROC curve: 1 is perfect, 0.5 is chance.

scores = {"residual of the winner": answers.residuals.min(axis=1), "margin": -answers.margins}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for name, score in scores.items():
    print(f"{name:23} AUROC {roc_auc_score(unknown, score):.3f}")
    RocCurveDisplay.from_predictions(unknown, score, name=name, ax=left)
left.set_title("Unknown classes told by two scores")
residual = scores["residual of the winner"]
for name, chosen in {"known classes": ~unknown, "unknown classes": unknown}.items():
    right.hist(residual[chosen], bins=40, alpha=0.6, label=name)
right.set(title="Residual of the winner", xlabel="residual", ylabel="queries")
right.legend()

# %%
# `ConfidentClassifier` refuses by the margin: `predict` then answers ``reject_label_``.

sure = ConfidentClassifier(SoftNRC(), probability=False, reject_threshold=0.1).fit(
    X[first][known], y[first][known]
)
refused = sure.predict(X[rest]) == sure.reject_label_
share, mistaken = 100 * refused[unknown].mean(), 100 * refused[~unknown].mean()
print(f"refused: {share:.0f} % of unknown, {mistaken:.0f} % of known")
plt.show()
