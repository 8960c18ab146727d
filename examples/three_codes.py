"""Sparse, collaborative and non-negative side by side
===================================================

One digit is coded over 200 others in three ways, as in Figure 1 of the paper. Each line is the coefficient
of one training sample; samples are sorted by class. SRC uses few of them, CRC all, and NRC those that can
be added up.

::

    python examples/three_codes.py
"""

# %%
# Twenty training samples of each digit, and one query.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import CRC, NRC, SRC, CodeDisplay

X, y = load_digits(return_X_y=True)
train = np.concatenate([np.flatnonzero(y == digit)[:20] for digit in range(10)])
query, label = X[1711], y[1711]

# %%
# `CodeDisplay` draws the code of one query. The class whose samples, with these coefficients, leave the
# smallest residual of the query wins.

methods = {"sparse (SRC)": SRC(), "collaborative (CRC)": CRC(), "non-negative (NRC)": NRC(solver="exact")}
figure, axes = plt.subplots(3, 1, figsize=(9, 7), layout="constrained", sharex=True)
for ax, (name, method) in zip(axes, methods.items(), strict=True):
    method.fit(X[train], y[train])
    CodeDisplay.from_estimator(method, query, ax=ax)
    code = method.encode(query[None])
    used, negative = (code != 0).sum(), (code < 0).sum()
    residuals = np.sort(method.residuals(query[None])[0])
    ax.set_title(f"{name} codes a {label}: {used} of {len(train)} used, {negative} negative", loc="left")
    answer = method.predict(query[None])[0]
    print(f"{name:20} says {answer}, residuals {residuals[0]:.3f} and {residuals[1]:.3f}")
plt.show()
