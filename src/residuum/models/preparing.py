"""From the options of a command to the features of people's own data: scaling, pixels, image extractors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from residuum.errors import UsageError
from residuum.features import EXTRACTORS
from residuum.features.networks import NETWORKS
from residuum.inputs import OwnData


def chosen_scale(data: OwnData, asked: str | None) -> str | None:
    """How to scale: as asked; by default the columns of a table, whose units differ, but not pixels."""
    if asked is None:
        return "minmax" if data.kind == "table" and data.image_shape is None else None
    return None if asked == "none" else asked


def built_extractor(name: str, weights: Path | None, device: str | None) -> Any:
    """An extractor of image features by name."""
    if name not in EXTRACTORS:
        raise UsageError(f"--with must be one of pixels, {', '.join(EXTRACTORS)} for a folder. Got {name!r}.")
    options: dict[str, Any] = {"n_jobs": -1}
    if name in NETWORKS:
        options["device"] = device or "cpu"
        if weights is not None:
            options["weights"] = weights
    elif weights is not None or device is not None:
        raise UsageError(f"--weights and --device go with a network; {name} has none.")
    return EXTRACTORS[name](**options)
