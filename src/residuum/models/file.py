"""Save a fitted classifier, alone or at the end of a Pipeline, and open it again bit for bit."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from residuum.errors import ModelFileError, ResiduumError, UsageError
from residuum.models.container import Pieces, parse_json, read_container, write_container
from residuum.models.parts import Keep, Node, chosen, classifier_from, classifier_node, step_from, step_node
from residuum.models.values import array_pieces, encode, plain_json, read_array
from residuum.selection.base import GridSelector

MODEL = "model.json"


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds.

    Attributes
    ----------
    estimator : classifier or Pipeline
        Fitted, ready to predict.
    about : dict
        The notes that were saved with it.
    images : ndarray of uint8 or None
        Thumbnails of the training samples; ``dictionary_.samples`` indexes them.
    manifest : dict
        Format version, version of residuum, size and SHA-256 of every member.
    """

    estimator: Any
    about: dict[str, Any]
    images: np.ndarray | None
    manifest: dict[str, Any]


def save_model(
    estimator: Any,
    path: str | Path,
    *,
    about: dict[str, Any] | None = None,
    images: np.ndarray | None = None,
) -> Path:
    """Write a fitted model as one file, a zip of plain arrays and JSON, without pickle.

    The file is written under another name and renamed, so a failure leaves what was there before.

    Parameters
    ----------
    estimator : classifier or Pipeline
        A fitted classifier of residuum; one that chose its own parameters (``NRCCV`` ...), which is saved as
        its ``best_estimator_`` with the choice in ``about["selection"]``; or a fitted Pipeline of
        EigenfacePCA, Scattering2D, BowSift, CNNFeatures, scikit-learn's Normalizer, StandardScaler,
        MinMaxScaler and PCA that ends in one of them.
    path : str or Path
        Where to write.
    about : dict or None, default=None
        Notes of your own: anything that JSON can hold.
    images : ndarray of uint8, shape (n_samples, height, width[, 3]), or None, default=None
        Thumbnails of all training samples in the order they were given.

    Returns
    -------
    Path
        Where the model is.

    Examples
    --------
    >>> import tempfile
    >>> from residuum import NRC, load_model, save_model
    >>> model = NRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save_model(model, folder + "/letters.residuum")
    ...     load_model(path).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """
    path = Path(path)
    check_is_fitted(estimator)
    if path.is_dir():
        raise UsageError(f"{path}: is a folder. Give the name of a file.")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: its folder {path.parent} does not exist. Make it first.")
    members: dict[str, Pieces] = {}

    def keep(name: str, array: Any) -> str:
        pieces = array_pieces(array)
        name = f"{len(members)}-{name.lower()}.npy"
        members[name] = pieces
        return name

    notes = {} if about is None else about
    if not isinstance(notes, dict):
        raise UsageError(f"The 'about' parameter of save_model must be a dict. Got {type(notes).__name__}.")
    node, classifier, selection = _node(estimator, keep)
    if selection and "selection" not in notes:
        notes = {**notes, "selection": selection}
    described: Node = {"estimator": node, "about": plain_json(notes, "about"), "images": None}
    if images is not None:
        described["images"] = keep("images", _checked_images(images, classifier.n_samples_seen_))
    text = json.dumps(described, indent=1, allow_nan=False).encode()
    write_container(path, {MODEL: (text,), **members})
    return path


def _node(estimator: Any, keep: Keep) -> tuple[Node, Any, dict[str, Any]]:
    """The description of an estimator, the classifier in it, and how its parameters were chosen."""
    if not isinstance(estimator, Pipeline):
        return classifier_node(chosen(estimator), keep), chosen(estimator), _selection(estimator)
    last = estimator.steps[-1][1]
    steps = []
    for name, step in estimator.steps[:-1]:
        if step is None or (isinstance(step, str) and step == "passthrough"):
            steps.append({"name": name, "type": "passthrough"})
        else:
            steps.append({"name": name, **step_node(step, f"step {name!r}", keep)})
    steps.append({"name": estimator.steps[-1][0], **classifier_node(chosen(last), keep)})
    return {"type": "Pipeline", "steps": steps}, chosen(last), _selection(last)


