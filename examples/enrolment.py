"""A class that joins later
========================

A door knows nine people; the tenth joins with one picture, then with more. `partial_fit` enrols them;
the pictures of the others are not needed again. `forget` removes a person. Digits play the people.

::

    python examples/enrolment.py
"""

# %%
# Fit nine classes, ten samples of each.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import SoftNRC

X, y = load_digits(return_X_y=True)
shuffled = np.random.default_rng(0).permutation(len(y))
X, y = X[shuffled], y[shuffled]
train = np.concatenate([np.flatnonzero(y == digit)[:10] for digit in range(10)])
test = np.setdiff1d(np.arange(len(y)), train)
new = 4
old = y[train] != new
model = SoftNRC().fit(X[train][old], y[train][old])

# %%
# Enrol the samples of the new class one by one.

counts, own, others = [], [], []
is_new = y[test] == new
for number, sample in enumerate(X[train][~old], start=1):
    model.partial_fit(sample[None], [new])
    if number in (1, 2, 3, 5, 7, 10):
        answers = model.predict(X[test])
        counts.append(number)
        own.append(100 * np.mean(answers[is_new] == new))
        others.append(100 * np.mean(answers[~is_new] == y[test][~is_new]))
        print(f"{number:2} samples: {own[-1]:.1f} % of the new class, {others[-1]:.1f} % of the others")

# %%
# The result is that of a fit to all samples.

again = SoftNRC().fit(X[train], y[train])
print("as a fit to all:", np.array_equal(model.predict(X[test]), again.predict(X[test])))
print("after forget:", model.forget(labels=[new]).classes_)
figure, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.semilogx(counts, own, "o-", label="the new class")
ax.semilogx(counts, others, "s--", label="the nine others")
ax.set_xticks(counts, counts)
ax.minorticks_off()
ax.set(title="Right answers while a class is enrolled", xlabel="its samples so far", ylabel="per cent")
ax.legend()
plt.show()
