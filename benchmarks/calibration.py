"""Expected calibration error (ECE, 15 bins) of every classifier on digits it was not fitted to.

    python benchmarks/calibration.py

The digits of scikit-learn, first half of the file to fit, second half (other writers) to test. "t = 1" is
softmax(-residuals), which no method of the library calls a probability; "fitted" is `predict_proba` after
``probability=True``.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax
from sklearn.datasets import load_digits

from residuum import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC
from residuum.estimators.confidence import expected_calibration_error

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


def main() -> None:
    X, y = load_digits(return_X_y=True)
    half = len(y) // 2
    print(f"{'classifier':<46} {'accuracy':>8} {'t':>9} {'ECE t = 1':>10} {'ECE fitted':>10} {'mean p':>7}")
    for classifier in CLASSIFIERS:
        name = repr(classifier)
        classifier.set_params(probability=True).fit(X[:half], y[:half])
        residuals = classifier.residuals(X[half:])
        correct = classifier.classes_[residuals.argmin(axis=1)] == y[half:]
        plain = softmax(-residuals, axis=1).max(axis=1)
        fitted = classifier.predict_proba(X[half:]).max(axis=1)
        print(
            f"{name:<46} {100 * correct.mean():>8.1f} {classifier.temperature_:>9.3g} "
            f"{expected_calibration_error(plain, correct):>10.3f} "
            f"{expected_calibration_error(fitted, correct):>10.3f} {np.mean(fitted):>7.3f}"
        )


if __name__ == "__main__":
    main()