def _selection(estimator: Any) -> dict[str, Any]:
    """How a search, alone or within a ConfidentClassifier, has chosen its parameters; else nothing."""
    search = getattr(estimator, "estimator_", estimator)
    if not isinstance(search, GridSelector):
        return {}
    return {
        "estimator": type(search).__name__,
        "parameters": {name: _readable(value) for name, value in search.best_params_.items()},
        "score": _readable(search.best_score_),
        "n_splits": search.n_splits_,
        "n_candidates": len(search.cv_results_["params"]),
    }


def _readable(value: Any) -> Any:
    """A number for people: JSON has no infinity."""
    encoded = encode(value, "The selection")
    return str(value) if isinstance(encoded, dict) and "float" in encoded else value


def _checked_images(images: Any, n_samples: int) -> np.ndarray:
    images = np.ascontiguousarray(images)
    shaped = images.ndim == 3 or (images.ndim == 4 and images.shape[3] == 3)
    if images.dtype != np.uint8 or not shaped or len(images) != n_samples:
        raise UsageError(
            "The 'images' parameter of save_model must be uint8 of shape (n_samples, height, width) or "
            f"(n_samples, height, width, 3), one for each of the {n_samples} training samples in their "
            f"order. Got {images.dtype} of shape {images.shape}."
        )
    return images


def open_model(path: str | Path, *, mmap: bool = False) -> SavedModel:
    """Verify a model file and build what it holds; no code from the file is ever run.

    Parameters
    ----------
    path : str or Path
        What `save_model` has written.
    mmap : bool, default=False
        Whether arrays stay on disk and are mapped into memory, read-only. The file is read once all the same
        to verify it, and must not be changed while the model is in use.

    Returns
    -------
    SavedModel
        With ``estimator``, ``about``, ``images`` and ``manifest``.

    Raises
    ------
    ModelFileError
        If the file is damaged, was altered, has an unknown version or type, or is a pickle.
    DataNotFoundError
        If there is no such file.
    """
    path = Path(path)
    manifest, members = read_container(path, mmap=mmap)
    if MODEL not in members:
        raise ModelFileError(f"{path}: holds no {MODEL}. Pass what save_model has written.")
    described = parse_json(path, MODEL, members.pop(MODEL))

    def fetch(name: str) -> np.ndarray:
        return read_array(path, name, members[name])

    try:
        if set(described) != {"estimator", "about", "images"}:
            raise ValueError(f"{MODEL} does not describe a model")
        estimator = _estimator(described["estimator"], fetch)
        images = None if described["images"] is None else fetch(described["images"])
        return SavedModel(estimator, dict(described["about"]), images, manifest)
    except ResiduumError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError) as error:
        reason = f"{error} is missing or not known here" if isinstance(error, KeyError) else error
        raise ModelFileError(f"{path}: does not describe a model that can be built: {reason}.") from error


def load_model(path: str | Path, *, mmap: bool = False) -> Any:
    """The estimator of a model file: ``open_model(path, mmap=mmap).estimator``.

    Parameters
    ----------
    path : str or Path
        What `save_model` has written.
    mmap : bool, default=False
        Whether arrays are mapped from disk.

    Returns
    -------
    classifier or Pipeline
        Fitted, ready to predict.
    """
    return open_model(path, mmap=mmap).estimator


def _estimator(node: Node, fetch: Any) -> Any:
    if node["type"] != "Pipeline":
        return classifier_from(node, fetch)
    steps: list[tuple[str, Any]] = []
    for step in node["steps"][:-1]:
        built = "passthrough" if step["type"] == "passthrough" else step_from(step, fetch)
        steps.append((step["name"], built))
    steps.append((node["steps"][-1]["name"], classifier_from(node["steps"][-1], fetch)))
    return Pipeline(steps)
