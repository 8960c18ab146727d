"""Which setting of BOW-SIFT is best, by cross-validation on the training images of birds.

    RESIDUUM_DATA=folder python benchmarks/bow_sift_settings.py --out settings.json     # all settings below
    RESIDUUM_DATA=folder python benchmarks/bow_sift_settings.py --only published 32 --classes 20
    RESIDUUM_DATA=folder python benchmarks/bow_sift_settings.py --test bow_sift_paper bow_sift bow_sift_colour

The classes of CUB200-2011, or of the part of it that is there, are cut into two halves. The codebook of each
half is learned from training images of the other half, so that no image that is judged has touched it. Within
each half five-fold cross-validation judges the histograms by a linear SVM, CRC (both with the best of a few
values of their parameter) and NRC as published.

Test images are opened by --test alone, which is to be run once, when everything is decided: extractors of the
library learn from all training images, parameters of SVM and CRC are chosen by cross-validation on them, and
the owner's test images are classified.

Descriptors are kept in --cache (some 0.4 GB for each patch size), results in --out; a second run computes
what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import process_time
from typing import Any

import cv2
import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import LinearSVC

from residuum import CRC, NRC
from residuum.features import EXTRACTORS
from residuum.features.bow_sift import grid, nearest_words, word_scorer
from residuum.features.extraction import extract_images, fit_extractor
from residuum.features.image_files import read_image
from residuum.paper.data import load_images
from residuum.paper.photo_trials import spanned
from residuum.system.files import sha256

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Setting:
    """All that was varied; the defaults are the literal recipe of the paper."""

    patches: tuple[int, ...] = (16,)  # sides in pixels; several share one codebook and one histogram
    smoothing: float = 1 / 6  # sigma of the Gaussian before the gradients, in bins of patch / 4 pixels
    stride: int = 8
    max_side: int = 512
    channels: str = (
        "grey"  # "opponent": SIFT of three channels; "words": words of colour beside those of SIFT
    )
    root_sift: bool = False  # square root of the l1-normed descriptor
    n_words: int = 1024
    n_samples: int = 30_000  # descriptors that k-means learns from
    passes: int = 5  # of mini-batch k-means over its samples
    power: float = 1.0  # of the counts, before the l2 norm
    quarters: float = 1.0  # weight of the quarters of the image, beside 1 for the whole


PUBLISHED = Setting()
ROOT = replace(PUBLISHED, power=0.5)
SHARP = replace(ROOT, smoothing=0.0)
BASE = replace(SHARP, patches=(32,))
SETTINGS: dict[str, Setting] = {
    "published": PUBLISHED,
    "square root": ROOT,
    "16, no smoothing": SHARP,
    "32, smoothing as published": replace(ROOT, patches=(32,)),
    "32": BASE,
    "24": replace(BASE, patches=(24,)),
    "40": replace(BASE, patches=(40,)),
    "48": replace(BASE, patches=(48,)),
    "16 24 32 40": replace(BASE, patches=(16, 24, 32, 40)),
    "24 32 48": replace(BASE, patches=(24, 32, 48)),
    "32, RootSIFT": replace(BASE, root_sift=True),
    "32, smoothing 1/12": replace(BASE, smoothing=1 / 12),
    "32, counts": replace(BASE, power=1.0),
    "32, power 0.25": replace(BASE, power=0.25),
    "32, whole image only": replace(BASE, quarters=0.0),
    "32, quarters weigh 1/2": replace(BASE, quarters=0.5),
    "32, quarters weigh 2": replace(BASE, quarters=2.0),
    "32, 200,000 samples": replace(BASE, n_samples=200_000),
    "32, 20 passes": replace(BASE, passes=20),
    "32, every 4 pixels": replace(BASE, stride=4),
    "32, every 12 pixels": replace(BASE, stride=12),
    "32, opponent colours": replace(BASE, channels="opponent"),
    "32, colour words": replace(BASE, channels="words"),
}


def main() -> None:
    """Judge the settings one after the other and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), metavar="NAME", help="settings by name")
    parser.add_argument("--classes", type=int, default=1000, help="use the first classes only")
    parser.add_argument("--cache", type=Path, default=Path("bow-sift-descriptors"))
    parser.add_argument("--out", type=Path, default=Path("bow-sift-settings.json"))
    parser.add_argument("--test", nargs="+", choices=list(EXTRACTORS), metavar="NAME", help="test extractors")
    options = parser.parse_args()
    if options.test:
        return test(options.test)
    options.cache.mkdir(exist_ok=True)
    cv2.setNumThreads(1)
    paths, labels = training_images(options.classes)
    results = json.loads(options.out.read_text()) if options.out.exists() else {}
    print(f"{len(paths)} images, {len(np.unique(labels))} classes; accuracy in per cent")
    print(f"{'SVM':>6} {'CRC':>6} {'NRC':>6} {'mean':>6}")
    for name in options.only or SETTINGS:
        key = f"{name}, {len(paths)} images"
        if results.get(key, {}).get("setting") != json.loads(json.dumps(asdict(SETTINGS[name]))):
            start = process_time()
            figures = judged(SETTINGS[name], paths, labels, options.cache)
            results[key] = {"setting": asdict(SETTINGS[name]), **figures, "seconds": process_time() - start}
            options.out.write_text(json.dumps(results, indent=1))
        figures = [100 * results[key][judge] for judge in ("SVM", "CRC", "NRC")]
        print(*(f"{figure:6.1f}" for figure in (*figures, np.mean(figures))), f" {name}", flush=True)


