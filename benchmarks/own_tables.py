"""What a new user gets: `residuum fit` on tables, by default and with --select cv, beside scikit-learn.

Mean accuracy over random splits with 30 % held out, the same splits for all. The classifiers of scikit-learn
have their default parameters, on standardised columns.

    OMP_NUM_THREADS=1 python benchmarks/own_tables.py [--json docs/data/own_tables.json]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import datasets
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stored import add_option, store

from residuum.inputs import OwnData
from residuum.inputs.image_features import guess_image_shape
from residuum.models.preparing import chosen_features
from residuum.models.recipe import Recipe, fit_recipe

OPTIONS = dict.fromkeys(("scale", "kernel", "sharpness", "pca"), None) | {"embeddings": False}
PEERS = {
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "kNN": lambda: make_pipeline(StandardScaler(), KNeighborsClassifier()),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}


def tables() -> Iterator[tuple[str, Any, Any]]:
    """Name, samples and labels."""
    yield "iris", *datasets.load_iris(return_X_y=True)
    yield "wine", *datasets.load_wine(return_X_y=True)
    yield "breast cancer", *datasets.load_breast_cancer(return_X_y=True)
    yield "digits", *datasets.load_digits(return_X_y=True)
    X, y = datasets.load_diabetes(return_X_y=True)
    yield "diabetes, terciles", X, np.digitize(y, np.quantile(y, [1 / 3, 2 / 3]))
    yield "moons", *datasets.make_moons(400, noise=0.3, random_state=0)
    yield (
        "4 classes of 20",
        *datasets.make_classification(
            600, 20, n_informative=6, n_redundant=4, n_classes=4, n_clusters_per_class=2, random_state=0
        ),
    )


def accuracies(X: Any, y: Any, train: Any, test: Any) -> list[float]:
    """Ours by default and with --select cv, then the peers."""
    warnings.simplefilter("ignore")
    data = OwnData("table", "table", X, y, np.arange(len(X)), columns=("named",) * X.shape[1])
    data = OwnData(**{**vars(data), "image_shape": guess_image_shape(data)})
    found = []
    for select in ("fixed", "cv"):
        recipe = Recipe(select=select, features=chosen_features(data, OPTIONS, select=select))
        fitted = fit_recipe(recipe, X[train], y[train])
        found.append(float(np.mean(fitted.estimator.predict(X[test]) == y[test])))
    return found + [make().fit(X[train], y[train]).score(X[test], y[test]) for make in PEERS.values()]


def main() -> None:
    """Print one line per table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--tables", default="", help="Only those whose names contain this.")
    add_option(parser)
    args, kept = parser.parse_args(), []
    print(f"| table | default | --select cv | {' | '.join(PEERS)} | cv - best peer |")
    print("|---|" + "---:|" * (3 + len(PEERS)))
    for name, X, y in tables():
        if args.tables not in name:
            continue
        splits = StratifiedShuffleSplit(args.splits, test_size=0.3, random_state=0).split(X, y)
        rows = Parallel(n_jobs=2)(delayed(accuracies)(X, y, *split) for split in splits)
        means = 100 * np.mean(rows, axis=0)
        cells = " | ".join(f"{mean:.1f}" for mean in means)
        print(f"| {name} | {cells} | {means[1] - means[2:].max():+.1f} |", flush=True)
        columns = ("default", "--select cv", *PEERS)
        kept.append({"table": name, **dict(zip(columns, means.tolist(), strict=True))})
    store(args.json, {"splits": args.splits, "rows": kept})


if __name__ == "__main__":
    main()
