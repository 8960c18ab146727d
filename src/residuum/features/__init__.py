"""Features: scikit-learn transformers from raw samples to what the classifiers code.

TableEncoder takes the columns of a table; EigenfacePCA, Scattering2D and KernelMap take numbers; BowSift and
CNNFeatures take images, and are listed in EXTRACTORS under the names that ``residuum features --with`` knows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from residuum.features.bow_sift import BowSift
from residuum.features.cache import cached_transform
from residuum.features.cnn import CNNFeatures
from residuum.features.extraction import ImageFeatures, extract_folder, extract_images
from residuum.features.image_files import ImageError, read_image
from residuum.features.kernel_map import KernelMap
from residuum.features.networks import NETWORKS
from residuum.features.pca import EigenfacePCA
from residuum.features.scattering import Scattering2D
from residuum.features.table_encoder import TableEncoder

EXTRACTORS: dict[str, Callable[..., Any]] = {
    "bow_sift": BowSift,
    "bow_sift_colour": partial(BowSift, colour=True),
    "bow_sift_paper": BowSift.as_published,
    **{name: partial(CNNFeatures, name) for name in NETWORKS},
}

__all__ = [
    "EXTRACTORS",
    "BowSift",
    "CNNFeatures",
    "EigenfacePCA",
    "ImageError",
    "ImageFeatures",
    "KernelMap",
    "Scattering2D",
    "TableEncoder",
    "cached_transform",
    "extract_folder",
    "extract_images",
    "read_image",
]
