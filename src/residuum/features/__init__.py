"""Features: scikit-learn transformers from raw samples to what the classifiers code.

To add one: a module of its own and one line in FEATURES. Those that take images rather than numbers also get
a line in EXTRACTORS, under the name that ``residuum features --with`` knows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from residuum.features._networks import NETWORKS, fetch_weights
from residuum.features.bow_sift import BowSift
from residuum.features.cache import cached_transform
from residuum.features.cnn import CNNFeatures
from residuum.features.folder import FolderFeatures, FolderReport, extract_folder, load_features
from residuum.features.images import ImageError, read_image
from residuum.features.pca import EigenfacePCA
from residuum.features.scattering import Scattering2D

FEATURES: dict[str, type] = {
    "pca": EigenfacePCA,
    "scattering": Scattering2D,
    "bow_sift": BowSift,
    "cnn": CNNFeatures,
}

EXTRACTORS: dict[str, Callable[..., Any]] = {
    "bow_sift": BowSift,
    **{name: partial(CNNFeatures, name) for name in NETWORKS},
}

__all__ = [
    "EXTRACTORS",
    "FEATURES",
    "BowSift",
    "CNNFeatures",
    "EigenfacePCA",
    "FolderFeatures",
    "FolderReport",
    "ImageError",
    "Scattering2D",
    "cached_transform",
    "extract_folder",
    "fetch_weights",
    "load_features",
    "read_image",
]
