"""FGVC-Aircraft 2013b: 10,000 photographs of 100 variants, official parts 3,334 / 3,333 / 3,333.

Labels are 1 to 100 in the order of variants.txt. By default the owner's training and validation parts train
together (trainval, 6,667 images) and the test part tests, as in the owner's protocol.
"""

from __future__ import annotations

from pathlib import Path

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, owners_folder, remote
from residuum.paper.data.readers import read_lines
from residuum.paper.data.samples import Counts, ImageSamples, image_samples

_NAME = "fgvc-aircraft-2013b"
_NOTE = "The lowest 20 rows of every image are a banner with its photographer's name, not part of the scene."


def _read(root: Path) -> ImageSamples:
    folder = root / "data"
    variants = read_lines(folder / "variants.txt")
    numbers = {variant: label for label, variant in enumerate(variants, 1)}
    rows: list[tuple[str, int, str]] = []
    for part in ("train", "val", "test"):
        path = folder / f"images_variant_{part}.txt"
        for line in read_lines(path):
            image, _, variant = line.partition(" ")
            if variant not in numbers:
                raise DataFormatError(
                    f"{path}: expected 'image variant' with a variant of variants.txt; {line!r}."
                )
            rows.append((f"{image}.jpg", numbers[variant], part))
    names = dict(enumerate(variants, 1))
    return image_samples(folder / "images", rows, names, train_parts=("train", "val"), notes=(_NOTE,))


AIRCRAFT = DataSet(
    name="aircraft",
    title="FGVC-Aircraft 2013b (variants)",
    access="open",
    licence="non-commercial research only",
    citation="S. Maji, E. Rahtu, J. Kannala, M. Blaschko, A. Vedaldi. Fine-grained visual classification of "
    "aircraft. arXiv:1306.5151, 2013.",
    photographs=True,
    counts=Counts(n_classes=100, parts={"train": (3334,), "val": (3333,), "test": (3333,)}),
    sources=(
        owners_folder(
            _NAME,
            "data/images_variant_train.txt",
            layout="the folder fgvc-aircraft-2013b with data/images, data/variants.txt and "
            "data/images_variant_train.txt, ..._val.txt, ..._test.txt",
            read=_read,
        ),
    ),
    files=(
        remote(
            "fgvc-aircraft-2013b.tar.gz",
            "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/",
            md5="d4acdd33327262359767eeaa97a4f732",
            unpack_to=_NAME,
        ),
    ),
)
