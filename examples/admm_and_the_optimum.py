"""ADMM against the optimum
========================

NRC as published is not the non-negative least-squares solution but what five steps of ADMM make of it,
starting from zero. Figure 2 of the paper shows the steps settling. Here the optimum is known, because
`NRC(solver="exact")` proves it, so we see how far the steps are from it, and what that does to the answers.

::

    python examples/admm_and_the_optimum.py
"""

# %%
# Thirty training samples of each digit, 300 queries.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from residuum import NRC

X, y = load_digits(return_X_y=True)
train = np.concatenate([np.flatnonzero(y == digit)[:30] for digit in range(10)])
test = np.setdiff1d(np.arange(len(y)), train)[:300]
exact = NRC(solver="exact").fit(X[train], y[train])
best = exact.encode(X[test]).toarray()

# %%
# The same queries after 1 to 500 steps: distance from the optimal code, the proved gap, and the share of
# right answers.

steps = [1, 2, 5, 10, 20, 50, 100, 200, 500]
distances, gaps, right = [], [], []
for count in steps:
    model = NRC(max_iter=count).fit(X[train], y[train])
    solution = model.solve(X[test])
    distances.append(np.median(np.abs(solution.codes - best).max(axis=1)))
    gaps.append(np.median(solution.gap))
    right.append(100 * model.score(X[test], y[test]))
    print(f"{count:4} steps: distance {distances[-1]:.4f}, gap {gaps[-1]:.1e}, {right[-1]:.1f} % right")
optimum = 100 * exact.score(X[test], y[test])
print(f"the optimum: gap below {exact.solve(X[test]).gap.max():.0e}, {optimum:.1f} % right")

# %%
# Five steps are far from the optimum. That need not be bad: a code between a collaborative and a
# non-negative one can classify better, or worse.

figure, (left, middle) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.loglog(steps, distances, "o-", label="largest difference of a coefficient")
left.loglog(steps, gaps, "s--", label="gap")
left.set(title="Distance of ADMM from the optimum", xlabel="steps")
left.legend()
middle.semilogx(steps, right, "o-", label="ADMM")
middle.axhline(optimum, color="black", linestyle=":", label="the optimum")
middle.set(title="Right answers after so many steps", xlabel="steps", ylabel="per cent")
middle.legend()
for ax in (left, middle):
    ax.axvline(5, color="grey", linewidth=0.8)
plt.show()
