"""A recipe: feature steps, a classifier and how its parameters are chosen; and fitting it to samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import StratifiedGroupKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

from residuum.errors import DataFormatError, ResiduumError, UsageError
from residuum.estimators import METHODS, ConfidentClassifier
from residuum.features.pca import EigenfacePCA
from residuum.features.scattering import Scattering2D
from residuum.features.table_encoder import TableEncoder
from residuum.models.parts import selection_of
from residuum.selection import search_of
from residuum.system.progress import tell_progress

SCALES = {"standard": StandardScaler, "minmax": MinMaxScaler, "unit": Normalizer}

_RESERVED = {"cv", "scoring"}  # parameters of a search that are set here


@dataclass(frozen=True)
class Recipe:
    """How a model is made.

    Attributes
    ----------
    method : str
        A key of `residuum.estimators.METHODS`.
    select : {"fixed", "cv"}
        Parameters as given or by default, or chosen by cross-validation within the training samples. Steps
        that learn from samples (encode, scale, pca) are then fitted to the training part of each fold alone.
    settings : dict
        Parameters of the classifier, or with "cv" of the estimator that chooses them.
    scattering : bool
        Whether pictures become scattering coefficients first.
    encode : bool
        Whether the samples are rows of a table with text or missing values, from which features are made.
    scale : {"standard", "minmax", "unit"} or None
        How features are scaled: to mean 0 and deviation 1, to the range 0..1, or every sample to norm 1.
    pca : int or None
        Number of principal directions to project onto.
    confidence : dict
        Parameters of the ConfidentClassifier around the classifier; empty for none.
    """

    method: str = "SoftNRC"
    select: str = "fixed"
    settings: dict[str, Any] = field(default_factory=dict)
    scattering: bool = False
    encode: bool = False
    scale: str | None = None
    pca: int | None = None
    confidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """A fitted model, and how its parameters were chosen (empty where they were fixed)."""

    estimator: Any
    selection: dict[str, Any]

    @property
    def _steps(self) -> list[Any]:
        return [step for _, step in getattr(self.estimator, "steps", [("", self.estimator)])]

    @property
    def classifier(self) -> Any:
        """The classifier that codes, without feature steps and without the ConfidentClassifier around it."""
        return getattr(self._steps[-1], "estimator_", self._steps[-1])

    @property
    def step_names(self) -> list[str]:
        """Names of the feature steps and of the classifier."""
        return [type(step).__name__ for step in (*self._steps[:-1], self.classifier)]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the classifier, and of the ConfidentClassifier around it if there is one."""
        around = self._steps[-1].get_params(deep=False)
        around.pop("estimator", None)
        return {**self.classifier.get_params(), **around}


def find_method(name: str) -> str:
    """The method of this name, in any case."""
    known = {method.lower(): method for method in METHODS}
    if name.lower() not in known:
        raise UsageError(f"--method must be one of {', '.join(METHODS)}. Got {name!r}.")
    return known[name.lower()]


