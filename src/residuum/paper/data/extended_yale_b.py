"""Extended Yale B, cropped: 38 persons x 64 lightings, uint8, 18 of the 2,432 images marked bad by the owner.

Labels are the subject numbers of the folders, 1 to 39 without 14. The owner's images of 192x168 pixels are
shrunk by area averaging to 54x48 (the paper's text) unless another `image_shape` is asked for, such as
(48, 42), the size in the authors' scripts.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, owners_folder, remote
from residuum.paper.data.pixels import grey_images
from residuum.paper.data.readers import read_mat, read_npz, read_picture
from residuum.paper.data.samples import Counts, Samples, array_samples

ORIGINAL = (192, 168)
_SUBJECTS = np.array([number for number in range(1, 40) if number != 14])
_IMAGE = re.compile(r"yaleB(\d\d)_P\d\dA[+-]\d{3}E[+-]\d\d\.pgm(\.bad)?")
_MAX_FILE = 2**20
_MATLAB = (48, 42)


def _read_image(path: Path) -> npt.NDArray[np.uint8]:
    if path.stat().st_size > _MAX_FILE:
        raise DataFormatError(f"{path}: larger than {_MAX_FILE} bytes, not an image of this set.")
    # Damaged on acquisition, says the owner of bad images: what is left is kept, the rest is black.
    padding = bytes(ORIGINAL[0] * ORIGINAL[1]) if path.suffix == ".bad" else b""
    image = read_picture(path.read_bytes() + padding, str(path))
    if image.shape != ORIGINAL:
        raise DataFormatError(f"{path}: expected 192x168 pixels, got {image.shape}.")
    return image


def _read_folder(folder: Path) -> Samples:
    paths = sorted(path for path in folder.glob("yaleB[0-9][0-9]/*") if _IMAGE.fullmatch(path.name))
    if not paths:
        raise DataFormatError(f"{folder}: holds no image named like yaleB01/yaleB01_P00A+000E+00.pgm.")
    names = np.array([path.name for path in paths])
    labels = np.array([int(name[5:7]) for name in names])
    bad = np.char.endswith(names, ".bad")
    notes = () if bad.any() else ("This copy lacks the 18 images marked bad: 2,414 instead of 2,432.",)
    images = np.stack([_read_image(path) for path in paths])
    return array_samples(folder, (images, labels), extra={"names": names, "bad": bad}, notes=notes)


def _read_prepared(path: Path) -> Samples:
    arrays = read_npz(path, ("images", "labels"), optional=("names", "bad"))
    return array_samples(path, (arrays.pop("images"), arrays.pop("labels")), extra=arrays)


def _read_mat(path: Path) -> Samples:
    array = read_mat(path, ("Y",))["Y"]
    if array.shape != (_MATLAB[0] * _MATLAB[1], 64, 38):
        raise DataFormatError(f"{path}: expected Y of 2016 x 64 x 38, got {array.shape}.")
    columns = array.transpose(0, 2, 1).reshape(len(array), -1)  # (pixels, 38 x 64), a person at a time
    note = "A MATLAB copy does not say which images are marked bad."
    images = grey_images(path, columns, _MATLAB)
    return array_samples(path, (images, np.repeat(_SUBJECTS, 64)), notes=(note,))


def _prepared(height: int, width: int) -> Source:
    name = f"extended_yale_b_{height}x{width}.npz"
    return Source(
        kind="prepared",
        layout=f"{name} with the arrays images, labels, names, bad",
        names=(name,),
        read=_read_prepared,
        image_shape=(height, width),
    )


EXTENDED_YALE_B = DataSet(
    name="extended_yale_b",
    title="Extended Yale Face Database B, cropped",
    access="open",
    licence="free for research with acknowledgement; not to be included in redistributed databases",
    citation="A. Georghiades, P. Belhumeur, D. Kriegman. From few to many. IEEE TPAMI, 2001; "
    "K. C. Lee, J. Ho, D. Kriegman. Acquiring linear subspaces for face recognition. IEEE TPAMI, 2005.",
    counts=Counts(n_classes=38, n_samples=(2432, 2414)),
    default_shape=(54, 48),
    sources=(
        _prepared(54, 48),
        _prepared(48, 42),
        owners_folder(
            "CroppedYale",
            "yaleB01",
            layout="the folder CroppedYale with yaleB01 ... yaleB39 and their *.pgm and *.pgm.bad files",
            read=_read_folder,
        ),
        Source(
            kind="MATLAB",
            layout="YaleBCrop025.mat with Y (2016 x 64 x 38), only for image_shape=(48, 42)",
            names=("YaleBCrop025.mat",),
            read=_read_mat,
            image_shape=_MATLAB,
        ),
    ),
    files=(
        remote(
            "CroppedYale.zip",
            "http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/",
            "https://vision.ucsd.edu/extyaleb/CroppedYaleBZip/",
            unpack_to="CroppedYale",
        ),
    ),
)
