"""Digits: all classifiers with few samples
========================================

How many samples of a class are needed? Every method with its default parameters on the digits that come
with scikit-learn, with 2 to 50 training samples of each digit.

::

    python examples/digits.py
"""

# %%
# `METHODS` is the list of all classifiers. NSC gets a larger ridge: with as many samples as pixels, a
# class could otherwise rebuild every query.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import CRC, NRC, NSC, SRC, ProCRC, SoftNRC

X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
X, y = X[shuffled], y[shuffled]
test = slice(1000, None)
methods = {
    "NSC": NSC(l2=0.1),
    "SRC": SRC(),
    "CRC": CRC(),
    "ProCRC": ProCRC(),
    "NRC": NRC(),
    "SoftNRC": SoftNRC(),
}
counts = [2, 5, 10, 20, 50]

# %%
# Accuracy on the same 797 queries.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
print("samples", *(f"{name:>8}" for name in methods))
scores = {name: [] for name in methods}
for count in counts:
    train = np.concatenate([np.flatnonzero(y[:1000] == digit)[:count] for digit in range(10)])
    for name, method in methods.items():
        scores[name].append(100 * method.fit(X[train], y[train]).score(X[test], y[test]))
    print(f"{count:7}", *(f"{scores[name][-1]:8.1f}" for name in methods))
for name, values in scores.items():
    ax.semilogx(counts, values, "o-", label=name)
ax.set_xticks(counts, counts)
ax.minorticks_off()
ax.set(title="Right answers with few training samples", xlabel="samples of each digit", ylabel="per cent")
ax.legend()
plt.show()
