"""Why does NRC fall short of the paper's Table 3 (USPS)? Every preparation and parameter we could think of.

    python benchmarks/usps_question.py [--data FOLDER] [--per-class 50 300] [--trials 3] [--only NAME ...]

For each way to prepare the images, NRC is scored on the test part for T = 5 and 16 to 20, rho from 0.5 to 20
and three rules, and the exact non-negative optimum; CRC, SRC and NSC stand beside it as a check of the
preparation. A figure is the mean over the trials of the best parameters of each trial, chosen on the test
part as the authors' scripts did, in per cent; what one fixed parameter reaches is printed too. Output is
Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from residuum import CRCCV, NRCCV, NSCCV, SRCCV, EigenfacePCA
from residuum.datasets import load_dataset
from residuum.dictionary import unit_rows
from residuum.experiments.comparison import split

PAPER = {50: 92.3, 100: 93.7, 200: 94.6, 300: 95.1}
STEPS = (5, 16, 17, 18, 19, 20)
RHOS = (0.5, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0)

Pair = tuple[np.ndarray, np.ndarray]


def pca(train: np.ndarray, test: np.ndarray, d: int = 100, **options: Any) -> Pair:
    """Fitted on the training samples of the trial."""
    model = EigenfacePCA(d, **options).fit(train)
    return model.transform(train), model.transform(test)


def unit(images: np.ndarray) -> np.ndarray:
    return unit_rows(images)[0]


PREPARATIONS: dict[str, Callable[[np.ndarray, np.ndarray], Pair]] = {
    "values in [0, 1], PCA 100": pca,
    "unit norm, PCA 100 ([0, 1])": lambda a, b: pca(unit(a), unit(b)),
    "values in [-1, 1], PCA 100": lambda a, b: pca(2 * a - 1, 2 * b - 1),
    "unit norm, PCA 100 ([-1, 1])": lambda a, b: pca(unit(2 * a - 1), unit(2 * b - 1)),
    "unit norm, PCA 100, centred ([0, 1])": lambda a, b: pca(unit(a), unit(b), center=True),
    "unit norm, PCA 50 ([0, 1])": lambda a, b: pca(unit(a), unit(b), 50),
    "pixels, no PCA ([0, 1])": lambda a, b: (unit(a), unit(b)),
    "pixels, no PCA ([-1, 1])": lambda a, b: (unit(2 * a - 1), unit(2 * b - 1)),
}


def accuracies(search: Any, train: Pair, test: Pair) -> tuple[list[dict[str, Any]], np.ndarray]:
    candidates, labels = search.predict_grid(train[0], train[1], test[0])
    return candidates, 100 * (labels == test[1]).mean(axis=1)


def label(candidate: dict[str, Any]) -> str:
    steps = f"T={candidate['max_iter']} rho={candidate['rho']:g}" if "rho" in candidate else "exact"
    return f"{steps} {candidate['rule']}"


def question(name: str, data: Any, per_class: int, trials: int, *, unique: bool = False) -> list[str]:
    """One line of the table: best NRC with T=5, with T 16..20, exact, and the rivals."""
    pool, labels = data.x_train.reshape(7291, -1).astype(np.float64), data.y_train
    test = data.x_test.reshape(2007, -1).astype(np.float64)
    if unique:
        kept = np.sort(np.unique(pool, axis=0, return_index=True)[1])
        pool, labels = pool[kept], labels[kept]
    searches = {
        "NRC": NRCCV(rhos=RHOS, max_iters=STEPS, rules=("residual", "reconstruction", "scaled_residual")),
        "CRC": CRCCV(l2s=[0.001 * 10 * per_class / 700]),
        "SRC": SRCCV(l1s=[0.1, 0.03, 0.01, 0.003]),
        "NSC": NSCCV(l2s=[10.0, 1.0, 0.1, 0.01, 1e-3]),
    }
    found: dict[str, list[np.ndarray]] = {key: [] for key in searches}
    lists: dict[str, list[dict[str, Any]]] = {}
    for trial in range(trials):
        rows = split(labels, train_per_class=per_class, seed=0, trial=trial).train
        a, b = PREPARATIONS[name](pool[rows], test)
        for key, search in searches.items():
            lists[key], scores = accuracies(search, (a, labels[rows]), (b, data.y_test))
            found[key].append(scores)
    nrc, candidates = np.array(found["NRC"]), lists["NRC"]  # (n_trials, n_candidates)
    groups = {
        "T=5": [i for i, c in enumerate(candidates) if c.get("max_iter") == 5],
        "T=16..20": [i for i, c in enumerate(candidates) if c.get("max_iter", 0) >= 16],
        "exact": [i for i, c in enumerate(candidates) if c["solver"] == "exact"],
    }
    best = [f"{nrc[:, members].max(axis=1).mean():.2f}" for members in groups.values()]
    fixed = int(nrc.mean(axis=0).argmax())
    rivals = [f"{np.array(found[key]).max(axis=1).mean():.2f}" for key in ("CRC", "SRC", "NSC")]
    text = name + (", duplicates removed" if unique else "")
    return [text, *best, f"{nrc.mean(axis=0)[fixed]:.2f} ({label(candidates[fixed])})", *rivals]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default=None)
    parser.add_argument("--per-class", type=int, nargs="+", default=[50, 300])
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(PREPARATIONS))
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load_dataset("usps", data_home=args.data)
    for per_class in args.per_class:
        print(f"\n{per_class} per class, {args.trials} trials; the paper's NRC: {PAPER.get(per_class)}\n")
        heads = ["preparation", "T=5", "T=16..20", "exact", "best fixed", "CRC", "SRC", "NSC"]
        print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for name in args.only:
            print("| " + " | ".join(question(name, data, per_class, args.trials)) + " |", flush=True)
        again = question(args.only[0], data, per_class, args.trials, unique=True)
        print("| " + " | ".join(again) + " |", flush=True)


if __name__ == "__main__":
    main()
