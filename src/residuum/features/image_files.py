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
more than ``max_pixels``      refused from the header, before anything is decoded
truncated, corrupt            refused: half an image must not pass for a whole one
not an image, empty, folder,  refused
pipe, device, unreadable
============================  =======================================================================

Refused means ``ImageError``, which names the file and the reason. ``extract_images`` skips such files and
lists them in its result; a transformer that is called with a list of paths raises.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from residuum.errors import DataError, DataFormatError, DataNotFoundError, UsageError

# Pillow is imported where it is needed: importing the features must stay quick.

Pixels = npt.NDArray[np.uint8]
ImageSource = str | os.PathLike[str] | npt.NDArray[Any]

MAX_PIXELS = 80_000_000
MIN_SIDE = 16
RULES_VERSION = 1  # counted up when the same file would give other pixels
# A closed list: Pillow knows formats that call other programs or fetch what they refer to.
FORMATS = ("JPEG", "MPO", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
_SIXTEEN_BIT = ("I;16", "I;16L", "I;16B", "I;16N")


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
    files = [(path, name) for name in classes for path in sorted(_files_below(folder, folder / name))]
    return files, [(name, "lies beside the class folders, so its class is unknown") for name in loose]


def _files_below(folder: Path, start: Path) -> Iterator[str]:
    for place, folders, names in os.walk(start):  # links to folders are not followed: they may form a circle
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield (Path(place) / name).relative_to(folder).as_posix()


def read_image(
    source: ImageSource,
    *,
    mode: Literal["rgb", "grey"] = "rgb",
    max_side: int | None = None,
    max_short: int | None = None,
    min_side: int = MIN_SIDE,
    max_pixels: int = MAX_PIXELS,
) -> Pixels:
    """Return one image as 8-bit pixels, by the rules in the description of this module.

    Parameters
    ----------
    source : path or ndarray
        A file; or pixels of shape (height, width) or (height, width, 3), uint8, or float in [0, 1].
    mode : {"rgb", "grey"}, default="rgb"
        Channels of the result. Grey is 0.299 R + 0.587 G + 0.114 B.
    max_side : int or None, default=None
        Longest side of the result; a larger image is shrunk, a smaller one is left as it is.
    max_short : int or None, default=None
        The same for the shortest side.
    min_side : int, default=16
        Shortest side that is accepted, measured after shrinking.
    max_pixels : int, default=80_000_000
        Most pixels that a header may declare.

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
    elif isinstance(source, (str, os.PathLike)):
        where = os.fspath(source)
        picture = _decoded(Path(source), mode == "grey", max_side, max_short, max_pixels)
    else:
        raise UsageError(
            f"An image must be a path or an array of pixels. Got {type(source).__name__} instead."
        )
    if min(picture.size) < min_side:
        raise ImageError(
            where,
            f"too small: {picture.width} x {picture.height} pixels, {min_side} are needed on each side",
        )
    return np.asarray(picture.convert("L" if mode == "grey" else "RGB"))


def image_header(path: Path) -> tuple[int, int]:
    """Width and height that a file declares; ImageError where it is no image."""
    from PIL import Image

    check_regular(path)
    try:
        with Image.open(path, formats=_formats()) as picture:
            return (int(picture.width), int(picture.height))
    except Exception as error:
        raise _refusal(path, error) from error


def _decoded(path: Path, grey: bool, max_side: int | None, max_short: int | None, max_pixels: int) -> Any:
    from PIL import Image

    check_regular(path)
    try:
        with Image.open(path, formats=_formats()) as picture:
            if picture.width * picture.height > max_pixels:
                raise ImageError(
                    str(path),
                    f"too large: {picture.width} x {picture.height} pixels, at most {max_pixels} are read",
                )
            width, height = _fitted(picture.size, max_side, max_short)
            # JPEG decodes its grey channel alone, or at 1/2, 1/4 or 1/8, for a fraction of the work; twice
            # the target keeps detail. Other formats ignore this.
            shrinks = width < picture.width or height < picture.height
            picture.draft("L" if grey else None, (2 * width, 2 * height) if shrinks else picture.size)
            picture.load()
            upright = _eight_bit(path, _oriented(picture))
            turned = upright.size != picture.size and upright.size == picture.size[::-1]
            return _resized(upright, (height, width) if turned else (width, height))
    except ImageError:
        raise
    except Exception as error:  # decoders raise nearly anything on damaged bytes
        raise _refusal(path, error) from error


@lru_cache
def _formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)  # WEBP is missing from some builds


def check_regular(path: Path) -> None:
    """Refuse what is not an ordinary file, before it is opened."""
    try:
        kind = path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise ImageError(str(path), f"cannot be read: {reason}") from error
    if not stat.S_ISREG(kind):  # opening a pipe would wait forever
        raise ImageError(str(path), "not a regular file")


def _refusal(path: Path, error: Exception) -> ImageError:
    from PIL import Image, UnidentifiedImageError

    if isinstance(error, UnidentifiedImageError):
        reason = "not an image of a known format" if path.stat().st_size else "empty file"
    elif isinstance(error, Image.DecompressionBombError):
        reason = f"too large: {error}"
    elif isinstance(error, PermissionError):
        reason = f"cannot be read: {error.strerror}"
    else:
        reason = f"damaged or truncated: {str(error).strip() or type(error).__name__}"
    return ImageError(str(path), reason.replace("\n", " ").rstrip("."))


def _oriented(picture: Any) -> Any:
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(picture)
    except Exception:  # the pixels are whole; only the note about the camera's position is not
        return picture


def _eight_bit(path: Path, picture: Any) -> Any:
    """RGB or grey with 8 bits per channel."""
    from PIL import Image

    if picture.mode in _SIXTEEN_BIT or picture.mode == "I":
        values = np.asarray(picture).astype(np.int64)
        if values.size and (values.min() < 0 or values.max() > 65535):
            raise ImageError(str(path), "32-bit integer pixels, which have no agreed range")
        return Image.fromarray(((values + 128) // 257).astype(np.uint8))
    if picture.mode == "F":
        raise ImageError(str(path), "floating-point pixels, which have no agreed range")
    if picture.mode in ("L", "RGB"):
        if "transparency" not in picture.info:
            return picture
    elif picture.mode in ("1", "CMYK", "YCbCr", "LAB", "HSV", "RGBX"):
        return picture.convert("L" if picture.mode == "1" else "RGB")
    layered = picture.convert("RGBA")
    white = Image.new("RGBA", layered.size, (255, 255, 255, 255))
    return Image.alpha_composite(white, layered).convert("RGB")


def _fitted(size: tuple[int, int], max_side: int | None, max_short: int | None) -> tuple[int, int]:
    """Size of an image after shrinking, with its proportions kept."""
    ratio = min(1.0, (max_side or max(size)) / max(size), (max_short or min(size)) / min(size))
    return (max(1, round(size[0] * ratio)), max(1, round(size[1] * ratio)))


def _resized(picture: Any, size: tuple[int, int]) -> Any:
    from PIL import Image

    return picture if picture.size == size else picture.resize(size, Image.Resampling.BICUBIC)


def resize(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Pixels brought to (height, width), averaged where they shrink."""
    from PIL import Image

    return np.asarray(_resized(Image.fromarray(pixels), (size[1], size[0])))


def _checked_pixels(pixels: npt.NDArray[Any]) -> Pixels:
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3) or 0 in pixels.shape:
        raise UsageError(
            "An image array must have the shape (height, width) or (height, width, 3). "
            f"Got {pixels.shape} instead."
        )
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    if pixels.dtype.kind == "f" and np.isfinite(pixels).all() and 0 <= pixels.min() <= pixels.max() <= 1:
        return np.rint(pixels * 255).astype(np.uint8)
    raise UsageError(
        "An image array must hold uint8, or floats from 0 to 1. "
        f"Got {pixels.dtype} from {pixels.min()} to {pixels.max()}; rescale it."
    )


