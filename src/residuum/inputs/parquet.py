"""Parquet tables, read by pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import DataFormatError
from residuum.inputs.columns import ColumnOptions, Columns, Roles, TableFormat, table_data
from residuum.inputs.own_data import Array, OwnData
from residuum.system.files import naming_damage
from residuum.system.packages import package
from residuum.system.progress import tell_progress

_INSTALL = "pip install 'residuum[tables]', or save the table as CSV."
_BATCH_ROWS = 2**16


def read_parquet(path: Path, options: ColumnOptions, form: TableFormat) -> Iterator[OwnData]:
    """Read a Parquet file; its rows are numbered from 0.

    A column of lists of numbers, as embeddings are kept, is taken for an array; it must be the only feature.
    """
    types, parquet = package("pyarrow", _INSTALL).types, package("pyarrow.parquet", _INSTALL)
    with naming_damage(path, "a Parquet file"):
        file = parquet.ParquetFile(path)
    n_rows, names = file.metadata.num_rows, file.schema_arrow.names
    if not n_rows or not names:
        raise DataFormatError(f"{path} holds no rows.")
    header = ["" if name == "__index_level_0__" else name for name in names]
    with naming_damage(path, "a Parquet file"):
        head = next(file.iter_batches(batch_size=1000))
    columns = Columns(str(path), header, [_example_of_text(values, types) for values in head.columns])
    lists = {i for i, values in enumerate(head.columns) if _holds_lists(values.type, types)}
    if len(lists) == 1 and options.expected is not None and options.expected.columns is None:
        only = tuple(header[i] for i in lists)  # the model knows an array, which is this column by any name
        options = replace(options, expected=replace(options.expected, columns=only))
    roles = columns.roles(options, form)
    if lists.intersection(roles.features):
        yield _embeddings(path, file.read(), columns, roles, form.missing)
        return
    batches = _batches(path, file, options.block_rows or _BATCH_ROWS)
    whole = [(n_rows, batches)]
    first = 0
    for n, group in whole if options.block_rows is None else ((len(batch), [batch]) for batch in batches):
        features, cells = _content(group, n, roles)
        yield table_data(
            columns,
            roles,
            features,
            cells,
            row_place=partial(_place, path, first),
            missing=form.missing,
            first=first,
        )
        first += n


def _place(path: Path, first: int, row: int) -> str:
    return f"{path}, row {first + row}"


def _batches(path: Path, file: Any, size: int) -> Iterator[Any]:
    """Consecutive rows of the file, at most `size` at a time."""
    batches, done = file.iter_batches(batch_size=size), 0
    while True:
        with naming_damage(path, "a Parquet file"):
            batch = next(batches, None)
        if batch is None:
            return
        done += len(batch)
        tell_progress(f"reading {path.name}", done, file.metadata.num_rows)
        yield batch


def _content(batches: Iterable[Any], n_rows: int, roles: Roles) -> tuple[Array, dict[str, list[str]]]:
    """Features of these rows, and the cells of the columns with a role."""
    features = np.empty((n_rows, len(roles.features)), dtype=object if roles.texts else np.float64)
    cells: dict[str, list[str]] = {role: [] for role in roles.positions}
    done = 0
    for batch in batches:
        some = slice(done, done + len(batch))
        for j, i in enumerate(roles.features):
            if j in roles.texts:
                features[some, j] = [cell or None for cell in _cells(batch.column(i))]
            else:
                numbers = (
                    batch.column(i).to_numpy(zero_copy_only=False).astype(np.float64)
                )  # null becomes nan
                features[some, j] = np.where(np.isnan(numbers), None, numbers) if roles.texts else numbers
        for role, i in roles.positions.items():
            cells[role] += _cells(batch.column(i))
        done += len(batch)
    return features, cells


def _holds_lists(kind: Any, types: Any) -> bool:
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    return is_list and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))


def _embeddings(path: Path, table: Any, columns: Columns, roles: Roles, missing: str) -> OwnData:
    """The lists of a column as the rows of an array; in errors, each of their numbers is in that column."""
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
    data = table_data(
        columns,
        replace(roles, features=[position] * features.shape[1]),
        features,
        {role: _cells(table.column(i)) for role, i in roles.positions.items()},
        row_place=partial(_place, path, 0),
        missing=missing,
        first=0,
    )
    return replace(data, kind="array", columns=None)


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
    return next((cell for cell in _cells(values) if cell), "nothing")


def _cells(values: Any) -> list[str]:
    """The cells of a column as text, nothing for a missing value."""
    return ["" if value is None else str(value).strip() for value in values.to_pylist()]
