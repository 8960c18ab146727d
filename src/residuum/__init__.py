"""Representation-based classification: the class whose samples leave the smallest residual wins."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residuum.estimators import CRC, CROC, NRC, NSC, SRC, ConfidentClassifier, ProCRC, SoftNRC
    from residuum.features import EigenfacePCA, Scattering2D
    from residuum.lstsq import lasso, least_squares, nnls
    from residuum.models.file import load_model, open_model, save_model
    from residuum.selection import CRCCV, CROCCV, NRCCV, NSCCV, SRCCV, ProCRCCV, SoftNRCCV

__version__ = "0.1.0.dev0"

# Public name -> module, imported on first use: the command answers --help without loading scikit-learn.
_HOMES = {
    name: home
    for home, names in {
        "residuum.estimators": (
            "CRC",
            "CROC",
            "NRC",
            "NSC",
            "SRC",
            "ConfidentClassifier",
            "ProCRC",
            "SoftNRC",
        ),
        "residuum.selection": ("CRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "ProCRCCV", "SoftNRCCV"),
        "residuum.lstsq": ("lasso", "least_squares", "nnls"),
        "residuum.features": ("EigenfacePCA", "Scattering2D"),
        "residuum.models.file": ("load_model", "open_model", "save_model"),
    }.items()
    for name in names
}

__all__ = ["CRC", "CROC", "NRC", "NSC", "SRC", "ConfidentClassifier", "ProCRC", "SoftNRC"]
__all__ += ["CRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "ProCRCCV", "SoftNRCCV"]
__all__ += [
    "EigenfacePCA",
    "Scattering2D",
    "lasso",
    "least_squares",
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
