"""Every scikit-learn check for every public estimator, with array API dispatch on, none expected to fail."""

import os
import subprocess
import sys

import pytest

import residuum
from residuum.estimators import METHODS

ESTIMATORS = list(METHODS)
ESTIMATORS += [f"{name}CV" for name in ESTIMATORS]
ESTIMATORS += ["ConfidentClassifier", "PipelineCV"]

# Small grids: the checks fit each estimator some hundred times.
SMALL = {
    "NRCCV": "rhos=[1.0], max_iters=[2, 5], cv=2",
    "SoftNRCCV": "l2s=[0.01], neg_weights=[1.0, float('inf')], cv=2",
    "SRCCV": "l1s=[0.1, 0.01], cv=2",
    "CRCCV": "l2s=[0.1, 0.01], cv=2",
    "CROCCV": "l2s=[0.1], weights=[0, 1], cv=2",
    "ProCRCCV": "gammas=[1.0], l2s=[0.1], cv=2",
    "NSCCV": "l2s=[0.1, 0.01], cv=2",
    "SimplexRCCV": "l2s=[0, 0.1], cv=2",
    "CRNRCCV": "gammas=[0.1, 1.0], cv=2",
    "ConfidentClassifier": "residuum.NRC(), reject_threshold=1e-12",
    "PipelineCV": "residuum.SoftNRCCV(l2s=[0.01], neg_weights=[1.0], cv=2), "
    "features=['passthrough', residuum.KernelMap()]",
}

SCRIPT = """
import sys, warnings
import residuum
from sklearn.utils.estimator_checks import check_estimator
warnings.simplefilter("ignore")
results = check_estimator(eval(f"residuum.{sys.argv[1]}({sys.argv[2]})"), on_fail=None)
failed = [(r["check_name"], r["exception"]) for r in results if r["status"] != "passed"]
print(len(results), "checks")
assert len(results) >= 45, len(results)
assert not failed, failed
"""


@pytest.mark.parametrize("name", [*ESTIMATORS, "NonNegativeRegression"])
def test_check_estimator(name):
    # SCIPY_ARRAY_API is read when SciPy is imported, hence a process of its own.
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT, name, SMALL.get(name, "")],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("name", ESTIMATORS)
def test_poor_score_only_where_two_features_make_every_class_span_the_plane(name):
    poor = getattr(residuum, name)().__sklearn_tags__().classifier_tags.poor_score
    good = ("NRC", "SoftNRC", "SimplexRC", "ConfidentClassifier", "Pipeline")
    assert poor == (name.removesuffix("CV") not in good)
