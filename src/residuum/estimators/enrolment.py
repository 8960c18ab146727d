"""Samples that join or leave a fitted classifier: ``partial_fit`` and ``forget``.

Both give what a fit to the samples that remain would give, up to rounding. Sums over all atoms (``XX'`` and
the class moments) are corrected by the samples that came or went, solvers that have `follow` reuse what did
not change, and everything else is prepared again at the next query.
"""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils.validation import check_is_fitted, validate_data

from residuum.change import Change
from residuum.dictionary import Dictionary, unit_rows
from residuum.errors import UsageError
from residuum.estimators.labels import check_classes, check_labels, joined_labels, plain_labels, which_among
from residuum.estimators.weights import checked_weights, without_weights
from residuum.plain_numbers import check_numbers
from residuum.system.threads import all_or_nothing


class Enrolment:
    """The two methods, for a classifier with ``dictionary_``, ``classes_`` and solvers."""

    classes_: np.ndarray
    dictionary_: Dictionary
    n_samples_seen_: int
    _solver_names: tuple[str, ...]

    @without_weights
    @all_or_nothing
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Enrol more samples, of known or new classes; on an unfitted classifier, fit.

        The result is that of a fit to all samples enrolled so far, up to rounding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, taken in the precision of the first fit; all-zero rows are dropped with a warning.
        y : array-like of shape (n_samples,)
            Labels of the same kind (text or numbers) as before.
        classes : array-like or None, default=None
            Accepted as by other classifiers and checked against y. A class exists from its first sample on.

        Returns
        -------
        self
        """
        self._enrol(X, y, classes)
        return self

    def _enrol(self, X: Any, y: Any, classes: Any, sample_weight: Any = None) -> None:
        if not hasattr(self, "dictionary_"):
            self._fit(X, y, sample_weight)  # type: ignore[attr-defined]
            check_classes(y, classes)
            return
        owner = f"{type(self).__name__}.partial_fit"
        X, y = check_numbers(X, "X", owner), plain_labels(y, owner)
        X, y = validate_data(self, X, y, reset=False, dtype=self.dictionary_.dtype)
        if y.dtype.kind not in "biu":  # a few whole numbers, all different, are labels as well
            check_labels(y)
        check_classes(y, classes)
        weights = checked_weights(X, y, sample_weight, getattr(self, "class_weight", None), owner)
        taken = np.ones(len(X), dtype=bool) if weights is None else weights > 0
        labels = joined_labels(self.classes_, y[taken], owner)
        unit, scale, _ = unit_rows(X)
        rows = np.flatnonzero(taken & (scale > 0))
        if len(rows) < np.count_nonzero(taken):
            warnings.warn(
                f"{np.count_nonzero(taken) - len(rows)} of {len(X)} samples are zero vectors and were not "
                "enrolled. Remove them to silence this warning.",
                UserWarning,
                stacklevel=2,
            )
        before = self.dictionary_
        old_class = np.searchsorted(labels, self.classes_.astype(labels.dtype))
        new_class = np.searchsorted(labels, y.astype(labels.dtype))[rows]
        both = np.concatenate([old_class[before.atom_class], new_class])
        order = np.argsort(both, kind="stable")  # behind the older atoms of its class, as a fit would sort
        class_origin = np.full(len(labels), -1)
        class_origin[old_class] = np.arange(len(old_class))
        added = rows[order[order >= before.n_atoms] - before.n_atoms]
        change = Change.of(
            before,
            np.where(order < before.n_atoms, order, -1),
            unit[added],
            np.searchsorted(both[order], np.arange(len(labels) + 1)).astype(np.int64),
            np.concatenate([before.samples, self.n_samples_seen_ + rows])[order],
            class_origin,
            None if weights is None else weights[added],
        )
        self._follow(change, labels)
        self.n_samples_seen_ += len(X)

    @all_or_nothing
    def forget(self, *, samples: Any = None, labels: Any = None) -> Self:
        """Remove samples; a class goes with its last sample.

        The result is that of a fit to the samples that remain, up to rounding. Sums that were corrected for
        what was removed may still differ from fresh ones in their last digits, in memory and in a model file:
        where samples have to be erased without a trace, fit anew to those that remain.

        Parameters
        ----------
        samples : int, array-like of int, or None, default=None
            Numbers of the samples to remove, counted from 0 in the order they were ever enrolled, as in
            ``dictionary_.samples``. Numbers are not given out again.
        labels : label, array-like of labels, or None, default=None
            Classes to remove.

        Returns
        -------
        self
        """
        check_is_fitted(self)
        if samples is None and labels is None:
            raise UsageError(f"forget of {type(self).__name__} needs samples or labels. Got neither.")
        before = self.dictionary_
        gone_class = which_among("labels", labels, "classes_", self.classes_)
        gone_sample = which_among("samples", samples, "dictionary_.samples", before.samples)
        gone = gone_class[before.atom_class] | gone_sample
        if gone.all():
            raise UsageError(
                f"forget would leave {type(self).__name__} without a sample. Keep at least one, or fit anew."
            )
        kept = np.flatnonzero(~gone)
        counts = np.bincount(before.atom_class[kept], minlength=before.n_classes)
        # A class that had only zero vectors has no atom to lose and stays.
        alive = ((counts > 0) | (before.sizes == 0)) & ~gone_class
        starts = np.concatenate([[0], np.cumsum(counts[alive])]).astype(np.int64)
        change = Change.of(
            before, kept, before.atoms[:0], starts, before.samples[kept], np.flatnonzero(alive)
        )
        self._follow(change, self.classes_[alive])
        return self

    def _follow(self, change: Change, labels: np.ndarray) -> None:
        """Become the classifier of the dictionary after the change."""
        old = {name: getattr(self, name) for name in self._solver_names}
        self.solver_ = self._make_solver(change.after)  # type: ignore[attr-defined]
        self.classes_, self.dictionary_ = labels, change.after
        for name, before in old.items():
            solver = getattr(self, name)
            # The solver is of another type where a parameter was changed since.
            if type(solver) is type(before) and hasattr(solver, "follow"):
                solver.follow(before, change)
