"""The scikit-learn face that all representation classifiers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.estimators.answers import Answering, Answers, concentration, margin
from residuum.estimators.enrolment import Enrolment
from residuum.estimators.explanation import Explanation, explain_query
from residuum.estimators.labels import check_labels, plain_labels
from residuum.estimators.weights import checked_weights, without_weights
from residuum.plain_numbers import check_numbers
from residuum.problem import Solution, stack
from residuum.rules import RULES, ClassParts, CodedParts, settle_ties
from residuum.solvers import Solver
from residuum.system.threads import all_or_nothing, by_one_model, run_chunks, thread_count

# Weights and tolerances; products of a few of them stay within the floating point numbers.
POSITIVE = Interval(Real, 1e-30, 1e30, closed="both")
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
N_JOBS = [AT_LEAST_ONE, Interval(Integral, None, -1, closed="right"), None]
RULE = StrOptions(set(RULES))

# Numbers held for one block of queries: enough for fast matrix products, little enough for the cache.
BLOCK_ENTRIES = 2**20
MIN_ROWS = 128  # fewer queries at a time make slow matrix products
MEMORY_ENTRIES = 2**22  # unless so many numbers in all threads would be exceeded


class RepresentationClassifier(Enrolment, Answering, ClassifierMixin, BaseEstimator):
    """``label(y) = argmin_k rule_k(y, c(y))`` with the code c of the unit-norm query y over all atoms.

    A subclass stores its parameters, builds a solver for a dictionary (`_make_solver`) and, where it is not
    one of the rules, its class scores (`_class_scores`).

    A `fit`, `partial_fit` or `forget` that raises leaves the classifier as it was. Threads may query it while
    another thread changes it: each query pass is answered by the model before the change or the one after it.
    """

    # With two features every class spans the plane, so scikit-learn's two-dimensional blobs say nothing.
    _classes_span_the_plane = False
    # Whether all residuals shrink together as samples join, so that ratios mean more than differences.
    _shrinking_residuals = False
    _solver_names: tuple[str, ...] = ("solver_",)
    _no_weights = "its problem does not say what a weight means"
    _instead_of_weights = "take NSC, CRC, CROC, ProCRC or SoftNRC, whose ridge gives it a meaning"

    rule: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._classes_span_the_plane
        return tags

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        raise TypeError(f"{type(self).__name__} does not say how it codes a query: define _make_solver.")

    def _class_scores(self, parts: ClassParts) -> FloatArray:
        return RULES[self.rule](parts)

    @without_weights
    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> RepresentationClassifier:
        """Store the unit-norm training samples as atoms and factor what coding needs.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training samples; all-zero rows are dropped with a warning.
        y : array-like of shape (n_samples,)
            Labels of any type that can be sorted.

        Returns
        -------
        self
        """
        self._fit(X, y)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any = None) -> None:
        owner = type(self).__name__
        X, y = check_numbers(X, "X", owner), plain_labels(y, owner)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_labels(y)
        weights = checked_weights(X, y, sample_weight, getattr(self, "class_weight", None), owner)
        self.classes_ = np.unique(y if weights is None else y[weights > 0])
        class_index = np.searchsorted(self.classes_, y)
        self.dictionary_ = Dictionary.from_samples(X, class_index, len(self.classes_), weights)
        self.n_samples_seen_ = len(X)
        self.solver_ = self._make_solver(self.dictionary_)
        for name in self._solver_names:
            getattr(self, name).prepare()

    @by_one_model
    def answer(self, X: Any, *, confidence: str = "margin") -> Answers:
        """Everything that is said about the queries, from coding each of them once.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.
        confidence : {"margin", "concentration"}, default="margin"
            What ``Answers.confidence`` holds.

        Returns
        -------
        answers : Answers
            Residuals, winners, runners-up, margins and confidence of all queries.
        """

        def work(unit: FloatArray, *_: FloatArray) -> Answers:
            return self._answered(unit, None, confidence)

        blocks = self._by_blocks(X, work)
        fields = ("residuals", "confidence", "converged")
        answers = Answers(self.classes_, *(np.concatenate([getattr(b, f) for b in blocks]) for f in fields))
        self._warn_unconverged(answers.converged)
        return answers

    def _answered(self, unit: FloatArray, solution: Solution | None, confidence: str) -> Answers:
        """Answers to one block of unit queries, from their solution where it is at hand."""
        class_parts = getattr(self.solver_, "class_parts", None)
        if class_parts is not None and confidence != "concentration":
            parts, converged = class_parts(unit)  # without codes
        else:
            solution = solution or self.solver_.solve(unit, certify=False)
            parts, converged = CodedParts(self.dictionary_, unit, solution.codes), solution.converged
        scores = settle_ties(self._class_scores(parts), parts.rounding())
        if solution is not None and confidence == "concentration":
            sure = concentration(self.dictionary_, solution.codes)
        else:
            sure = margin(scores)
        return Answers(self.classes_, scores, sure, converged)

    def encode(self, X: Any) -> Any:
        """Codes of the unit-norm queries over the atoms.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        codes : ndarray or scipy.sparse.csr_array of shape (n_queries, n_atoms)
            Column j belongs to training sample ``dictionary_.samples[j]``.
        """
        return self.solve(X, certify=False).codes

    @by_one_model
    def solve(self, X: Any, *, certify: bool = True) -> Solution:
        """Codes with a certificate per query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.
        certify : bool, default=True
            Whether violation and gap are wanted; solvers that need them to stop report them anyway.

        Returns
        -------
        solution : Solution
            With ``codes, n_iter, violation, gap, converged``.
        """

        def work(unit: FloatArray, *_: FloatArray) -> Solution:
            return self.solver_.solve(unit, certify=certify)

        solution = stack(self._by_blocks(X, work, keeps_codes=True))
        self._warn_unconverged(solution.converged)
        return solution

    @by_one_model
    def reconstruct(self, X: Any) -> FloatArray:
        """``||y|| * X c``: what the atoms make of each query, in the units of the query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        reconstructions : ndarray of shape (n_queries, n_features)
        """

        def rebuild(unit: FloatArray, scale: FloatArray, norm: FloatArray) -> FloatArray:
            codes = self.solver_.solve(unit, certify=False).codes
            return self.dictionary_.combinations(codes) * norm[:, None] * scale[:, None]

        return np.concatenate(self._by_blocks(X, rebuild, keeps_codes=True))

    def explain(self, query: Any, *, max_atoms: int | None = None) -> Explanation:
        """Why one query got its label: the atoms that carry it, the class residuals, the certificate.

        Parameters
        ----------
        query : array-like of shape (n_features,) or (1, n_features)
            One query.
        max_atoms : int or None, default=None
            Keep only this many atoms, largest magnitude of coefficient first; None keeps all that are used.

        Returns
        -------
        explanation : Explanation
        """
        return self._explained(query, max_atoms, "margin")[0]

    @by_one_model
    def _explained(self, query: Any, max_atoms: int | None, confidence: str) -> tuple[Explanation, Answers]:
        def work(unit: FloatArray, *_: FloatArray) -> tuple[Solution, Answers]:
            solution = self.solver_.solve(unit, certify=True)
            return solution, self._answered(unit, solution, confidence)

        ((solution, answers),) = self._by_blocks(one_row(self, query), work)
        self._warn_unconverged(solution.converged)
        name = type(self).__name__
        rule = getattr(self, "rule", name.lower())
        explanation = explain_query(
            self.solver_, solution, answers, method=name, rule=rule, max_atoms=max_atoms
        )
        return explanation, answers

    def _by_blocks(
        self, X: Any, work: Callable[[FloatArray, FloatArray, FloatArray], Any], *, keeps_codes: bool = False
    ) -> list[Any]:
        """``work(unit queries, scales, norms)`` for consecutive blocks of queries, in threads."""
        check_is_fitted(self)
        if type(X) is not np.ndarray or X.dtype.kind not in "fiu":
            X = check_numbers(X, "X", type(self).__name__)
        X = validate_data(self, X, reset=False, dtype=self.dictionary_.dtype)
        n_threads = 1 if self.solver_.has_threads else thread_count(None)
        results: dict[int, Any] = {}
        zeros: list[int] = []

        def run(first: int, stop: int) -> None:
            unit, scale, norm = unit_rows(X[first:stop])
            zeros.append(int(np.count_nonzero(scale == 0)))
            results[first] = work(unit, scale, norm)

        run_chunks(run, len(X), self._rows_per_block(len(X), n_threads, keeps_codes), n_threads)
        if any(zeros):
            warnings.warn(
                f"{sum(zeros)} of {len(X)} queries are zero vectors. Every class ties for them, so they get "
                f"the first class, {self.classes_.tolist()[0]!r}, unless they are rejected.",
                UserWarning,
                stacklevel=5,
            )
        return [results[first] for first in sorted(results)]

    def _rows_per_block(self, n_queries: int, n_threads: int, keeps_codes: bool) -> int:
        entries = self.solver_.entries_per_query
        if keeps_codes and not self.solver_.has_threads:
            entries = max(entries, self.dictionary_.n_atoms)
        fewest = max(1, min(MIN_ROWS, MEMORY_ENTRIES // (n_threads * entries)))
        return max(fewest, min(BLOCK_ENTRIES // entries, -(-n_queries // n_threads)))

    def _warn_unconverged(self, converged: np.ndarray) -> None:
        if not converged.all():
            warnings.warn(
                f"{np.count_nonzero(~converged)} of {len(converged)} queries did not reach the tolerance of "
                f"{type(self).__name__}; their best codes so far were used. Raise max_iter or tol, or look "
                "at solve(X).violation and solve(X).gap.",
                ConvergenceWarning,
                stacklevel=5,
            )


def one_row(estimator: Any, query: Any) -> Any:
    """A query as a table of one row, with the names of its features where the estimator has learned them."""
    query = check_numbers(query, "query", type(estimator).__name__)
    if hasattr(estimator, "feature_names_in_") and hasattr(query, "to_frame") and query.ndim == 1:
        query = query.to_frame().T
    elif not hasattr(query, "columns"):
        query = np.asarray(query)
        query = query[None] if query.ndim == 1 else query
    if query.shape[0] != 1:
        raise ValueError(f"One query can be explained at a time. Got {query.shape[0]}: pass one row.")
    return query
