"""Make the two files of embeddings that docs/embeddings.md is about.

    RESIDUUM_DATA=folder python benchmarks/episode_data.py OUT

OUT/cub50.npz: activations of EfficientNet-Lite0 for the photographs of CUB's first 50 classes (needs the
extra `deep`). OUT/mnist_scattering.npz: scattering features (J = 3) of 300 training images of each digit,
drawn with seed 0.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from residuum import Scattering2D
from residuum.paper.data import load_dataset


def main() -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)

    mnist, rng = load_dataset("mnist"), np.random.default_rng(0)
    training = np.where(mnist.parts == "train", mnist.labels, -1)
    rows = np.concatenate(
        [rng.choice(np.flatnonzero(training == digit), 300, replace=False) for digit in range(10)]
    )
    features = Scattering2D(J=3).fit_transform(mnist.images[rows])
    np.savez(out / "mnist_scattering.npz", X=features.astype(np.float32), y=mnist.labels[rows])

    photographs = Path(os.environ["RESIDUUM_DATA"]) / "CUB_200_2011_first50" / "images"
    command = [sys.executable, "-m", "residuum", "features", str(photographs)]
    subprocess.run([*command, "--with", "efficientnet_lite0", "--out", str(out / "cub50.npz")], check=True)


if __name__ == "__main__":
    main()
