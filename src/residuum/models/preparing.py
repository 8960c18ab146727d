"""From the options of a command to the features of people's own data: scaling, kernels, image extractors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import UsageError
from residuum.features import EXTRACTORS, TableEncoder
from residuum.features.networks import NETWORKS
from residuum.inputs import OwnData
from residuum.inputs.own_data import missing_cells, quoted
from residuum.models.recipe import SHARPNESS, Features

KERNELS = ("rbf", "poly", "cosine")
SHARPNESSES = (0.05, SHARPNESS, 1.0)  # of a kernel that is chosen by cross-validation
_MANY = 64  # columns without names from which on an array is taken for embeddings


def kind_of(data: OwnData) -> str:
    """What rows of features are: "pixels", "image features", "embeddings" or "a table".

    Pictures differ in light, and embeddings are made to be compared by angle, so their lengths say nothing;
    columns of a table have units of their own. Many columns that nobody has named are embeddings.
    """
    if data.image_shape is not None:
        return "pixels"
    if data.kind == "images":
        return "image features"
    n_features = np.asarray(data.features).shape[1]
    return "embeddings" if data.columns is None and n_features >= _MANY else "a table"


def chosen_features(data: OwnData, options: dict[str, Any], *, select: str) -> tuple[Features, ...]:
    """Candidates for the features, as asked or by the kind of data; one without ``--select cv``.

    Tables are standardised and get an RBF kernel: samples are divided by their norm before they are coded,
    which takes the light out of pictures, but information out of tables. A kernel keeps it as an angle.
    """
    table = kind_of(data) == "a table" and not options["embeddings"]
    scale, kernel, sharpness = options["scale"], options["kernel"], options["sharpness"]
    if sharpness is not None and (kernel in ("none", "cosine") or (kernel is None and not table)):
        raise UsageError("--sharpness is that of --kernel rbf or poly, which is not used here.")
    usual = ("standard" if table else None) if scale is None else (None if scale == "none" else scale)
    space = ("rbf" if table else None) if kernel is None else (None if kernel == "none" else kernel)
    chosen, pca = select == "cv", options["pca"]
    if sharpness is not None:
        sharpnesses: tuple[float, ...] = (sharpness,)
    else:
        sharpnesses = SHARPNESSES if chosen and space in ("rbf", "poly") else (SHARPNESS,)
    encode = data.kind != "images" and (options.get("missing") == "impute" or needs_encoding(data))
    in_space = [Features(usual, pca, space, each, encode) for each in sharpnesses] if space else []
    scales = ("minmax", usual) if table and scale is None else (usual,)
    plain = [Features(each, pca, encode=encode) for each in scales] if kernel in (None, "none") else []
    return (*plain, *in_space) if chosen else ((in_space or plain)[-1],)


def features_note(data: OwnData, features: tuple[Features, ...], options: dict[str, Any]) -> str:
    """What the features will be, and why, in one sentence."""
    kind = "embeddings" if options["embeddings"] else kind_of(data)
    if len(features) > 1:
        how = f"{len(features)} kinds of features are tried"
    elif features[0] == Features():
        how = "the features stay as they are"
    else:
        how = f"the steps are {features[0]}"
    return f"taken for {kind}: {how}; --scale, --kernel and --embeddings change that"


def needs_encoding(data: OwnData) -> bool:
    """Whether some column is text, or some value is missing and is to be filled in."""
    X = data.features
    if X is None or X.dtype.kind not in "fO":
        return False
    return bool(data.texts) or any(missing_cells(X[i : i + 4096]).any() for i in range(0, len(X), 4096))


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
            made.setdefault("missing values are filled in, with a column that marks them", []).append(
                repr(name)
            )
    return [
        f"{what}: {', '.join(those[:10])}{f' and {len(those) - 10} more' if len(those) > 10 else ''}"
        for what, those in made.items()
    ]


def check_feature_options(options: dict[str, Any]) -> None:
    """Refuse what no data can make right, before any are read."""
    name, sharpness, pca = (options[option] for option in ("extractor", "sharpness", "pca"))
    known = ("pixels", "scattering", *EXTRACTORS)
    if name is not None and name not in known:
        raise UsageError(f"--with must be one of {', '.join(known)}. Got {name!r}.")
    if sharpness is not None and not 0 < sharpness < 1e6:
        raise UsageError(f"--sharpness must be greater than 0 and less than 1e6. Got {sharpness}.")
    if pca is not None and pca < 1:
        raise UsageError(f"--pca must be 1 or more. Got {pca}.")


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
