"""Non-negative matrix factorisation by alternating exact steps.

    python examples/nmf.py

X is split into W H with non-negative factors. When one factor is fixed, the other is a non-negative
least-squares problem with many right-hand sides, and `nnls` solves it exactly. scikit-learn's NMF takes one
sweep of coordinate descent instead, which costs less and gains less. Both start from the same factors here,
on the digits that come with scikit-learn. Then new images are coded over fixed parts: there, scikit-learn
stops at its tolerance, and the codes of `nnls` are certified.
"""

import time
import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from residuum import nnls

X = load_digits().data / 16  # (1797, 64)
train, new = X[:1200], X[1200:]
PARTS, STEPS, SWEEPS = 20, 40, 200
rng = np.random.default_rng(0)
scale = np.sqrt(train.mean() / PARTS)
W0, H0 = scale * rng.random((len(train), PARTS)), scale * rng.random((PARTS, X.shape[1]))


def error(X, W, H):
    """Relative error of the factorisation."""
    return np.linalg.norm(X - W @ H) / np.linalg.norm(X)


nnls(H0.T, train[:2].T)  # compiles at the very first use
start = time.process_time()
H = H0
for _ in range(STEPS):
    W = nnls(H.T, train.T, dense=True, n_jobs=1).x.T
    H = nnls(W, train, dense=True, n_jobs=1).x
our_time = time.process_time() - start

with warnings.catch_warnings():
    warnings.simplefilter("ignore", ConvergenceWarning)  # the number of sweeps is what is compared
    start = time.process_time()
    theirs = NMF(PARTS, init="custom", max_iter=SWEEPS, tol=0)
    W1 = theirs.fit_transform(train, W=W0.copy(), H=H0.copy())
    their_time = time.process_time() - start

print(f"{len(train)} images of {X.shape[1]} pixels, {PARTS} parts")
print(f"{STEPS} exact steps:          error {error(train, W, H):.5f}, {our_time:.2f} s of the processor")
print(f"{SWEEPS} sweeps of sklearn:   error {error(train, W1, theirs.components_):.5f}, {their_time:.2f} s")

parts = theirs.components_
start = time.process_time()
solution = nnls(parts.T, new.T, dense=True, n_jobs=1)
our_time = time.process_time() - start
start = time.process_time()
codes = NMF.transform(theirs.set_params(tol=1e-4), new)
their_time = time.process_time() - start
print(f"{len(new)} new images over fixed parts, sklearn's tol at its default:")
print(f"nnls     error {error(new, solution.x.T, parts):.8f}, {1e3 * our_time:.1f} ms, ", end="")
print(f"largest gap {solution.gap.max():.0e}")
print(f"sklearn  error {error(new, codes, parts):.8f}, {1e3 * their_time:.1f} ms")
