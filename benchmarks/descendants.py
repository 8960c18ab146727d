"""Do the descendants of NRC help? Every method with parameters chosen on the training samples alone.

    RESIDUUM_DATA=folder python benchmarks/descendants.py [--data digits usps ...] [--trials 3]
                                                          [--keep descendants_kept.json]

Each trial draws training samples at random; all methods see the same ones, and each chooses its parameters by
5-fold cross-validation on them. Found are accuracy in %, what was chosen, queries without proof and seconds
of processor time. Every result is kept in a file as soon as it is there, so that a run that was stopped goes
on where it was.

CNRC is defined here and not in the library; docs/descendants.md says why.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.datasets import load_digits
from stored import add_option, store

from residuum import (
    CRCCV,
    CRNRC,
    CRNRCCV,
    NRC,
    NRCCV,
    NSCCV,
    SRCCV,
    EigenfacePCA,
    ProCRCCV,
    SimplexRC,
    SimplexRCCV,
    SoftNRCCV,
)
from residuum.dictionary import Dictionary
from residuum.estimators.base import POSITIVE, RULE, RepresentationClassifier
from residuum.experiments.compared_data import random_split
from residuum.paper.data import load_dataset
from residuum.problem import Solution
from residuum.selection.base import Candidate, Grid, GridSelector, by_setting
from residuum.selection.folds import Fold, rule_scores
from residuum.system.files import write_text
from residuum.system.json_text import to_json

# A descendant that is only measured


class Neighbours:
    """``min_c ||y - Xc||^2 + l2 * sum_j ||y - x_j||^2 c_j^2``: one factorisation for every query.

    With ``W = diag(1/||y - x_j||^2)`` the code is ``W X'v``, where ``(XWX' + l2 I) v = y``.
    """

    has_threads = False
    entries_per_query = 4096

    def __init__(self, l2s: list[float], dictionary: Dictionary) -> None:
        self.l2s, self.dictionary = l2s, dictionary

    def prepare(self) -> None:
        """Nothing can be shared between queries."""

    def codes(self, queries: Any) -> Any:
        """Codes for every ridge, shape (n_ridges, n_queries, n_atoms)."""
        atoms = self.dictionary.atoms.astype(np.float64)
        found = np.empty((len(self.l2s), len(queries), len(atoms)))
        for i, query in enumerate(queries):
            weights = 1 / np.maximum(np.sum((atoms - query) ** 2, axis=1), 1e-8)
            matrix = (atoms.T * weights) @ atoms
            for k, l2 in enumerate(self.l2s):
                factor = cho_factor(matrix + l2 * np.eye(len(matrix)), check_finite=False)
                found[k, i] = weights * (atoms @ cho_solve(factor, query, check_finite=False))
        return found

    def solve(self, queries: Any, *, certify: bool = True) -> Solution:
        """Code every query, by the first ridge."""
        nothing, once = np.full(len(queries), np.nan), np.ones(len(queries), dtype=np.int64)
        return Solution(self.codes(queries)[0], once, nothing, nothing, once > 0)


class CNRC(RepresentationClassifier):
    """``min_c ||y - Xc||^2 + l2 * sum_j ||y - x_j||^2 c_j^2`` (Waqas, Yi and Zhang 2013).

    Collaborative neighbour representation, the query-adaptive form of weighted CRC (Timofte and Van Gool
    2014).
    """

    _parameter_constraints = {"l2": [POSITIVE], "rule": [RULE]}

    def __init__(self, *, l2: float = 0.01, rule: str = "residual") -> None:
        self.l2 = l2
        self.rule = rule

    def _make_solver(self, dictionary: Dictionary) -> Any:
        return Neighbours([self.l2], dictionary)


class CNRCCV(GridSelector):
    """`CNRC` with l2 and the rule chosen by cross-validation."""

    classifier = CNRC
    default_rules = ("residual", "scaled_residual")
    grids = (Grid("l2s", "l2", (3, 1, 0.3, 0.1, 0.01, 0.001), per_samples=1000),)
    l2s = rules = cv = scoring = n_jobs = None

    def __init__(self) -> None:
        pass

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        settings = by_setting(candidates)
        solver = Neighbours([setting["l2"] for setting, _ in settings], fold.plain)
        for codes, (_, index_of) in zip(solver.codes(fold.plain_queries), settings, strict=True):
            yield from rule_scores(fold.plain, fold.plain_queries, codes, index_of)


# The searches of the library have their default grids. CRNRC with a given gamma is there for its cost.
METHODS: dict[str, Callable[[], Any]] = {
    "NSC": NSCCV,
    "CRC": CRCCV,
    "ProCRC": ProCRCCV,
    "NRC, five steps": lambda: NRCCV(max_iters=[5], exact=False),
    "NRC, exact": lambda: NRC(solver="exact"),
    "SimplexRC, l2 = 0": SimplexRC,
    "SimplexRC": SimplexRCCV,
    "SoftNRC": SoftNRCCV,
    "CRNRC": CRNRCCV,
    **{f"CRNRC, gamma = {gamma}": partial(CRNRC, gamma=gamma) for gamma in (0.01, 1, 100)},
    "SRC": SRCCV,
    "CNRC": CNRCCV,
}

# Data: from a trial to training samples, labels, queries and their labels


def projected(samples: Any, labels: Any, queries: Any, truth: Any, n_components: int) -> tuple[Any, ...]:
    pca = EigenfacePCA(n_components).fit(samples)
    return pca.transform(samples), labels, pca.transform(queries), truth


def drawn(samples: Any, labels: Any, per_class: int, trial: int) -> tuple[Any, ...]:
    split = random_split(labels, train_per_class=per_class, seed=0, trial=trial)
    return samples[split.train], labels[split.train], samples[split.test], labels[split.test]


def digits(trial: int) -> tuple[Any, ...]:
    return drawn(*load_digits(return_X_y=True), 50, trial)


def usps(trial: int) -> tuple[Any, ...]:
    data = load_dataset("usps")
    pool, queries = (2.0 * part.reshape(len(part), -1) - 1 for part in (data.x_train, data.x_test))
    samples, labels, *_ = drawn(pool, data.y_train, 100, trial)
    return projected(samples, labels, queries, data.y_test, 100)


def usps_50(trial: int) -> tuple[Any, ...]:
    data = load_dataset("usps")
    pool, queries = (part.reshape(len(part), -1).astype(np.float64) for part in (data.x_train, data.x_test))
    samples, labels, *_ = drawn(pool, data.y_train, 50, trial)
    return projected(samples, labels, queries, data.y_test, 100)


def mnist(trial: int) -> tuple[Any, ...]:
    data = load_dataset("mnist")
    pool, queries = (part.reshape(len(part), -1).astype(np.float64) for part in (data.x_train, data.x_test))
    samples, labels, *_ = drawn(pool, data.y_train, 100, trial)
    return projected(samples, labels, queries[::5], data.y_test[::5], 100)


def yale(trial: int) -> tuple[Any, ...]:
    data = load_dataset("extended_yale_b")
    images = data.images.reshape(len(data.images), -1).astype(np.float64)
    return projected(*drawn(images, data.labels, 32, trial), 150)


DATA: dict[str, Callable[[int], tuple[Any, ...]]] = {
    "digits": digits,
    "usps": usps,
    "usps_50": usps_50,
    "mnist": mnist,
    "yale": yale,
}


def measured(method: str, parts: tuple[Any, ...]) -> dict[str, Any]:
    """Accuracy in %, what was chosen, how many queries have no proof, and seconds of processor time."""
    samples, labels, queries, truth = parts
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = METHODS[method]().fit(samples, labels)
        answers = model.answer(queries)
    return {
        "accuracy": 100 * float(np.mean(answers.labels == truth)),
        "chosen": {k: v for k, v in getattr(model, "best_params_", {}).items() if k != "solver"},
        "unconverged": int(np.count_nonzero(~answers.converged)),
        "seconds": time.process_time() - begun,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--keep", type=Path, default=Path("descendants_kept.json"))
    add_option(parser)
    args = parser.parse_args()
    kept: dict[str, Any] = json.loads(args.keep.read_text()) if args.keep.exists() else {}
    rows = []
    for name, trial in product(args.data, range(args.trials)):
        place = {method: f"{name} {trial} {method}" for method in args.methods}
        parts = () if kept.keys() >= set(place.values()) else DATA[name](trial)
        for method, key in place.items():
            if key not in kept:
                kept[key] = measured(method, parts)
                write_text(args.keep, to_json(kept))
            print(key, kept[key], flush=True)
            rows.append({"data": name, "trial": trial, "method": method, **kept[key]})
            store(args.json, {"rows": rows})


if __name__ == "__main__":
    main()
