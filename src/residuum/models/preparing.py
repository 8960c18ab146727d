"""From the options of a command to the features of people's own data: scaling, pixels, image extractors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residuum.errors import UsageError
from residuum.estimators.answers import steps_and_classifier
from residuum.features import EXTRACTORS, TableEncoder
from residuum.inputs import OwnData
from residuum.inputs.own_data import missing_cells, quoted


def chosen_scale(data: OwnData, asked: str | None) -> str | None:
    """How to scale: as asked; by default the columns of a table, whose units differ, but not pixels."""
    if asked is None:
        return "minmax" if data.kind == "table" and data.image_shape is None else None
    return None if asked == "none" else asked


def needs_encoding(data: OwnData) -> bool:
    """Whether some column is text, or some value is missing and is to be filled in."""
    X = data.features
    if X is None or X.dtype.kind not in "fO":
        return False
    return bool(data.texts) or any(missing_cells(X[i : i + 4096]).any() for i in range(0, len(X), 4096))


def encoder_of(estimator: Any) -> TableEncoder | None:
    """The step of a model that takes the columns of a table as they are, if it has one."""
    steps, _ = steps_and_classifier(estimator)
    return next((step for step in steps if isinstance(step, TableEncoder)), None)


def encoding_notes(encoder: TableEncoder, names: Sequence[str]) -> list[str]:
    """What became of the columns of these names, one sentence for each kind."""
    made: dict[str, list[str]] = {}
    for j, name in enumerate(names):
        n_categories = len(encoder.categories_[j])
        if encoder.is_text_[j] and not encoder.most_frequent_[j]:
            made.setdefault("columns left out, because they hold no value", []).append(repr(name))
            continue
        if n_categories:
            others = " and others" if encoder.has_others_[j] else ""
            made.setdefault("text columns by category", []).append(f"{name!r} ({n_categories}{others})")
        elif encoder.is_text_[j]:
            example = f"{name!r} (such as {quoted(encoder.most_frequent_[j])})"
            made.setdefault("text columns left out, because no text in them is frequent", []).append(example)
        if encoder.has_missing_[j]:
            made.setdefault("missing values are filled in and marked in", []).append(repr(name))
    return [
        f"{what}: {', '.join(those[:10])}{f' and {len(those) - 10} more' if len(those) > 10 else ''}"
        for what, those in made.items()
    ]


def check_extractor_name(name: str | None) -> None:
    """Refuse a name that no extractor of any kind of data has."""
    known = ("pixels", "scattering", *EXTRACTORS)
    if name is not None and name not in known:
        raise UsageError(f"--with must be one of {', '.join(known)}. Got {name!r}.")


def built_extractor(name: str, weights: Path | None, device: str | None) -> Any:
    """An extractor of image features by name."""
    if name not in EXTRACTORS:
        raise UsageError(f"--with must be one of pixels, {', '.join(EXTRACTORS)} for a folder. Got {name!r}.")
    options: dict[str, Any] = {"n_jobs": -1}
    if name != "bow_sift":
        options["device"] = device or "cpu"
        if weights is not None:
            options["weights"] = weights
    elif weights is not None or device is not None:
        raise UsageError("--weights and --device go with a network; bow_sift has none.")
    return EXTRACTORS[name](**options)
