"""What a model file can hold: each type by name, with the fitted attributes that make it what it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from residuum.dictionary import ClassMoments, Dictionary
from residuum.errors import ModelFileError, UsageError
from residuum.estimators import METHODS, ConfidentClassifier
from residuum.models.values import decode, decode_labels, encode, encode_labels
from residuum.selection.base import GridSelector

# Stores an array under a name of its own; gives back the array of a name.
Keep = Callable[[str, Any], str]
Fetch = Callable[[str], np.ndarray]
Node = dict[str, Any]

_CALIBRATION = ("temperature_", "residual_cap_")


@dataclass(frozen=True)
class Step:
    """A transformer: where it lives and which of its fitted attributes are kept."""

    home: str
    fitted: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()  # parameters that are not kept


STEPS: dict[str, Step] = {
    "EigenfacePCA": Step(
        "residuum.features.pca",
        ("components_", "mean_", "singular_values_", "explained_variance_ratio_", "n_components_"),
    ),
    "Scattering2D": Step("residuum.features.scattering", ("image_shape_",)),
    "BowSift": Step("residuum.features.bow_sift", ("codebook_",)),
    # The network by its name and the hash of its weights; a path to them means nothing on another machine.
    "CNNFeatures": Step("residuum.features.cnn", ("weights_sha256_",), omitted=("weights",)),
    "Normalizer": Step("sklearn.preprocessing"),
    "StandardScaler": Step("sklearn.preprocessing", ("mean_", "var_", "scale_", "n_samples_seen_")),
    "MinMaxScaler": Step(
        "sklearn.preprocessing",
        ("min_", "scale_", "data_min_", "data_max_", "data_range_", "n_samples_seen_"),
    ),
    "PCA": Step(
        "sklearn.decomposition",
        (
            "components_", "mean_", "explained_variance_", "explained_variance_ratio_", "singular_values_",
            "n_components_", "n_samples_", "noise_variance_",
        ),
    ),
}  # fmt: skip


def classifier_node(model: Any, keep: Keep) -> Node:
    """Parameters, labels, dictionary and what else a fitted classifier has learned."""
    if isinstance(model, ConfidentClassifier):
        node = _common(model, "ConfidentClassifier", omitted=("estimator",))
        node["fitted"] = _fitted(model, _CALIBRATION, keep, "ConfidentClassifier")
        node["classifier"] = classifier_node(chosen(model.estimator_), keep)
        return node
    name = type(model).__name__
    if METHODS.get(name) is not type(model):
        raise UsageError(
            f"save_model stores {', '.join(METHODS)}. Got {type(model).__module__}.{name} instead."
        )
    node = _common(model, name)
    node["labels"] = encode_labels(model.classes_, name)
    node["dictionary"] = {
        part: keep(part, array) for part, array in _dictionary_arrays(model.dictionary_).items()
    }
    node["fitted"] = _fitted(model, ("n_samples_seen_",), keep, name)
    return node


def chosen(estimator: Any) -> Any:
    """The classifier that a search has chosen, with the names of the features; others as they are."""
    if not isinstance(estimator, GridSelector):
        return estimator
    classifier = copy.copy(estimator.best_estimator_)
    if hasattr(estimator, "feature_names_in_"):
        classifier.feature_names_in_ = estimator.feature_names_in_
    return classifier


def _dictionary_arrays(dictionary: Dictionary) -> dict[str, np.ndarray]:
    """The dictionary, and the sums over its atoms where a solver uses them."""
    arrays = {"atoms": dictionary.atoms, "starts": dictionary.starts, "samples": dictionary.samples}
    computed = vars(dictionary)
    if "moments" in computed:
        arrays["moments"] = np.stack(dictionary.moments.matrices)
        arrays["terms"] = dictionary.moments.terms
    if "normal" in computed:
        arrays["normal"] = dictionary.normal
    return arrays


def _dictionary(arrays: dict[str, np.ndarray], n_classes: int, n_features: int) -> Dictionary:
    atoms, starts, samples = (arrays[name] for name in ("atoms", "starts", "samples"))
    square = (n_features, n_features)
    good = (
        set(arrays) <= {"atoms", "starts", "samples", "moments", "terms", "normal"}
        and atoms.shape == (len(samples), n_features)
        and atoms.dtype in (np.float32, np.float64)
        and starts.dtype == samples.dtype == np.int64
        and starts.shape == (n_classes + 1,)
        and samples.shape == (len(atoms),)
        and len(samples) > 0
        and samples.min() >= 0
        and len(np.unique(samples)) == len(samples)
        and starts[0] == 0
        and starts[-1] == len(samples)
        and bool((np.diff(starts) >= 0).all())
        and atoms.flags.c_contiguous
        and bool(np.isfinite(atoms).all())
        and ("moments" in arrays) == ("terms" in arrays)
        and ("moments" not in arrays or _are_sums(arrays["moments"], (n_classes, *square)))
        and ("terms" not in arrays or _are_counts(arrays["terms"], n_classes))
        and ("normal" not in arrays or _are_sums(arrays["normal"], square))
    )
    if not good:
        raise ValueError("the parts of its dictionary do not fit together")
    dictionary = Dictionary(atoms, starts, samples)
    if "moments" in arrays:
        vars(dictionary)["moments"] = ClassMoments(list(arrays["moments"]), arrays["terms"])
    if "normal" in arrays:
        vars(dictionary)["normal"] = arrays["normal"]
    return dictionary


def _are_sums(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    plain = array.dtype == np.float64 and array.shape == shape and array.flags.c_contiguous
    return plain and bool(np.isfinite(array).all())


def _are_counts(array: np.ndarray, length: int) -> bool:
    return array.dtype == np.int64 and array.shape == (length,) and bool((array >= 0).all())


def classifier_from(node: Node, fetch: Fetch) -> Any:
    """The classifier of a node; its solver is prepared from the dictionary."""
    if node["type"] == "ConfidentClassifier":
        inner = classifier_from(node["classifier"], fetch)
        model = _made(node, ConfidentClassifier).set_params(estimator=clone(inner))
        model._validate_params()
        model.estimator_ = inner
        _restore(model, node["fitted"], fetch, _CALIBRATION)
        return model
    model = _made(node, METHODS[node["type"]])
    model._validate_params()
    model.classes_ = decode_labels(node["labels"])
    arrays = {name: fetch(array) for name, array in node["dictionary"].items()}
    model.dictionary_ = _dictionary(arrays, len(model.classes_), node["n_features_in_"])
    if (
        len(np.unique(model.classes_)) != len(model.classes_)
        or (np.sort(model.classes_) != model.classes_).any()
    ):
        raise ValueError("its labels are not sorted and different")
    _restore(model, node["fitted"], fetch, ("n_samples_seen_",))
    model.solver_ = model._make_solver(model.dictionary_)
    for solver in model._solver_names:
        getattr(model, solver).prepare()
    return model


def step_node(model: Any, where: str, keep: Keep) -> Node:
    """Parameters and fitted attributes of a transformer; `where` names the step in errors."""
    name = type(model).__name__
    step = STEPS.get(name)
    if step is None or type(model) is not getattr(import_module(step.home), name):
        raise UsageError(
            f"save_model cannot store the {where}: {type(model).__module__}.{name}. It stores the steps "
            f"{', '.join(STEPS)}, and 'passthrough'. Apply other steps to the data before."
        )
    if name == "CNNFeatures" and not isinstance(model.network, str):
        raise UsageError(f"save_model cannot store the {where}: its network has no name. Use a named one.")
    node = _common(model, where, omitted=step.omitted)
    node["fitted"] = _fitted(model, step.fitted, keep, where)
    return node


def step_from(node: Node, fetch: Fetch) -> Any:
    """The transformer of a node."""
    step = STEPS[node["type"]]
    model = _made(node, getattr(import_module(step.home), node["type"]))
    if node["type"] == "CNNFeatures":
        model.fit()
        if model.weights_sha256_ != node["fitted"]["weights_sha256_"]["value"]:
            raise ModelFileError(
                f"The model was made with other weights of {model.network} than those installed here: "
                f"SHA-256 {node['fitted']['weights_sha256_']['value']!r}, here {model.weights_sha256_}."
            )
        return model
    _restore(model, node["fitted"], fetch, step.fitted)
    return model


def _common(model: BaseEstimator, owner: str, omitted: tuple[str, ...] = ()) -> Node:
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in omitted}
    node: Node = {
        "type": type(model).__name__,
        "parameters": {
            name: encode(value, f"The '{name}' parameter of {owner}") for name, value in parameters.items()
        },
        "n_features_in_": int(getattr(model, "n_features_in_", -1)),
    }
    if hasattr(model, "feature_names_in_"):
        node["feature_names_in_"] = encode_labels(model.feature_names_in_, owner)
    return node


def _made(node: Node, kind: type) -> Any:
    stored = node["parameters"]
    unknown = sorted(set(stored) - set(kind().get_params(deep=False)))
    if unknown:
        raise ValueError(
            f"{node['type']} has no parameter {unknown[0]!r} here; the model is from another version"
        )
    model = kind(**{name: decode(value) for name, value in stored.items()})
    width = node["n_features_in_"]
    if type(width) is not int:
        raise ValueError("n_features_in_ is not a number")
    if width >= 0:
        model.n_features_in_ = width
    if "feature_names_in_" in node:
        model.feature_names_in_ = decode_labels(node["feature_names_in_"])
    return model


def _fitted(model: Any, names: tuple[str, ...], keep: Keep, owner: str) -> Node:
    node: Node = {}
    for name in names:
        if not hasattr(model, name):
            continue
        value = getattr(model, name)
        if isinstance(value, np.ndarray) and value.ndim:
            try:
                node[name] = {"array": keep(name.strip("_"), value)}
            except TypeError:
                node[name] = {"labels": encode_labels(value, f"{owner}.{name}")}
        else:
            value = value[()] if isinstance(value, np.ndarray) else value
            node[name] = {"value": encode(value, f"{owner}.{name}")}
    return node


def _restore(model: Any, stored: Node, fetch: Fetch, known: tuple[str, ...]) -> None:
    for name, content in stored.items():
        if name not in known:
            raise ValueError(f"{type(model).__name__} has no fitted attribute {name!r} here")
        ((kind, value),) = content.items()
        read: dict[str, Callable[[Any], Any]] = {"array": fetch, "labels": decode_labels, "value": decode}
        setattr(model, name, read[kind](value))
