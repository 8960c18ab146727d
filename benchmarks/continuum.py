"""Accuracy along the line from collaborative to non-negative codes, with default parameters.

    RESIDUUM_DATA=folder python benchmarks/continuum.py [--trials 3]

Prints a Markdown table: CRC, SoftNRC, NRC as published (five steps of ADMM), exact NRC. Data sets that are
not in the data home are named and skipped.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits
from stored import add_option, store

from residuum import CRC, NRC, EigenfacePCA, SoftNRC
from residuum.errors import DataNotFoundError
from residuum.paper.data import load_dataset

METHODS = {"CRC": CRC(), "SoftNRC": SoftNRC(), "NRC, five steps": NRC(), "NRC, exact": NRC(solver="exact")}


def take(labels, per_class: int, seed: int):
    """Indices of per_class random samples of each class."""
    rng = np.random.default_rng(seed)
    return np.concatenate(
        [rng.permutation(np.flatnonzero(labels == k))[:per_class] for k in np.unique(labels)]
    )


def halves(samples, labels, per_class: int, seed: int):
    """Training samples taken at random, all others as queries."""
    train = take(labels, per_class, seed)
    test = np.setdiff1d(np.arange(len(labels)), train)
    return samples[train], labels[train], samples[test], labels[test]


def digits(seed: int):
    return halves(*load_digits(return_X_y=True), 50, seed)


def yale(seed: int):
    data = load_dataset("extended_yale_b")
    samples = data.images.reshape(len(data.images), -1).astype(np.float64)
    return projected(*halves(samples, data.labels, 32, seed), 300)


def official(name: str, per_class: int, n_components: int, seed: int):
    data = load_dataset(name)
    train = take(data.y_train, per_class, seed)
    samples, queries = (
        part.reshape(len(part), -1).astype(np.float64) for part in (data.x_train[train], data.x_test)
    )
    return projected(samples, data.y_train[train], queries, data.y_test, n_components)


def projected(samples, labels, queries, truth, n_components: int):
    pca = EigenfacePCA(n_components).fit(samples)
    return pca.transform(samples), labels, pca.transform(queries), truth


DATA = {
    "digits, 50 per class": digits,
    "Extended Yale B, 32 per class, 300 features": yale,
    "USPS, 100 per class, 100 features": lambda seed: official("usps", 100, 100, seed),
    "MNIST, 300 per class, 500 features": lambda seed: official("mnist", 300, 500, seed),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=3)
    add_option(parser)
    args, kept = parser.parse_args(), []
    print(f"| {args.trials} trials, accuracy % | {' | '.join(METHODS)} |")
    print("|---" * (len(METHODS) + 1) + "|")
    for name, split in DATA.items():
        scores: dict[str, list[float]] = {method: [] for method in METHODS}
        try:
            for seed in range(args.trials):
                samples, labels, queries, truth = split(seed)
                for method, classifier in METHODS.items():
                    scores[method].append(100 * classifier.fit(samples, labels).score(queries, truth))
        except DataNotFoundError:
            print(f"| {name} | not in the data home |" + " |" * (len(METHODS) - 1))
            continue
        cells = [f"{np.mean(s):.1f} ± {np.std(s, ddof=1):.1f}" for s in scores.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        kept.append({"data": name, **scores})
    store(args.json, {"trials": args.trials, "rows": kept})


if __name__ == "__main__":
    main()
