"""Files for the page "Five minutes": wine.csv, new.csv, and pieces of two photographs in a folder."""

from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images, load_wine

wine = load_wine(as_frame=True)
table = wine.data.assign(label=np.array(["Barolo", "Grignolino", "Barbera"])[wine.target])
table = table.sample(frac=1, random_state=0)
table[:150].to_csv("wine.csv", index=False)
table[150:].drop(columns="label").to_csv("new.csv", index=False)

rng = np.random.default_rng(0)
for name, image in zip(("china", "flower"), load_sample_images().images, strict=True):
    for part, count in (("photos", 20), ("new_photos", 3)):
        folder = Path(part) / (name if part == "photos" else "")
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(count):
            top, left = rng.integers(0, 427 - 128), rng.integers(0, 640 - 128)
            piece = Image.fromarray(image[top : top + 128, left : left + 128])
            piece.save(folder / f"{name}_{number}.png")