def as_images(X: Any, owner: str) -> Sequence[Any]:
    """A sequence of paths or pixel arrays, or an error that says what is wanted."""
    if isinstance(X, (str, bytes)) or hasattr(X, "__fspath__"):
        raise UsageError(f"{owner} takes a list of images. Got one path; put it into a list.")
    if hasattr(X, "iloc"):  # a pandas column of paths
        X = X.to_numpy()
    if isinstance(X, np.ndarray):
        if X.dtype.kind in "OU":
            X = X.reshape(-1)
        elif X.ndim not in (3, 4):
            raise UsageError(
                f"{owner} takes a list of image paths or arrays, or one array (n, height, width[, 3]). "
                f"Got an array of shape {X.shape} and dtype {X.dtype}."
            )
    elif not isinstance(X, Sequence):
        raise UsageError(f"{owner} takes a list of image paths or arrays. Got {type(X).__name__}.")
    if len(X) == 0:
        raise UsageError(f"{owner} needs at least one image. Got an empty list.")
    return X


def images_as_input(tags: Any) -> Any:
    """The scikit-learn tags of a transformer that takes images by path or as arrays, not rows of numbers."""
    tags.input_tags.two_d_array = False
    tags.input_tags.three_d_array = True
    tags.input_tags.string = True
    tags.no_validation = True  # the checks for matrices of numbers do not apply
    return tags
