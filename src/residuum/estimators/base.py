"""The scikit-learn face that all representation classifiers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from residuum.dictionary import Dictionary, FloatArray, unit_rows
from residuum.estimators.confidence import CONSTRAINTS, ConfidenceMixin
from residuum.estimators.enrolment import Enrolment, check_labels
from residuum.estimators.explanation import Explanation, explain_query
from residuum.rules import RULES, settle_ties
from residuum.solvers._change import Change
from residuum.solvers.base import Solution, stack
from residuum.system.threads import run_chunks, thread_count

POSITIVE = Interval(Real, 0, None, closed="neither")
NON_NEGATIVE = Interval(Real, 0, None, closed="left")
AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
N_JOBS = [AT_LEAST_ONE, Interval(Integral, None, -1, closed="right"), None]
RULE = StrOptions(set(RULES))
MIN_ROWS = 128  # fewer rows at a time make poor matrix products


class Solver(Protocol):
    """What the classifiers ask of a solver."""

    # Entries of the codes of one block of queries: large enough for the matrix products, small enough for
    # the cache and for memory, whatever the number of queries.
    block_entries: int
    # Whether the solver divides the queries among threads itself.
    has_threads: bool

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query."""
        ...

    def prepare(self) -> None:
        """Factor what takes long, where the solver does so before the first query."""
        ...

    def adopt(self, old: Any, change: Change) -> None:
        """Take over what a solver of the same type had prepared before the dictionary changed."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """Arrays in which a solver that took over differs from a fresh one; empty for a fresh one."""
        ...

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Become the solver whose `state` was stored."""
        ...