def training_images(n_classes: int) -> tuple[list[Path], Array]:
    """Paths and labels of the owner's training images of the first classes."""
    samples = load_images("cub200", data_home=os.environ["RESIDUUM_DATA"], subset=True)
    chosen = samples.is_train & np.isin(samples.labels, np.unique(samples.labels)[:n_classes])
    return [samples.paths[i] for i in np.flatnonzero(chosen)], samples.labels[chosen]


def judged(setting: Setting, paths: list[Path], labels: Array, cache: Path) -> dict[str, float]:
    """Accuracy by each judge, mean of the two halves of the classes."""
    half = np.isin(labels, np.unique(labels)[::2])
    kinds = ["sift", "colour"] if setting.channels == "words" else ["sift"]
    features: Array = np.zeros((len(paths), 0))
    for kind in kinds:
        histograms = counted(setting, kind, paths, half, cache) ** setting.power
        histograms[:, setting.n_words :] *= setting.quarters
        histograms /= np.linalg.norm(histograms, axis=1, keepdims=True)
        features = np.hstack([features, histograms])
    scores = [cross_validated(features[side], labels[side]) for side in (half, ~half)]
    return {judge: float(np.mean([score[judge] for score in scores])) for judge in scores[0]}


def counted(setting: Setting, kind: str, paths: list[Path], half: Array, cache: Path) -> Array:
    """Counts of the words in every image and in its quarters, kept for settings that share them."""
    plain = repr((replace(setting, power=1.0, quarters=1.0), kind, [path.name for path in paths]))
    place = cache / f"counts-{sha256(plain.encode())[:16]}.npy"
    if place.exists():
        return np.load(place).astype(float)
    images = Descriptors(setting, kind, paths, cache)
    counts: Array = np.zeros((len(paths), 5, setting.n_words), dtype=np.uint16)
    for side in (half, ~half):
        scorer = word_scorer(learned(setting, images, np.flatnonzero(~side)))
        for i in np.flatnonzero(side):
            rows, cells = images[i]
            words = nearest_words(rows, scorer)
            np.add.at(counts[i], (1 + cells, words), 1)
    counts[:, 0] = counts[:, 1:].sum(axis=1)
    np.save(place, counts.reshape(len(paths), -1))
    return counts.reshape(len(paths), -1).astype(float)


class Descriptors:
    """Descriptors of every image as bytes, with the cell of each, computed once for each patch size."""

    def __init__(self, setting: Setting, kind: str, paths: list[Path], cache: Path) -> None:
        self.root = setting.root_sift and kind == "sift"
        colour = kind == "colour" or setting.channels == "opponent"
        self.sizes = []
        for patch in setting.patches:
            plain = (kind, colour, patch, round(1000 * setting.smoothing), setting.stride, setting.max_side)
            stem = cache / ("-".join(map(str, plain)) + f"-{len(paths)}")
            if not stem.with_suffix(".npz").exists():
                found = [described(path, setting, kind, colour, patch) for path in paths]
                np.save(stem.with_suffix(".npy"), np.concatenate([rows for rows, _ in found]))
                cells = [cell for _, cell in found]
                ends = np.cumsum([0, *map(len, cells)])
                np.savez(stem.with_suffix(".npz"), cells=np.concatenate(cells), ends=ends)
            with np.load(stem.with_suffix(".npz")) as file:
                rows = np.load(stem.with_suffix(".npy"), mmap_mode="r")
                self.sizes.append((rows, file["cells"], file["ends"]))

    def __getitem__(self, image: int) -> tuple[Array, Array]:
        parts = [(rows[ends[image] : ends[image + 1]], cells[ends[image] : ends[image + 1]])
                 for rows, cells, ends in self.sizes]  # fmt: skip
        rows = np.concatenate([rows for rows, _ in parts]).astype(np.float32)
        if self.root:
            rows = 255 * np.sqrt(rows / np.maximum(rows.sum(axis=1, keepdims=True), 1))
        return rows, np.concatenate([cells for _, cells in parts]).astype(np.int64)


