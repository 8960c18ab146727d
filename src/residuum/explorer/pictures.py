"""Pictures of the page: what a code makes of a query, what is left, and drawings as queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.errors import UsageError
from residuum.explain.rows import INVERSES, can_be_drawn, in_pixels
from residuum.explorer.queries import Query
from residuum.reports.thumbnails import Pixels, data_uri, to_pixels

# What the query has and its reconstruction lacks, and the other way round, on any ground.
MORE, LESS = (224, 123, 26), (76, 139, 214)
INKY = 0.25  # share of the brightest value from which on a pixel of a drawing is ink
LARGEST_CANVAS = 64  # side of the largest pictures that are drawn by hand


def drawn_parts(
    query: Query, steps: list[Any], parts: FloatArray, shape: tuple[int, ...] | None, notes: list[str]
) -> list[str] | None:
    """Addresses of pictures: the query, its reconstruction, the difference, then the part of each class.

    Parameters
    ----------
    query : Query
        With what each feature step was given.
    steps : list of transformers
        Before the classifier.
    parts : ndarray of shape (n, n_features)
        The whole reconstruction ``Xc`` and then parts ``X_k c_k``, of the unit-norm query.
    shape : tuple of int or None
        Of the pictures, where rows of raw features are pixels.
    notes : list of str
        Gets a sentence where nothing can be drawn.

    Returns
    -------
    list of str or None
        ``data:`` addresses; None where features cannot be turned back into pixels.
    """
    if shape is None or not can_be_drawn(steps, notes):
        return None
    if not query.inputs[0].size or (
        not query.is_raw and any(type(step).__name__ in INVERSES for step in steps)
    ):
        notes.append("The model does not keep the lengths of its training samples, so no part is drawn.")
        return None
    raw = np.asarray(query.inputs[0][0], dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # the length of a query may be beyond all numbers
        values = in_pixels(parts, steps, query.inputs)
    if not np.isfinite(values).all():
        notes.append("The values of the query are too large for its parts to be drawn.")
        return None
    low, high = min(0.0, float(raw.min())), float(raw.max())
    pictures = [to_pixels(each, shape, low=low, high=high) for each in (raw, values[0])]
    pictures.append(difference(raw - values[0], shape, span=high - low))
    pictures += [to_pixels(part, shape, low=low, high=high) for part in values[1:]]
    return [data_uri(picture) for picture in pictures]


def difference(values: FloatArray, shape: tuple[int, ...], *, span: float) -> Pixels:
    """RGBA pixels, the more opaque the larger the difference; two colours for more and less."""
    values = values.reshape(shape)
    if len(shape) == 3:
        values = values.mean(axis=2)
    strength = np.clip(3 * np.abs(values) / (span or 1.0), 0, 1)
    pixels = np.empty((*values.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where((values > 0)[..., None], MORE, LESS)
    pixels[..., 3] = np.round(255 * strength)
    return pixels


class InkFrame:
    """Where the ink of the training pictures lies, so that a drawing is put in the same place and size.

    Pictures are taken for ink on an empty ground where their edges are mostly empty.

    Parameters
    ----------
    pictures : ndarray of uint8, shape (n, h, w)
        Training pictures.
    """

    def __init__(self, pictures: np.ndarray) -> None:
        some = pictures[:: max(1, len(pictures) // 500)]
        self.shape: tuple[int, int] = (some.shape[1], some.shape[2])
        self._highest = float(some.max()) or 1.0
        ink = some > INKY * self._highest
        boxes = np.array([_box(one) for one in ink if one.any()])  # (n, 4): top, bottom, left, right
        self._size = float(np.median(np.maximum(boxes[:, 1] - boxes[:, 0], boxes[:, 3] - boxes[:, 2])))
        weights = some.astype(np.float64)
        mass = np.maximum(weights.sum(axis=(1, 2)), 1.0)
        self._centre = tuple(
            float(np.median((weights * place).sum(axis=(1, 2)) / mass))
            for place in (np.arange(some.shape[1])[:, None] + 0.5, np.arange(some.shape[2])[None] + 0.5)
        )

    @staticmethod
    def suits(pictures: np.ndarray | None, shape: tuple[int, ...] | None) -> bool:
        """Whether pictures are small, grey and ink on an empty ground, as digits and letters are."""
        if pictures is None or shape is None or len(shape) != 2 or max(shape) > LARGEST_CANVAS:
            return False
        if pictures.shape[1:] != shape or not pictures.max():
            return False
        corners = pictures[:, [0, 0, -1, -1], [0, -1, 0, -1]]
        return bool(np.median(corners) == 0 and (corners <= INKY * pictures.max()).mean() > 0.8)

    def placed(self, ink: FloatArray) -> FloatArray:
        """A drawing, values from 0 to 1, as one row of pixels from 0 to 1 like a training picture.

        The ink is cut out, brought to the usual size with its proportions kept, averaged over each pixel, and
        moved so that its centre of mass is where it usually is.
        """
        from PIL import Image

        if not (ink > INKY).any():
            raise UsageError("The drawing is empty: draw something on the canvas first.")
        top, bottom, left, right = _box(ink > INKY)
        cut = ink[top:bottom, left:right]
        side = self._size / max(cut.shape)
        # Reduced to eight times the size first, so that the place can be chosen within a pixel.
        height, width = (max(1, round(8 * side * length)) for length in cut.shape)
        fine = np.asarray(
            Image.fromarray(cut.astype(np.float32)).resize((width, height), Image.Resampling.BOX)
        )
        mass = float(fine.sum()) or 1.0
        rows, columns = (np.arange(length) + 0.5 for length in fine.shape)
        middle = (
            float((fine.sum(axis=1) * rows).sum()) / mass,
            float((fine.sum(axis=0) * columns).sum()) / mass,
        )
        ground = np.zeros((8 * self.shape[0], 8 * self.shape[1]))
        first = [
            int(np.clip(round(8 * centre - own), min(0, whole - length), max(0, whole - length)))
            for centre, own, whole, length in zip(self._centre, middle, ground.shape, fine.shape, strict=True)
        ]
        for row in range(fine.shape[0]):
            for_row = first[0] + row
            if 0 <= for_row < len(ground):
                start = max(first[1], 0)
                stop = min(first[1] + fine.shape[1], ground.shape[1])
                ground[for_row, start:stop] = fine[row, start - first[1] : stop - first[1]]
        small = ground.reshape(self.shape[0], 8, self.shape[1], 8).mean(axis=(1, 3))
        return small.ravel()


def _box(ink: np.ndarray) -> tuple[int, int, int, int]:
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    return int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
