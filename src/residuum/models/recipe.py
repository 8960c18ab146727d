"""A recipe: features, a classifier and how they are chosen; and fitting it to samples."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
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
from residuum.features.centring import looks_centred
from residuum.features.kernel_map import KernelMap
from residuum.features.pca import EigenfacePCA
from residuum.features.scattering import Scattering2D
from residuum.features.table_encoder import TableEncoder
from residuum.models.parts import selection_of
from residuum.selection import PipelineCV, search_of
from residuum.system.progress import tell_progress

SCALES = {"standard": StandardScaler, "minmax": MinMaxScaler, "unit": Normalizer}
SHARPNESS = 0.2  # of a kernel that is not chosen by cross-validation

_LARGE = 2**23  # numbers in the training samples beyond which they are coded in float32, to save memory
_RESERVED = {"cv", "scoring"}  # parameters of a search that are set here


@dataclass(frozen=True)
class Features:
    """Steps that learn from samples, in the order of their work.

    Attributes
    ----------
    scale : {"standard", "minmax", "unit"} or None
        How features are scaled: to mean 0 and deviation 1, to the range 0..1, or every sample to norm 1.
    pca : int or None
        Number of principal directions to project onto.
    kernel : {"rbf", "poly", "cosine"} or None
        The kernel whose coordinates are classified; see `KernelMap`.
    sharpness : float
        Of the rbf and poly kernels.
    encode : bool
        Whether samples are rows of a table with text or missing values, of which numbers are made first.
    """

    scale: str | None = None
    pca: int | None = None
    kernel: str | None = None
    sharpness: float = SHARPNESS
    encode: bool = False

    def __str__(self) -> str:
        sharpness = "" if self.kernel == "cosine" else f" of sharpness {self.sharpness:g}"
        said = [
            "encoded columns" if self.encode else "",
            f"{self.scale} scaling" if self.scale else "",
            f"{self.pca} principal directions" if self.pca else "",
            f"{self.kernel} kernel{sharpness}" if self.kernel else "",
        ]
        return ", ".join(filter(None, said)) or "as they are"

    def steps(self, shape: tuple[int, ...]) -> list[tuple[str, Any]]:
        """The steps by name, not fitted yet, for training samples of this shape."""
        steps: list[tuple[str, Any]] = []
        if self.encode:
            steps.append(("encode", TableEncoder()))
        if self.scale is not None:
            steps.append(("scale", SCALES[self.scale]()))
        if self.pca is not None:
            most = shape[0] - 1 if self.encode else min(shape[0] - 1, shape[1])
            if not 1 <= self.pca <= most:
                raise UsageError(
                    f"--pca must be from 1 to {most}: {shape[0]} training samples of {shape[1]} features. "
                    f"Got {self.pca}."
                )
            steps.append(("pca", EigenfacePCA(n_components=self.pca)))
        if self.kernel is not None:
            steps.append(("kernel", KernelMap(self.kernel, sharpness=self.sharpness)))
        return steps


@dataclass(frozen=True)
class Recipe:
    """How a model is made.

    Attributes
    ----------
    method : str
        A key of `residuum.estimators.METHODS`.
    select : {"fixed", "cv"}
        Parameters as given or by default, or chosen by cross-validation within the training samples.
    settings : dict
        Parameters of the classifier, or with "cv" of the estimator that chooses them.
    scattering : bool
        Whether pictures become scattering coefficients first.
    features : tuple of Features
        Candidates, among which "cv" chooses; each is fitted to the training part of a fold alone. "fixed"
        takes the first.
    confidence : dict
        Parameters of the ConfidentClassifier around the classifier; empty for none.
    """

    method: str = "SoftNRC"
    select: str = "fixed"
    settings: dict[str, Any] = field(default_factory=dict)
    scattering: bool = False
    features: tuple[Features, ...] = (Features(),)
    confidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fitted:
    """A fitted model, its features, and how its parameters were chosen (empty where they were fixed)."""

    estimator: Any
    features: Features
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
        raise UsageError(f"--method must be auto or one of {', '.join(METHODS)}. Got {name!r}.")
    return known[name.lower()]


def parse_settings(method: str, select: str, texts: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts like ``l2=0.01``, checked against what the method knows."""
    maker = maker_of(method, select)
    allowed = sorted(set(maker().get_params()) - _RESERVED)
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise UsageError(f"--set must look like NAME=VALUE. Got {text!r}.")
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
        raise DataFormatError(
            f"All {len(y)} training samples are of class {classes.tolist()[0]!r}, and a classifier needs two "
            "classes or more. Add samples of another class, or name another column of labels with --label."
        )
    if (X[:1] == X).all():
        raise DataFormatError(
            f"All {len(X)} training samples are the same: their features say nothing about the classes."
        )
    scattering = []
    if recipe.scattering:
        if image_shape is None or len(image_shape) != 2:
            raise UsageError("--with scattering needs grey pictures: say --image-shape HEIGHTxWIDTH.")
        scattering = [("scattering", Scattering2D(image_shape=image_shape, n_jobs=-1))]
    try:
        for _, step in scattering:  # looks at one sample at a time, so it is done before the folds
            X = step.fit_transform(X)
        samples = [X]
        del X  # nobody holds the samples longer than they are needed: a large table may fill the memory
        features, steps, classifier, selection = _chosen(recipe, samples.pop(), y, groups)
    except ResiduumError:
        raise
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    every = [*before, *scattering, *steps, ("classify", classifier)]
    return Fitted(Pipeline(every) if len(every) > 1 else classifier, features, selection)


