"""How the comparison got its parameters of SVM, softmax, kNN and NSC: by cross-validation.

    python benchmarks/compare_parameters.py

For each of the five trials of seed 0 at 50 samples per class, 5-fold cross-validation on the training samples
alone scores every candidate; the best mean over the trials is what ``residuum compare`` uses. The trials
overlap, so a sample that trains one trial can be a query of another.
"""

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import normalize

from residuum.experiments.compared_data import bundled_digits, random_split
from residuum.experiments.comparison import TUNED, make_estimator

CANDIDATES = {
    "l2": [1e-4, 1e-3, 1e-2, 0.1, 1, 10],
    "C": [0.1, 1, 10, 100, 1000],
    "n_neighbors": [1, 3, 5, 9, 15],
}


def main() -> None:
    """Print the score of every candidate and the choice."""
    data = bundled_digits()
    samples = normalize(data.samples)  # as all of these methods get them, or make them
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    trials = [random_split(data.labels, train_per_class=50, seed=0, trial=trial).train for trial in range(5)]
    for method, values in TUNED.items():
        (name,) = values
        estimator = make_estimator(method)
        scores = {}
        for value in CANDIDATES[name]:
            candidate = clone(estimator).set_params(**{name: value})
            scores[value] = np.mean(
                [cross_val_score(candidate, samples[t], data.labels[t], cv=folds).mean() for t in trials]
            )
        best = max(scores, key=scores.get)
        listing = ", ".join(f"{value:g}: {100 * score:.2f}" for value, score in scores.items())
        print(f"{method}: {name}={best:g}, used {estimator.get_params()[name]:g} (accuracy % {listing})")


if __name__ == "__main__":
    main()
