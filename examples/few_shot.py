"""Few-shot classification on embeddings
=====================================

Five samples of a class are enough to know it. The file has arrays X (n_samples, n_features) and y
(n_samples,), as `residuum features FOLDER --with efficientnet_lite0` writes it. Without a file, scattering
coefficients of the digits that come with scikit-learn play the embeddings.

::

    python examples/few_shot.py [embeddings.npz]
"""

# %%
# Embeddings of a file, or scattering coefficients.

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from residuum import Scattering2D, SoftNRC

SHOTS = 5

if len(sys.argv) > 1:
    with np.load(sys.argv[1]) as file:
        X, y = file["X"], file["y"]
else:
    images, y = load_digits(return_X_y=True)
    X = Scattering2D(J=2).fit_transform(images)

# %%
# Nothing is trained on the queries, and no mean is subtracted: embeddings are coded as they are.

shuffled = np.random.default_rng(0).permutation(len(y))
X, y = X[shuffled], y[shuffled]
train = np.concatenate([np.flatnonzero(y == label)[:SHOTS] for label in np.unique(y)])
test = np.setdiff1d(np.arange(len(y)), train)

methods = {
    "SoftNRC": SoftNRC(),
    "nearest centroid": make_pipeline(Normalizer(), NearestCentroid()),
    "logistic regression": make_pipeline(Normalizer(), LogisticRegression(C=100, max_iter=1000)),
}
print(f"{len(np.unique(y))} classes, {SHOTS} samples of each, {len(test)} queries")
right = {}
for name, method in methods.items():
    right[name] = 100 * method.fit(X[train], y[train]).score(X[test], y[test])
    print(f"{name:20} {right[name]:.1f} %")

# %%
# A class that was not known is enrolled from five samples, without fitting the others again.

new = np.unique(y)[-1]
model = SoftNRC().fit(X[train][y[train] != new], y[train][y[train] != new])
model.partial_fit(X[train][y[train] == new], y[train][y[train] == new])
queries = test[y[test] == new]
print(f"class {new}, enrolled later: {100 * model.score(X[queries], y[queries]):.1f} % of its queries")

figure, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.bar_label(ax.barh(list(right), list(right.values())), fmt="%.1f", padding=3)
ax.invert_yaxis()
ax.set(title=f"Right answers with {SHOTS} samples of each class, %", xlim=(0, 112))
plt.show()
