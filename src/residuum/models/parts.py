"""What a model file can hold: each type by name, with the fitted attributes that make it what it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from residuum.dictionary import Dictionary
from residuum.errors import ModelFileError, UsageError
from residuum.estimators import classifiers
from residuum.estimators.base import RepresentationClassifier
from residuum.grown_dictionary import GrownDictionary, Parts
from residuum.models.values import decode, decode_labels, encode, encode_labels

# Stores an array under a name of its own; gives back the array of a name.
Keep = Callable[[str, Any], str]
Fetch = Callable[[str], np.ndarray]
Node = dict[str, Any]

CLASSIFIERS: dict[str, type[RepresentationClassifier]] = {
    name: getattr(classifiers, name) for name in ("NSC", "SRC", "CRC", "CROC", "ProCRC", "NRC", "SoftNRC")
}


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


def classifier_node(model: RepresentationClassifier, keep: Keep) -> Node:
    """Parameters, labels, dictionary and what else a fitted classifier has learned."""
    name = type(model).__name__
    if CLASSIFIERS.get(name) is not type(model):
        raise UsageError(
            f"save_model stores {', '.join(CLASSIFIERS)}. Got {type(model).__module__}.{name} instead."
        )
    node = _common(model, name)
    node["labels"] = encode_labels(model.classes_, name)
    node["dictionary"] = {
        name: keep(name, array) for name, array in _dictionary_arrays(model.dictionary_).items()
    }
    node["fitted"] = _fitted(model, ("n_samples_seen_", *model._stored_attributes), keep, name)
    # Empty unless samples were enrolled or forgotten since the fit: what a fresh solver would not have.
    node["solvers"] = {
        solver: {part: keep(part, array) for part, array in getattr(model, solver).state().items()}
        for solver in model._solver_names
    }
    return node


def _dictionary_arrays(dictionary: Dictionary) -> dict[str, np.ndarray]:
    """The dictionary as it lies in memory: what it computes with stays the same, bit for bit."""
    arrays = {"starts": dictionary.starts, "samples": dictionary.samples}
    parts = dictionary.parts
    if parts is None:
        return {"atoms": dictionary.atoms, **arrays}
    return {"atoms": parts.base, "joined": parts.joined, "source": parts.source, **arrays}


def _dictionary(arrays: dict[str, np.ndarray], n_classes: int, n_features: int) -> Dictionary:
    atoms, starts, samples = (arrays[name] for name in ("atoms", "starts", "samples"))
    joined, source = arrays.get("joined", atoms[:0]), arrays.get("source", np.arange(len(samples)))
    good = (
        all(rows.ndim == 2 and rows.shape[1] == n_features for rows in (atoms, joined))
        and atoms.dtype in (np.float32, np.float64)
        and joined.dtype == atoms.dtype
        and starts.dtype == samples.dtype == source.dtype == np.int64
        and starts.shape == (n_classes + 1,)
        and samples.shape == (len(atoms) + len(joined),)
        and len(samples) > 0
        and samples.min() >= 0
        and len(np.unique(samples)) == len(samples)
        and starts[0] == 0
        and starts[-1] == len(samples)
        and bool((np.diff(starts) >= 0).all())
        and ("joined" in arrays) == ("source" in arrays)
        and np.array_equal(np.sort(source), np.arange(len(samples)))
        and all(rows.flags.c_contiguous and bool(np.isfinite(rows).all()) for rows in (atoms, joined))
    )
    if good and "source" in arrays:
        order = np.lexsort((source, np.repeat(np.arange(n_classes), np.diff(starts))))
        good = np.array_equal(order, np.arange(len(samples)))  # ascending within each class
    if not good:
        raise ValueError("the parts of its dictionary do not fit together")
    if "source" not in arrays:
        return Dictionary(atoms, starts, samples)
    return GrownDictionary(Parts(atoms, joined, source), starts, samples)


def classifier_from(node: Node, fetch: Fetch) -> RepresentationClassifier:
    """The classifier of a node; its solver is prepared anew from the dictionary."""
    model = _made(node, CLASSIFIERS[node["type"]])
    model._validate_params()
    model.classes_ = decode_labels(node["labels"])
    arrays = {name: fetch(array) for name, array in node["dictionary"].items()}
    model.dictionary_ = _dictionary(arrays, len(model.classes_), node["n_features_in_"])
    if (
        len(np.unique(model.classes_)) != len(model.classes_)
        or (np.sort(model.classes_) != model.classes_).any()
    ):
        raise ValueError("its labels are not sorted and different")
    _restore(model, node["fitted"], fetch, ("n_samples_seen_", *model._stored_attributes))
    model.solver_ = model._make_solver(model.dictionary_)
    for solver in model._solver_names:
        state = {part: fetch(name) for part, name in node["solvers"][solver].items()}
        if state:
            getattr(model, solver).restore(state)
        else:
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
