"""Why does NRC fall short of the paper's Table 3 (USPS)? Every preparation and parameter we could think of.

    python benchmarks/usps_question.py [--data FOLDER] [--per-class 50 300] [--trials 3] [--only NAME ...]
    python benchmarks/usps_question.py --ask constraints
    python benchmarks/usps_question.py --ask rivals

For each way to prepare the images, NRC is scored on the test part for T = 5 and 16 to 20, rho from 0.5 to 20
and three rules, and the exact non-negative optimum; CRC, SRC and NSC stand beside it as a check of the
preparation. A figure is the mean over the trials of the best parameters of each trial, chosen on the test
part as the authors' scripts did, in per cent; what one fixed parameter reaches is printed too. Output is
Markdown.

"constraints" asks whether another non-negative code would do better: with an l1 weight, with a ridge, or with
a given sum. "rivals" asks the first question of CRC, CROC, ProCRC and NSC, over wide grids.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from residuum import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, EigenfacePCA, ProCRCCV, nnls
from residuum.dictionary import Dictionary, unit_rows
from residuum.experiments.compared_data import random_split
from residuum.paper.data import load_dataset
from residuum.rules import RULES, CodedParts

PAPER = {50: 92.3, 100: 93.7, 200: 94.6, 300: 95.1}
STEPS = (5, 16, 17, 18, 19, 20)
ALL_RULES = ("residual", "reconstruction", "scaled_residual")
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


def trials_of(data: Any, per_class: int, trials: int) -> Any:
    """Training images, their labels, test images of every trial."""
    pool, test = (part.reshape(len(part), -1).astype(np.float64) for part in (data.x_train, data.x_test))
    for trial in range(trials):
        rows = random_split(data.y_train, train_per_class=per_class, seed=1, trial=trial).train
        yield pool[rows], data.y_train[rows], test


def with_sum(atoms: np.ndarray, queries: np.ndarray, total: float, steps: int = 300) -> np.ndarray:
    """``min_c ||y - Xc||^2, c >= 0, sum(c) = total``, by accelerated projected gradients."""
    rate = 1 / np.linalg.norm(atoms, 2) ** 2
    code = ahead = np.full((len(queries), len(atoms)), total / len(atoms))
    t = 1.0
    for _ in range(steps):
        point = ahead - rate * ((ahead @ atoms - queries) @ atoms.T)
        ordered = -np.sort(-point, axis=1)
        excess = (ordered.cumsum(axis=1) - total) / np.arange(1, len(atoms) + 1)
        last = (ordered > excess).sum(axis=1) - 1
        new = np.maximum(point - excess[np.arange(len(point)), last, None], 0)
        t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead, code, t = new + (t - 1) / t_new * (new - code), new, t_new
    return code


def nonnegative_codes(atoms: np.ndarray, queries: np.ndarray) -> Any:
    """Names and codes."""
    for l1, l2 in ((0, 0), (0.1, 0), (0.3, 0), (0.6, 0), (0, 0.1), (0, 1)):
        yield f"c >= 0, l1 = {l1}, l2 = {l2}", nnls(atoms.T, queries.T, l1=l1, l2=l2).codes
    for total in (0.9, 1.0):
        yield f"c >= 0, sum(c) = {total}", with_sum(atoms, queries, total)


def constraints(data: Any, per_class: int, trials: int) -> None:
    """Other non-negative codes of the same features, each with the best of three rules."""
    found: dict[str, list[float]] = {}
    for images, labels, test in trials_of(data, per_class, trials):
        a, b = pca(images, test)
        dictionary = Dictionary.from_samples(a, labels, 10)
        for name, code in nonnegative_codes(dictionary.atoms, unit(b)):
            parts = CodedParts(dictionary, unit(b), code)
            scores = (RULES[rule](parts) for rule in ALL_RULES)
            hits = [100 * np.mean(score.argmin(axis=1) == data.y_test) for score in scores]
            found.setdefault(name, []).append(max(hits))
    print(f"\n{per_class} per class, {trials} trials; the paper's NRC: {PAPER.get(per_class)}\n")
    print("| code | accuracy |\n|---|---|")
    for name, values in found.items():
        print(f"| {name} | {np.mean(values):.2f} |", flush=True)


RIVALS: dict[str, Callable[[int], Any]] = {
    "NSC": lambda n: NSCCV(l2s=np.logspace(-6, 3, 10), rules=("residual", "relative_residual")),
    "CRC": lambda n: CRCCV(l2s=np.logspace(-5, 1, 13) * n / 700, rules=("residual", "scaled_residual")),
    "CROC": lambda n: CROCCV(l2s=np.logspace(-6, 0, 7)),
    "ProCRC": lambda n: ProCRCCV(gammas=(10.0, 1.0, 0.1, 0.01, 1e-3), l2s=np.logspace(-4, 1, 6)),
}


def rivals(data: Any, per_class: int, trials: int, names: list[str]) -> None:
    """The best of every rival on the test part, for each preparation."""
    print(f"\n{per_class} per class, {trials} trials, best on test over wide grids\n")
    print("| preparation | " + " | ".join(RIVALS) + " |\n|" + "---|" * (len(RIVALS) + 1))
    for name in names:
        found: dict[str, list[float]] = {key: [] for key in RIVALS}
        for images, labels, test in trials_of(data, per_class, trials):
            a, b = PREPARATIONS[name](images, test)
            for key, make in RIVALS.items():
                found[key].append(accuracies(make(len(a)), (a, labels), (b, data.y_test))[1].max())
        print(f"| {name} | " + " | ".join(f"{np.mean(v):.2f}" for v in found.values()) + " |", flush=True)


def question(name: str, data: Any, per_class: int, trials: int, *, unique: bool = False) -> list[str]:
    """One line of the table: best NRC with T=5, with T 16..20, exact, and the rivals."""
    pool, labels = data.x_train.reshape(7291, -1).astype(np.float64), data.y_train
    test = data.x_test.reshape(2007, -1).astype(np.float64)
    if unique:
        kept = np.sort(np.unique(pool, axis=0, return_index=True)[1])
        pool, labels = pool[kept], labels[kept]
    searches = {
        "NRC": NRCCV(rhos=RHOS, max_iters=STEPS, rules=ALL_RULES),
        "CRC": CRCCV(l2s=[0.001 * 10 * per_class / 700]),
        "SRC": SRCCV(l1s=[0.1, 0.03, 0.01, 0.003]),
        "NSC": NSCCV(l2s=[10.0, 1.0, 0.1, 0.01, 1e-3]),
    }
    found: dict[str, list[np.ndarray]] = {key: [] for key in searches}
    lists: dict[str, list[dict[str, Any]]] = {}
    for trial in range(trials):
        rows = random_split(labels, train_per_class=per_class, seed=0, trial=trial).train
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
    parser.add_argument("--ask", choices=["nrc", "constraints", "rivals"], default="nrc")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    data = load_dataset("usps", data_home=args.data)
    for per_class in args.per_class:
        if args.ask == "constraints":
            constraints(data, per_class, args.trials)
            continue
        if args.ask == "rivals":
            rivals(data, per_class, args.trials, args.only)
            continue
        print(f"\n{per_class} per class, {args.trials} trials; the paper's NRC: {PAPER.get(per_class)}\n")
        heads = ["preparation", "T=5", "T=16..20", "exact", "best fixed", "CRC", "SRC", "NSC"]
        print("| " + " | ".join(heads) + " |\n|" + "---|" * len(heads))
        for name in args.only:
            print("| " + " | ".join(question(name, data, per_class, args.trials)) + " |", flush=True)
        again = question(args.only[0], data, per_class, args.trials, unique=True)
        print("| " + " | ".join(again) + " |", flush=True)


if __name__ == "__main__":
    main()
