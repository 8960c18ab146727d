"""Images from files, by rules that hold for every extractor.

============================  =======================================================================
file                          rule
============================  =======================================================================
JPEG PNG GIF BMP TIFF WEBP    read; the kind is told from the content, never from the name
PPM PGM PBM
EXIF orientation              applied; a damaged EXIF block counts as none
greyscale, bilevel            read; the grey value stands in all three channels
CMYK, YCbCr, Lab, palette     read; converted to RGB
transparent                   read; laid over white
16-bit greyscale              read; values / 257, rounded
32-bit integer or float       refused: such values have no agreed range
animated                      read; the first frame
smaller than ``min_side``     refused (a 1 x 1 image says nothing about a class)
more than 80 million pixels   refused from the header, before anything is decoded
truncated, corrupt            refused: half an image must not pass for a whole one
not an image, empty, folder,  refused
pipe, device, unreadable
============================  =======================================================================

Refused means ``ImageError``, which names the file and the reason. ``extract_images`` skips such files and
lists them in its result; a transformer that is called with a list of paths raises.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, DataFormatError, DataNotFoundError, UsageError

# Pillow is imported where it is needed: importing the features must stay quick.

Pixels = npt.NDArray[np.uint8]
ImageSource = str | os.PathLike[str] | bytes | npt.NDArray[Any]

CONTENT = "the image"  # what errors call one that has no name
MAX_PIXELS = 80_000_000
RULES_VERSION = 1  # counted up when the same file would give other pixels
# A closed list: Pillow knows formats that call other programs or fetch what they refer to.
FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")


class ImageError(DataFormatError):
    """A file that cannot be used as an image; `reason` is one line for a report."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}.")
        self.path = path
        self.reason = reason

    def __reduce__(self) -> Any:
        return type(self), (self.path, self.reason)


def list_folder(folder: Path) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(path, label) of every file below the class folders, sorted, and (path, reason) of files beside them.

    Names that begin with a dot are left out. A folder without sub-folders gives the label "" to all.
    """
    if not folder.is_dir():
        raise DataNotFoundError(f"{folder} is not a folder. Pass a folder with one sub-folder per class.")
    try:
        entries = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise DataError(f"Cannot look into {folder}: {error.strerror}.") from error
    classes = [name for name in entries if (folder / name).is_dir()]
    loose = [name for name in entries if name not in set(classes)]
    if not classes:
        return [(name, "") for name in loose], []
    files = []
    for label in classes:
        for place, folders, names in os.walk(folder / label):  # links may form a circle: not followed
            folders[:] = [name for name in folders if not name.startswith(".")]
            below = Path(place).relative_to(folder)
            files += [((below / name).as_posix(), label) for name in names if not name.startswith(".")]
    reason = "lies beside the class folders, so its class is unknown"
    return sorted(files, key=lambda file: file[::-1]), [(name, reason) for name in loose]


def read_image(
    source: ImageSource,
    *,
    mode: Literal["rgb", "grey"] = "rgb",
    max_side: int | None = None,
    max_short: int | None = None,
    min_side: int = 16,
) -> Pixels:
    """Return one image as 8-bit pixels, by the rules in the description of this module.

    Parameters
    ----------
    source : path, bytes or ndarray
        A file; the content of one; or pixels of shape (height, width) or (height, width, 3), uint8, or float
        in [0, 1].
    mode : {"rgb", "grey"}, default="rgb"
        Channels of the result. Grey is 0.299 R + 0.587 G + 0.114 B.
    max_side : int or None, default=None
        Longest side of the result; a larger image is shrunk, a smaller one is left as it is.
    max_short : int or None, default=None
        The same for the shortest side.
    min_side : int, default=16
        Shortest side that is accepted, measured after shrinking.

    Returns
    -------
    ndarray of uint8, shape (height, width, 3) or (height, width)

    Raises
    ------
    ImageError
        When the file is refused.
    """
    from PIL import Image

    if isinstance(source, np.ndarray):
        where, picture = "an array", Image.fromarray(_checked_pixels(source))
        picture = _resized(picture, _fitted(picture.size, max_side, max_short))
    elif isinstance(source, (str, os.PathLike, bytes)):
        where = CONTENT if isinstance(source, bytes) else os.fspath(source)
        file = source if isinstance(source, bytes) else Path(source)
        picture = _decoded(file, mode == "grey", max_side, max_short)
    else:
        raise UsageError(
            f"An image must be a path or an array of pixels. Got {type(source).__name__} instead."
        )
    if min(picture.size) < min_side:
        size = f"{picture.width} x {picture.height} pixels"
        needed = f"{min_side} are needed on each side; pixels as features take any size"
        raise ImageError(where, f"too small: {size}, {needed}")
    return np.asarray(picture.convert("L" if mode == "grey" else "RGB"))


def image_header(file: Path | bytes) -> tuple[int, int]:
    """Width and height that a file, or its content, declares; ImageError where it is no image."""
    from PIL import Image

    with refusing(file), Image.open(_stream(file), formats=FORMATS) as picture:
        return (int(picture.width), int(picture.height))


def _stream(file: Path | bytes) -> Path | io.BytesIO:
    return io.BytesIO(file) if isinstance(file, bytes) else file


@contextmanager
def refusing(file: Path | bytes) -> Iterator[None]:
    """Raise ImageError where a path is no ordinary file, or where reading it fails in any way."""
    from PIL import Image, UnidentifiedImageError

    where = CONTENT if isinstance(file, bytes) else str(file)
    try:
        # Opening a pipe would wait forever.
        if not isinstance(file, bytes) and not stat.S_ISREG(file.stat().st_mode):
            raise ImageError(where, "not a regular file")
        yield
    except ImageError:
        raise
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        if isinstance(error, UnidentifiedImageError):
            size = len(file) if isinstance(file, bytes) else file.stat().st_size
            reason = "not an image of a known format" if size else "empty file"
        elif isinstance(error, Image.DecompressionBombError):
            reason = f"too large: {error}"
        elif isinstance(error, OSError) and error.strerror:
            reason = f"cannot be read: {error.strerror}"
        else:
            reason = f"damaged or truncated: {str(error).strip() or type(error).__name__}"
        raise ImageError(where, reason.replace("\n", " ").rstrip(".")) from error


def _decoded(file: Path | bytes, grey: bool, max_side: int | None, max_short: int | None) -> Any:
    from PIL import Image, ImageOps

    where = CONTENT if isinstance(file, bytes) else str(file)
    with refusing(file), Image.open(_stream(file), formats=FORMATS) as picture:
        if picture.width * picture.height > MAX_PIXELS:
            size = f"{picture.width} x {picture.height} pixels"
            raise ImageError(where, f"too large: {size}, at most {MAX_PIXELS} are read")
        width, height = _fitted(picture.size, max_side, max_short)
        # JPEG decodes its grey channel alone, or at 1/2, 1/4 or 1/8, for a fraction of the work; twice the
        # target keeps detail. Other formats ignore this.
        shrinks = width < picture.width or height < picture.height
        picture.draft("L" if grey else None, (2 * width, 2 * height) if shrinks else picture.size)
        picture.load()
        upright: Any = picture
        with suppress(Exception):  # a damaged EXIF block
            upright = ImageOps.exif_transpose(picture)
        turned = upright.size != picture.size and upright.size == picture.size[::-1]
        return _resized(_eight_bit(where, upright), (height, width) if turned else (width, height))


def _eight_bit(where: str, picture: Any) -> Any:
    """RGB or grey with 8 bits per channel."""
    from PIL import Image

    if picture.mode == "F":
        raise ImageError(where, "floating-point pixels, which have no agreed range")
    if picture.mode.startswith("I"):
        values = np.asarray(picture).astype(np.int64)
        if values.min() < 0 or values.max() > 65535:
            raise ImageError(where, "32-bit integer pixels, which have no agreed range")
        return Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if picture.has_transparency_data:
        layered = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", layered.size, "white"), layered).convert("RGB")
    if picture.mode in ("L", "RGB"):
        return picture
    return picture.convert("L" if picture.mode == "1" else "RGB")


def _fitted(size: tuple[int, int], max_side: int | None, max_short: int | None) -> tuple[int, int]:
    """Size of an image after shrinking, with its proportions kept."""
    ratio = min(1.0, (max_side or max(size)) / max(size), (max_short or min(size)) / min(size))
    return (max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio)))


def _resized(picture: Any, size: tuple[int, int]) -> Any:
    return picture if picture.size == size else picture.resize(size)  # bicubic


def resize(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Pixels brought to (height, width), averaged where they shrink."""
    from PIL import Image

    return np.asarray(_resized(Image.fromarray(pixels), (size[1], size[0])))


