"""From the body of a request to queries: JSON, CSV, NPY, or the bytes of one picture. Nothing touches a disk.

CSV and NPY are read as `residuum predict` reads such files. JSON is ``{"queries": [...]}``, with a list of
numbers for each query or, where the model knows the names of its columns, an object by their names;
``"names"`` may name the queries. A model of images takes one picture as it is, or several as an NPY array
(n, height, width) or (n, height, width, 3).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, NoReturn, cast

import numpy as np

from residuum.errors import DataFormatError, UsageError
from residuum.features.image_files import image_header
from residuum.inputs import ExpectedColumns, OwnData, TableFormat
from residuum.inputs.arrays import read_npy_pair
from residuum.inputs.columns import ColumnOptions
from residuum.inputs.text import read_text
from residuum.server.errors import RequestError
from residuum.system.files import FileContent, view_npy

BODY = "the body"  # what errors call it
MOST_QUERIES = 100_000  # of one request
MOST_NAME = 200  # characters of a name
MOST_DIGITS = 4000  # of a whole number; Python itself refuses more than 4300


def read_numbers(
    body: bytes, kind: str, expected: ExpectedColumns | None, *, fills_gaps: bool, called: str = BODY
) -> OwnData:
    """Queries of a model that takes numbers, or columns of a table.

    Parameters
    ----------
    body : bytes
    kind : {"application/json", "text/csv", "application/x-npy"}
        What it is.
    expected : ExpectedColumns or None
        What the model takes.
    fills_gaps : bool
        Whether the model can fill in missing values.
    called : str
        What errors call the body of a table or an array.
    """
    missing = "impute" if fills_gaps else "error"
    if kind == "application/json":
        return _read_json(body, expected, fills_gaps)
    if kind not in ("text/csv", "application/x-npy"):
        raise RequestError(415, f"This model takes numbers, as JSON, CSV or NPY. Got {kind}.")
    reader = read_text if kind == "text/csv" else read_npy_pair
    options, form = ColumnOptions(expected=expected), TableFormat(missing=missing)
    try:
        (found,) = reader(FileContent(called, body), options, form)
    except DataFormatError as error:
        raise DataFormatError(_without_options(str(error))) from None
    except UsageError as error:
        raise UsageError(_without_options(str(error))) from None
    return _limited(replace(found, notes=tuple(map(_without_options, found.notes))))


def _without_options(told: str) -> str:
    """What the readers of files say, less the advice on options of commands, which no client can give."""
    told = re.sub(r" \(guessed; --[^)]*\)", " (guessed)", told)
    sentences = re.split(r"(?<=\.) (?=[A-Z])", told)
    return " ".join([sentences[0], *(each for each in sentences[1:] if " --" not in each)])


def read_pictures(body: bytes, kind: str, *, most_pixels: int) -> OwnData:
    """Queries of a model that takes images; its features are computed later, from `paths`."""
    sources: tuple[Any, ...] = (body,)
    if kind == "application/x-npy":
        array = view_npy(np.frombuffer(body, dtype=np.uint8), BODY)
        if array.ndim not in (3, 4) or not array.size or array.dtype != np.uint8:
            raise DataFormatError(
                f"{BODY}: pictures must be uint8 of shape (n, height, width) or (n, height, width, 3). Got "
                f"{array.dtype} of shape {array.shape}."
            )
        sources = tuple(np.ascontiguousarray(picture) for picture in array)
    elif not kind.startswith("image/"):
        raise RequestError(415, f"This model takes pictures, as an image file or as NPY. Got {kind}.")
    else:
        width, height = image_header(body)
        if width * height > most_pixels:
            raise RequestError(
                413, f"A picture may have {most_pixels} pixels. Got {width} x {height}: make it smaller."
            )
    return _limited(
        OwnData(
            source=BODY,
            kind="images",
            features=None,
            labels=None,
            names=_numbered(len(sources)),
            paths=cast(Any, sources),  # the pictures themselves, which all readers of images take as well
        )
    )


def _numbered(count: int) -> Any:
    return np.arange(count).astype(np.str_)


def _limited(queries: OwnData) -> OwnData:
    if not len(queries):
        raise DataFormatError(f"{BODY} holds no query.")
    if len(queries) > MOST_QUERIES:
        raise RequestError(413, f"A request may have {MOST_QUERIES} queries. Got {len(queries)}: send fewer.")
    return queries


def parsed_json(body: bytes) -> Any:
    """The value of a JSON text in UTF-8; DataFormatError for anything else, NaN and infinity included."""

    def no_constant(text: str) -> NoReturn:
        raise ValueError(f"{text} is not a number of JSON")

    def whole_number(text: str) -> int:
        if len(text) > MOST_DIGITS:
            raise ValueError(f"a whole number has {len(text)} digits, and may have {MOST_DIGITS}")
        return int(text)

    if not body.strip():
        raise DataFormatError(f"{BODY} is empty: it must be a JSON object.")
    try:
        return json.loads(body.decode("utf-8"), parse_constant=no_constant, parse_int=whole_number)
    except RecursionError:
        raise DataFormatError(f"{BODY}: its JSON is nested too deeply.") from None
    except ValueError as error:
        reason = str(error).splitlines()[0][:200]
        raise DataFormatError(f"{BODY} is not JSON: {reason}.") from None


def _read_json(body: bytes, expected: ExpectedColumns | None, fills_gaps: bool) -> OwnData:
    content = parsed_json(body)
    if not isinstance(content, dict) or not set(content) <= {"queries", "names"} or "queries" not in content:
        raise DataFormatError(f'{BODY} must be a JSON object {{"queries": [...]}}, with "names" if you like.')
    rows = content["queries"]
    if not isinstance(rows, list) or not rows:
        raise DataFormatError(f'{BODY}: "queries" must be a list of at least one query.')
    columns, texts = (None, ()) if expected is None else (expected.columns, expected.texts)
    if any(isinstance(row, dict) for row in rows):
        rows = [_by_name(row, i, columns) for i, row in enumerate(rows)]
    features = _table(rows, texts) if texts or fills_gaps else _array(rows)
    names = content.get("names")
    if names is not None and not (
        isinstance(names, list)
        and len(names) == len(rows)
        and all(isinstance(name, str) and len(name) <= MOST_NAME for name in names)
    ):
        raise DataFormatError(
            f'{BODY}: "names" must be a list of short texts, one for each query ({len(rows)} here).'
        )
    return _limited(
        OwnData(
            source=BODY,
            kind="array" if columns is None else "table",
            features=features,
            labels=None,
            names=_numbered(len(rows)) if names is None else np.array(names, dtype=np.str_),
            columns=columns,
            texts=tuple(texts),
        )
    )


def _by_name(row: Any, i: int, columns: tuple[str, ...] | None) -> list[Any]:
    """The values of an object in the order of the columns."""
    if columns is None:
        raise UsageError(
            f"{BODY}: the model knows no names of columns: give each query as a list of numbers."
        )
    if not isinstance(row, dict):
        raise DataFormatError(f"{BODY}: query {i} is a list, others are objects. Give all in one form.")
    lacking = [name for name in columns if name not in row]
    if lacking:
        raise DataFormatError(f"{BODY}: query {i} lacks {len(lacking)} columns, such as {lacking[0][:60]!r}.")
    return [row[name] for name in columns]


def _array(rows: list[Any]) -> Any:
    """Numbers (n_queries, n_features), all finite."""
    try:
        array = np.array(rows)
    except (ValueError, OverflowError):  # lists of several lengths
        array = np.empty(0)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iuf":
        raise DataFormatError(f"{BODY}: {_what_is_wrong(rows)}")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        i, j = np.argwhere(~np.isfinite(array))[0].tolist()
        raise DataFormatError(f"{BODY}: number {j} of query {i} is not finite.")
    return array


def _what_is_wrong(rows: list[Any]) -> str:
    """The first query that is no list of numbers of the common length, or its value that is none."""
    for i, row in enumerate(rows):
        if not isinstance(row, list) or not row or len(row) != len(rows[0]):
            return f"each query must be a list of numbers, all of one length. Query {i} is not."
        for j, value in enumerate(row):
            if value is None:
                return f"value {j} of query {i} is missing, and this model does not fill gaps."
            if type(value) not in (int, float):
                return f"value {j} of query {i} must be a number. Got {json.dumps(value)[:40]}."
    return "a number is too large."


def _table(rows: list[Any], texts: tuple[int, ...]) -> Any:
    """Cells of a table: numbers, texts in the columns of text, and null where a value is missing."""
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    found = np.empty((len(rows), width), dtype=object)
    for i, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != width or not width:
            raise DataFormatError(f"{BODY}: each query must be a list, all of one length.")
        found[i] = [_cell(value, j in texts, i, j) for j, value in enumerate(row)]
    if texts:
        return found
    return np.array([[np.nan if cell is None else cell for cell in row] for row in found], dtype=np.float64)


def _cell(value: Any, is_text: bool, i: int, j: int) -> Any:
    if value is None or (is_text and isinstance(value, str)):
        return value or None  # an empty cell is a missing one
    if isinstance(value, int | float) and not isinstance(value, bool):
        if is_text:
            return str(value)
        try:
            number = float(value)
        except OverflowError:
            number = np.inf
        if np.isfinite(number):
            return number
    wanted = "a text" if is_text else "a finite number"
    raise DataFormatError(f"{BODY}: value {j} of query {i} must be {wanted}, or null where it is missing.")
