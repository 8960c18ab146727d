"""MNIST: 60,000 + 10,000 handwritten digits of 28x28 pixels, uint8, labels 0 to 9."""

from __future__ import annotations

from pathlib import Path

from residuum.paper.data.base import DataSet, Source, prepared_split, remote
from residuum.paper.data.readers import read_idx
from residuum.paper.data.samples import Counts, Samples, array_samples

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "http://yann.lecun.com/exdb/mnist/",
)
_SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def _read_idx(*paths: Path) -> Samples:
    arrays = [read_idx(path) for path in paths]
    return array_samples(paths[0].parent, (arrays[0], arrays[1]), (arrays[2], arrays[3]))


MNIST = DataSet(
    name="mnist",
    title="MNIST handwritten digits",
    access="open",
    licence="commonly stated as CC BY-SA 3.0 (Y. LeCun, C. Cortes); check before you redistribute",
    citation="Y. LeCun, L. Bottou, Y. Bengio, P. Haffner. Gradient-based learning applied to document "
    "recognition. Proc. IEEE, 1998.",
    counts=Counts(
        n_classes=10,
        per_class={
            "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
            "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
        },
        image_shape=(28, 28),
    ),
    sources=(
        prepared_split("mnist"),
        Source(
            kind="idx",
            layout=f"the four files {', '.join(_SHA256)} (or unpacked, without .gz)",
            names=tuple(_SHA256),
            read=_read_idx,
        ),
    ),
    files=tuple(remote(name, *_MIRRORS, sha256=digest) for name, digest in _SHA256.items()),
)
