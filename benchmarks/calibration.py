"""Expected calibration error (ECE, 15 bins) of every classifier on digits it was not fitted to.

    python benchmarks/calibration.py [--json docs/data/calibration.json]

The digits of scikit-learn, first half of the file to fit, second half (other writers) to test. "t = 1" is
softmax(-residuals), which no method of the library calls a probability; "ours" is `ConfidentClassifier`;
"sklearn" is scikit-learn's ``CalibratedClassifierCV(method="temperature", ensemble=False)``, from 1.8 on.
"""

from __future__ import annotations

import argparse

import numpy as np
import sklearn
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits
from stored import add_option, store

from residuum import CRC, CROC, NRC, NSC, SRC, ConfidentClassifier, ProCRC, SoftNRC
from residuum.estimators.calibration import expected_calibration_error

CLASSIFIERS = [
    NSC(),
    SRC(),
    SRC(rule="scaled_residual"),
    CRC(),
    CROC(),
    ProCRC(),
    NRC(),
    NRC(solver="exact", rule="scaled_residual"),
    SoftNRC(),
]


def sklearn_error(classifier, X, y, Q, truth) -> float:
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        return float("nan")
    model = CalibratedClassifierCV(classifier, method="temperature", ensemble=False).fit(X, y)
    p = model.predict_proba(Q)
    return expected_calibration_error(p.max(axis=1), model.classes_[p.argmax(axis=1)] == truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_option(parser)
    file, rows = parser.parse_args().json, []
    X, y = load_digits(return_X_y=True)
    half = len(y) // 2
    heads = ("accuracy", "t", "ECE t = 1", "ECE ours", "ECE sklearn")
    print(f"{'classifier':<46}" + "".join(f"{head:>12}" for head in heads))
    for classifier in CLASSIFIERS:
        model = ConfidentClassifier(classifier).fit(X[:half], y[:half])
        answers = model.answer(X[half:])
        correct = answers.classes[answers.winners] == y[half:]
        plain = softmax(-np.minimum(answers.residuals, 1e9), axis=1).max(axis=1)
        errors = (
            expected_calibration_error(plain, correct),
            expected_calibration_error(answers.probabilities.max(axis=1), correct),
            sklearn_error(classifier, X[:half], y[:half], X[half:], y[half:]),
        )
        numbers = f"{100 * correct.mean():>12.1f}{model.temperature_:>12.3g}"
        print(f"{classifier!r:<46}{numbers}" + "".join(f"{error:>12.3f}" for error in errors), flush=True)
        values = (100 * correct.mean(), model.temperature_, *errors)
        rows.append({"classifier": repr(classifier), **dict(zip(heads, map(float, values), strict=True))})
    store(file, {"rows": rows})


if __name__ == "__main__":
    main()