def parse_settings(method: str, select: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts like ``l2=0.01``, checked against what the method knows."""
    maker = maker_of(method, select)
    allowed = sorted(set(maker().get_params()) - _RESERVED)
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UsageError(f"--set must look like {allowed[0]}=VALUE. Got {text!r}.")
        if name not in allowed:
            how = " with --select cv" if select == "cv" else ""
            raise UsageError(f"--set {name!r}: {maker.__name__}{how} has {', '.join(allowed)}.")
        if name in found:
            raise UsageError(f"--set {name} is given twice.")
        found[name] = _value(value)
    if select == "fixed":
        try:
            maker(**found)._validate_params()
        except (ValueError, TypeError) as error:
            raise UsageError(str(error)) from error
    return found


def _value(text: str) -> Any:
    """A number (inf too), a list of them, none, true, false, or a text."""
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    if text.startswith("["):
        return [_value(part.strip()) for part in text.strip("[]").split(",") if part.strip()]
    for number in (int, float):
        with suppress(ValueError):
            return number(text)
    return text


def fit_recipe(
    recipe: Recipe,
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    image_shape: tuple[int, ...] | None = None,
    before: tuple[tuple[str, Any], ...] = (),
) -> Fitted:
    """Fit the feature steps one after the other, then the classifier.

    Parameters
    ----------
    recipe : Recipe
        What to fit.
    X : array-like of shape (n_samples, n_features)
        Training samples.
    y : array-like of shape (n_samples,)
        Labels.
    groups : array-like of shape (n_samples,), optional
        Samples of one group stay together in cross-validation.
    image_shape : tuple of int, optional
        Shape of the pictures in the rows of X, for scattering.
    before : tuple of (name, transformer)
        Fitted steps that made X from the raw input; they head the Pipeline.

    Returns
    -------
    Fitted
        The classifier alone, or a Pipeline that ends in it.
    """
    if len(classes := np.unique(y)) < 2:
        raise DataFormatError(f"All {len(y)} training samples are of class {classes.tolist()[0]!r}.")
    scattering = []
    if recipe.scattering:
        if image_shape is None or len(image_shape) != 2:
            raise UsageError("--with scattering needs grey pictures: say --image-shape HEIGHTxWIDTH.")
        scattering = [("scattering", Scattering2D(image_shape=image_shape, n_jobs=-1))]
    try:
        for _, step in scattering:  # looks at one sample at a time, so it is done before the folds
            X = step.fit_transform(X)
        # The samples are not held longer than they are needed: a large table may fill the memory.
        folds = fold_features(X, recipe) if recipe.select == "cv" else None
        steps = feature_steps(recipe, X.shape)
        for done, (_, step) in enumerate(steps):
            tell_progress("fitting", done, len(steps) + 1)
            X = step.fit_transform(X)
        tell_progress("fitting", len(steps), len(steps) + 1)
        if not np.any(X):
            made = f" after {type(steps[-1][1]).__name__}" if steps else ""
            raise DataFormatError(
                f"All {len(X)} training samples are zero{made}: their features say nothing about the classes."
            )
        classifier, selection = _classifier(recipe, X, y, groups, folds)
    except ResiduumError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    every = [*before, *scattering, *steps, ("classify", classifier)]
    return Fitted(Pipeline(every) if len(every) > 1 else classifier, selection)


def feature_steps(recipe: Recipe, shape: tuple[int, ...]) -> list[tuple[str, Any]]:
    """The unfitted steps that learn from samples of this shape."""
    steps: list[tuple[str, Any]] = []
    if recipe.encode:
        steps.append(("encode", TableEncoder()))
    if recipe.scale is not None:
        steps.append(("scale", SCALES[recipe.scale]()))
    if recipe.pca is not None:
        most = shape[0] - 1 if recipe.encode else min(shape[0] - 1, shape[1])
        if not 1 <= recipe.pca <= most:
            raise UsageError(
                f"--pca must be from 1 to {most}: {shape[0]} training samples of {shape[1]} features. "
                f"Got {recipe.pca}."
            )
        steps.append(("pca", EigenfacePCA(n_components=recipe.pca)))
    return steps


def group_folds(groups: Any) -> StratifiedGroupKFold:
    """Up to five folds that keep the samples of a group together."""
    count = len(np.unique(groups))
    if count < 2:
        raise UsageError(
            "--select cv with --groups needs at least two groups of training samples, to hold one out. Got "
            f"{count}: leave --groups out, or choose parameters with --set."
        )
    return StratifiedGroupKFold(n_splits=min(5, count))


def fold_features(samples: Any, recipe: Recipe) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Features of the two parts of a fold, by steps that are fitted to its training part alone."""

    def features(train: Any, test: Any) -> tuple[Any, Any]:
        found, others = samples[train], samples[test]
        for _, step in feature_steps(recipe, found.shape):
            found, others = step.fit_transform(found), step.transform(others)
        return found, others

    return features


def maker_of(method: str, select: str) -> Any:
    """The class of a method, or with "cv" the estimator that chooses its parameters."""
    plain = METHODS[method]
    if select == "fixed":
        return plain
    search = search_of(plain)
    if search is None:
        raise UsageError(f"--select cv cannot choose the parameters of {method} yet. Use --set NAME=VALUE.")
    return search


def _classifier(
    recipe: Recipe, X: Any, y: Any, groups: Any, folds: Callable[[Any, Any], tuple[Any, Any]] | None
) -> tuple[Any, dict[str, Any]]:
    maker, selection = maker_of(recipe.method, recipe.select), {}
    if recipe.select == "fixed":
        classifier = maker(**recipe.settings)
    else:
        search = maker(**recipe.settings, cv=None if groups is None else group_folds(groups))
        search.fit(X, y, groups=groups, fold_features=folds)
        classifier, selection = search.best_estimator_, selection_of(search)
    if recipe.confidence:
        classifier = ConfidentClassifier(clone(classifier), **recipe.confidence)
    return classifier if selection and not recipe.confidence else classifier.fit(X, y), selection
