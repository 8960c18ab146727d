"""Stanford Cars: 16,185 photographs of 196 models, labels 1 to 196, official split 8,144 / 8,041.

The owner's address has been dead since 2023. Copies are in circulation; whether one is the original is told
by the SHA-256 of its archives, which are declared here and checked on fetching from any mirror.
"""

from __future__ import annotations

from pathlib import Path

from residuum.paper.data.base import DataSet, Source, remote
from residuum.paper.data.readers import read_objects
from residuum.paper.data.samples import Counts, ImageSamples, image_samples

_OWNER = "https://ai.stanford.edu/~jkrause/"
_PLACES = {
    place: (f"{_OWNER}{place}/", f"https://web.archive.org/web/2022id_/{_OWNER}{place}/")
    for place in ("car196", "cars")
}


def _read(train: Path, test: Path, devkit: Path, test_annotations: Path) -> ImageSamples:
    (names,) = read_objects(devkit / "cars_meta.mat", "class_names")
    rows: list[tuple[str, int, str]] = []
    for part, folder, path in (
        ("train", train, devkit / "cars_train_annos.mat"),
        ("test", test, test_annotations),
    ):
        files, labels = read_objects(path, "annotations", "fname", "class")
        rows += [(f"{folder.name}/{file}", int(label), part) for file, label in zip(files, labels)]
    return image_samples(train.parent, rows, dict(enumerate(names, 1)))


CARS = DataSet(
    name="cars",
    title="Stanford Cars (196 models)",
    access="open",
    licence="non-commercial research only",
    citation="J. Krause, M. Stark, J. Deng, L. Fei-Fei. 3D object representations for fine-grained "
    "categorization. 3dRR workshop, ICCV, 2013.",
    photographs=True,
    counts=Counts(n_classes=196, parts={"train": (8144,), "test": (8041,)}),
    sources=(
        Source(
            kind="owner's files",
            layout="the folders cars_train (00001.jpg ...), cars_test and devkit (cars_train_annos.mat, "
            "cars_meta.mat), and cars_test_annos_withlabels.mat",
            names=("cars_train/", "cars_test/", "devkit/", "cars_test_annos_withlabels.mat"),
            read=_read,
        ),
    ),
    files=(
        remote(
            "cars_train.tgz",
            *_PLACES["car196"],
            sha256="512b227b30e2f0a8aab9e09485786ab4479582073a144998da74d64b801fd288",
            size=979_269_282,
            unpack_to="cars_train",
        ),
        remote(
            "cars_test.tgz",
            *_PLACES["car196"],
            sha256="bffea656d6f425cba3c91c6d83336e4c5f86c6cffd8975b0f375d3a10da8e243",
            size=977_350_468,
            unpack_to="cars_test",
        ),
        remote(
            "car_devkit.tgz",
            *_PLACES["cars"],
            sha256="b97deb463af7d58b6bfaa18b2a4de9829f0f79e8ce663dfa9261bf7810e9accd",
            unpack_to="devkit",
        ),
        remote(
            "cars_test_annos_withlabels.mat",
            *_PLACES["car196"],
            sha256="790f75be8ea34eeded134cc559332baf23e30e91367e9ddca97d26ed9b895f05",
        ),
    ),
    how_to_get="The owner's address (ai.stanford.edu/~jkrause) has been dead since 2023. Copies: the fast.ai "
    "bucket (fast-ai-imageclas/stanford-cars.tgz), Kaggle (jessicali9530/stanford-cars-dataset), Hugging "
    "Face (Multimodal-Fatima/StanfordCars_train), the web archive. With a folder on the web that holds the "
    "original cars_train.tgz, cars_test.tgz, car_devkit.tgz and cars_test_annos_withlabels.mat, "
    "'residuum data fetch cars --mirror URL' checks their SHA-256.",
)
