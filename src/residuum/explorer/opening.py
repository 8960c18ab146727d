"""From nothing, a model file or people's own data to what is explored."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from residuum.dictionary import unit_rows
from residuum.errors import UsageError
from residuum.estimators import SoftNRC
from residuum.estimators.answers import steps_and_classifier
from residuum.estimators.confidence import ConfidentClassifier
from residuum.explorer.coding import Coder
from residuum.explorer.queries import HeldOut, through
from residuum.explorer.session import About, Exploration, Takes
from residuum.explorer.settings import Controls, settings_of
from residuum.inputs import ExpectedColumns, OwnData
from residuum.inputs.image_features import thumbnails
from residuum.models.file import EXTRACTOR, SavedModel, encoder_of, expected_columns
from residuum.models.preparing import kind_of

DIGITS_PER_CLASS = 50
THRESHOLD = 0.05  # below this margin the models that are fitted here answer "none of these"
MOST_HELD_OUT = 1000
MOST_SAMPLES = 6000  # of data that are fitted here, training and held out
MOST_OWN = 300  # training samples that are coded over the others: each takes a solve of its own


def explore_digits() -> Exploration:
    """The digits that come with scikit-learn: 50 of each class to code over, the others to look at."""
    from sklearn.datasets import load_digits

    samples, labels = load_digits(return_X_y=True)
    generator = np.random.default_rng(0)
    members = [generator.permutation(np.flatnonzero(labels == digit)) for digit in range(10)]
    train = np.sort(np.concatenate([some[:DIGITS_PER_CLASS] for some in members]))
    test = np.sort(np.concatenate([some[DIGITS_PER_CLASS : 2 * DIGITS_PER_CLASS + 10] for some in members]))
    pictures = np.round(samples * (255 / 16)).astype(np.uint8).reshape(-1, 8, 8)
    model = ConfidentClassifier(SoftNRC(), reject_threshold=THRESHOLD).fit(samples[train], labels[train])
    about = About("Handwritten digits", "pixels", shape=(8, 8), features="8 × 8 pixels as they are")
    held_out = HeldOut(
        samples[test], labels[test].astype(np.int64), [str(i) for i in test.tolist()], pictures[test]
    )
    names = [str(i) for i in train.tolist()]
    takes = Takes(highest=16.0)
    return explore_estimator(model, about, held_out, names=names, pictures=pictures[train], takes=takes)


def explore_model(saved: SavedModel, title: str, queries: OwnData | None = None) -> Exploration:
    """A saved model: its own training samples to code over, and others to look at.

    Parameters
    ----------
    saved : SavedModel
        With the names and pictures of its training samples.
    title : str
        What it is called.
    queries : OwnData or None
        Samples with features and labels to look at; None looks at the training samples themselves, each coded
        over the others.
    """
    extractor, estimator = without_extractor(saved.estimator)
    classifier = steps_and_classifier(estimator)[1]
    inputs = saved.about.get("input") or {}
    n_samples = int(classifier.dictionary_.samples.max()) + 1
    names = saved.about.get("samples")
    names = [str(name) for name in names] if isinstance(names, list) else []
    pictures = saved.images
    if len(names) < n_samples:
        names = [str(i) for i in range(n_samples)]
    if pictures is not None and len(pictures) < n_samples:
        pictures = None  # of samples that were enrolled since there is none
    shape = tuple(inputs.get("image_shape") or ()) or None
    about = About(
        title,
        _kind(inputs, shape, classifier),
        columns=tuple(inputs["columns"]) if inputs.get("columns") else None,
        shape=shape,
        features=", ".join(type(step).__name__ for step in steps_and_classifier(saved.estimator)[0])
        or "as they are",
    )
    if queries is not None:
        held_out = held_out_of(queries, classifier.classes_)
    else:
        held_out = _own_samples(estimator, names, pictures)
    takes = Takes(expected_columns(saved), encoder_of(saved.estimator) is not None, extractor=extractor)
    return explore_estimator(estimator, about, held_out, names=names, pictures=pictures, takes=takes)


def _kind(inputs: dict[str, Any], shape: tuple[int, ...] | None, classifier: Any) -> str:
    if shape is not None:
        return "pixels"
    if inputs.get("kind") == "images":
        return "image features"
    return "embeddings" if not inputs.get("columns") and classifier.n_features_in_ >= 64 else "a table"


def without_extractor(estimator: Any) -> tuple[Any, Any]:
    """The step of a model that takes image files, or None, and the model after it."""
    if isinstance(estimator, Pipeline) and estimator.steps[0][0] == EXTRACTOR:
        return estimator[0], estimator[1:]
    return None, estimator


def explore_data(train: OwnData, test: OwnData, fitted: Any, features: str) -> Exploration:
    """Data to which a model was just fitted, and the samples that were held out.

    Parameters
    ----------
    train, test : OwnData
        With features; without held-out ones the training samples are looked at, each coded over the others.
    fitted : classifier or Pipeline
        The model, with the step that reads image files if there is one.
    features : str
        What the features are, in words.
    """
    extractor, estimator = without_extractor(fitted)
    classifier = steps_and_classifier(estimator)[1]
    about = About(
        Path(train.source).name,
        kind_of(train),
        columns=train.columns,
        texts=train.texts,
        shape=train.image_shape,
        features=features,
        notes=train.notes,
    )
    names, pictures = [str(name) for name in train.names.tolist()], thumbnails(train)
    if len(test):
        held_out = held_out_of(test, classifier.classes_)
    else:
        held_out = _own_samples(estimator, names, pictures)
    raw, expected, highest = np.asarray(train.features), None, 255.0
    if train.kind != "images":
        expected = ExpectedColumns(train.columns, raw.shape[1], train.label, train.texts)
    if train.image_shape is not None:
        highest = float(raw.max())
    takes = Takes(expected, encoder_of(estimator) is not None, highest, extractor)
    return explore_estimator(estimator, about, held_out, names=names, pictures=pictures, takes=takes)


def explore_estimator(
    estimator: Any,
    about: About,
    held_out: HeldOut,
    *,
    names: list[str],
    pictures: np.ndarray | None,
    takes: Takes | None = None,
) -> Exploration:
    """Any fitted classifier of residuum, alone or at the end of a Pipeline.

    Parameters
    ----------
    estimator : classifier or Pipeline
        Fitted.
    about : About
        What is explored.
    held_out : HeldOut
        Samples to look at.
    names : list of str
        Of the training samples.
    pictures : ndarray of uint8 or None
        Of the training samples.
    takes : Takes or None
        What people may bring.
    """
    steps, classifier = steps_and_classifier(estimator)
    threshold = getattr(classifier, "reject_threshold", None) or 0.0
    inner = getattr(classifier, "estimator_", classifier)
    own = settings_of(getattr(inner, "best_estimator_", inner), threshold)
    coder = Coder(classifier, own)
    if len(coder.classes) < 2:
        raise UsageError("There is only one class, so there is nothing to explore.")
    controls = Controls(coder.dictionary, own)
    return Exploration(about, steps, coder, controls, held_out, names=names, pictures=pictures, takes=takes)


def held_out_of(data: OwnData, classes: np.ndarray) -> HeldOut:
    """Samples with features, and with labels where there are any, to look at; some of each class if many."""
    texts = [] if data.labels is None else [str(label) for label in data.labels.tolist()]
    position = {str(label): k for k, label in enumerate(classes.tolist())}
    truth = np.array([position.get(text, -1) for text in texts] or [-1] * len(data))
    if len(data) > MOST_HELD_OUT:
        chosen = _some_of_each(truth, MOST_HELD_OUT)
        data, truth = data.rows(chosen), truth[chosen]
    return HeldOut(data.features, truth, [str(name) for name in data.names.tolist()], thumbnails(data))


def _own_samples(estimator: Any, names: list[str], pictures: np.ndarray | None) -> HeldOut:
    """Training samples as queries, some of each class where there are many.

    A model keeps what its classifier was given. Where its pictures are the raw features, as pixels from 0 to
    255 are, these are taken, because reconstructions can be drawn for them.
    """
    steps, classifier = steps_and_classifier(estimator)
    dictionary = classifier.dictionary_
    chosen = _some_of_each(dictionary.atom_class, MOST_OWN)
    samples, atoms = dictionary.samples[chosen], dictionary.unit(chosen)
    shown = None if pictures is None else pictures[samples]
    raw = None if shown is None else shown.reshape(len(shown), -1).astype(np.float64)
    is_raw = raw is not None and raw.shape[1] == getattr(estimator, "n_features_in_", 0)
    if raw is not None and is_raw:
        given = unit_rows(np.asarray(through(steps, raw)[-1], dtype=np.float64))[0]
        is_raw = bool(np.abs(given - atoms).max() < 1e-6)
    return HeldOut(
        raw if is_raw else atoms,
        dictionary.atom_class[chosen],
        [names[i] for i in samples.tolist()],
        shown,
        own_samples=samples,
        is_raw=is_raw,
    )


def _some_of_each(classes: np.ndarray, most: int) -> np.ndarray:
    """Positions of at most about so many samples, evenly from every class."""
    if len(classes) <= most:
        return np.arange(len(classes))
    share = math.ceil(most / len(np.unique(classes)))
    members = (np.flatnonzero(classes == k) for k in np.unique(classes))
    picked = [some[np.unique(np.linspace(0, len(some) - 1, share).astype(int))] for some in members]
    return np.sort(np.concatenate(picked))


def fewer_samples(data: OwnData) -> OwnData:
    """At most `MOST_SAMPLES` of the data, evenly from every class, so that sliders stay quick."""
    if len(data) <= MOST_SAMPLES or data.labels is None:
        return data
    chosen = _some_of_each(np.unique(data.labels, return_inverse=True)[1], MOST_SAMPLES)
    return data.rows(chosen).noted(
        f"{len(chosen)} of {len(data)} samples are explored, evenly from every class"
    )
