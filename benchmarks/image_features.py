"""Images per second of BowSift beside bare OpenCV SIFT, and of CNNFeatures beside a bare torch forward pass.

    python benchmarks/image_features.py FOLDER [--images 200] [--repeats 3] [--network efficientnet_lite0]

Both sides start from the same files, use the same number of threads, and take turns, so that a busy machine
slows both; the best of the repeats counts. Bare SIFT: cv2.imread as grey and cv2.SIFT.compute on the same
grid, OpenCV's own threads off, images shared over as many threads as BowSift has; once with the settings of
BowSift (one layer per octave) and once with OpenCV's defaults. Bare torch: the images are already in memory
as normalised float32 batches, and only the network runs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from residuum.features import BowSift, CNNFeatures
from residuum.features.bow_sift import grid


def in_turns(n_images: int, repeats: int, **runs: Callable[[], Any]) -> dict[str, float]:
    """Best images per second of each run; the runs alternate."""
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            started = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - started)
    return {name: n_images / seconds for name, seconds in best.items()}


def bow_sift(paths: list[Path], threads: int, repeats: int) -> dict[str, float]:
    """BowSift and bare OpenCV on the same files."""
    import cv2

    bow = BowSift(n_jobs=threads).fit(paths)

    def bare(path: Path, **settings: float) -> Any:
        grey = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
        rows, columns = (grid(side, bow.patch, bow.stride) for side in grey.shape)
        points = [cv2.KeyPoint(float(x), float(y), bow.patch / 6, 0.0, 0.0, 0) for y in rows for x in columns]
        return cv2.SIFT_create(**settings).compute(grey, points)[1]

    def bare_run(**settings: float) -> None:
        before = cv2.getNumThreads()
        cv2.setNumThreads(1)
        with ThreadPoolExecutor(threads) as pool:
            for _ in pool.map(partial(bare, **settings), paths):
                pass
        cv2.setNumThreads(before)

    return in_turns(
        len(paths),
        repeats,
        residuum=lambda: bow.transform(paths),
        bare=partial(bare_run, nOctaveLayers=1, sigma=max(bow.smoothing * bow.patch / 4, 0.51)),
        bare_defaults=bare_run,
    )


def cnn(paths: list[Path], network: str, threads: int, repeats: int) -> dict[str, float]:
    """CNNFeatures and a bare forward pass on the same images; the network's own size and scales."""
    import torch

    torch.set_num_threads(threads)
    extractor = CNNFeatures(network).fit()
    mean, std = (torch.tensor(part)[:, None, None] for part in extractor._view().normalisation)
    batches = []
    for start in range(0, len(paths), 16):
        prepared = [extractor._prepare(path) for path in paths[start : start + 16]]
        for scale in range(len(prepared[0])):
            groups: dict[Any, list[Any]] = {}
            for images in prepared:
                groups.setdefault(images[scale].shape, []).append(images[scale])
            for group in groups.values():
                pixels = torch.from_numpy(np.stack(group)).permute(0, 3, 1, 2).float() / 255
                batches.append((pixels - mean) / std)

    def bare_run() -> None:
        with torch.inference_mode():
            for batch in batches:
                extractor.model_(batch)

    return in_turns(len(paths), repeats, residuum=lambda: extractor.transform(paths), bare=bare_run)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="folder with images, searched to the bottom")
    parser.add_argument("--images", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--network", default="efficientnet_lite0")
    parser.add_argument("--only", choices=["bow_sift", "cnn"])
    options = parser.parse_args()
    found = sorted(options.folder.rglob("*.jpg"))
    paths = found[:: max(1, len(found) // options.images)][: options.images]
    if not paths:
        parser.error(f"no .jpg below {options.folder}")
    results: dict[str, Any] = {"images": len(paths), "threads": options.threads}
    if options.only != "cnn":
        results["bow_sift"] = bow_sift(paths, options.threads, options.repeats)
    if options.only != "bow_sift":
        results[options.network] = cnn(paths, options.network, options.threads, options.repeats)
    for value in results.values():
        if isinstance(value, dict):
            for name in [name for name in value if name.startswith("bare")]:
                value[f"times_{name}"] = value[name] / value["residuum"]
    print(json.dumps(results, indent=2, default=float))


if __name__ == "__main__":
    main()