def _chosen(recipe: Recipe, X: Any, y: Any, groups: Any) -> tuple[Features, list[Any], Any, dict[str, Any]]:
    """Features, their fitted steps and the fitted classifier, and how they were chosen."""
    maker, features, selection = maker_of(recipe.method, recipe.select), recipe.features[0], {}
    if recipe.select == "fixed":
        classifier = maker(**recipe.settings)
    else:
        grid = maker(**recipe.settings, cv=None if groups is None else group_folds(groups))
        search = feature_search(grid, recipe.features, X, y).fit(X, y, groups=groups)
        classifier, selection = clone(search.best_estimator_[-1]), selection_of(search)
        features = recipe.features[selection["parameters"].pop("features")]
        selection["features"] = str(features)
    steps, large = features.steps(X.shape), X.size > _LARGE
    for done, (_, step) in enumerate(steps):
        tell_progress("fitting", done, len(steps) + 1)
        X = step.fit_transform(X)
    tell_progress("fitting", len(steps), len(steps) + 1)
    if large:
        X = X.astype(np.float32, copy=False)
    if getattr(classifier, "solver", None) == "exact" and not features.kernel and looks_centred(X):
        warnings.warn(
            "A mean seems to be subtracted from the features. Samples less their own mean sum to zero, so "
            "non-negative codes reach everything, and exact NRC is often much worse: use the features as "
            "they were, or another method.",
            UserWarning,
            stacklevel=2,
        )
    if recipe.confidence:
        classifier = ConfidentClassifier(classifier, **recipe.confidence)
    classifier.fit(X, y)
    tell_progress("fitting", len(steps) + 1, len(steps) + 1)
    return features, steps, classifier, selection


def feature_search(grid: Any, features: tuple[Features, ...], X: Any, y: Any) -> PipelineCV:
    """A search of a classifier's parameters, widened to these features of the samples X."""
    folds = min(5, int(np.unique(y, return_counts=True)[1].min()))
    shape = (len(X) - -(-len(X) // max(folds, 2)), X.shape[1])  # of the training part of a fold
    steps = (some.steps(shape) for some in features)
    return PipelineCV(grid, features=[Pipeline(each) if each else "passthrough" for each in steps])


def group_folds(groups: Any) -> StratifiedGroupKFold:
    """Up to five folds that keep the samples of a group together."""
    count = len(np.unique(groups))
    if count < 2:
        raise UsageError(
            "--select cv with --groups needs at least two groups of training samples, to hold one out. Got "
            f"{count}: leave --groups out, or choose parameters with --set."
        )
    return StratifiedGroupKFold(n_splits=min(5, count))


def maker_of(method: str, select: str) -> Any:
    """The class of a method, or with "cv" the estimator that chooses its parameters."""
    plain = METHODS[method]
    if select == "fixed":
        return plain
    search = search_of(plain)
    if search is None:
        raise UsageError(f"--select cv cannot choose the parameters of {method} yet. Use --set NAME=VALUE.")
    return search
