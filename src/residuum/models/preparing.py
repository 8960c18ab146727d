"""From the options of a command to the features of people's own data: scaling, kernels, image extractors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from residuum.errors import UsageError
from residuum.features import EXTRACTORS
from residuum.inputs import OwnData
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
    if sharpness is not None and not 0 < sharpness < 1e6:
        raise UsageError(f"--sharpness must be greater than 0 and less than 1e6. Got {sharpness}.")
    usual = ("standard" if table else None) if scale is None else (None if scale == "none" else scale)
    space = ("rbf" if table else None) if kernel is None else (None if kernel == "none" else kernel)
    chosen, pca = select == "cv", options["pca"]
    if sharpness is not None:
        sharpnesses: tuple[float, ...] = (sharpness,)
    else:
        sharpnesses = SHARPNESSES if chosen and space in ("rbf", "poly") else (SHARPNESS,)
    in_space = [Features(usual, pca, space, each) for each in sharpnesses] if space else []
    scales = ("minmax", usual) if table and scale is None else (usual,)
    plain = [Features(each, pca) for each in scales] if kernel in (None, "none") else []
    return (*plain, *in_space) if chosen else ((in_space or plain)[-1],)


def features_note(data: OwnData, features: tuple[Features, ...], options: dict[str, Any]) -> str:
    """What the features will be, and why, in one sentence."""
    kind = "embeddings" if options["embeddings"] else kind_of(data)
    how = (
        f"features are {features[0]}"
        if len(features) == 1
        else f"{len(features)} kinds of features are tried"
    )
    return f"taken for {kind}: {how}; --scale, --kernel and --embeddings say otherwise"


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
