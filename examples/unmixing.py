"""Unmixing: how much of each material is in a pixel?
==================================================

A pixel of an imaging spectrometer sees several materials at once, and its spectrum is the mean of their
spectra (the endmembers) weighted by area. The areas cannot be negative and sum to one. Here a made cube of
100 x 100 pixels and 200 bands is mixed from 12 spectra, a usual number for the mines of Cuprite, with noise
of 2 %; 20 bands are lost to water vapour and left out by a weight of zero.

::

    python examples/unmixing.py [--out maps.png]
"""

# %%
# Twelve spectra, the areas they cover, and the cube that the spectrometer sees.

import argparse
import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from residuum import least_squares

parser = argparse.ArgumentParser()
parser.add_argument("--out", help="write a picture of true and found areas")
out = parser.parse_args().out

rng = np.random.default_rng(0)
SIDE, BANDS, MATERIALS = 100, 200, 12
wavelength = np.linspace(0.4, 2.5, BANDS)[:, None]
endmembers = rng.uniform(0.3, 0.8, MATERIALS) + 0.1 * wavelength * rng.uniform(-1, 1, MATERIALS)
for _ in range(6):  # absorption bands
    centre, width = rng.uniform(0.4, 2.5, MATERIALS), rng.uniform(0.03, 0.2, MATERIALS)
    depth = rng.uniform(0, 0.4, MATERIALS)
    endmembers *= 1 - depth * np.exp(-0.5 * ((wavelength - centre) / width) ** 2)

fields = gaussian_filter(rng.normal(size=(MATERIALS, SIDE, SIDE)), (0, 5, 5))
areas = np.exp(3 * fields / fields.std()).reshape(MATERIALS, -1)
areas /= areas.sum(axis=0)
cube = endmembers @ areas
cube += 0.02 * cube.mean() * rng.normal(size=cube.shape)  # (bands, pixels)
seen = np.ones(BANDS)
seen[100:110] = seen[150:160] = 0
cube[seen == 0] = np.nan

# %%
# All pixels in one call. Without constraints, areas can be negative and need not sum to one.

least_squares(endmembers, cube[:, :2], sum_to=1.0, weights=seen)  # compiles at the very first use
start = time.process_time()
solution = least_squares(endmembers, cube, sum_to=1.0, weights=seen)
spent = time.process_time() - start
free = np.linalg.lstsq(endmembers[seen > 0], cube[seen > 0], rcond=None)[0]


def error(found):
    """Root mean square error of the areas."""
    return np.sqrt(np.mean((found - areas) ** 2))


print(f"{SIDE * SIDE} pixels, {int(seen.sum())} bands, {MATERIALS} materials")
print(f"error of the areas: {error(solution.x):.4f}; without constraints {error(free):.4f}")
sums = solution.x.sum(axis=0)
print(f"smallest area {solution.x.min():.1f}, largest error of a sum {abs(sums - 1).max():.0e}")
print(f"certified: {solution.converged.all()}, largest gap {solution.gap.max():.0e}")
print(f"{1e6 * spent / cube.shape[1]:.1f} microseconds of the processor for a pixel")

# %%
# Four of the twelve materials.

figure, axes = plt.subplots(2, 4, figsize=(10, 5.4), layout="constrained")
for row, name, maps in zip(axes, ("true", "found"), (areas, solution.x), strict=True):
    for k, ax in enumerate(row):
        ax.imshow(maps[k].reshape(SIDE, SIDE), vmin=0, vmax=1)
        ax.set(title=f"material {k}, {name}", xticks=[], yticks=[])
if out:
    figure.savefig(out)
plt.show()
