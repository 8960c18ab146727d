"""Handwritten digits of 8x8 pixels that come with scikit-learn: always there, for demos and tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from residuum.paper.data.base import DataSet, Source
from residuum.paper.data.samples import Counts, Samples, array_samples


def _read(folder: Path) -> Samples:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return array_samples(folder, (bunch.images.astype(np.uint8), bunch.target))


DIGITS = DataSet(
    name="digits",
    title="Handwritten digits 8x8 (bundled with scikit-learn)",
    access="bundled",
    licence="CC BY 4.0 (UCI Machine Learning Repository, optical recognition of handwritten digits)",
    citation="E. Alpaydin, C. Kaynak. Optical recognition of handwritten digits. UCI, 1998.",
    counts=Counts(n_classes=10, n_samples=(1797,), image_shape=(8, 8)),
    sources=(
        Source(
            kind="bundled",
            layout="nothing to do: scikit-learn brings it",
            names=("scikit-learn",),
            read=_read,
            find=lambda folder: Path("scikit-learn"),
        ),
    ),
)
