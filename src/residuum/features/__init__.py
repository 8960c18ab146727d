"""Features: scikit-learn transformers from raw samples to what the classifiers code.

To add one: a module of its own and one line in FEATURES.
"""

from __future__ import annotations

from residuum.features.cache import cached_transform
from residuum.features.pca import EigenfacePCA
from residuum.features.scattering import Scattering2D

FEATURES: dict[str, type] = {
    "pca": EigenfacePCA,
    "scattering": Scattering2D,
}

__all__ = ["FEATURES", "EigenfacePCA", "Scattering2D", "cached_transform"]
