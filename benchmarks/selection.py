"""Processor time of the *CV estimators against GridSearchCV: the same candidates and splits, one run.

    RESIDUUM_DATA=folder OMP_NUM_THREADS=1 python benchmarks/selection.py [--sample 42]

Extended Yale B, 32 training samples for each of 38 subjects, 300 features. GridSearchCV over all 420
candidates of NRC takes many minutes, so it is timed on every n-th candidate (--sample of them) and scaled
up; --sample 420 times them all. Fold scores are compared on the candidates that both have.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from stored import add_option, store

from residuum import CRC, CRCCV, NRC, NRCCV, EigenfacePCA
from residuum.paper.data import load_dataset


def training_part(seed: int = 0):
    data = load_dataset("extended_yale_b")
    samples = data.images.reshape(len(data.images), -1).astype(np.float64)
    rng = np.random.default_rng(seed)
    chosen = np.concatenate(
        [rng.permutation(np.flatnonzero(data.labels == k))[:32] for k in np.unique(data.labels)]
    )
    return EigenfacePCA(300).fit_transform(samples[chosen]), data.labels[chosen]


def race(name: str, search, plain, X, y, sample: int | None) -> dict:
    start = time.process_time()
    search.fit(X, y)
    ours = time.process_time() - start
    candidates = search.cv_results_["params"]
    step = 1 if sample is None else max(1, len(candidates) // sample)
    some = [{k: [v] for k, v in c.items()} for c in candidates[::step]]
    start = time.process_time()
    reference = GridSearchCV(plain, some, cv=search.cv, refit=False).fit(X, y)
    theirs = (time.process_time() - start) * len(candidates) / len(some)
    apart = np.abs(
        search.cv_results_["mean_test_score"][::step] - reference.cv_results_["mean_test_score"]
    ).max()
    print(
        f"{name}: {len(candidates)} candidates, ours {ours:.1f} s, GridSearchCV {theirs:.0f} s"
        f"{'' if step == 1 else f' (from {len(some)} candidates)'}: {theirs / ours:.0f} times; "
        f"largest difference of a mean score {apart:.1e}",
        flush=True,
    )
    return {
        "name": name,
        "candidates": len(candidates),
        "timed by GridSearchCV": len(some),
        "ours s": ours,
        "GridSearchCV s": theirs,
        "largest difference": float(apart),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sample", type=int, default=42)
    add_option(parser)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    X, y = training_part()
    few = np.flatnonzero(y <= 1)
    GridSearchCV(CRC(), {"l2": [1.0]}, cv=2).fit(X[few], y[few])  # imports and thread pools of both sides
    CRCCV(cv=2).fit(X[few], y[few])
    cv = StratifiedKFold(5, shuffle=True, random_state=0)
    rhos = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    rules = ["residual", "reconstruction", "scaled_residual"]
    every_step = NRCCV(rhos=rhos, max_iters=range(1, 21), rules=rules, exact=False, cv=cv)
    rows = [race("CRC, 20 l2", CRCCV(rules=["scaled_residual"], cv=cv), CRC(), X, y, None)]
    rows.append(race("NRC, 7 rho x 20 T x 3 rules", every_step, NRC(), X, y, args.sample))
    store(args.json, {"rows": rows})


if __name__ == "__main__":
    main()
