"""What a model file can hold: each type by name, with the fitted attributes that make it what it is."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from residuum.dictionary import Dictionary
from residuum.errors import ModelFileError, UsageError
from residuum.estimators import METHODS, ConfidentClassifier
from residuum.models.values import Fetch, Keep, decode, encode
from residuum.selection.base import GridSelector

Node = dict[str, Any]

_PASSTHROUGH = "passthrough"
_ALWAYS = ("n_features_in_", "feature_names_in_")
_CLASSIFIER = ("classes_", "n_samples_seen_")
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
    name = type(model).__name__
    if isinstance(model, ConfidentClassifier):
        node = _node(model, name, keep, _CALIBRATION, omitted=("estimator",))
        return {**node, "classifier": classifier_node(chosen(model.estimator_), keep)}
    if METHODS.get(name) is not type(model):
        raise UsageError(
            f"save_model stores {', '.join(METHODS)}. Got {type(model).__module__}.{name} instead."
        )
    parts = {part: keep(getattr(model.dictionary_, part)) for part in ("atoms", "starts", "samples")}
    return {**_node(model, name, keep, _CLASSIFIER), "dictionary": parts}


def classifier_from(node: Node, fetch: Fetch) -> Any:
    """The classifier of a node; its solver is prepared from the dictionary."""
    if node["type"] == "ConfidentClassifier":
        inner = classifier_from(node["classifier"], fetch)
        model = _made(node, ConfidentClassifier, fetch, _CALIBRATION).set_params(estimator=clone(inner))
        model._validate_params()
        model.estimator_ = inner
        return model
    model = _made(node, METHODS[node["type"]], fetch, _CLASSIFIER)
    model._validate_params()
    if not np.array_equal(model.classes_, np.unique(model.classes_)):
        raise ValueError("its labels are not sorted and different")
    parts = {name: fetch(array) for name, array in node["dictionary"].items()}
    model.dictionary_ = _dictionary(**parts, shape=(len(model.classes_), model.n_features_in_))
    model.solver_ = model._make_solver(model.dictionary_)
    for solver in model._solver_names:
        getattr(model, solver).prepare()
    return model


def _dictionary(
    atoms: np.ndarray, starts: np.ndarray, samples: np.ndarray, *, shape: tuple[int, int]
) -> Dictionary:
    n_classes, n_features = shape
    good = (
        atoms.shape == (len(samples), n_features)
        and atoms.dtype in (np.float32, np.float64)
        and atoms.flags.c_contiguous
        and bool(np.isfinite(atoms).all())
        and starts.dtype == samples.dtype == np.int64
        and starts.shape == (n_classes + 1,)
        and samples.shape == (len(atoms),)
        and len(samples) > 0
        and samples.min() >= 0
        and len(np.unique(samples)) == len(samples)
        and starts[0] == 0
        and starts[-1] == len(samples)
        and bool((np.diff(starts) >= 0).all())
    )
    if not good:
        raise ValueError("the parts of its dictionary do not fit together")
    return Dictionary(atoms, starts, samples)


def chosen(estimator: Any) -> Any:
    """The classifier that a search has chosen, with the names of the features; others as they are."""
    if not isinstance(estimator, GridSelector):
        return estimator
    classifier = copy.copy(estimator.best_estimator_)
    if hasattr(estimator, "feature_names_in_"):
        classifier.feature_names_in_ = estimator.feature_names_in_
    return classifier


def selection_of(estimator: Any) -> dict[str, Any]:
    """How a search, alone or within a ConfidentClassifier, has chosen its parameters; else nothing."""
    search = getattr(estimator, "estimator_", estimator)
    if not isinstance(search, GridSelector):
        return {}
    return {
        "estimator": type(search).__name__,
        "parameters": search.best_params_,
        "score": search.best_score_,
        "n_splits": search.n_splits_,
        "n_candidates": len(search.cv_results_["params"]),
    }


def step_node(model: Any, where: str, keep: Keep) -> Node:
    """Parameters and fitted attributes of a transformer; `where` names the step in errors."""
    if model in (None, _PASSTHROUGH):
        return {"type": _PASSTHROUGH}
    name = type(model).__name__
    step = STEPS.get(name)
    if step is None or type(model) is not getattr(import_module(step.home), name):
        raise UsageError(
            f"save_model cannot store the {where}: {type(model).__module__}.{name}. It stores the steps "
            f"{', '.join(STEPS)}, and '{_PASSTHROUGH}'. Apply other steps to the data before."
        )
    if name == "CNNFeatures" and not isinstance(model.network, str):
        raise UsageError(f"save_model cannot store the {where}: its network has no name. Use a named one.")
    return _node(model, where, keep, step.fitted, step.omitted)


def step_from(node: Node, fetch: Fetch) -> Any:
    """The transformer of a node."""
    if node["type"] == _PASSTHROUGH:
        return _PASSTHROUGH
    step = STEPS[node["type"]]
    model = _made(node, getattr(import_module(step.home), node["type"]), fetch, step.fitted)
    if node["type"] == "CNNFeatures":
        stored = model.weights_sha256_
        if model.fit().weights_sha256_ != stored:
            raise ModelFileError(
                f"The model was made with other weights of {model.network} than those installed here: "
                f"SHA-256 {stored!r}, here {model.weights_sha256_}."
            )
    return model


def _node(model: Any, owner: str, keep: Keep, fitted: tuple[str, ...], omitted: tuple[str, ...] = ()) -> Node:
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in omitted}
    learned = {name: getattr(model, name) for name in (*_ALWAYS, *fitted) if hasattr(model, name)}
    return {
        "type": type(model).__name__,
        "parameters": {
            name: encode(value, f"The '{name}' parameter of {owner}", keep)
            for name, value in parameters.items()
        },
        "fitted": {name: encode(value, f"{owner}.{name}", keep) for name, value in learned.items()},
    }


def _made(node: Node, kind: type, fetch: Fetch, fitted: tuple[str, ...]) -> Any:
    unknown = set(node["parameters"]) - set(kind().get_params(deep=False))
    unknown |= set(node["fitted"]) - {*_ALWAYS, *fitted}
    if unknown:
        raise ValueError(f"{node['type']} has no {min(unknown)!r} here; the model is from another version")
    model = kind(**{name: decode(value, fetch) for name, value in node["parameters"].items()})
    for name, value in node["fitted"].items():
        setattr(model, name, decode(value, fetch))
    return model
