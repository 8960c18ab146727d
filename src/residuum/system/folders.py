"""Where things live: data sets and features that were kept."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def data_home(explicit: str | os.PathLike[str] | None = None) -> Path:
    """Folder of the data sets, which is not created here.

    It is `explicit` if given, else ``$RESIDUUM_DATA``, else ``residuum/data`` in the cache folder of the
    platform.
    """
    chosen = os.environ.get("RESIDUUM_DATA") if explicit is None else explicit
    return Path(chosen).expanduser() if chosen else cache_folder() / "data"


def cache_folder() -> Path:
    """Folder that belongs to residuum inside the cache folder of the platform; it is not created here."""
    return user_cache_path("residuum", appauthor=False)
