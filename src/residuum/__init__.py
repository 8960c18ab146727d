"""Representation-based classification: the class whose samples leave the smallest residual wins."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residuum.estimators import CRC, CROC, NRC, NSC, SRC, ConfidentClassifier, ProCRC, SoftNRC
    from residuum.features import EigenfacePCA, Scattering2D
    from residuum.least_squares import lasso, nnls
    from residuum.models.file import load_model, open_model, save_model
    from residuum.selection import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV

__version__ = "0.1.0.dev0"

# Public name -> module, imported on first use: the command answers --help without loading scikit-learn.
_HOMES = {
    **dict.fromkeys(
        ("CRC", "CROC", "NRC", "NSC", "SRC", "ConfidentClassifier", "ProCRC", "SoftNRC"),
        "residuum.estimators",
    ),
    **dict.fromkeys(
        ("CRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "ProCRCCV", "SoftNRCCV"), "residuum.selection"
    ),
    **dict.fromkeys(("lasso", "nnls"), "residuum.least_squares"),
    **dict.fromkeys(("EigenfacePCA", "Scattering2D"), "residuum.features"),
    **dict.fromkeys(("load_model", "open_model", "save_model"), "residuum.models.file"),
}

__all__ = [
    "CRC",
    "CRCCV",
    "CROC",
    "CROCCV",
    "NRC",
    "NRCCV",
    "NSC",
    "NSCCV",
    "SRC",
    "SRCCV",
    "ConfidentClassifier",
    "EigenfacePCA",
    "ProCRC",
    "ProCRCCV",
    "Scattering2D",
    "SoftNRC",
    "SoftNRCCV",
    "lasso",
    "load_model",
    "nnls",
    "open_model",
    "save_model",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'residuum' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
