"""What a model file may hold: the fitted attributes of every type, and what each of them must be.

Tables alone: `models/parts.py` writes, reads and checks by them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from residuum.estimators.weights import LEAST


class Field(NamedTuple):
    """What a value of a model file must be.

    Lengths have letters: d is the number of features that a part takes, and any other letter stands for one
    length in all fields of a part.
    """

    kind: str  # a key of KINDS
    shape: tuple[str | int, ...] = ()  # of an array; or the length that a count stands for
    least: float = -math.inf
    or_none: bool = False
    may_lack: bool = False


# What takes rows of numbers has these attributes; the tables below add to them.
_ROWS = {"n_features_in_": Field("count", ("d",)), "feature_names_in_": Field("texts", ("d",), may_lack=True)}
CLASSIFIER = {**_ROWS, "classes_": Field("labels"), "n_samples_seen_": Field("count")}
CALIBRATION = {
    **_ROWS,
    "temperature_": Field("number", least=0, or_none=True),
    "residual_cap_": Field("number", least=0, or_none=True),
}
DICTIONARY = {
    "atoms": Field("floats", ("n", "d")),
    "starts": Field("int64", ("k + 1",)),
    "samples": Field("int64", ("n",), least=0),
    "weights": Field("floats", ("n",), least=LEAST, may_lack=True),
    "moments": Field("floats", ("k", "d", "d"), may_lack=True),
    "terms": Field("int64", ("k",), least=0, may_lack=True),
    "normal": Field("floats", ("d", "d"), may_lack=True),
}


class Step(NamedTuple):
    """A transformer: where it lives, and which of its fitted attributes are kept."""

    home: str
    fitted: dict[str, Field]
    width: str | None = None  # the attribute that tells how many features it makes
    omitted: tuple[str, ...] = ()  # parameters that are not kept


_PER_FEATURE = Field("floats", ("d",))
_PRINCIPAL = {
    "components_": Field("floats", ("c", "d")),
    "mean_": _PER_FEATURE,
    "singular_values_": Field("floats", ("c",), least=0),
    "explained_variance_ratio_": Field("floats", ("c",), least=0),
    "n_components_": Field("count", ("c",)),
}
_PER_COLUMN = Field("flags", ("d",))
STEPS: dict[str, Step] = {
    "TableEncoder": Step(
        "residuum.features.table_encoder",
        {
            **_ROWS,
            **dict.fromkeys(("is_text_", "has_others_", "has_missing_"), _PER_COLUMN),
            "medians_": _PER_FEATURE,
            "most_frequent_": Field("texts", ("d",)),
            "categories_": Field("categories", ("d",)),
        },
        "_n_features_out",
    ),
    "EigenfacePCA": Step("residuum.features.pca", {**_ROWS, **_PRINCIPAL}, "n_components_"),
    "KernelMap": Step(
        "residuum.features.kernel_map",
        {
            **_ROWS,
            "landmarks_": Field("floats", ("landmarks", "d")),
            "projection_": Field("floats", ("landmarks", "rank")),
            "exact_": Field("truth"),
            "error_": Field("number", least=0),
            "gamma_": Field("number", least=0),
        },
        "_n_features_out",
    ),
    "Scattering2D": Step("residuum.features.scattering", {**_ROWS, "image_shape_": Field("sides", ("d",))}),
    "BowSift": Step("residuum.features.bow_sift", {"codebook_": Field("floats", ("words", "length"))}),
    # The network by its name and the hash of its weights; a path to them means nothing on another machine.
    "CNNFeatures": Step("residuum.features.cnn", {"weights_sha256_": Field("digest")}, omitted=("weights",)),
    "Normalizer": Step("sklearn.preprocessing", _ROWS, "n_features_in_"),
    "StandardScaler": Step(
        "sklearn.preprocessing",
        {
            **_ROWS,
            **dict.fromkeys(("mean_", "var_", "scale_"), _PER_FEATURE._replace(or_none=True)),
            "n_samples_seen_": Field("number", least=1),
        },
        "n_features_in_",
    ),
    "MinMaxScaler": Step(
        "sklearn.preprocessing",
        {
            **_ROWS,
            **dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), _PER_FEATURE),
            "n_samples_seen_": Field("count"),
        },
        "n_features_in_",
    ),
    "PCA": Step(
        "sklearn.decomposition",
        {
            **_ROWS,
            **_PRINCIPAL,
            "explained_variance_": Field("floats", ("c",), least=0),
            "n_samples_": Field("count"),
            "noise_variance_": Field("number", least=0),
        },
        "n_components_",
    ),
}
