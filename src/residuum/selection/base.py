"""The scikit-learn face of the estimators that choose their own parameters."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.ma import MaskedArray
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from residuum.estimators.answers import Answers, decision_values
from residuum.estimators.base import RepresentationClassifier, one_row
from residuum.estimators.explanation import Explanation
from residuum.selection.folds import Fold
from residuum.solvers.base import Solution
from residuum.system.threads import single_threaded_blas, thread_count

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """Leave the method as it is."""
        return method


Candidate = dict[str, Any]
# From the positions of training and test samples to the features of both.
FoldFeatures = Callable[[np.ndarray, np.ndarray], tuple[Any, Any]]

# Entries of the codes of one block of queries: a few such arrays fit into memory on any machine.
_BLOCK_ENTRIES = 2**23


class GridSelector(CallbackSupportMixin, ClassifierMixin, BaseEstimator):
    """``argmax over the grid of the mean score over the folds``; ties go to the simpler candidate.

    A subclass lists its candidates from the simplest to the most complex (`_candidates`), scores all of them
    on one fold with whatever they share (`_fold_scores`), and names the classifier they configure.
    """

    classifier: type[RepresentationClassifier]

    cv: Any
    scoring: Any
    n_jobs: int | None

    def _candidates(self, n_samples: int) -> list[Candidate]:
        raise TypeError(f"{type(self).__name__} does not list its candidates: define _candidates.")

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        raise TypeError(f"{type(self).__name__} cannot score a fold: define _fold_scores.")

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Any, y: Any, *, groups: Any = None, fold_features: FoldFeatures | None = None
    ) -> GridSelector:
        """Choose by cross-validation on the training data, then fit the choice to all of it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), default=None
            Groups for a group-aware splitter given as `cv`.
        fold_features : callable, default=None
            ``fold_features(train, test)`` gives the features of the samples at these positions, learned from
            those of `train` alone. None takes rows of X, whose features were then learned from the samples
            of all folds, if they were learned.

        Returns
        -------
        self
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        splits = self._splits(X, y, groups)
        candidates = self._allowed(self._candidates(len(X)))
        scorer = check_scoring(self.classifier(), scoring=self.scoring)
        progress = _Progress(self, X, y, len(splits))
        started = time.perf_counter()
        parts = _checked(fold_features) if fold_features else (lambda train, test: (X[train], X[test]))
        folds = self._run(parts, y, splits, candidates, scorer, progress)
        seconds = time.perf_counter() - started
        self.cv_results_ = _results(candidates, np.array(folds).T)
        self.best_index_ = int(self.cv_results_["rank_test_score"].argmin())
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
        self.search_time_ = seconds
        self.n_splits_ = len(splits)
        self.scorer_ = scorer
        self.best_estimator_ = self.classifier(**self.best_params_).fit(X, y)
        self.classes_ = self.best_estimator_.classes_
        progress.finish()
        return self

    def _allowed(self, candidates: list[Candidate]) -> list[Candidate]:
        for candidate in candidates:
            try:
                self.classifier(**candidate)._validate_params()
            except ValueError as error:
                raise ValueError(
                    f"{type(self).__name__} was given a value that is not allowed. {error}"
                ) from None
        return candidates

    def _splits(self, X: Any, y: np.ndarray, groups: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """The splits of `cv`; with fewer samples in a class than folds, fewer folds, and one needs two."""
        cv = 5 if self.cv is None else self.cv
        smallest = int(np.unique(y, return_counts=True)[1].min())
        if isinstance(cv, (int, np.integer)) and 2 <= smallest < cv:
            warnings.warn(
                f"The smallest class has {smallest} samples, fewer than the {cv} folds asked for: "
                f"{type(self).__name__} uses {smallest} folds. Pass cv={smallest} to silence this warning.",
                UserWarning,
                stacklevel=4,
            )
            cv = smallest
        splitter = check_cv(cv, y, classifier=True)
        if isinstance(cv, (int, np.integer)) and smallest < 2:
            labels, counts = np.unique(y, return_counts=True)
            raise ValueError(
                f"{type(self).__name__} cannot cross-validate: class {labels.tolist()[counts.argmin()]!r} "
                "has 1 sample. Add samples, drop the class, or pass a splitter as cv."
            )
        return list(splitter.split(X, y, groups))

    def _run(
        self,
        parts: FoldFeatures,
        y: Any,
        splits: Any,
        candidates: list[Candidate],
        scorer: Any,
        progress: _Progress,
    ) -> list[np.ndarray]:
        def score(task: Any, train: Any, test: Any) -> np.ndarray:
            with progress.during(task):
                return self._score_fold(*parts(train, test), y[train], y[test], candidates, scorer)

        jobs = [(progress.task(number), *split) for number, split in enumerate(splits)]
        workers = min(thread_count(self.n_jobs), len(splits))
        # Full rounds give each worker a fold; the folds left over have all workers' threads one by one.
        shared = len(jobs) - len(jobs) % workers if workers > 1 else 0
        scores: list[np.ndarray] = []
        if shared:
            with single_threaded_blas():
                scores = Parallel(n_jobs=workers, prefer="threads")(
                    delayed(score)(*job) for job in jobs[:shared]
                )
        return scores + [score(*job) for job in jobs[shared:]]

    def _score_fold(
        self, X: Any, test_X: Any, y: Any, test_y: Any, candidates: list[Candidate], scorer: Any
    ) -> np.ndarray:
        counted = self.scoring in (None, "accuracy")
        fold = Fold(X, y, test_X, winners_only=counted)
        truth = np.searchsorted(fold.classes, test_y)
        truth[fold.classes[truth % len(fold.classes)] != test_y] = -1  # a class that no training sample has
        scores = np.full(len(candidates), np.nan)
        for index, class_scores in self._fold_scores(fold, candidates):
            if counted:  # what the scorer would find, a thousand times over
                scores[index] = np.mean(class_scores.argmin(axis=1) == truth)
            else:
                scores[index] = scorer(_Scored(fold.classes, class_scores), test_X, test_y)
        return scores

    def predict_grid(self, X: Any, y: Any, X_test: Any) -> tuple[list[Candidate], np.ndarray]:
        """Labels of other samples under every candidate, each fitted to all of X: nothing is chosen.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        X_test : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        candidates : list of dict
            Parameters, from the simplest to the most complex.
        labels : ndarray of shape (n_candidates, n_queries)
            Labels of the queries under each candidate.
        """
        X, y = check_X_y(X, y, dtype=[np.float64, np.float32])
        X_test = check_array(X_test, dtype=[np.float64, np.float32])
        candidates = self._candidates(len(X))
        winners = np.zeros((len(candidates), len(X_test)), dtype=np.intp)
        rows = max(1, _BLOCK_ENTRIES // len(X))
        whole = Fold(X, y, X_test, winners_only=True)
        for first in range(0, len(X_test), rows):
            some = slice(first, first + rows)
            for index, class_scores in self._fold_scores(whole.part(some), candidates):
                winners[index, some] = class_scores.argmin(axis=1)
        return candidates, whole.classes[winners]

    # The chosen model answers.

    def _chosen(self) -> RepresentationClassifier:
        check_is_fitted(self)
        return self.best_estimator_

    def answer(self, X: Any, *, confidence: str = "margin") -> Answers:
        """Everything that the chosen model says about the queries."""
        return self._chosen().answer(self._check(X), confidence=confidence)

    def predict(self, X: Any) -> Any:
        """Labels by the chosen model."""
        return self._chosen().predict(self._check(X))

    def decision_function(self, X: Any) -> Any:
        """Minus the class residuals of the chosen model; with two classes, their difference."""
        return self._chosen().decision_function(self._check(X))

    def residuals(self, X: Any) -> Any:
        """Class residuals of the chosen model."""
        return self._chosen().residuals(self._check(X))

    def encode(self, X: Any) -> Any:
        """Codes of the chosen model."""
        return self._chosen().encode(self._check(X))

    def solve(self, X: Any, *, certify: bool = True) -> Solution:
        """Codes with certificates of the chosen model."""
        return self._chosen().solve(self._check(X), certify=certify)

    def reconstruct(self, X: Any) -> Any:
        """Reconstructions by the chosen model."""
        return self._chosen().reconstruct(self._check(X))

    def explain(self, query: Any, *, max_atoms: int | None = None) -> Explanation:
        """Why the chosen model gave one query its label."""
        return self._chosen().explain(self._check(one_row(self, query)), max_atoms=max_atoms)

    def _check(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype=[np.float64, np.float32])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.classifier._classes_span_the_plane
        return tags


def _checked(fold_features: FoldFeatures) -> FoldFeatures:
    """The same with what it gives checked, as `fit` checks X."""
    if not callable(fold_features):
        raise TypeError(f"The 'fold_features' parameter must be callable. Got {fold_features!r} instead.")

    def checked(train: np.ndarray, test: np.ndarray) -> tuple[Any, Any]:
        made = fold_features(train, test)
        if not isinstance(made, tuple | list) or len(made) != 2:
            raise TypeError(
                "fold_features(train, test) must give two arrays, the features of the training and of the "
                f"test samples. Got {type(made).__name__}."
            )
        parts = []
        for name, rows, part in zip(("train", "test"), (train, test), made, strict=True):
            found = check_array(part, dtype=[np.float64, np.float32], input_name=f"fold_features ({name})")
            if len(found) != len(rows):
                raise ValueError(f"fold_features gave {len(found)} rows for {len(rows)} {name} samples.")
            parts.append(found)
        if parts[0].shape[1] != parts[1].shape[1]:
            widths = f"{parts[0].shape[1]} features for training and {parts[1].shape[1]} for test samples"
            raise ValueError(f"fold_features gave {widths}. Both must have the same.")
        return parts[0], parts[1]

    return checked


class _Scored(ClassifierMixin, BaseEstimator):
    """A fitted classifier as far as a scorer can see: it has answered already."""

    def __init__(self, classes: np.ndarray, class_scores: np.ndarray) -> None:
        self.classes_, self._class_scores = classes, class_scores

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self._class_scores.argmin(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        return decision_values(self._class_scores)


class _Progress:
    """scikit-learn's callbacks (1.9): one task per fold within the task of the whole."""

    def __init__(self, estimator: Any, X: Any, y: Any, n_folds: int) -> None:
        self._told = {"estimator": estimator, "X": X, "y": y}
        self._whole: Any = None
        if getattr(estimator, "_skl_callbacks", None):
            self._whole = estimator._init_callback_context(max_subtasks=n_folds, sequential_subtasks=False)
            self._whole.call_on_fit_task_begin(**self._told)

    def task(self, number: int) -> Any:
        """The task of one fold, made before the threads start."""
        return self._whole and self._whole.subcontext(task_name="fold", task_id=number)

    @contextmanager
    def during(self, task: Any) -> Iterator[None]:
        """Tell the callbacks of the beginning and the end of a fold."""
        if task is not None:
            task.call_on_fit_task_begin(**self._told)
        yield
        if task is not None:
            task.call_on_fit_task_end(**self._told)

    def finish(self) -> None:
        """Tell the callbacks that all is done."""
        if self._whole is not None:
            self._whole.call_on_fit_task_end(**self._told)


def _results(candidates: list[Candidate], scores: np.ndarray) -> Mapping[str, Any]:
    """``cv_results_`` with the keys of GridSearchCV; scores has shape (n_candidates, n_folds)."""
    results: dict[str, Any] = {"params": candidates}
    for name in sorted({name for candidate in candidates for name in candidate}):
        column = MaskedArray(np.empty(len(candidates), dtype=object), mask=True)
        for i, candidate in enumerate(candidates):
            if name in candidate:
                column[i] = candidate[name]
        results[f"param_{name}"] = column
    for fold, column in enumerate(scores.T):
        results[f"split{fold}_test_score"] = column
    results["mean_test_score"] = np.average(scores, axis=1)
    results["std_test_score"] = np.std(scores, axis=1)
    worst_last = np.where(np.isnan(results["mean_test_score"]), -np.inf, results["mean_test_score"])
    results["rank_test_score"] = rankdata(-worst_last, method="min").astype(np.int32)
    return results
