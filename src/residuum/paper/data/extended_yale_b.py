"""Extended Yale B, cropped: 38 persons x 64 lightings, uint8, 18 of the 2,432 images marked bad by the owner.

Labels are the subject numbers of the folders, 1 to 39 without 14. The owner's images of 192x168 pixels are
shrunk by area averaging to 54x48 (the paper's text) unless another `image_shape` is asked for, such as
(48, 42), the size in the authors' scripts.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.errors import DataFormatError
from residuum.paper.data.base import DataSet, Source, folder_holding, remote
from residuum.paper.data.pixels import grey_images
from residuum.paper.data.readers import mat_shapes, read_mat, read_npz, read_picture, whole
from residuum.paper.data.samples import Counts, Samples, array_samples
from residuum.system.archives import check_zip
from residuum.system.npy import naming_damage

Array = npt.NDArray[Any]

ORIGINAL = (192, 168)
_SUBJECTS = np.array([number for number in range(1, 40) if number != 14])
_IMAGE = re.compile(r"yaleB(\d\d)_P\d\dA[+-]\d{3}E[+-]\d\d\.pgm(\.bad)?")
_MAX_FILE = 2**20
_SIDES = {1024: (32, 32), 2016: (48, 42), 2592: (54, 48), 32256: ORIGINAL}


def _folder_members(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.glob("yaleB[0-9][0-9]/*.pgm*"):
        if _IMAGE.fullmatch(path.name):
            if path.stat().st_size > _MAX_FILE:
                raise DataFormatError(f"{path}: larger than {_MAX_FILE} bytes, not an image of this set.")
            yield path.name, path.read_bytes()


def _zip_members(archive: Path) -> Iterator[tuple[str, bytes]]:
    members = check_zip(archive)
    with zipfile.ZipFile(archive) as source:
        for info in members:
            name = info.filename.rsplit("/", 1)[-1]
            if _IMAGE.fullmatch(name):
                if info.file_size > _MAX_FILE:
                    raise DataFormatError(f"{archive}, {info.filename}: larger than {_MAX_FILE} bytes.")
                yield name, source.read(info)


def _read_originals(path: Path) -> Samples:
    images: dict[str, Array] = {}
    with naming_damage(path, "a copy of CroppedYale"):
        for name, content in _folder_members(path) if path.is_dir() else _zip_members(path):
            if name.endswith(".bad"):
                # Damaged on acquisition, says the owner: what is left is kept, the rest is black.
                content += bytes(ORIGINAL[0] * ORIGINAL[1])
            image = read_picture(content, f"{path}, {name}")
            if image.shape != ORIGINAL:
                raise DataFormatError(f"{path}, {name}: expected 192x168 pixels, got {image.shape}.")
            images[name] = image
    if not images:
        raise DataFormatError(f"{path}: holds no image named like yaleB01/yaleB01_P00A+000E+00.pgm.")
    names = sorted(images, key=lambda name: (name[:7], name))
    labels = np.array([int(name[5:7]) for name in names], dtype=np.int64)
    bad = np.array([name.endswith(".bad") for name in names])
    notes = () if bad.any() else ("This copy lacks the 18 images marked bad: 2,414 instead of 2,432.",)
    extra = {"names": np.array(names), "bad": bad}
    return array_samples(path, np.stack([images[name] for name in names]), labels, extra=extra, notes=notes)


def _read_prepared(path: Path) -> Samples:
    arrays = read_npz(path, ("images", "labels"), optional=("names", "bad"))
    return array_samples(path, arrays.pop("images"), arrays.pop("labels"), extra=arrays)


def _read_mat(path: Path) -> Samples:
    """Y (pixels x 64 x 38) of YaleBCrop025.mat, or fea (samples x pixels) with gnd; image(:) each."""
    if "Y" in mat_shapes(path):
        array = read_mat(path, ("Y",))["Y"]
        if array.ndim != 3 or array.shape[1:] != (64, 38):
            raise DataFormatError(f"{path}: expected Y of pixels x 64 x 38, got {array.shape}.")
        columns = array.transpose(0, 2, 1).reshape(len(array), -1)  # (pixels, 38 x 64), a person at a time
        number = np.repeat(np.arange(38), 64)
    else:
        arrays = read_mat(path, ("fea", "gnd"))
        columns, number = arrays["fea"].T, whole(path, arrays["gnd"].ravel()) - 1
        if columns.ndim != 2 or len(number) != columns.shape[1] or not 0 <= number.min() <= number.max() < 38:
            raise DataFormatError(f"{path}: expected one label 1 to 38 in gnd per row of fea.")
    if len(columns) not in _SIDES:
        raise DataFormatError(f"{path}: {len(columns)} pixels per image; expected one of {sorted(_SIDES)}.")
    images = grey_images(path, columns, _SIDES[len(columns)])
    note = "A MATLAB copy does not say which images are marked bad."
    return array_samples(path, images, _SUBJECTS[number], notes=(note,))


EXTENDED_YALE_B = DataSet(
    name="extended_yale_b",
    title="Extended Yale Face Database B, cropped",
    access="open",
    licence="free for research with acknowledgement; not to be included in redistributed databases",
    citation="A. Georghiades, P. Belhumeur, D. Kriegman. From few to many. IEEE TPAMI, 2001; "
    "K. C. Lee, J. Ho, D. Kriegman. Acquiring linear subspaces for face recognition. IEEE TPAMI, 2005.",
    counts=Counts(n_classes=38, n_samples=(2432, 2414)),
    sizes=((54, 48), (48, 42), (32, 32), ORIGINAL),
    sources=(
        Source(
            kind="prepared",
            layout="extended_yale_b_{size}.npz with the arrays images, labels, names, bad",
            names=(("extended_yale_b_{size}.npz",),),
            read=_read_prepared,
        ),
        Source(
            kind="CroppedYale folder",
            layout="the folder CroppedYale with yaleB01 ... yaleB39 and their *.pgm and *.pgm.bad files",
            names=(("CroppedYale",),),
            read=_read_originals,
            find=folder_holding("CroppedYale", "yaleB01"),
        ),
        Source(
            kind="CroppedYale archive",
            layout="CroppedYale.zip as the owner distributes it",
            names=(("CroppedYale.zip",),),
            read=_read_originals,
        ),
        Source(
            kind="MATLAB",
            layout="YaleBCrop025.mat with Y (2016 x 64 x 38), or YaleB.mat with fea and gnd",
            names=(("YaleBCrop025.mat", "YaleB.mat", "YaleB_32x32.mat", "extended_yale_b.mat"),),
            read=_read_mat,
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
