"""Why did it say that?
====================

Every answer rests on training samples, so it can be shown. The query that a classifier is least sure about,
and the samples that it saw in it.

::

    python examples/explanation.py
"""

# %%
# The most doubtful wrong answer of SoftNRC on digits.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import SoftNRC

X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
X, y = X[shuffled], y[shuffled]
model = SoftNRC().fit(X[:300], y[:300])
answers = model.answer(X[300:])
wrong = np.flatnonzero(answers.labels != y[300:])
query = 300 + wrong[np.argmin(answers.margins[wrong])]
why = model.explain(X[query], max_atoms=10)
print(why)
print(f"a {y[query]}, taken for a {why.label}; the runner-up is {why.runner_up}, {why.margin:.3f} behind")

# %%
# `plot` draws the residuals of the classes beside the coefficients of the samples.

axes = why.plot()
plt.show()

# %%
# The query, the samples with the largest shares, and what they make together.

best = sorted(why.atoms, key=lambda atom: -atom.share)[:4]
figure, axes = plt.subplots(1, 6, figsize=(10, 2.2), layout="constrained")
titles = [f"query, a {y[query]}", *(f"{100 * a.share:.0f} %, a {a.label}" for a in best), "all together"]
pictures = [X[query], *(X[atom.sample] for atom in best), model.reconstruct(X[[query]])[0]]
for ax, title, picture in zip(axes, titles, pictures, strict=True):
    ax.imshow(picture.reshape(8, 8), cmap="gray_r")
    ax.set(title=title, xticks=[], yticks=[])
plt.show()
