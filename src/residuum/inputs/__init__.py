"""The user's own data: text tables, arrays, Parquet, MATLAB files and folders of images.

To add a format, write a reader in a module of its own and add one line to READERS.
"""

from __future__ import annotations

from residuum.inputs.columns import ExpectedColumns, TextFormat
from residuum.inputs.own_data import OwnData
from residuum.inputs.reading import READERS, read_data

__all__ = ["READERS", "ExpectedColumns", "OwnData", "TextFormat", "read_data"]