class RepresentationClassifier(ConfidenceMixin, Enrolment, ClassifierMixin, BaseEstimator):
    """``label(y) = argmin_k rule_k(y, c(y))`` with the code c of the unit-norm query y over all atoms.

    A subclass stores its parameters, builds a solver for a dictionary (`_make_solver`) and, where it is not
    one of the three rules, its class scores (`_class_scores`).
    """

    _parameter_constraints: dict[str, list[Any]] = CONSTRAINTS

    # Names of fitted attributes, numbers or arrays, that a model file keeps besides the dictionary.
    _stored_attributes: tuple[str, ...] = ("temperature_", "residual_cap_", "log_residuals_")

    # With two features every class spans the plane, so scikit-learn's two-dimensional blobs say nothing.
    _classes_span_the_plane = False

    _solver_names: tuple[str, ...] = ("solver_",)

    rule: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._classes_span_the_plane
        return tags

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        raise TypeError(f"{type(self).__name__} does not say how it codes a query: define _make_solver.")

    def _class_scores(self, queries: FloatArray, codes: Any) -> FloatArray:
        return RULES[self.rule](self.dictionary_, queries, codes)

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
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_labels(y)
        self.classes_, class_index = np.unique(y, return_inverse=True)
        self.dictionary_ = Dictionary.from_samples(X, class_index, len(self.classes_))
        self.n_samples_seen_ = len(X)
        self.solver_ = self._make_solver(self.dictionary_)
        for name in self._solver_names:
            getattr(self, name).prepare()
        self._fit_confidence(X, class_index, len(self.classes_))
        return self

    def predict(self, X: Any) -> Any:
        """Label of the class with the smallest score; the first class in sorted order wins a tie.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries. An all-zero query has no direction: every class ties, so it gets ``classes_[0]``, with
            a warning.

        Returns
        -------
        labels : ndarray of shape (n_queries,)
            With a ``reject_threshold``, ``reject_label_`` where ``confidence(X)`` is below it; the type of
            the array is then wide enough for that label.
        """
        if self.reject_threshold is not None:
            return self._predict_or_reject(X)
        winners = self.residuals(X).argmin(axis=1)
        return self.classes_[winners]

    def decision_function(self, X: Any) -> FloatArray:
        """Minus the class residuals; with two classes, the first residual minus the second.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        scores : ndarray of shape (n_queries, n_classes), or (n_queries,) with two classes
        """
        return decision_values(self.residuals(X))

    def residuals(self, X: Any) -> FloatArray:
        """Score of every class for every query by the classifier's rule, smallest wins.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        residuals : ndarray of shape (n_queries, n_classes)
            For unit-norm queries, in the order of ``classes_``.
        """
        return np.concatenate(self._coded(X, lambda _, scores: scores))

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
        solution = stack(self._by_blocks(X, lambda unit, *_: self.solver_.solve(unit, certify=certify)))
        self._warn_unconverged(solution.converged)
        return solution

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

        return np.concatenate(self._by_blocks(X, rebuild))

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
        query = one_row(self, query)
        ((solution, scores),) = self._coded(query, lambda *found: found, certify=True)
        return explain_query(
            self.dictionary_,
            self.classes_,
            solution,
            scores[0],
            max_atoms=max_atoms,
            verdict=self._verdict(solution, scores),
        )

    def _coded(
        self, X: Any, keep: Callable[[Solution, FloatArray], Any], *, certify: bool = False
    ) -> list[Any]:
        """``keep(solution, class scores)`` of every block of queries; the codes go unless they are kept."""

        def code(unit: FloatArray, *_: FloatArray) -> tuple[np.ndarray, Any]:
            solution = self.solver_.solve(unit, certify=certify)
            scores = settle_ties(self._class_scores(unit, solution.codes))
            return solution.converged, keep(solution, scores)

        coded = self._by_blocks(X, code)
        self._warn_unconverged(np.concatenate([converged for converged, _ in coded]))
        return [kept for _, kept in coded]

    def _by_blocks(self, X: Any, work: Callable[[FloatArray, FloatArray, FloatArray], Any]) -> list[Any]:
        """``work(unit queries, scales, norms)`` for consecutive blocks of queries, in threads."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=self.dictionary_.dtype)
        n_threads = 1 if self.solver_.has_threads else thread_count(None)
        # A solver that divides the queries itself sees to the size of its products.
        least = 1 if self.solver_.has_threads else MIN_ROWS
        rows = max(least, self.solver_.block_entries // self.dictionary_.n_atoms)
        rows = max(least, min(rows, -(-len(X) // n_threads)))
        results: dict[int, Any] = {}
        zeros: list[int] = []

        def run(first: int, stop: int) -> None:
            unit, scale, norm = unit_rows(X[first:stop])
            zeros.append(int(np.count_nonzero(scale == 0)))
            results[first] = work(unit, scale, norm)

        run_chunks(run, len(X), rows, n_threads)
        if any(zeros):
            warnings.warn(
                f"{sum(zeros)} of {len(X)} queries are zero vectors. Every class ties for them, so they get "
                f"the first class, {self.classes_.tolist()[0]!r}"
                f"{', unless a reject_threshold rejects them' if self.reject_threshold else ''}.",
                UserWarning,
                stacklevel=4,
            )
        return [results[first] for first in sorted(results)]

    def _warn_unconverged(self, converged: np.ndarray) -> None:
        if not converged.all():
            warnings.warn(
                f"{np.count_nonzero(~converged)} of {len(converged)} queries did not reach the tolerance of "
                f"{type(self).__name__}; their best codes so far were used. Raise max_iter or tol, or look "
                "at solve(X).violation and solve(X).gap.",
                ConvergenceWarning,
                stacklevel=4,
            )


def one_row(estimator: Any, query: Any) -> Any:
    """A query as a table of one row, with the names of its features where the estimator has learned them."""
    if hasattr(estimator, "feature_names_in_") and hasattr(query, "to_frame") and query.ndim == 1:
        query = query.to_frame().T
    elif not hasattr(query, "columns"):
        query = np.asarray(query)
        query = query[None] if query.ndim == 1 else query
    if query.shape[0] != 1:
        raise ValueError(f"explain takes one query. Got {query.shape[0]}: pass them one at a time.")
    return query


def decision_values(residuals: FloatArray) -> FloatArray:
    """Minus the residuals, or their difference with two classes; infinite ones become the largest numbers.

    scikit-learn's metrics refuse infinite values, and the scaled residual of a class that takes no part is
    infinite.
    """
    finite = np.minimum(residuals, np.finfo(residuals.dtype).max / 2)
    return finite[:, 0] - finite[:, 1] if residuals.shape[1] == 2 else -finite


def dense(codes: Any) -> FloatArray:
    """Codes as an ndarray."""
    return codes.toarray() if sp.issparse(codes) else codes
