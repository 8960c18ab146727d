"""Parquet tables, by pyarrow or polars, whichever is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataError, DataFormatError
from residuum.inputs.data import Array, OwnData, TextFormat
from residuum.inputs.roles import Asked, Columns, Roles, as_labels, as_split, clipped


@dataclass(frozen=True)
class _Column:
    name: str
    values: Any  # has to_numpy()
    is_number: bool
    null: int | None  # first row without a value

    def numbers(self) -> Array:
        return np.asarray(self.values.to_numpy())

    def cells(self) -> list[str]:
        """As text; whole numbers without a fraction, nothing for a missing value."""
        listed = self.values.to_pylist() if hasattr(self.values, "to_pylist") else self.values.to_list()
        return ["" if value is None else str(value).strip() for value in listed]


def read_parquet(path: Path, asked: Asked, text: TextFormat) -> OwnData:
    """Read a Parquet file; its rows are numbered from 0."""
    table = _loaded(path)
    names = [column.name for column in table]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise DataFormatError(f"{path}: two columns are called {clipped(twice)}. Rename one of them.")
    if not table or not len(table[0].values):
        raise DataFormatError(f"{path} holds no rows.")
    columns = Columns(str(path), names, [None if c.is_number else _example(c) for c in table])
    columns.names = ["" if name == "__index_level_0__" else name for name in names]
    return _built(path, table, columns, columns.roles(asked), text.missing == "drop")


def _example(column: _Column) -> str:
    return next((cell for cell in column.cells()[:1000] if cell), "nothing")


def _loaded(path: Path) -> list[_Column]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return _loaded_by_polars(path)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DataFormatError(
            f"{path}: not a Parquet file, or damaged: {str(error).splitlines()[0]}"
        ) from error

    def column(name: str, values: Any) -> _Column:
        kind = values.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
        null = None
        if values.null_count:
            null = int(np.flatnonzero(values.is_null().to_numpy())[0])
        return _Column(name, values, is_number, null)

    return [column(name, values) for name, values in zip(table.column_names, table.columns, strict=True)]


def _loaded_by_polars(path: Path) -> list[_Column]:
    try:
        import polars as pl
    except ImportError:
        raise DataError(
            f"{path}: Parquet files need pyarrow or polars. Install one of them ('pip install pyarrow'), or "
            "save the table as CSV."
        ) from None
    try:
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DataFormatError(
            f"{path}: not a Parquet file, or damaged: {str(error).splitlines()[0]}"
        ) from error
    return [
        _Column(
            series.name,
            series,
            series.dtype.is_numeric() or series.dtype == pl.Boolean,
            series.is_null().arg_max() if series.null_count() else None,
        )
        for series in frame.get_columns()
    ]


def _built(path: Path, table: list[_Column], columns: Columns, roles: Roles, drop: bool) -> OwnData:
    n = len(table[0].values)
    features = np.empty((n, len(roles.features)))
    for j, i in enumerate(roles.features):
        if table[i].null is not None and not drop:
            raise DataFormatError(
                f"{path}, row {table[i].null}, {columns.called(i)}: the value is missing. Fill it in, leave "
                "such rows out with --missing drop, or the column with --drop."
            )
        features[:, j] = table[i].numbers()
    whole = np.isfinite(features)
    if not whole.all() and not drop:
        row, j = np.argwhere(~whole)[0].tolist()
        where = f"{path}, row {row}, {columns.called(roles.features[j])}"
        raise DataFormatError(f"{where}: {features[row, j]} is not a finite number.")
    names = table[roles.name].cells() if roles.name is not None else [str(i) for i in range(n)]
    header = columns.names
    assert header is not None
    data = OwnData(
        source=str(path),
        kind="table",
        features=features,
        labels=None
        if roles.label is None
        else _labels(path, table[roles.label].cells(), columns, roles.label),
        names=np.array(names, dtype=np.str_),
        columns=tuple(header[i] for i in roles.features),
        label=None if roles.label is None else header[roles.label],
        groups=None if roles.group is None else np.array(table[roles.group].cells(), dtype=np.str_),
        notes=roles.notes,
    )
    if roles.split is not None:
        split, more = as_split(
            table[roles.split].cells(), header[roles.split], _place(path, columns, roles.split)
        )
        data = OwnData(**{**vars(data), "split": split, "notes": (*data.notes, *more)})
    if not whole.all():
        kept = whole.all(axis=1)
        if not kept.any():
            raise DataFormatError(f"{path}: every row has a missing value, so none is left.")
        data = data.rows(kept).noted(f"{n - int(kept.sum())} of {n} rows with missing values are left out")
    return data


def _place(path: Path, columns: Columns, position: int) -> Any:
    return lambda row: f"{path}, row {row}, {columns.called(position)}"


def _labels(path: Path, cells: list[str], columns: Columns, position: int) -> Array | None:
    empty = [i for i, cell in enumerate(cells) if not cell]
    if len(empty) == len(cells):
        return None
    if empty:
        raise DataFormatError(f"{_place(path, columns, position)(empty[0])}: the label is missing.")
    return as_labels(cells, _place(path, columns, position))
