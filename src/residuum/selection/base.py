"""The scikit-learn face of the estimators that choose their own parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, product
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from residuum.estimators.answers import Answering, Answers, decision_values
from residuum.estimators.base import N_JOBS, RepresentationClassifier
from residuum.estimators.explanation import Explanation
from residuum.estimators.labels import plain_labels
from residuum.estimators.weights import without_weights
from residuum.plain_numbers import check_numbers
from residuum.problem import Solution, dense
from residuum.rules import RULES
from residuum.selection.folds import Codes, Fold
from residuum.system.progress import tell_progress
from residuum.system.threads import all_or_nothing, single_threaded_blas, thread_count

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9 has no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """Leave the method as it is."""
        return method


Candidate = dict[str, Any]
# From the positions of the training and test samples of a fold to the features of both.
FoldFeatures = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]

# Entries of the codes of one block of queries: a few such arrays fit into memory on any machine.
_BLOCK_ENTRIES = 2**23


class Grid(NamedTuple):
    """A parameter of a search, the parameter of the classifier that it lists, and the values for None.

    With `per_samples` the values are for so many training samples and grow in proportion to their number.
    """

    name: str
    parameter: str
    default: Any
    per_samples: int | None = None
    largest_first: bool = True

    def values(self, owner: GridSelector, n_samples: int) -> list[Any]:
        """What the owner was given, or the default, from the simplest to the most complex."""
        given = getattr(owner, self.name)
        scale = n_samples / self.per_samples if self.per_samples else 1
        default = [scale * value for value in self.default]
        values = list(default if given is None else np.ravel(np.asarray(given, dtype=object)))
        if not values or any(not isinstance(v, (int, float, np.number)) or not v >= 0 for v in values):
            raise ValueError(
                f"The {self.name!r} parameter of {type(owner).__name__} must be a non-empty list of "
                f"non-negative numbers. Got {given!r} instead."
            )
        plain = (v.item() if isinstance(v, np.number) else v for v in values)
        return sorted(plain, reverse=self.largest_first)


class GridSelector(CallbackSupportMixin, Answering, ClassifierMixin, BaseEstimator):
    """``argmax over the grid of the mean score over the folds``; ties go to the simpler candidate.

    A subclass names the classifier and its grids, the slowest first, and says how codes (`_codes`) or scores
    (`_fold_scores`) of all candidates on one fold come from what they share.
    """

    classifier: type[RepresentationClassifier]
    grids: tuple[Grid, ...]
    default_rules: tuple[str, ...] = ("residual",)
    _no_weights = "its candidates share codes over samples without weights"
    _instead_of_weights = (
        "pass it to GridSearchCV over NSC, CRC, CROC, ProCRC or SoftNRC, which take weights in every fold"
    )

    _parameter_constraints: dict[str, Any] = {
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "n_jobs": N_JOBS,
    }

    def __init__(self, *, rules: Any = None, cv: Any, scoring: Any, n_jobs: int | None) -> None:
        self.rules = rules
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _rules(self) -> list[Any]:
        rules = np.ravel(self.default_rules if self.rules is None else self.rules).tolist()
        if not rules or not set(rules) <= set(RULES):
            raise ValueError(
                f"The 'rules' parameter of {type(self).__name__} must be a non-empty list of names from "
                f"{sorted(RULES)}. Got {self.rules!r} instead."
            )
        return rules

    def _candidates(self, n_samples: int) -> list[Candidate]:
        columns = {grid.parameter: grid.values(self, n_samples) for grid in self.grids}
        if self.default_rules:
            columns["rule"] = self._rules()
        return [dict(zip(columns, values, strict=True)) for values in product(*columns.values())]

    def _codes(self, fold: Fold, setting: Candidate) -> Codes:
        return coded(self.classifier(**setting), fold)

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        for setting, index_of in by_setting(candidates):
            yield from fold.scores(self._codes(fold, setting), index_of)

    @without_weights
    @all_or_nothing
    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, *, groups: Any = None) -> GridSelector:
        """Choose by cross-validation on the training data, then fit the choice to all of it.

        Features that were learned from X have seen the samples of all folds; `PipelineCV` learns them anew in
        every fold.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels.
        groups : array-like of shape (n_samples,), default=None
            Groups for a group-aware splitter given as `cv`.

        Returns
        -------
        self
        """
        X, y = check_numbers(X, "X", type(self).__name__), plain_labels(y, type(self).__name__)
        samples, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(y)
        splits = self._splits(samples, y, groups)
        candidates = self._candidates(len(samples))
        arguments = {"estimator": self, "X": samples, "y": y}
        whole = None
        if getattr(self, "_skl_callbacks", None):
            whole = self._init_callback_context(max_subtasks=len(splits), sequential_subtasks=False)

        def rows(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return samples[train], samples[test]

        with _reported(whole, arguments):
            tasks = [whole and whole.subcontext(task_name="fold", task_id=i) for i in range(len(splits))]
            scores = self._cross_validate(
                y, splits, candidates, [rows], [_reported(t, arguments) for t in tasks]
            )
            keep_results(self, candidates, scores)
            self.best_estimator_ = self.classifier(**self.best_params_).fit(X, y)
            self.classes_ = self.best_estimator_.classes_
        return self

    def _cross_validate(
        self,
        y: np.ndarray,
        splits: list[tuple[np.ndarray, np.ndarray]],
        candidates: list[Candidate],
        features: Sequence[FoldFeatures],
        around: list[Any],
    ) -> np.ndarray:
        """Scores of every candidate on each of several features, shape (n_features * n_candidates, n_folds).

        `around` has a context manager for every fold.
        """
        for candidate in candidates:
            self.classifier(**candidate)._validate_params()
        scorer = check_scoring(self.classifier(), scoring=self.scoring)
        done = count(1)

        def score(context: Any, train: np.ndarray, test: np.ndarray) -> np.ndarray:
            with context:
                labels = y[train], y[test]
                scores = [
                    self._score_fold(make(train, test), labels, candidates, scorer) for make in features
                ]
            tell_progress("choosing by cross-validation, folds", next(done), len(splits))
            return np.concatenate(scores)

        jobs = [(context, *split) for context, split in zip(around, splits, strict=True)]
        return np.array(self._in_threads(score, jobs)).T

    def _splits(self, X: Any, y: np.ndarray, groups: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """The splits of `cv`; with fewer samples in a class than folds, fewer folds, and one needs two."""
        cv, name = 5 if self.cv is None else self.cv, type(self).__name__
        labels, counts = np.unique(y, return_counts=True)
        smallest = int(counts.min())
        if isinstance(cv, (int, np.integer)) and smallest < cv:
            if smallest < 2:
                raise ValueError(
                    f"{name} cannot cross-validate: class {labels.tolist()[counts.argmin()]!r} has 1 sample. "
                    "Add samples, drop the class, or pass a splitter as cv."
                )
            warnings.warn(
                f"The smallest class has {smallest} samples, fewer than the {cv} folds asked for: {name} "
                f"uses {smallest} folds. Pass cv={smallest} to silence this warning.",
                UserWarning,
                stacklevel=4,
            )
            cv = smallest
        splitter = check_cv(cv, y, classifier=True)
        return list(splitter.split(X, y, groups))

    def _in_threads(self, score: Callable[..., np.ndarray], jobs: list[Any]) -> list[np.ndarray]:
        workers = min(thread_count(self.n_jobs), len(jobs))
        # Full rounds give each worker a fold; the folds left over have all workers' threads one by one.
        shared = len(jobs) - len(jobs) % workers if workers > 1 else 0
        scores: list[np.ndarray] = []
        if shared:
            with single_threaded_blas():
                # Threads whatever backend is configured: folds share arrays that must not be sent away.
                scores = Parallel(n_jobs=workers, require="sharedmem")(
                    delayed(score)(*job) for job in jobs[:shared]
                )
        return scores + [score(*job) for job in jobs[shared:]]

    def _score_fold(self, made: Any, labels: Any, candidates: list[Candidate], scorer: Any) -> np.ndarray:
        (X, test_X), (y, test_y) = made, labels
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
        X, y = check_numbers(X, "X", type(self).__name__), plain_labels(y, type(self).__name__)
        X_test = check_numbers(X_test, "X_test", type(self).__name__)
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
        return self._chosen().answer(X, confidence=confidence)

    def encode(self, X: Any) -> Any:
        """Codes of the chosen model."""
        return self._chosen().encode(X)

    def solve(self, X: Any, *, certify: bool = True) -> Solution:
        """Codes with certificates of the chosen model."""
        return self._chosen().solve(X, certify=certify)

    def reconstruct(self, X: Any) -> Any:
        """Reconstructions by the chosen model."""
        return self._chosen().reconstruct(X)

    def explain(self, query: Any, *, max_atoms: int | None = None) -> Explanation:
        """Why the chosen model gave one query its label."""
        return self._chosen().explain(query, max_atoms=max_atoms)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self.classifier._classes_span_the_plane
        return tags


class _Scored(ClassifierMixin, BaseEstimator):
    """A fitted classifier as far as a scorer can see: it has answered already."""

    def __init__(self, classes: np.ndarray, class_scores: np.ndarray) -> None:
        self.classes_, self._class_scores = classes, class_scores

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self._class_scores.argmin(axis=1)]

    def decision_function(self, X: Any) -> np.ndarray:
        return decision_values(self._class_scores)


@contextmanager
def _reported(task: Any, arguments: dict[str, Any]) -> Iterator[None]:
    """Tell scikit-learn's callbacks (1.9), if there are any, of the beginning and the end of a task."""
    if task is not None:
        task.call_on_fit_task_begin(**arguments)
    yield
    if task is not None:
        task.call_on_fit_task_end(**arguments)


