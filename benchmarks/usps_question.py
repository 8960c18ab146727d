"""Why does NRC fall short of the paper's Table 3 (USPS)? Every preparation and parameter we could think of.

    RESIDUUM_DATA=folder python benchmarks/usps_question.py [--per-class 50 300] [--trials 3] [--only NAME]
                                                            [--ask nrc|rivals|constraints|svm]

Each question is a set of columns: a search over parameters for each. For every preparation of the images and
every trial, the accuracy on the test part of the best parameters is kept, chosen on the test part as the
authors' scripts did, in per cent. All questions see the same trials.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.svm import SVC, LinearSVC
from stored import add_option, store

from residuum import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, EigenfacePCA, ProCRCCV, nnls
from residuum.dictionary import Dictionary, unit_rows
from residuum.experiments.compared_data import random_split
from residuum.paper.data import load_dataset
from residuum.paper.tables import EXPERIMENTS
from residuum.problem import CodingProblem
from residuum.rules import RULES, CodedParts
from residuum.solvers import Simplex

ALL_RULES = ("residual", "reconstruction", "scaled_residual")
RHOS = (0.5, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0)

Pair = tuple[np.ndarray, np.ndarray]


def pca(train: np.ndarray, test: np.ndarray, d: int = 100, **options: Any) -> Pair:
    """Fitted on the training samples of the trial."""
    model = EigenfacePCA(d, **options).fit(train)
    return model.transform(train), model.transform(test)


def unit(images: np.ndarray) -> np.ndarray:
    return unit_rows(images)[0]


DISTINCT = "values in [0, 1], PCA 100, without duplicates"  # of training images
PREPARATIONS: dict[str, Callable[[np.ndarray, np.ndarray], Pair]] = {
    "values in [0, 1], PCA 100": pca,
    "unit norm, PCA 100 ([0, 1])": lambda a, b: pca(unit(a), unit(b)),
    "values in [-1, 1], PCA 100": lambda a, b: pca(2 * a - 1, 2 * b - 1),
    "unit norm, PCA 100 ([-1, 1])": lambda a, b: pca(unit(2 * a - 1), unit(2 * b - 1)),
    "unit norm, PCA 100, centred ([0, 1])": lambda a, b: pca(unit(a), unit(b), center=True),
    "unit norm, PCA 50 ([0, 1])": lambda a, b: pca(unit(a), unit(b), 50),
    "pixels, no PCA ([0, 1])": lambda a, b: (unit(a), unit(b)),
    "pixels, no PCA ([-1, 1])": lambda a, b: (unit(2 * a - 1), unit(2 * b - 1)),
    DISTINCT: pca,
}


class Codes:
    """The three rules on one code, with the interface of the searches of the library."""

    def __init__(self, coded: Callable[[Dictionary, np.ndarray], np.ndarray]) -> None:
        self.coded = coded

    def predict_grid(self, samples: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Any:
        dictionary = Dictionary.from_samples(samples, labels, 10)
        parts = CodedParts(dictionary, unit(queries), self.coded(dictionary, unit(queries)))
        return ALL_RULES, np.array([RULES[rule](parts).argmin(axis=1) for rule in ALL_RULES])


class Machines:
    """Support vector machines for several C, with the same interface."""

    def __init__(self, make: Callable[..., Any]) -> None:
        self.make = make

    def predict_grid(self, samples: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> Any:
        grid = (0.1, 1.0, 10.0)
        return grid, np.array([self.make(C=c).fit(samples, labels).predict(queries) for c in grid])


def nonnegative(**penalties: float) -> Codes:
    return Codes(lambda dictionary, queries: nnls(dictionary.atoms.T, queries.T, **penalties).codes)


def with_sum(total: float) -> Codes:
    """Codes that sum to a total: total times the shares that explain the query over the total."""

    def coded(dictionary: Dictionary, queries: np.ndarray) -> np.ndarray:
        solver = Simplex(CodingProblem(neg_weight=np.inf), dictionary, n_jobs=None, tol=1e-10)
        return total * solver.solve(queries / total).codes

    return Codes(coded)


# Question -> column -> from the number of training samples to a search.
QUESTIONS: dict[str, dict[str, Callable[[int], Any]]] = {
    "nrc": {
        "T = 5": lambda n: NRCCV(rhos=RHOS, max_iters=[5], rules=ALL_RULES, exact=False),
        "T = 16..20": lambda n: NRCCV(rhos=RHOS, max_iters=range(16, 21), rules=ALL_RULES, exact=False),
        "exact": lambda n: nonnegative(),
        "CRC": lambda n: CRCCV(l2s=[0.001 * n / 700]),
        "SRC": lambda n: SRCCV(l1s=[0.1, 0.03, 0.01, 0.003]),
        "NSC": lambda n: NSCCV(l2s=[10.0, 1.0, 0.1, 0.01, 1e-3]),
    },
    "rivals": {
        "NSC": lambda n: NSCCV(l2s=np.logspace(-6, 3, 10), rules=("residual", "relative_residual")),
        "CRC": lambda n: CRCCV(l2s=np.logspace(-5, 1, 13) * n / 700, rules=("residual", "scaled_residual")),
        "CROC": lambda n: CROCCV(l2s=np.logspace(-6, 0, 7)),
        "ProCRC": lambda n: ProCRCCV(gammas=(10.0, 1.0, 0.1, 0.01, 1e-3), l2s=np.logspace(-4, 1, 6)),
    },
    "constraints": {
        "c ≥ 0": lambda n: nonnegative(),
        "c ≥ 0 with l2 = 0.1": lambda n: nonnegative(l2=0.1),
        "c ≥ 0 with l2 = 1": lambda n: nonnegative(l2=1),
        "c ≥ 0 with l1 = 0.1": lambda n: nonnegative(l1=0.1),
        "c ≥ 0 with l1 = 0.3": lambda n: nonnegative(l1=0.3),
        "c ≥ 0 with l1 = 0.6": lambda n: nonnegative(l1=0.6),
        "c ≥ 0, sum 0.9": lambda n: with_sum(0.9),
        "c ≥ 0, sum 1": lambda n: with_sum(1.0),
    },
    "svm": {
        "one class against all others": lambda n: Machines(LinearSVC),
        "one class against one other": lambda n: Machines(lambda C: SVC(kernel="linear", C=C)),
    },
}


def trials_of(data: Any, per_class: int, trials: int, *, distinct: bool) -> Iterator[Any]:
    """Training images, their labels and test images of every trial."""
    pool, test = (part.reshape(len(part), -1).astype(np.float64) for part in (data.x_train, data.x_test))
    labels = data.y_train
    if distinct:
        kept = np.sort(np.unique(pool, axis=0, return_index=True)[1])
        pool, labels = pool[kept], labels[kept]
    for trial in range(trials):
        rows = random_split(labels, train_per_class=per_class, seed=1, trial=trial).train
        yield pool[rows], labels[rows], test


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--per-class", type=int, nargs="+", default=[50, 300])
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=list(PREPARATIONS), default=list(PREPARATIONS))
    parser.add_argument("--ask", choices=list(QUESTIONS), default="nrc")
    add_option(parser)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    data, columns = load_dataset("usps"), QUESTIONS[args.ask]
    paper = {row.per_class: dict(row.paper) for row in EXPERIMENTS["table3"].rows}
    kept: list[dict[str, Any]] = []
    for per_class in args.per_class:
        for name in args.only:
            found: dict[str, list[float]] = {column: [] for column in columns}
            for images, labels, test in trials_of(data, per_class, args.trials, distinct=name == DISTINCT):
                a, b = PREPARATIONS[name](images, test)
                for column, make in columns.items():
                    _, answers = make(len(a)).predict_grid(a, labels, b)
                    found[column].append(100 * (answers == data.y_test).mean(axis=1).max())
            print(f"{per_class}, {name}:", *(f"{k} {np.mean(v):.2f}" for k, v in found.items()), flush=True)
            kept.append({"per class": per_class, "preparation": name, "accuracy %": found})
            store(args.json, {"trials": args.trials, "paper": paper, "rows": kept})


if __name__ == "__main__":
    main()
