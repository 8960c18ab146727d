"""Parquet tables, read by pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataFormatError
from residuum.inputs.columns import ColumnOptions, Columns, TextFormat, table_data
from residuum.inputs.own_data import OwnData
from residuum.system.files import naming_damage
from residuum.system.packages import package

_INSTALL = "pip install 'residuum[tables]', or save the table as CSV."


def read_parquet(path: Path, options: ColumnOptions, text: TextFormat) -> OwnData:
    """Read a Parquet file; its rows are numbered from 0."""
    types, parquet = package("pyarrow", _INSTALL).types, package("pyarrow.parquet", _INSTALL)
    with naming_damage(path, "a Parquet file"):
        table = parquet.read_table(path)
    if not table.num_rows or not table.num_columns:
        raise DataFormatError(f"{path} holds no rows.")
    header = ["" if name == "__index_level_0__" else name for name in table.column_names]
    columns = Columns(str(path), header, [_example_of_text(values, types) for values in table.columns])
    roles = columns.roles(options)
    features = np.empty((table.num_rows, len(roles.features)))
    for j, i in enumerate(roles.features):
        features[:, j] = table.column(i).to_numpy()  # null becomes nan
    return table_data(
        columns,
        roles,
        features,
        {role: _cells(table.column(i)) for role, i in roles.positions.items()},
        row_place=lambda row: f"{path}, row {row}",
        missing=text.missing,
    )


def _example_of_text(values: Any, types: Any) -> str | None:
    """The first cell of a column that does not hold numbers; None for a column of numbers."""
    kind = values.type
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return None
    return next((cell for cell in _cells(values[:1000]) if cell), "nothing")


def _cells(values: Any) -> list[str]:
    """The cells of a column as text, nothing for a missing value."""
    return ["" if value is None else str(value).strip() for value in values.to_pylist()]