def coded(classifier: RepresentationClassifier, fold: Fold) -> Codes:
    """Codes of the fold's queries as the classifier, with its rule left open, finds them."""
    solver = classifier._make_solver(fold.dictionary)
    return Codes(dense(solver.solve(fold.queries, certify=False).codes))


def by_setting(candidates: list[Candidate]) -> list[tuple[Candidate, dict[str, int]]]:
    """Every setting of the parameters besides the rule, with the index of the candidate of each rule."""
    groups: dict[tuple[Any, ...], dict[str, int]] = {}
    for index, candidate in enumerate(candidates):
        setting = tuple((name, value) for name, value in candidate.items() if name != "rule")
        groups.setdefault(setting, {})[candidate["rule"]] = index
    return [(dict(setting), index_of) for setting, index_of in groups.items()]


def keep_results(search: Any, candidates: list[Candidate], scores: np.ndarray) -> None:
    """Set the attributes in which searches of scikit-learn say what they have chosen."""
    search.cv_results_ = _results(candidates, scores)
    search.best_index_ = int(search.cv_results_["rank_test_score"].argmin())
    search.best_params_ = candidates[search.best_index_]
    search.best_score_ = float(search.cv_results_["mean_test_score"][search.best_index_])
    search.n_splits_ = scores.shape[1]


def _results(candidates: list[Candidate], scores: np.ndarray) -> Mapping[str, Any]:
    """``cv_results_`` with the keys of GridSearchCV; scores has shape (n_candidates, n_folds)."""
    results: dict[str, Any] = {"params": candidates}
    for name in sorted({name for candidate in candidates for name in candidate}):
        column = np.ma.masked_all(len(candidates), dtype=object)
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
