"""Optional packages: imported when they are needed, or an error that says how to install them."""

from __future__ import annotations

import importlib
from typing import Any

from residuum.errors import ResiduumError


class MissingPackageError(ResiduumError, ImportError):
    """A package that an extractor needs is not installed."""

    exit_code = 3


def package(name: str, command: str) -> Any:
    """Return an imported module."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackageError(
            f"The package '{name}' is needed here and cannot be imported ({error}). Install it: {command}"
        ) from error


def opencv() -> Any:
    """Return OpenCV."""
    return package("cv2", "pip install 'residuum[images]'")


def torch() -> Any:
    """Return torch."""
    return package("torch", "pip install 'residuum[deep]'")


def starlette_and_uvicorn() -> None:
    """Make sure that a server can be started."""
    for name in ("starlette", "uvicorn"):
        package(name, "pip install 'residuum[explorer]'")