def described(path: Path, setting: Setting, kind: str, colour: bool, patch: int) -> tuple[Array, Array]:
    """Descriptors of one image as bytes, and the quarter of the image that each lies in."""
    pixels = read_image(path, mode="rgb" if colour else "grey", max_side=setting.max_side, min_side=patch)
    channels = list(opponent(pixels)) if colour else [pixels]
    shape = pixels.shape[:2]
    ys, xs = (grid(side, patch, setting.stride) for side in shape)
    below, right = ys >= shape[0] / 2, xs >= shape[1] / 2
    cells = (2 * below[:, None] + right[None, :]).ravel().astype(np.uint8)
    if kind == "colour":
        return patch_colours(channels, ys, xs, patch), cells
    points = [cv2.KeyPoint(float(x), float(y), patch / 6, 0.0, 0.0, 0) for y in ys for x in xs]
    sift = cv2.SIFT_create(nOctaveLayers=1, sigma=max(setting.smoothing * patch / 4, 0.51))
    rows = np.hstack([sift.compute(channel, points)[1] for channel in channels])
    return rows.astype(np.uint8), cells


def opponent(pixels: Array) -> Iterator[Array]:
    """Intensity, red against green, and both against blue, as bytes."""
    red, green, blue = pixels.astype(np.float32).transpose(2, 0, 1)
    for channel in (
        0.299 * red + 0.587 * green + 0.114 * blue,
        127.5 + (red - green) / 2,
        127.5 + (red + green - 2 * blue) / 4,
    ):
        yield np.rint(channel).astype(np.uint8)


def patch_colours(channels: list[Array], ys: Array, xs: Array, patch: int) -> Array:
    """Mean of the three channels over 2 x 2 parts of each patch: 12 bytes."""
    side, rows = patch // 2, []
    for channel in channels:
        means = cv2.blur(channel, (side, side))
        for dy in (-side // 2, side // 2):
            for dx in (-side // 2, side // 2):
                rows.append(means[np.ix_(ys + dy, xs + dx)].ravel())
    return np.stack(rows, axis=1)


def learned(setting: Setting, images: Descriptors, chosen: Array) -> Array:
    """Codebook of some of the images."""
    random = np.random.default_rng(0)
    each = -(-setting.n_samples // len(chosen))
    samples = []
    for i in chosen:
        rows, _ = images[i]
        samples.append(rows[random.permutation(len(rows))[:each]])
    kmeans = MiniBatchKMeans(
        setting.n_words, batch_size=4096, n_init=1, max_iter=setting.passes, random_state=0
    )
    return kmeans.fit(np.concatenate(samples)).cluster_centers_.astype(np.float32)


def judges() -> dict[str, list[Any]]:
    """What judges features, with the values of a parameter to choose from."""
    return {
        "SVM": [LinearSVC(C=C) for C in (1.0, 10.0)],
        "CRC": [CRC(l2=l2) for l2 in (1.0, 0.1, 0.01)],
        "NRC": [NRC()],
    }


def fold_scores(features: Array, labels: Array) -> dict[str, Array]:
    """Accuracy of every judge by five-fold cross-validation."""
    right = {judge: np.zeros(len(models)) for judge, models in judges().items()}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(features, labels):
        atoms, queries = spanned(features[train], features[test])
        for judge, models in judges().items():
            for i, model in enumerate(models):
                right[judge][i] += np.sum(model.fit(atoms, labels[train]).predict(queries) == labels[test])
    return {judge: counts / len(labels) for judge, counts in right.items()}


def cross_validated(features: Array, labels: Array) -> dict[str, float]:
    """Accuracy of every judge; one with a parameter shows its best value."""
    return {judge: float(scores.max()) for judge, scores in fold_scores(features, labels).items()}


def test(names: list[str]) -> None:
    """Accuracy on the owner's test images."""
    samples = load_images("cub200", data_home=os.environ["RESIDUUM_DATA"], subset=True)
    for name in names:
        extractor = EXTRACTORS[name](n_jobs=1)
        fit_extractor(extractor, samples.train_paths)
        train, test = (
            extract_images(paths, extractor).X.astype(float)
            for paths in (samples.train_paths, samples.test_paths)
        )
        labels = samples.labels[samples.is_train]
        best = {judge: int(scores.argmax()) for judge, scores in fold_scores(train, labels).items()}
        atoms, queries = spanned(train, test)
        for judge, models in judges().items():
            found = models[best[judge]].fit(atoms, labels).predict(queries)
            right = 100 * np.mean(found == samples.labels[~samples.is_train])
            print(f"{name:16} {judge} {right:5.1f} % of {len(queries)} test images", flush=True)


if __name__ == "__main__":
    main()
