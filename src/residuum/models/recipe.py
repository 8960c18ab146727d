"""A recipe: feature steps, a classifier and how its parameters are chosen; and fitting it to samples."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
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
from residuum.selection import search_of

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
        that learn from samples (scale, pca) are then fitted to the training part of each fold alone.
    settings : dict
        Parameters of the classifier, or with "cv" of the estimator that chooses them.
    scattering : bool
        Whether pictures become scattering coefficients first.
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
    scale: str | None = None
    pca: int | None = None
    confidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """A fitted model, and how its parameters were chosen (empty where they were fixed)."""

    estimator: Any
    selection: dict[str, Any]

    @property
    def classifier(self) -> Any:
        """The classifier that codes, without feature steps and without the ConfidentClassifier around it."""
        return getattr(_last_step(self.estimator), "estimator_", _last_step(self.estimator))

    @property
    def step_names(self) -> list[str]:
        """Names of the feature steps and of the classifier."""
        steps = [step for _, step in getattr(self.estimator, "steps", ())[:-1]]
        return [type(step).__name__ for step in (*steps, self.classifier)]

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the classifier, and of the ConfidentClassifier around it if there is one."""
        around = _last_step(self.estimator).get_params(deep=False)
        around.pop("estimator", None)
        return {**self.classifier.get_params(), **around}


def _last_step(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def method_names() -> tuple[str, ...]:
    """The names of all methods."""
    return tuple(METHODS)


def find_method(name: str) -> str:
    """The method of this name, in any case."""
    for method in METHODS:
        if method.lower() == name.lower():
            return method
    raise UsageError(f"--method must be one of {', '.join(METHODS)}. Got {name!r}.")


def parse_settings(method: str, select: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts like ``l2=0.01``, checked against what the method knows."""
    maker = maker_of(method, select)
    allowed = sorted(set(maker().get_params()) - _RESERVED)
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals:
            raise UsageError(f"--set must look like {allowed[0]}=VALUE. Got {text!r}.")
        if name not in allowed:
            how = " with --select cv" if select == "cv" else ""
            raise UsageError(f"--set {name!r}: {maker.__name__}{how} has {', '.join(allowed)}.")
        if name in found:
            raise UsageError(f"--set {name} is given twice.")
        found[name] = _value(value.strip())
    return found


_WORDS = {"none": None, "true": True, "false": False, "inf": math.inf}


def _value(text: str) -> Any:
    """A number, a list of numbers, none, true, false, inf, or a text."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if text.startswith("["):
        return [_value(part.strip()) for part in text.strip("[]").split(",") if part.strip()]
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
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
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise DataFormatError(f"All {counts.sum()} training samples are of class {classes.tolist()[0]!r}.")
    steps = feature_steps(recipe, np.shape(X), image_shape)
    try:
        # Scattering looks at one sample at a time, so it is done once; the other steps learn in each fold.
        n_fixed = 1 if recipe.scattering else 0
        for _, step in steps[:n_fixed]:
            X = step.fit_transform(X)
        folds = fold_features(X, recipe)
        for _, step in steps[n_fixed:]:
            X = step.fit_transform(X)
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
    every = [*before, *steps, ("classify", classifier)]
    return Fitted(Pipeline(every) if len(every) > 1 else classifier, selection)


def feature_steps(
    recipe: Recipe, shape: tuple[int, ...], image_shape: tuple[int, ...] | None
) -> list[tuple[str, Any]]:
    """The unfitted steps between raw samples of this shape and the classifier."""
    steps: list[tuple[str, Any]] = []
    if recipe.scattering:
        if image_shape is None or len(image_shape) != 2:
            raise UsageError("--with scattering needs grey pictures: say --image-shape HEIGHTxWIDTH.")
        steps.append(("scattering", Scattering2D(image_shape=image_shape, n_jobs=-1)))
    if recipe.pca is not None:
        most = shape[0] - 1 if recipe.scattering else min(shape[0] - 1, shape[1])
        if not 1 <= recipe.pca <= most:
            raise UsageError(
                f"--pca must be from 1 to {most}: {shape[0]} training samples of {shape[1]} features. "
                f"Got {recipe.pca}."
            )
    return steps + _learning_steps(recipe, EigenfacePCA)


def _learning_steps(recipe: Recipe, pca: type[EigenfacePCA]) -> list[tuple[str, Any]]:
    """The unfitted steps that learn from more than one sample."""
    steps: list[tuple[str, Any]] = []
    if recipe.scale is not None:
        steps.append(("scale", SCALES[recipe.scale]()))
    if recipe.pca is not None:
        steps.append(("pca", pca(n_components=recipe.pca)))
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


class FoldPCA(EigenfacePCA):
    """As many principal directions as asked for or, where a fold has fewer, all that there are."""

    def fit(self, X: Any, y: Any = None) -> FoldPCA:
        """Find the directions."""
        try:
            super().fit(X)
        except ValueError:
            every = EigenfacePCA(center=self.center, normalize=self.normalize).fit(X)
            self.__dict__.update(vars(every), n_components=self.n_components)
        return self


def fold_steps(recipe: Recipe) -> Pipeline:
    """The steps that learn from samples, to be fitted to the training part of each fold."""
    return Pipeline(_learning_steps(recipe, FoldPCA) or [("unchanged", "passthrough")])


def fold_features(samples: Any, recipe: Recipe) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Features of the two parts of a fold, by steps that are fitted to its training part alone."""

    def features(train: Any, test: Any) -> tuple[Any, Any]:
        steps = fold_steps(recipe).fit(samples[train])
        return steps.transform(samples[train]), steps.transform(samples[test])

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
    recipe: Recipe, X: Any, y: Any, groups: Any, folds: Callable[[Any, Any], tuple[Any, Any]]
) -> tuple[Any, dict[str, Any]]:
    maker = maker_of(recipe.method, recipe.select)
    if recipe.select == "fixed":
        return _confident(maker(**recipe.settings), recipe).fit(X, y), {}
    cv = None if groups is None else group_folds(groups)
    chosen = maker(**recipe.settings, cv=cv).fit(X, y, groups=groups, fold_features=folds)
    selection = {
        "estimator": type(chosen).__name__,
        "parameters": chosen.best_params_,
        "score": chosen.best_score_,
        "n_splits": chosen.n_splits_,
        "n_candidates": len(chosen.cv_results_["params"]),
    }
    if not recipe.confidence:
        return chosen.best_estimator_, selection
    return _confident(clone(chosen.best_estimator_), recipe).fit(X, y), selection


def _confident(classifier: Any, recipe: Recipe) -> Any:
    return ConfidentClassifier(classifier, **recipe.confidence) if recipe.confidence else classifier
