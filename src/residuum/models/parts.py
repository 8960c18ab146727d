"""The parts of a model file: classifiers and feature steps as JSON and arrays, and back again.

Values are stored as JSON, and arrays by the names of their files; each comes back with its type. The tables
of `models/stored.py` say what every attribute may be, and nothing that they do not allow is built.
"""

from __future__ import annotations

import copy
import math
import re
import reprlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import clone

from residuum.dictionary import ClassMoments, Dictionary
from residuum.errors import ModelFileError, UsageError
from residuum.estimators import METHODS, ConfidentClassifier
from residuum.models.stored import CALIBRATION, CLASSIFIER, DICTIONARY, STEPS, Field
from residuum.selection import PipelineCV
from residuum.selection.base import GridSelector

Node = dict[str, Any]
# Stores an array and gives it a name; gives back the array of a name.
Keep = Callable[[np.ndarray], str]
Fetch = Callable[[str], np.ndarray]

_PASSTHROUGH = "passthrough"
_MOST_JOBS = 1024  # threads that a file may ask for


def is_count(value: Any) -> bool:
    """Whether a value is a whole number from 1 on, of Python or NumPy, that things can be counted in."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 1 <= int(value) < 2**53


def _is_labels(value: Any) -> bool:
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype.kind not in "biufUO":
        return False
    finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
    return finite and len(value) > 0 and bool((value[:-1] < value[1:]).all())


def _is_categories(value: Any) -> bool:
    lists = isinstance(value, list) and all(isinstance(texts, list) for texts in value)
    return lists and all(
        all(isinstance(text, str) for text in texts) and len(set(texts)) == len(texts) for texts in value
    )


def _is_array(value: Any, *dtypes: type) -> bool:
    return isinstance(value, np.ndarray) and value.dtype in dtypes


# Kind -> what it is in words, and a test.
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "count": ("a whole number from 1 on", is_count),
    "truth": ("true or false", lambda v: isinstance(v, bool)),
    "number": ("a number", lambda v: isinstance(v, int | float | np.number) and v == v),
    "digest": ("a SHA-256", lambda v: isinstance(v, str) and bool(re.fullmatch("[0-9a-f]{64}", v))),
    "sides": ("height and width", lambda v: type(v) is tuple and len(v) == 2 and all(map(is_count, v))),
    "floats": ("finite numbers", lambda v: _is_array(v, np.float32, np.float64) and np.isfinite(v).all()),
    "int64": ("int64", lambda v: _is_array(v, np.int64)),
    "texts": ("texts", lambda v: _is_array(v, np.object_)),
    "flags": ("true or false", lambda v: _is_array(v, np.bool_)),
    "categories": ("lists of different texts", _is_categories),
    "labels": ("different labels in sorted order", _is_labels),
}


def check_fields(
    owner: str, values: dict[str, Any], fields: dict[str, Field], lengths: dict[str, int]
) -> None:
    """ValueError for the first value that is missing, unknown or not as its field says.

    Letters that values give a length to are added to `lengths`.
    """
    unknown = sorted(set(values) - set(fields))
    if unknown:
        raise ValueError(f"{owner} has no {unknown[0]!r} here; the model is from another version")
    for name, field in fields.items():
        if name not in values and not field.may_lack:
            raise ValueError(f"{owner}.{name} is missing")
        if name in values and not _holds(field, values[name], lengths):
            shape = f" of the shape ({', '.join(map(str, field.shape))})" if field.shape else ""
            least = "" if math.isinf(field.least) else f", at least {field.least:g}"
            wanted = f"{KINDS[field.kind][0]}{shape}{least}"
            raise ValueError(f"{owner}.{name} must be {wanted}. It is {reprlib.repr(values[name])}")


def _holds(field: Field, value: Any, lengths: dict[str, int]) -> bool:
    if value is None or (isinstance(value, bool) and field.kind != "truth"):
        return value is None and field.or_none
    if not KINDS[field.kind][1](value):
        return False
    if field.shape:
        if isinstance(value, np.ndarray | list):
            sizes = value.shape if isinstance(value, np.ndarray) else (len(value),)
        else:
            sizes = (np.prod(value, dtype=int),)
        if len(sizes) != len(field.shape):
            return False
        for letter, size in zip(field.shape, sizes, strict=True):
            if size != (lengths.setdefault(letter, int(size)) if isinstance(letter, str) else letter):
                return False
    return math.isinf(field.least) or bool(np.all(value >= field.least))


def classifier_node(model: Any, keep: Keep) -> Node:
    """Parameters, labels, dictionary and what else a fitted classifier has learned."""
    name = type(model).__name__
    if isinstance(model, ConfidentClassifier):
        node = _node(model, name, keep, CALIBRATION, omitted=("estimator",))
        return {**node, "classifier": classifier_node(chosen(model.estimator_), keep)}
    if METHODS.get(name) is not type(model):
        raise UsageError(
            f"save_model stores {', '.join(METHODS)}. Got {type(model).__module__}.{name} instead."
        )
    dictionary = model.dictionary_
    arrays = {part: getattr(dictionary, part) for part in ("atoms", "starts", "samples")}
    if dictionary.weights is not None:
        arrays["weights"] = dictionary.weights
    if "moments" in vars(dictionary):  # sums over all atoms, where a solver uses them
        arrays |= {"moments": np.stack(dictionary.moments.matrices), "terms": dictionary.moments.terms}
    if "normal" in vars(dictionary):
        arrays["normal"] = dictionary.normal
    stored = {part: keep(array) for part, array in arrays.items()}
    return {**_node(model, name, keep, CLASSIFIER), "dictionary": stored}


def classifier_from(node: Node, fetch: Fetch) -> Any:
    """The classifier of a node; its solver is prepared from the dictionary."""
    if node["type"] == "ConfidentClassifier":
        inner = classifier_from(node["classifier"], fetch)
        model = _made(node, ConfidentClassifier, fetch, CALIBRATION).set_params(estimator=clone(inner))
        if model.n_features_in_ != inner.n_features_in_:
            raise ValueError("the classifier in it takes another number of features")
        model.estimator_ = inner
        return model
    model = _made(node, METHODS[node["type"]], fetch, CLASSIFIER)
    arrays = {name: fetch(array) for name, array in node["dictionary"].items()}
    model.dictionary_ = _dictionary(arrays, len(model.classes_), model.n_features_in_)
    if model.n_samples_seen_ <= model.dictionary_.samples.max():
        raise ValueError(f"{node['type']}.n_samples_seen_ is less than the samples that are there")
    model.solver_ = model._make_solver(model.dictionary_)
    for solver in model._solver_names:
        getattr(model, solver).prepare()
    return model


def _dictionary(arrays: dict[str, np.ndarray], n_classes: int, n_features: int) -> Dictionary:
    known = {"d": n_features, "k": n_classes, "k + 1": n_classes + 1}
    check_fields("dictionary", arrays, DICTIONARY, known)
    atoms, starts, samples = (arrays[name] for name in ("atoms", "starts", "samples"))
    weights = arrays.get("weights")
    squares = np.einsum("ij,ij->i", atoms, atoms) / (1.0 if weights is None else weights)
    together = (
        0 < len(np.unique(samples)) == len(samples) == starts[-1]
        and starts[0] == 0
        and bool((np.diff(starts) >= 0).all())
        and ("moments" in arrays) == ("terms" in arrays)
        and all(array.flags.c_contiguous for array in arrays.values())
        and bool((np.abs(squares - 1) < 1e-3).all())
    )
    if not together:
        raise ValueError("the parts of its dictionary do not fit together")
    dictionary = Dictionary(atoms, starts, samples, weights=weights)
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
    if not isinstance(search, GridSelector | PipelineCV):
        return {}
    return {
        "estimator": type(getattr(search, "search", None) or search).__name__,
        "parameters": dict(search.best_params_),
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


def steps_from(nodes: list[Node], fetch: Fetch) -> list[tuple[str, Any]]:
    """The transformers of the nodes and the classifier of the last, each taking what the one before makes."""
    steps: list[tuple[str, Any]] = []
    width = None  # features that the step before makes, where that is known
    for node in nodes:
        last = node is nodes[-1]
        model = classifier_from(node, fetch) if last else step_from(node, fetch)
        takes = getattr(model, "n_features_in_", None)
        if width is not None and takes not in (None, width):
            raise ValueError(f"step {node['name']!r} takes {takes} features, but is given {width}")
        if model != _PASSTHROUGH and not last:
            width = getattr(model, STEPS[node["type"]].width or "", None)
        steps.append((node["name"], model))
    names = [name for name, _ in steps]
    if names != [None] and not (
        all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
    ):
        raise ValueError("its steps are not called by different names")
    return steps


def step_from(node: Node, fetch: Fetch) -> Any:
    """The transformer of a node."""
    if node["type"] == _PASSTHROUGH:
        return _PASSTHROUGH
    step = STEPS[node["type"]]
    model = _made(node, getattr(import_module(step.home), node["type"]), fetch, step.fitted)
    if node["type"] == "BowSift" and model.codebook_.shape != (model.n_words, model.descriptor_length):
        raise ValueError(
            f"BowSift.codebook_ has the shape {model.codebook_.shape}, which its parameters deny"
        )
    if node["type"] == "CNNFeatures":
        stored = model.weights_sha256_
        if model.fit().weights_sha256_ != stored:
            raise ModelFileError(
                f"The model was made with other weights of {model.network} than those installed here: "
                f"SHA-256 {stored!r}, here {model.weights_sha256_}."
            )
    return model


def _node(
    model: Any, owner: str, keep: Keep, fitted: dict[str, Field], omitted: tuple[str, ...] = ()
) -> Node:
    parameters = {name: value for name, value in model.get_params(deep=False).items() if name not in omitted}
    learned = {name: getattr(model, name) for name in fitted if hasattr(model, name)}
    try:
        check_fields(owner, learned, fitted, {})
    except ValueError as error:
        raise UsageError(f"save_model cannot store what could not be opened again: {error}.") from error
    return {
        "type": type(model).__name__,
        "parameters": {
            name: _encode(value, f"The '{name}' parameter of {owner}", keep)
            for name, value in parameters.items()
        },
        "fitted": {name: _encode(value, f"{owner}.{name}", keep) for name, value in learned.items()},
    }


def _made(node: Node, kind: type, fetch: Fetch, fitted: dict[str, Field]) -> Any:
    """An estimator with checked parameters and checked attributes."""
    unknown = set(node["parameters"]) - set(kind().get_params(deep=False))
    if unknown:
        raise ValueError(f"{node['type']} has no {min(unknown)!r} here; the model is from another version")
    model = kind(**{name: _decode(value, fetch) for name, value in node["parameters"].items()})
    check = "_check_parameters" if hasattr(model, "_check_parameters") else "_validate_params"
    getattr(model, check)()
    if abs(getattr(model, "n_jobs", None) or 1) > _MOST_JOBS:
        raise ValueError(f"{node['type']} asks for {model.n_jobs} threads, more than {_MOST_JOBS}")
    learned = {name: _decode(value, fetch) for name, value in node["fitted"].items()}
    check_fields(node["type"], learned, fitted, {})
    for name, value in learned.items():
        setattr(model, name, value)
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
    if isinstance(value, dict):  # the weights of classes, whose labels need not be text
        return {"dict": [[_encode(part, owner, keep) for part in pair] for pair in value.items()]}
    raise UsageError(
        f"{owner} is {value!r} of type {type(value).__name__}, which a model file cannot hold: only numbers, "
        "text, True, False, None, lists, tuples and dicts of them, and arrays of numbers or text."
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
    kind: str
    content: Any
    kind, content = next(iter(value.items())) if len(value) == 1 else ("", None)
    if kind == "array":
        return fetch(content)
    if kind == "objects":
        return fetch(content).astype(object)
    if kind == "float" and content in ("inf", "-inf", "nan"):
        return float(content)
    if kind == "dict" and isinstance(content, list):
        return {_decode(key, fetch): _decode(part, fetch) for key, part in content}
    if kind == "tuple" and isinstance(content, list):
        return tuple(_decode(part, fetch) for part in content)
    if kind == "numpy" and isinstance(content, list) and np.dtype(content[0]).kind in "biuf":
        return np.dtype(content[0]).type(_decode(content[1], fetch))
    raise ValueError(f"{reprlib.repr(value)} is not a stored value")
