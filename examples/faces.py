"""Faces under changing light
==========================

A face is a surface, and its pictures under all lights are non-negative combinations of a few: the reason
why representation works for faces. Here random smooth surfaces play the faces. Each is lit from random
directions, with shadows where light does not reach, and a part of every query is hidden.

::

    python examples/faces.py
"""

# %%
# Ten surfaces, 40 lights each: eight pictures for training, the rest are queries with a black square.

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter

from residuum import CRC, NRC, NSC, SRC, SoftNRC

rng = np.random.default_rng(0)
PEOPLE, LIGHTS, SHOWN, SIDE = 10, 40, 8, 24


def pictures(hidden):
    """Lambertian pictures (people, lights, side, side): max(0, normal . light) times the albedo."""
    relief = gaussian_filter(rng.normal(size=(PEOPLE, SIDE, SIDE)), (0, 3, 3))
    common = np.exp(-((np.linspace(-1, 1, SIDE)[:, None] ** 2) + np.linspace(-1, 1, SIDE) ** 2))  # a head
    height = 6 * common + 10 * relief
    down, across = np.gradient(height, axis=(1, 2))
    normals = np.stack([-across, -down, np.ones_like(height)], axis=-1)
    normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
    albedo = 0.7 + 0.3 * gaussian_filter(rng.normal(size=(PEOPLE, SIDE, SIDE)), (0, 2, 2)) / 0.14
    light = np.stack(
        [
            rng.uniform(-1, 1, (PEOPLE, LIGHTS)),
            rng.uniform(-1, 1, (PEOPLE, LIGHTS)),
            np.full((PEOPLE, LIGHTS), 0.7),
        ],
        axis=-1,
    )
    lit = np.maximum(np.einsum("pijx,plx->plij", normals, light), 0) * np.clip(albedo, 0.2, 1)[:, None]
    lit += 0.03 * rng.random(lit.shape)
    for person in range(PEOPLE):
        for number in range(SHOWN, LIGHTS):
            top, left = rng.integers(0, SIDE - hidden, 2)
            lit[person, number, top : top + hidden, left : left + hidden] = 0
    return lit


faces = pictures(hidden=8)
labels = np.repeat(np.arange(PEOPLE), SHOWN)
X = faces[:, :SHOWN].reshape(PEOPLE * SHOWN, -1)
queries = faces[:, SHOWN:].reshape(PEOPLE * (LIGHTS - SHOWN), -1)
truth = np.repeat(np.arange(PEOPLE), LIGHTS - SHOWN)

# %%
# Which representation helps here?

methods = {"NSC": NSC(), "SRC": SRC(), "CRC": CRC(), "NRC": NRC(), "SoftNRC": SoftNRC()}
for name, method in methods.items():
    print(f"{name:8} {100 * method.fit(X, labels).score(queries, truth):.1f} % of {len(queries)} queries")

# %%
# Pictures for training, a query, and what NRC rebuilds it from: no hidden square is left.

model = methods["NRC"]
rebuilt = model.reconstruct(queries[[0, 40, 80]])
figure, axes = plt.subplots(3, 6, figsize=(9, 4.8), layout="constrained")
for row, (query, again) in enumerate(zip(queries[[0, 40, 80]], rebuilt, strict=True)):
    shown = [*X[[SHOWN * truth[40 * row] + k for k in range(4)]], query, again]
    for ax, picture in zip(axes[row], shown, strict=True):
        ax.imshow(picture.reshape(SIDE, SIDE), cmap="gray")
        ax.set(xticks=[], yticks=[])
for ax, title in zip(axes[0], ["training"] * 4 + ["query", "rebuilt"], strict=True):
    ax.set_title(title)
plt.show()
