"""SimplexRCCV and CRNRCCV: the searches over the parameters of descendants of NRC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from residuum.estimators.descendants import CRNRC, SimplexRC
from residuum.rules import CodedParts, settle_ties
from residuum.selection.base import Candidate, Grid, GridSelector, by_setting
from residuum.selection.folds import Fold, rule_scores


class SimplexRCCV(GridSelector):
    """`SimplexRC` with l2 and the rule chosen by cross-validation.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is 1, 0.3, 0.1, 0.03, 0.01, 0.
    rules : list of str or None, default=None
        Decision rules; None is residual.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = SimplexRC
    grids = (Grid("l2s", "l2", (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)),)

    def __init__(
        self, *, l2s: Any = None, rules: Any = None, cv: Any = None, scoring: Any = None, n_jobs: Any = None
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.l2s = l2s

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        # Not the padded dictionary of the fold: a zero atom can take a share of the sum.
        for setting, index_of in by_setting(candidates):
            solver = self.classifier(**setting)._make_solver(fold.plain)
            codes = solver.solve(fold.plain_queries, certify=False).codes
            parts = CodedParts(fold.plain, fold.plain_queries, codes)
            for rule, index in index_of.items():
                scores = self.classifier(rule=rule)._class_scores(parts)
                yield index, settle_ties(scores, parts.rounding())


class CRNRCCV(GridSelector):
    """`CRNRC` with gamma and the rule chosen by cross-validation.

    Parameters
    ----------
    gammas : array-like or None, default=None
        Weights of the residuals of the single classes; None is 0.01, 0.1, 1, 10, 100.
    rules : list of str or None, default=None
        Decision rules; None is residual.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = CRNRC
    grids = (Grid("gammas", "gamma", (0.01, 0.1, 1.0, 10.0, 100.0), largest_first=False),)

    def __init__(
        self,
        *,
        gammas: Any = None,
        rules: Any = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: Any = None,
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.gammas = gammas

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        for setting, index_of in by_setting(candidates):
            solver = self.classifier(**setting)._make_solver(fold.plain)
            codes = solver.solve(fold.plain_queries, certify=False).codes
            yield from rule_scores(fold.plain, fold.plain_queries, codes, index_of)
