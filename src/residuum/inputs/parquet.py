"""Parquet tables, read by pyarrow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataFormatError
from residuum.inputs.columns import ColumnOptions, Columns, Roles, TextFormat, table_data
from residuum.inputs.own_data import OwnData
from residuum.system.files import naming_damage
from residuum.system.packages import package

_INSTALL = "pip install 'residuum[tables]', or save the table as CSV."


def read_parquet(path: Path, options: ColumnOptions, text: TextFormat) -> OwnData:
    """Read a Parquet file; its rows are numbered from 0.

    A column of lists of numbers, as embeddings are kept, is taken for an array; it must be the only feature.
    """
    types, parquet = package("pyarrow", _INSTALL).types, package("pyarrow.parquet", _INSTALL)
    with naming_damage(path, "a Parquet file"):
        table = parquet.read_table(path)
    if not table.num_rows or not table.num_columns:
        raise DataFormatError(f"{path} holds no rows.")
    header = ["" if name == "__index_level_0__" else name for name in table.column_names]
    columns = Columns(str(path), header, [_example_of_text(values, types) for values in table.columns])
    lists = {i for i, values in enumerate(table.columns) if _holds_lists(values.type, types)}
    if len(lists) == 1 and options.expected is not None and options.expected.columns is None:
        only = tuple(header[i] for i in lists)  # the model knows an array, which is this column by any name
        options = replace(options, expected=replace(options.expected, columns=only))
    roles = columns.roles(options)
    if lists.intersection(roles.features):
        roles, features = _embeddings(table, columns, roles)
    else:
        features = np.empty((table.num_rows, len(roles.features)))
        for j, i in enumerate(roles.features):
            features[:, j] = table.column(i).to_numpy()  # null becomes nan
    data = table_data(
        columns,
        roles,
        features,
        {role: _cells(table.column(i)) for role, i in roles.positions.items()},
        row_place=lambda row: f"{path}, row {row}",
        missing=text.missing,
    )
    return replace(data, kind="array", columns=None) if lists.intersection(roles.features) else data


def _holds_lists(kind: Any, types: Any) -> bool:
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _embeddings(table: Any, columns: Columns, roles: Roles) -> tuple[Roles, Any]:
    """The lists of a column as rows; in errors, each of their numbers is in that column."""
    position, *others = roles.features
    if others:
        raise DataFormatError(
            f"{columns.where}: {columns.called(position)} and {columns.called(others[0])} are both features, "
            "and one of them holds lists of numbers. Leave one out with --drop."
        )
    rows = table.column(position).combine_chunks()
    lengths = package("pyarrow.compute", _INSTALL).list_value_length(rows)
    found = lengths.unique().to_pylist()
    if len(found) > 1 or found[0] in (None, 0):
        raise DataFormatError(
            f"{columns.where}, {columns.called(position)}: the lists must all have the same length, 1 or "
            f"more. Got {', '.join('no list' if length is None else str(length) for length in found[:5])}."
        )
    features = rows.flatten().to_numpy(zero_copy_only=False).reshape(len(rows), -1)  # null becomes nan
    if features.dtype.kind != "f":
        features = features.astype(np.float64)
    return replace(roles, features=[position] * features.shape[1]), features


def _example_of_text(values: Any, types: Any) -> str | None:
    """The first cell of a column that does not hold numbers; None for a column of numbers or their lists."""
    kind = values.type
    if (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or _holds_lists(kind, types)
    ):
        return None
    return next((cell for cell in _cells(values[:1000]) if cell), "nothing")


def _cells(values: Any) -> list[str]:
    """The cells of a column as text, nothing for a missing value."""
    return ["" if value is None else str(value).strip() for value in values.to_pylist()]
