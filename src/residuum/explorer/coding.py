"""One dictionary, prepared once: any method with any parameters codes a query over it without a new factor.

The features are rotated to the eigenvectors of ``XX'``, so that every ridge and every rho is a division
(`Dictionary.rotation`). The exact engine prepares what depends on the atoms alone and codes over the atoms as
they are, because which one of several optimal codes is found depends on the features.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from residuum.change import Change
from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.estimators import METHODS, ConfidentClassifier
from residuum.explorer.settings import Settings
from residuum.problem import CodingProblem
from residuum.solvers import ActiveSet, Simplex

_KEPT = 8  # classifiers that are kept; moving a slider back and forth finds them again

Turn = Callable[[FloatArray], FloatArray]


def unturned(queries: FloatArray) -> FloatArray:
    """Queries over the atoms as they are."""
    return queries


def _has_own_gram(solver: Any) -> bool:
    """Whether the weights of an exact solver are part of its Gram matrix, as those of CRNRC are."""
    return isinstance(solver, ActiveSet) and bool(solver.problem.classwise)


class Coder:
    """Classifiers of any settings over the dictionary of one fitted classifier.

    Parameters
    ----------
    classifier : ConfidentClassifier or RepresentationClassifier
        Fitted; its calibration serves its own settings.
    own : Settings
        The settings that are those of the classifier.
    """

    def __init__(self, classifier: Any, own: Settings) -> None:
        self._confident = classifier if isinstance(classifier, ConfidentClassifier) else None
        inner = classifier if self._confident is None else classifier.estimator_
        self._inner = getattr(inner, "best_estimator_", inner)
        self._own = own
        self.classes: np.ndarray = self._inner.classes_
        self.dictionary: Dictionary = self._inner.dictionary_
        self._rotated, turn = self.dictionary.rotation()
        # Of unit length first, as classifiers make them anyway: sums of very large numbers overflow.
        self._turn: Turn = lambda queries: turn(unit_rows(queries)[0])
        self._simplex: Simplex | None = None
        self._found: OrderedDict[tuple[Any, ...], tuple[Any, Turn]] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def reject_by(self) -> str:
        """What confidence is: "margin" or "concentration"."""
        return "margin" if self._confident is None else self._confident.reject_by

    def is_calibrated(self, settings: Settings) -> bool:
        """Whether probabilities were calibrated for these settings."""
        sure = self._confident
        calibrated = sure is not None and sure.probability and sure.temperature_ is not None
        return calibrated and settings.key == self._own.key

    def classifier(
        self, settings: Settings, *, samples: Sequence[int] = (), labels: Sequence[Any] = ()
    ) -> tuple[ConfidentClassifier, Turn]:
        """A fitted classifier with these settings, without some samples and classes, and what turns queries.

        Parameters
        ----------
        settings : Settings
            Checked by `Controls`.
        samples : sequence of int
            Numbers of training samples to leave out, as in ``dictionary.samples``.
        labels : sequence of labels
            Classes to leave out.
        """
        inner, turn = self._prepared(settings)
        if samples or labels:
            inner = copy(inner)
            inner.forget(samples=list(samples) or None, labels=list(labels) or None)
        calibrated = self.is_calibrated(settings)
        sure = ConfidentClassifier(
            inner,
            probability=calibrated,
            reject_threshold=settings.threshold or None,
            reject_by=self.reject_by,
        )
        sure.estimator_ = inner
        calibration: tuple[float | None, float | None] = (None, None)
        if calibrated and self._confident is not None:
            calibration = (self._confident.temperature_, self._confident.residual_cap_)
        sure.temperature_, sure.residual_cap_ = calibration
        return sure, turn

    def _prepared(self, settings: Settings) -> tuple[Any, Turn]:
        """The classifier with these settings over all samples."""
        with self._lock:
            if settings.key not in self._found:
                made = self._made(settings)
                if _has_own_gram(made[0].solver_):  # which may take a gigabyte: one of them is kept
                    others = [key for key, (model, _) in self._found.items() if _has_own_gram(model.solver_)]
                    for key in others:
                        del self._found[key]
                self._found[settings.key] = made
                if len(self._found) > _KEPT:
                    self._found.popitem(last=False)
            self._found.move_to_end(settings.key)
            return self._found[settings.key]

    @cached_property
    def _plain(self) -> ActiveSet:
        """The exact solver without weights; all others over the same atoms share what it prepares."""
        solver = ActiveSet(CodingProblem(neg_weight=math.inf), self.dictionary)
        solver.prepare()
        return solver

    def _made(self, settings: Settings) -> tuple[Any, Turn]:
        same = type(self._inner).__name__ == settings.method
        others = self._inner.get_params() if same else {}
        model = METHODS[settings.method](**{**others, **settings.parameters})
        model.classes_, model.n_samples_seen_ = self.classes, self._inner.n_samples_seen_
        model.solver_ = model._make_solver(self.dictionary)
        exact = isinstance(model.solver_, ActiveSet)
        model.dictionary_ = self.dictionary if exact else self._rotated
        if not exact:
            model.solver_ = model._make_solver(self._rotated)
        nothing = Change.none(model.dictionary_)
        if exact:
            model.solver_.follow(self._plain, nothing)
        elif isinstance(model.solver_, Simplex):
            if self._simplex is not None:
                model.solver_.follow(self._simplex, nothing)
            self._simplex = model.solver_
        model.n_features_in_ = model.dictionary_.n_features
        for name in model._solver_names:
            getattr(model, name).prepare()
        return model, unturned if exact else self._turn