def _checked_pixels(pixels: npt.NDArray[Any]) -> Pixels:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.size and (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] == 3)):
        if pixels.dtype == np.uint8:
            return np.ascontiguousarray(pixels)
        if pixels.dtype.kind == "f" and 0 <= pixels.min() <= pixels.max() <= 1:  # NaN is in no range
            return np.rint(pixels * 255).astype(np.uint8)
    raise UsageError(
        "An image array must have the shape (height, width) or (height, width, 3) and hold uint8, or floats "
        f"from 0 to 1. Got the shape {pixels.shape} and the type {pixels.dtype}; rescale it."
    )


def as_images(X: Any, owner: str) -> Sequence[Any]:
    """A sequence of paths or pixel arrays, or an error that says what is wanted."""
    if hasattr(X, "to_numpy"):  # a pandas column of paths
        X = X.to_numpy()
    if isinstance(X, np.ndarray) and X.dtype.kind in "OU":
        X = X.ravel().tolist()
    stacked = isinstance(X, np.ndarray) and X.ndim in (3, 4)
    listed = isinstance(X, Sequence) and not isinstance(X, (str, bytes))
    if not (stacked or listed) or len(X) == 0:
        got = f"an array of shape {X.shape}" if isinstance(X, np.ndarray) else repr(X)
        raise UsageError(
            f"{owner} takes a list of at least one image, each a path or an array, or one array "
            f"(n, height, width[, 3]). Got {got} instead."
        )
    return X


def images_as_input(tags: Any) -> Any:
    """The scikit-learn tags of a transformer that takes images by path or as arrays, not rows of numbers."""
    tags.input_tags.two_d_array = False
    tags.input_tags.three_d_array = True
    tags.input_tags.string = True
    tags.no_validation = True  # the checks for matrices of numbers do not apply
    return tags
