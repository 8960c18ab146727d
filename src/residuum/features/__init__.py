"""Features: scikit-learn transformers from raw samples to what the classifiers code.

To add one: a module of its own and one line in FEATURES.
"""

from __future__ import annotations

from residuum.features.scattering import Scattering2D

FEATURES: dict[str, type] = {
    "scattering": Scattering2D,
}

__all__ = ["FEATURES", "Scattering2D"]
