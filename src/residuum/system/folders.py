"""Where things live: data sets and features that were kept."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path


def data_home(explicit: str | os.PathLike[str] | None = None) -> Path:
    """Folder of the data sets; it is not created here.

    Parameters
    ----------
    explicit : path, optional
        Used as it is when given.

    Returns
    -------
    pathlib.Path
        `explicit`, else ``$RESIDUUM_DATA``, else ``residuum/data`` in the cache folder of the platform.
    """
    if explicit is not None:
        return Path(explicit).expanduser()
    from_environment = os.environ.get("RESIDUUM_DATA")
    if from_environment:
        return Path(from_environment).expanduser()
    return cache_folder() / "data"


def cache_folder() -> Path:
    """Folder that belongs to residuum inside the cache folder of the platform; it is not created here."""
    return user_cache_path("residuum", appauthor=False)
