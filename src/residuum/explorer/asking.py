"""From what the page sends to a query: a number, values, a row of a table, a drawing, a picture."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residuum.dictionary import FloatArray
from residuum.errors import UsageError
from residuum.explorer.pictures import INKY
from residuum.explorer.queries import Query
from residuum.explorer.session import Exploration
from residuum.features.image_files import image_header, read_image, resize
from residuum.inputs import ExpectedColumns
from residuum.reports.thumbnails import LARGEST_SIDE, Pixels, to_pixels
from residuum.server.bodies import read_numbers
from residuum.server.errors import RequestError

LARGEST_DRAWING = 512  # pixels on a side
MOST_PIXELS = 20_000_000  # of a picture


@dataclass(frozen=True)
class Asked:
    """A query, and the raw values by which the page can ask for it again; None where it knows them."""

    query: Query
    values: FloatArray | None = None


def asked_query(exploration: Exploration, asked: Any) -> Asked:
    """The query of a request.

    Parameters
    ----------
    exploration : Exploration
        What is explored.
    asked : dict
        With one of the keys ``number`` (of a held-out sample), ``values`` (raw numbers), ``row`` (text, such
        as a line of a CSV file), ``drawing`` (width, height, ink) and ``picture`` (a file).
    """
    kinds = {"number": _number, "values": _values, "row": _row, "drawing": _drawing, "picture": _picture}
    kind = next(iter(asked)) if isinstance(asked, dict) and len(asked) == 1 else None
    if kind not in kinds:
        raise UsageError(f"A query must be an object with one of the keys {', '.join(kinds)}.")
    return kinds[kind](exploration, asked[kind])


def _number(exploration: Exploration, asked: Any) -> Asked:
    if type(asked) is not int:
        raise UsageError("The number of a sample must be a whole number.")
    return Asked(exploration.query(asked))


def _values(exploration: Exploration, asked: Any) -> Asked:
    numbers = isinstance(asked, list) and all(type(value) in (int, float) for value in asked)
    if not numbers or len(asked) != exploration.n_inputs:
        raise UsageError(f"The values of a query must be a list of {exploration.n_inputs} numbers.")
    try:
        row = np.array(asked, dtype=np.float64)
    except OverflowError:
        raise UsageError("A value of the query is too large.") from None
    return _pixels(exploration, row)


def _pixels(exploration: Exploration, row: FloatArray) -> Asked:
    """A query of raw numbers, with its picture where they are pixels."""
    if not np.isfinite(row).all():
        raise UsageError("All values of a query must be finite numbers.")
    if not row.any():
        raise UsageError("All values of the query are zero, so it has no direction to compare.")
    picture, shape = None, exploration.about.shape
    if shape is not None:
        picture = to_pixels(row, shape, low=min(0.0, float(row.min())), high=float(row.max()))
    return Asked(replace(exploration.brought(row), picture=picture), row)


def _row(exploration: Exploration, asked: Any) -> Asked:
    takes = exploration.takes
    if not isinstance(asked, str) or not asked.strip():
        raise UsageError("Paste one row of values, with commas, semicolons or tabs between them.")
    if takes.extractor is not None:
        raise UsageError("This model takes pictures, not rows of numbers.")
    expected = takes.expected or ExpectedColumns(None, exploration.n_inputs, None)
    found = read_numbers(asked.encode(), "text/csv", expected, fills_gaps=takes.fills_gaps, called="the row")
    if len(found) != 1:
        raise UsageError(
            f"One row is explained at a time. Got {len(found)}: paste one, and its header if you like."
        )
    row = np.asarray(found.features)[0]
    if exploration.about.shape is not None and row.dtype.kind in "iuf":
        return replace(_pixels(exploration, row.astype(np.float64)), values=None)
    return Asked(exploration.brought(row))


def _drawing(exploration: Exploration, asked: Any) -> Asked:
    if exploration.frame is None:
        raise UsageError("These samples cannot be drawn by hand.")
    width, height = (asked.get(name) if isinstance(asked, dict) else None for name in ("width", "height"))
    if type(width) is not int or type(height) is not int or not min(width, height) > 0:
        raise UsageError("A drawing needs its width, its height and its ink.")
    ink = np.frombuffer(_decoded(asked.get("ink")), dtype=np.uint8)
    if max(width, height) > LARGEST_DRAWING or len(ink) != width * height:
        raise UsageError(
            f"A drawing has one byte of ink for each pixel, and at most {LARGEST_DRAWING} pixels on a side."
        )
    placed = exploration.frame.placed(ink.reshape(height, width) / 255)
    return _pixels(exploration, np.round(placed * exploration.takes.highest, 2))


def _picture(exploration: Exploration, asked: Any) -> Asked:
    takes, shape = exploration.takes, exploration.about.shape
    content = _decoded(asked)
    if takes.extractor is None and shape is None:
        raise UsageError("This model takes numbers, not pictures.")
    width, height = image_header(content)
    if width * height > MOST_PIXELS:
        raise RequestError(413, f"A picture may have {MOST_PIXELS} pixels. Got {width} x {height}.")
    if takes.extractor is not None:
        pixels = read_image(content)
        query = exploration.brought(np.asarray(takes.extractor.transform([pixels]))[0])
        return Asked(replace(query, picture=read_image(content, max_side=LARGEST_SIDE, min_side=1)))
    assert shape is not None
    mode = "grey" if len(shape) == 2 else "rgb"
    pixels = read_image(content, mode=mode, min_side=1)  # type: ignore[arg-type]
    if exploration.frame is not None:
        placed = exploration.frame.placed(_ink(pixels))
        return _pixels(exploration, np.round(placed * takes.highest, 2))
    small = resize(pixels, (shape[0], shape[1])).astype(np.float64) * (takes.highest / 255)
    return _pixels(exploration, np.round(small.ravel(), 2))


def _ink(pixels: Pixels) -> FloatArray:
    """Ink from 0 to 1 of a picture whose ground is what its edge shows: paper is light, a blackboard dark."""
    edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    ground = float(np.median(edge))
    ink = np.abs(pixels.astype(np.float64) - ground)
    highest = float(ink.max())
    if highest < 16:  # of 255 grey values
        raise UsageError("The picture shows nothing that stands out from its ground.")
    ink /= highest
    return np.where(ink > INKY, ink, 0.0)


def _decoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise UsageError("A picture must be sent in base64.")
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError("A picture must be sent in base64.") from None
