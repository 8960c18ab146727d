"""The user's own data: text tables, workbooks, arrays, Parquet, MATLAB files and folders of images.

To add a format, write a reader in a module of its own and add one line to READERS.
"""

from __future__ import annotations

from residuum.inputs.columns import ExpectedColumns, TableFormat
from residuum.inputs.own_data import OwnData
from residuum.inputs.reading import READERS, read_blocks, read_data

__all__ = ["READERS", "ExpectedColumns", "OwnData", "TableFormat", "read_blocks", "read_data"]
