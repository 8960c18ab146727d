"""Run folders: where an experiment keeps its results, whole or not at all."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from residuum.errors import UsageError
from residuum.system.files import write_text
from residuum.system.json_text import plain, to_json

SETTINGS = "settings.json"
RESULTS = "results.json"
CELLS = "cells"


def open_folder(kind: str, out: str | None, settings: dict[str, Any]) -> Path:
    """A folder for this run: a new one, an empty one, or that of an earlier run with the same settings.

    Parameters
    ----------
    kind : str
        Name of the experiment; the default folder is ``residuum-runs/KIND-YYYYmmdd-HHMMSS``.
    out : str or None
        Folder asked for.
    settings : dict
        Everything that decides the results, as JSON; a run is only continued under equal settings.
    """
    settings = plain(settings)
    if out == "":
        raise UsageError("out must name a folder. Got an empty name.")
    if out is None:
        folder = _new_folder(Path("residuum-runs"), f"{kind}-{datetime.now():%Y%m%d-%H%M%S}")
    else:
        folder = Path(out)
        if (folder / SETTINGS).is_file():
            _check_same(folder, settings)
            return folder
        _make(folder)
        if any(folder.iterdir()):
            raise UsageError(
                f"The folder {folder} is not empty and holds no earlier run of {kind}. "
                "Pass --out with a new folder, an empty one, or that of an earlier run."
            )
    (folder / CELLS).mkdir()
    write_text(folder / SETTINGS, to_json(settings))
    return folder


def _new_folder(parent: Path, name: str) -> Path:
    _make(parent)
    for attempt in range(1000):
        folder = parent / (name if attempt == 0 else f"{name}-{attempt}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        return folder
    raise UsageError(f"Cannot find a free folder name like {parent / name}. Pass --out with a new folder.")


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"{folder} is a file, not a folder. Pass --out with a new folder.") from None
    except OSError as error:
        raise UsageError(
            f"Cannot make the folder {folder}: {error.strerror}. Pass --out with a folder you can write to."
        ) from None


def _check_same(folder: Path, settings: dict[str, Any]) -> None:
    try:
        earlier = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except ValueError:
        earlier = None
    if earlier == settings:
        return
    first = next(_differences(earlier, settings), "its settings cannot be read")
    raise UsageError(
        f"The folder {folder} holds a run with other settings ({first}). "
        "Pass the same settings to continue it, or --out with a new folder."
    )


def _differences(earlier: Any, now: Any, path: str = "") -> Any:
    if isinstance(earlier, dict) and isinstance(now, dict):
        for key in {**earlier, **now}:
            yield from _differences(earlier.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif earlier != now:
        yield f"{path or 'format'}: {earlier} there, {now} here"
