"""Cell types in the spots of a tissue slide
=========================================

Each spot of a spatial transcriptomics slide covers a few cells. Its gene counts are, up to Poisson noise, a
non-negative combination of the mean profiles of the cell types, known from single cells. Genes with large
counts are noisier, so the squared residual of a gene is divided by its mean count. SciPy solves the same
problems one spot at a time; it is timed on the first 100 of 5,000.

::

    python examples/cell_types.py
"""

# %%
# Profiles of 20 types, and 5,000 spots of eight cells each.

import time

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

from residuum import least_squares

rng = np.random.default_rng(0)
GENES, TYPES, SPOTS, LOOPED = 2000, 20, 5000, 100
profiles = rng.lognormal(0, 1, (GENES, 1)) * rng.lognormal(0, 0.7, (GENES, TYPES))
profiles /= profiles.sum(axis=0)  # of each type's counts
cells = rng.multinomial(8, rng.dirichlet(np.full(TYPES, 0.2), SPOTS)).T  # (types, spots)
counts = rng.poisson(profiles @ cells * 600.0).astype(float)

# %%
# All spots in one call, and SciPy one spot at a time.

weights = 1 / np.maximum(counts.mean(axis=1), 0.01)
least_squares(profiles, counts[:, :2], weights=weights)  # compiles at the very first use
start = time.process_time()
solution = least_squares(profiles, counts, weights=weights)
spent = (time.process_time() - start) / SPOTS

root = np.sqrt(weights)[:, None]
A, B = root * profiles, np.asfortranarray(root * counts[:, :LOOPED])
start = time.process_time()
looped = np.column_stack([scipy.optimize.nnls(A, b)[0] for b in B.T])
looped_time = (time.process_time() - start) / LOOPED

shares = solution.x / solution.x.sum(axis=0)
error = np.sqrt(np.mean((shares - cells / 8) ** 2))
main = np.mean(cells[shares.argmax(axis=0), np.arange(SPOTS)] == cells.max(axis=0))
print(f"{SPOTS} spots, {GENES} genes, {TYPES} cell types, {counts.sum(axis=0).mean():.0f} counts in a spot")
print(f"error of the shares: {error:.3f}; the most frequent type is found in {100 * main:.1f} % of the spots")
print(f"certified: {solution.converged.all()}, largest gap {solution.gap.max():.0e}")
difference = abs(solution.x[:, :LOOPED] - looped).max() / looped.max()
print(f"largest relative difference from SciPy: {difference:.0e}")
print(f"processor time for a spot: {1e6 * spent:.0f} microseconds, SciPy {1e6 * looped_time:.0f}, ", end="")
print(f"ratio {looped_time / spent:.0f}")

# %%
# True and found shares of every type in every spot.

figure, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
ax.plot(cells.ravel() / 8 + rng.uniform(-0.04, 0.04, cells.size), shares.ravel(), ".", ms=1, alpha=0.3)
ax.axline((0, 0), slope=1, color="black", linewidth=0.8)
ax.set(title="Shares of cell types in spots", xlabel="true share (scattered a little)", ylabel="found share")
plt.show()
