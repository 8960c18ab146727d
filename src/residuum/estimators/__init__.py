"""The scikit-learn face: classifiers, enrolment, confidence.

`METHODS` is the only list of the methods. A new classifier is its class and one line here.
"""

from typing import Any

from residuum.estimators.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC
from residuum.estimators.confidence import ConfidentClassifier
from residuum.estimators.descendants import CRNRC, SimplexRC
from residuum.estimators.examples import explain_by_examples

METHODS: dict[str, Any] = {
    "NSC": NSC,
    "SRC": SRC,
    "CRC": CRC,
    "CROC": CROC,
    "ProCRC": ProCRC,
    "NRC": NRC,
    "SoftNRC": SoftNRC,
    "SimplexRC": SimplexRC,
    "CRNRC": CRNRC,
}

__all__ = ["CRC", "CROC", "METHODS", "NRC", "NSC", "SRC", "ConfidentClassifier", "ProCRC", "SoftNRC"]
__all__ += ["CRNRC", "SimplexRC", "explain_by_examples"]
