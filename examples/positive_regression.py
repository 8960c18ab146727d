"""Regression with non-negative coefficients
=========================================

Thirty sensors, each of which can only raise a reading, explain 3,000 readings over 500 samples, some of
which count more than others. scikit-learn's LinearRegression(positive=True) solves for one reading after
the other; NonNegativeRegression finds the same coefficients for all of them in one call, with a
certificate.

::

    python examples/positive_regression.py
"""

# %%
# Many readings of few sensors.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LinearRegression

from residuum import NonNegativeRegression

rng = np.random.default_rng(0)
SAMPLES, SENSORS, TARGETS = 500, 30, 3000
X = rng.normal(size=(SAMPLES, SENSORS)) + rng.normal(size=(SAMPLES, 1))
effects = rng.random((SENSORS, TARGETS)) * (rng.random((SENSORS, TARGETS)) < 0.3)
Y = X @ effects + rng.normal(size=TARGETS) + 0.5 * rng.normal(size=(SAMPLES, TARGETS))
weights = rng.uniform(0.5, 2, SAMPLES)


def fitted(model):
    """The fitted model and the seconds of the processor."""
    start = time.process_time()
    return model.fit(X, Y, sample_weight=weights), time.process_time() - start


# %%
# The same coefficients from both.

NonNegativeRegression().fit(X, Y[:, :2])  # compiles at the very first use
ours, our_time = fitted(NonNegativeRegression(n_jobs=1))
theirs, their_time = fitted(LinearRegression(positive=True))
difference = max(abs(ours.coef_ - theirs.coef_).max(), abs(ours.intercept_ - theirs.intercept_).max())
print(f"{SAMPLES} samples, {SENSORS} features, {TARGETS} targets")
print(f"error of the coefficients: {np.sqrt(np.mean((ours.coef_ - effects.T) ** 2)):.4f}")
print(f"largest difference from scikit-learn: {difference:.0e}; largest gap {ours.gap_.max():.0e}")
print(f"processor time: {our_time:.2f} s, scikit-learn {their_time:.2f} s, ratio {their_time / our_time:.0f}")

# %%
# True and found coefficients of the first 300 readings.

figure, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
ax.plot(effects.T[:300].ravel(), ours.coef_[:300].ravel(), ".", ms=2, alpha=0.3)
ax.axline((0, 0), slope=1, color="black", linewidth=0.8)
ax.set(title="Coefficients of sensors", xlabel="true", ylabel="found")
plt.show()
