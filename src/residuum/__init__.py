"""Representation-based classification: the class whose samples leave the smallest residual wins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from residuum.system.lazy import on_first_use

if TYPE_CHECKING:
    from residuum.estimators import (
        CRC,
        CRNRC,
        CROC,
        NRC,
        NSC,
        SRC,
        ConfidentClassifier,
        ProCRC,
        SimplexRC,
        SoftNRC,
    )
    from residuum.estimators.displays import CodeDisplay, ResidualDisplay
    from residuum.estimators.examples import explain_by_examples
    from residuum.features import EigenfacePCA, KernelMap, Scattering2D
    from residuum.lstsq import (
        Tikhonov,
        choose_weight,
        lasso,
        least_squares,
        least_squares_from_gram,
        nnls,
        tikhonov_path,
    )
    from residuum.models.file import load_model, open_model
    from residuum.models.saving import save_model
    from residuum.regression import NonNegativeRegression
    from residuum.selection import (
        CRCCV,
        CRNRCCV,
        CROCCV,
        NRCCV,
        NSCCV,
        SRCCV,
        PipelineCV,
        ProCRCCV,
        SimplexRCCV,
        SoftNRCCV,
    )

__version__ = "0.1.0.dev0"

__all__ = ["CRC", "CRNRC", "CROC", "NRC", "NSC", "SRC", "ConfidentClassifier", "ProCRC", "SimplexRC"]
__all__ += ["SoftNRC"]
__all__ += ["CRCCV", "CRNRCCV", "CROCCV", "NRCCV", "NSCCV", "SRCCV", "PipelineCV", "ProCRCCV"]
__all__ += ["SimplexRCCV", "SoftNRCCV"]
__all__ += ["CodeDisplay", "ResidualDisplay", "explain_by_examples"]
__all__ += ["EigenfacePCA", "KernelMap", "Scattering2D"]
__all__ += ["Tikhonov", "choose_weight", "lasso", "least_squares", "least_squares_from_gram", "nnls"]
__all__ += ["NonNegativeRegression", "tikhonov_path"]
__all__ += ["load_model", "open_model", "save_model"]

# Module -> public names, imported on first use: the command answers --help without loading scikit-learn.
_MODULES = {
    "residuum.estimators": "CRC CRNRC CROC NRC NSC SRC ConfidentClassifier ProCRC SimplexRC SoftNRC",
    "residuum.estimators.displays": "CodeDisplay ResidualDisplay",
    "residuum.estimators.examples": "explain_by_examples",
    "residuum.selection": "CRCCV CRNRCCV CROCCV NRCCV NSCCV SRCCV PipelineCV ProCRCCV SimplexRCCV SoftNRCCV",
    "residuum.lstsq": "Tikhonov choose_weight lasso least_squares least_squares_from_gram nnls tikhonov_path",
    "residuum.regression": "NonNegativeRegression",
    "residuum.features": "EigenfacePCA KernelMap Scattering2D",
    "residuum.models.file": "load_model open_model",
    "residuum.models.saving": "save_model",
}
__getattr__, __dir__ = on_first_use(__name__, _MODULES)
