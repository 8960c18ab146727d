"""T2 distributions and myelin water
=================================

The signal of 32 spin echoes is a sum of decays exp(-t / T2). How much there is of each of 60 times is a
non-negative least-squares problem that noise makes unstable, so a Tikhonov penalty on the second
differences keeps distributions smooth. The weight is the largest that raises the squared residual by at
most 2 %, a common choice in this field, here one weight for the whole slice. Water with T2 below 40 ms is
that of myelin.

::

    python examples/t2_distribution.py [--out myelin.png]
"""

# %%
# A slice of 48 x 48 voxels with a true distribution in each.

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from residuum import Tikhonov, least_squares

parser = argparse.ArgumentParser()
parser.add_argument("--out", help="write a picture of the fractions and of one distribution")
out = parser.parse_args().out

rng = np.random.default_rng(0)
SIDE = 48
echoes = 10.0 * np.arange(1, 33)  # ms
times = np.geomspace(10, 2000, 60)  # ms
decays = np.exp(-echoes[:, None] / times)  # (32, 60)
field = gaussian_filter(rng.normal(size=(2, SIDE, SIDE)), (0, 4, 4)).reshape(2, -1)
field /= abs(field).max(axis=1, keepdims=True)
fraction = 0.15 + 0.1 * field[0]  # of myelin water
peaks = np.stack([np.full(SIDE**2, 20.0), 80 + 15 * field[1]])  # ms
spread = np.exp(-0.5 * (np.log(times[:, None] / peaks[:, None]) / 0.15) ** 2)  # (2, 60, voxels)
spread /= spread.sum(axis=1, keepdims=True)
truth = fraction * spread[0] + (1 - fraction) * spread[1]
signal = decays @ truth
signal += 0.005 * rng.normal(size=signal.shape)  # 1 / 200 of the water


def myelin(found):
    """Fraction of the water whose T2 is below 40 ms."""
    return found[times < 40].sum(axis=0) / found.sum(axis=0)


def error(found):
    """Root mean square error of the fraction of myelin water."""
    return np.sqrt(np.mean((myelin(found) - myelin(truth)) ** 2))


# %%
# The penalty, and the search for its weight.

second = np.diff(np.eye(60), 2, axis=0)
least_squares(decays, signal[:, :2], l2=Tikhonov(1.0, second))  # compiles at the very first use
# A trace of the penalty makes the problem without it well posed.
rough = least_squares(decays, signal, l2=Tikhonov(1e-6, second))
allowed = 1.02 * np.sum(rough.residual_norm**2)
start, tried = time.process_time(), 0
for l2 in np.geomspace(10, 1e-4, 21):
    solution = least_squares(decays, signal, l2=Tikhonov(l2, second))
    tried += 1
    if np.sum(solution.residual_norm**2) <= allowed:
        break
spent = time.process_time() - start

print(f"{SIDE**2} voxels, {len(echoes)} echoes, {len(times)} times; weight {l2:.1e} after {tried} tries")
print(f"error of the myelin water fraction: {error(solution.x):.4f}; almost no penalty {error(rough.x):.4f}")
print(f"certified: {solution.converged.all()}, largest gap {solution.gap.max():.0e}")
print(f"{1e6 * spent / tried / SIDE**2:.0f} microseconds of the processor for a voxel and a weight")

# %%
# The fraction in every voxel, and one distribution.

figure, axes = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
for ax, name, found in zip(axes, ("true", "found"), (truth, solution.x), strict=False):
    picture = ax.imshow(myelin(found).reshape(SIDE, SIDE), vmin=0, vmax=0.3)
    ax.set(title=f"myelin water, {name}", xticks=[], yticks=[])
figure.colorbar(picture, ax=axes[:2])
for name, found in (("true", truth), ("found", solution.x), ("almost no penalty", rough.x)):
    axes[2].semilogx(times, found[:, 0], label=name)
axes[2].set(title="one voxel", xlabel="T2 in ms")
axes[2].legend()
if out:
    figure.savefig(out)
plt.show()
