"""People's own data: text tables, arrays, Parquet, MATLAB files and folders of images, read alike.

To add a format: a reader in a module of its own and one line in READERS.
"""

from __future__ import annotations

from residuum.inputs.own_data import ExpectedColumns, OwnData, TextFormat
from residuum.inputs.reading import READERS, read_data

__all__ = ["READERS", "ExpectedColumns", "OwnData", "TextFormat", "read_data"]
