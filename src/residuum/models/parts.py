"""What a model file can hold: each type by name, with the fitted attributes that make it what it is.

Values are stored as JSON, and arrays by the names of their files; each comes back with its type.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from residuum.dictionary import ClassMoments, Dictionary
from residuum.errors import ModelFileError, UsageError
from residuum.estimators import METHODS, ConfidentClassifier
from residuum.selection.base import GridSelector

Node = dict[str, Any]
# Stores an array and gives it a name; gives back the array of a name.
Keep = Callable[[np.ndarray], str]
Fetch = Callable[[str], np.ndarray]

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
    dictionary = model.dictionary_
    arrays = {part: getattr(dictionary, part) for part in ("atoms", "starts", "samples")}
    if "moments" in vars(dictionary):  # sums over all atoms, where a solver uses them
        arrays |= {"moments": np.stack(dictionary.moments.matrices), "terms": dictionary.moments.terms}
    if "normal" in vars(dictionary):
        arrays["normal"] = dictionary.normal
    stored = {part: keep(array) for part, array in arrays.items()}
    return {**_node(model, name, keep, _CLASSIFIER), "dictionary": stored}


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
    arrays = {name: fetch(array) for name, array in node["dictionary"].items()}
    model.dictionary_ = _dictionary(arrays, len(model.classes_), model.n_features_in_)
    model.solver_ = model._make_solver(model.dictionary_)
    for solver in model._solver_names:
        getattr(model, solver).prepare()
    return model


def _dictionary(arrays: dict[str, np.ndarray], n_classes: int, n_features: int) -> Dictionary:
    atoms, starts, samples = (arrays[name] for name in ("atoms", "starts", "samples"))
    allowed: dict[str, tuple[tuple[type, ...], tuple[int, ...]]] = {
        "atoms": ((np.float32, np.float64), (len(samples), n_features)),
        "starts": ((np.int64,), (n_classes + 1,)),
        "samples": ((np.int64,), (len(atoms),)),
        "moments": ((np.float64,), (n_classes, n_features, n_features)),
        "terms": ((np.int64,), (n_classes,)),
        "normal": ((np.float64,), (n_features, n_features)),
    }
    good = all(
        array.dtype in allowed[name][0]
        and array.shape == allowed[name][1]
        and array.flags.c_contiguous
        and bool(np.isfinite(array).all())
        for name, array in arrays.items()
    ) and (
        0 < len(np.unique(samples)) == len(samples) == starts[-1]
        and samples.min() >= starts[0] == 0
        and bool((np.diff(starts) >= 0).all())
        and bool((arrays.get("terms", samples) >= 0).all())
    )
    if not good:
        raise ValueError("the parts of its dictionary do not fit together")
    dictionary = Dictionary(atoms, starts, samples)
    if "moments" in arrays:
        vars(dictionary)["moments"] = ClassMoments(list(arrays["moments"]), arrays["terms"])
    if "normal" in arrays:
        vars(dictionary)["normal"] = arrays["normal"]
    return dictionary


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
            name: _encode(value, f"The '{name}' parameter of {owner}", keep)
            for name, value in parameters.items()
        },
        "fitted": {name: _encode(value, f"{owner}.{name}", keep) for name, value in learned.items()},
    }


def _made(node: Node, kind: type, fetch: Fetch, fitted: tuple[str, ...]) -> Any:
    unknown = set(node["parameters"]) - set(kind().get_params(deep=False))
    unknown |= set(node["fitted"]) - {*_ALWAYS, *fitted}
    if unknown:
        raise ValueError(f"{node['type']} has no {min(unknown)!r} here; the model is from another version")
    model = kind(**{name: _decode(value, fetch) for name, value in node["parameters"].items()})
    for name, value in node["fitted"].items():
        setattr(model, name, _decode(value, fetch))
    return model


def _encode(value: Any, owner: str, keep: Keep) -> Any:
    """A value as JSON; what plain JSON cannot hold becomes an object with one key."""
    if isinstance(value, np.ndarray) and value.ndim:
        return _encode_array(value, owner, keep)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biuf":
        return {"numpy": [value.dtype.str, _encode(value.item(), owner, keep)]}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, tuple):
        return {"tuple": [_encode(part, owner, keep) for part in value]}
    if isinstance(value, list):
        return [_encode(part, owner, keep) for part in value]
    raise UsageError(
        f"{owner} is {value!r} of type {type(value).__name__}, which a model file cannot hold: only numbers, "
        "text, True, False, None, lists and tuples of them, and arrays of numbers or text."
    )


def _encode_array(array: np.ndarray, owner: str, keep: Keep) -> dict[str, str]:
    if array.dtype.kind in "biufU":
        return {"array": keep(array)}
    if array.dtype == object and all(isinstance(value, str) for value in array.flat):
        return {"objects": keep(array.astype(np.str_))}
    raise UsageError(
        f"{owner} is an array of {array.dtype} or of mixed Python types, which a model file cannot hold: use "
        "text, numbers or booleans."
    )


def _decode(value: Any, fetch: Fetch) -> Any:
    """The value that `_encode` was given; ValueError for anything that it does not write."""
    if isinstance(value, list):
        return [_decode(part, fetch) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "array":
        return fetch(content)
    if kind == "objects":
        return fetch(content).astype(object)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "tuple" and isinstance(content, list):
        return tuple(_decode(part, fetch) for part in content)
    if kind == "numpy" and isinstance(content, list) and np.dtype(content[0]).kind in "biuf":
        return np.dtype(content[0]).type(_decode(content[1], fetch))
    raise ValueError(f"{value!r} is not a stored value")
