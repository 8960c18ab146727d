"""Scattering speed: images per second of Scattering2D beside the FFTs it cannot do without.

    python benchmarks/scattering.py [--images 2000] [--side 28] [--jobs 1 2]

Noise images are used: the cost does not depend on the values.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import scipy.fft
from joblib import Parallel, delayed

from residuum.features import Scattering2D


def best_of(repeats, function, *arguments):
    """Return the shortest wall time; the others measure what else the machine was doing."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def bare_ffts(n_images, side, J, L, dtype):
    """Run the FFTs of one block: images, first moduli, their spectra, second moduli; nothing else."""
    padded = (-(-side // 2**J) + 2) * 2**J
    scipy.fft.fft2(np.ones((n_images, padded, padded), dtype))
    for j1 in range(J):
        size = padded >> j1
        moduli = scipy.fft.ifft2(np.ones((n_images * L, size, size), np.result_type(dtype, np.complex64)))
        if j1 < J - 1:
            scipy.fft.fft2(moduli.real)
        for j2 in range(j1 + 1, J):
            size = padded >> j2
            maps = np.ones((n_images * L * L, size, size), np.result_type(dtype, np.complex64))
            scipy.fft.ifft2(maps, overwrite_x=True)


def main():
    """Print one line per dtype and number of threads."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=2000)
    parser.add_argument("--side", type=int, default=28)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    J, L, block = 3, 8, 10
    images = np.random.default_rng(0).random((options.images, options.side, options.side))
    print(f"{options.images} images of {options.side} x {options.side}, J={J}, L={L}, order 2")
    print(f"{'dtype':>8} {'threads':>8} {'images/s':>9} {'FFTs only':>10} {'ratio':>6} {'60,000 images':>14}")
    for dtype in (np.float32, np.float64):
        data = images.astype(dtype)
        for n_jobs in options.jobs:
            transformer = Scattering2D(J, L, n_jobs=n_jobs)
            transformer.transform(data[:1])  # builds the filters
            ours = options.images / best_of(options.repeats, transformer.transform, data)
            blocks = [delayed(bare_ffts)(block, options.side, J, L, dtype)] * (options.images // block)
            pool = Parallel(n_jobs=n_jobs, prefer="threads")
            floor = len(blocks) * block / best_of(options.repeats, pool, blocks)
            print(
                f"{np.dtype(dtype).name:>8} {n_jobs:>8} {ours:>9.0f} {floor:>10.0f} {floor / ours:>6.2f}"
                f" {60_000 / ours:>12.0f} s"
            )


if __name__ == "__main__":
    main()
