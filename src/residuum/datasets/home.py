"""Where data live: an explicit folder, else the variable RESIDUUM_DATA, else the cache of the platform."""

from __future__ import annotations

import os
import sys
from pathlib import Path


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
    """Folder that belongs to residuum inside the cache folder of the platform."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "residuum" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "residuum"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says that a relative path must be ignored.
    return (Path(xdg) if Path(xdg).is_absolute() else Path.home() / ".cache") / "residuum"
