"""Non-negative matrix factorisation by exact steps
================================================

X is split into W H with non-negative factors. When one factor is fixed, the other is a non-negative
least-squares problem with many right-hand sides, and `nnls` solves it exactly. scikit-learn's NMF takes one
sweep of coordinate descent instead, which costs less. Both start from the same factors here, on the digits
that come with scikit-learn. The problem has many local minima, so the errors may end up on either side.
Then new images are coded over fixed parts, where there is one minimum, and how far each code is above it is
known.

::

    python examples/nmf.py
"""

# %%
# Both methods, from the same start.

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from residuum import nnls

X = load_digits().data / 16  # (1797, 64)
train, new = X[:1200], X[1200:]
PARTS = 20
rng = np.random.default_rng(0)
scale = np.sqrt(train.mean() / PARTS)
W0, H0 = scale * rng.random((len(train), PARTS)), scale * rng.random((PARTS, X.shape[1]))


def exact_steps(count):
    """Factors after `count` pairs of exact steps."""
    H = H0
    for _ in range(count):
        W = nnls(H.T, train.T, dense=True, n_jobs=1).x.T
        H = nnls(W, train, dense=True, n_jobs=1).x
    return W, H


def sweeps(count):
    """Factors after `count` pairs of sweeps of coordinate descent."""
    model = NMF(PARTS, init="custom", max_iter=count, tol=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the count is what is asked for
        W = model.fit_transform(train, W=W0.copy(), H=H0.copy())
    return W, model.components_


# %%
# Errors after 5, 20 and 80 iterations.

nnls(H0.T, train[:2].T)  # compiles at the very first use
print(f"{len(train)} images of {X.shape[1]} pixels, {PARTS} parts: relative error and processor time")
print("iterations   exact steps        scikit-learn")
for count in (5, 20, 80):
    print(f"{count:10}", end="")
    for factorise in (exact_steps, sweeps):
        start = time.process_time()
        W, H = factorise(count)
        spent = 1e3 * (time.process_time() - start)
        print(f"   {np.linalg.norm(train - W @ H) / np.linalg.norm(train):.4f} {spent:6.0f} ms", end="")
    print()

# %%
# New images over fixed parts.

model = NMF(PARTS, init="custom", max_iter=1000).fit(train, W=W0.copy(), H=H0.copy())
parts = model.components_
start = time.process_time()
solution = nnls(parts.T, new.T, dense=True, n_jobs=1)
our_time = 1e3 * (time.process_time() - start)
start = time.process_time()
codes = model.transform(new)
their_time = 1e3 * (time.process_time() - start)
excess = (np.linalg.norm(new - codes @ parts, axis=1) / np.linalg.norm(new, axis=1)) ** 2
excess -= (solution.residual_norm / np.linalg.norm(new, axis=1)) ** 2
print(f"{len(new)} new images over fixed parts, squared error above the minimum in the worst image:")
print(f"nnls          {solution.gap.max():.0e} by its certificate, {our_time:.1f} ms")
print(f"scikit-learn  {excess.max():.0e} with its default tol, {their_time:.1f} ms")

# %%
# The parts.

figure, axes = plt.subplots(2, 10, figsize=(10, 2.4), layout="constrained")
figure.suptitle("Twenty parts of which the digits are sums")
for ax, part in zip(axes.flat, parts, strict=True):
    ax.imshow(part.reshape(8, 8), cmap="gray_r")
    ax.set(xticks=[], yticks=[])
plt.show()
