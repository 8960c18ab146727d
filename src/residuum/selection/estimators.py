"""NRCCV, SoftNRCCV, SRCCV, CRCCV, CROCCV, ProCRCCV and NSCCV.

Grids that are not given scale with the number of training samples N, because the eigenvalues of ``X'X`` do.
Candidates are listed from the simplest to the most complex, and the first of those with the best mean score
is chosen: the larger ridge or penalty, the fewer steps, the smaller price of negative coefficients, the
earlier rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby, islice
from typing import Any

import numpy as np

from residuum.estimators.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC
from residuum.problem import CodingProblem
from residuum.rules import CodedParts, quotient, settle_ties
from residuum.selection.base import Candidate, Grid, GridSelector, by_setting, coded
from residuum.selection.folds import Codes, Fold, rule_scores
from residuum.solvers import ADMM, ActiveSet, Newton, soft_solver


class NRCCV(GridSelector):
    """`NRC` with rho, the number of steps T and the rule chosen by cross-validation, or its exact optimum.

    One run of ADMM yields every T, every rule reads the same codes, and one decomposition per fold serves
    every rho.

    Parameters
    ----------
    rhos : array-like or None, default=None
        Penalties; None is ``N/1000 * (30, 10, 3, 1, 0.3, 0.1, 0.03)``.
    max_iters : array-like or None, default=None
        Numbers of steps; None is 2, 5, 10, 20: a finer grid costs nothing, but picks up more noise.
    rules : list of str or None, default=None
        Decision rules; None is residual, reconstruction.
    exact : bool, default=True
        Whether the exact optimum is a candidate too, the last one for each rule.
    cv : int, splitter or None, default=None
        As in scikit-learn; None is 5-fold stratified.
    scoring : str, callable or None, default=None
        As in scikit-learn; None is accuracy.
    n_jobs : int or None, default=None
        Threads over the folds.

    Attributes
    ----------
    best_params_ : dict
        Parameters of the chosen `NRC`.
    best_score_ : float
        Its mean score over the folds.
    cv_results_ : dict
        Scores of all candidates, with the keys of GridSearchCV.
    best_estimator_ : NRC
        Fitted to all the data.
    classes_ : ndarray
        Labels in sorted order.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from residuum import NRCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = NRCCV(rhos=[0.1, 1.0], max_iters=[5]).fit(X[:200], y[:200])
    >>> bool(search.best_score_ > 0.9)
    True
    """

    classifier = NRC
    default_rules = ("residual", "reconstruction")
    grids = (
        Grid("max_iters", "max_iter", (2, 5, 10, 20), largest_first=False),
        Grid("rhos", "rho", (30, 10, 3, 1, 0.3, 0.1, 0.03), per_samples=1000),
    )
    _parameter_constraints = {**GridSelector._parameter_constraints, "exact": ["boolean"]}

    def __init__(
        self,
        *,
        rhos: Any = None,
        max_iters: Any = None,
        rules: Any = None,
        exact: bool = True,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.rhos = rhos
        self.max_iters = max_iters
        self.exact = exact

    def _candidates(self, n_samples: int) -> list[Candidate]:
        found: list[Candidate] = [{"solver": "admm", **c} for c in super()._candidates(n_samples)]
        return found + [{"solver": "exact", "rule": rule} for rule in self._rules() if self.exact]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        problem = CodingProblem(neg_weight=math.inf)
        by_rho: dict[float, dict[int, dict[str, int]]] = {}
        for setting, index_of in by_setting(candidates):
            if setting["solver"] == "exact":
                # Without a ridge the optimum need not be unique.
                codes = ActiveSet(problem, fold.plain).solve(fold.plain_queries, certify=False).codes
                yield from rule_scores(fold.plain, fold.plain_queries, codes, index_of)
            else:
                by_rho.setdefault(setting["rho"], {})[setting["max_iter"]] = index_of
        for rho, of_step in by_rho.items():
            steps = ADMM(problem, fold.dictionary, rho=rho).steps(fold.queries)
            for step, (_, z) in enumerate(islice(steps, max(of_step)), start=1):
                if step in of_step:
                    yield from fold.scores(Codes(z), of_step[step])


class SoftNRCCV(GridSelector):
    """`SoftNRC` with l2, neg_weight and the rule chosen by cross-validation.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is ``N/1000 * (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)``.
    neg_weights : array-like or None, default=None
        Prices of negative coefficients; None is ``(0.1, 1, 10, inf)``. inf is the exact non-negative optimum.
    rules : list of str or None, default=None
        Decision rules; None is residual.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from residuum import SoftNRCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> search = SoftNRCCV(l2s=[0.01, 0.1], neg_weights=[1]).fit(X[:200], y[:200])
    >>> bool(search.best_score_ > 0.9)
    True
    """

    classifier = SoftNRC
    grids = (
        Grid("neg_weights", "neg_weight", (0.1, 1.0, 10.0, math.inf), largest_first=False),
        Grid("l2s", "l2", (0.3, 0.1, 0.03, 0.01, 0.003, 0.001), per_samples=1000),
    )

    def __init__(
        self,
        *,
        l2s: Any = None,
        neg_weights: Any = None,
        rules: Any = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.l2s = l2s
        self.neg_weights = neg_weights

    def _codes(self, fold: Fold, setting: Candidate) -> Codes:
        solver = soft_solver(CodingProblem(**setting), fold.dictionary)
        if not isinstance(solver, Newton) or not fold.settles_winners:
            return super()._codes(fold, setting)
        # Most winners are clear long before the optimum; the other queries are solved to the end.
        end, solver.tol = solver.tol, 1e-8
        solution = solver.solve(fold.queries)

        def solve(rows: Any) -> np.ndarray:
            solver.tol = end
            return solver.solve(fold.queries[rows]).codes

        return fold.nearly(solution, setting["l2"], solve)


class SRCCV(GridSelector):
    """`SRC` with l1 and the rule chosen by cross-validation.

    Parameters
    ----------
    l1s : array-like or None, default=None
        Weights of the 1-norm; None is 0.3, 0.1, 0.03, 0.01, 0.003, 0.001: they do not scale with N, because
        an l1 of ``2*max|X'y| <= 2`` makes every code zero whatever N is.
    rules : list of str or None, default=None
        Decision rules; None is residual.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = SRC
    grids = (Grid("l1s", "l1", (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)),)

    def __init__(
        self, *, l1s: Any = None, rules: Any = None, cv: Any = None, scoring: Any = None, n_jobs: Any = None
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.l1s = l1s

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        start = None
        for setting, index_of in by_setting(candidates):
            solver = ActiveSet(CodingProblem(**setting), fold.dictionary)
            start = solver.solve(fold.queries, certify=False, start=start).codes
            yield from rule_scores(fold.dictionary, fold.queries, start, index_of)


class CRCCV(GridSelector):
    """`CRC` with l2 and the rule chosen by cross-validation; one decomposition per fold serves every l2.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is 20 values from ``1e-6 * N/700`` to ``10 * N/700``, evenly spaced in the logarithm.
    rules : list of str or None, default=None
        Decision rules; None is scaled_residual, residual.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = CRC
    default_rules = ("scaled_residual", "residual")
    grids = (Grid("l2s", "l2", np.geomspace(1e-6, 10, 20), per_samples=700),)

    def __init__(
        self, *, l2s: Any = None, rules: Any = None, cv: Any = None, scoring: Any = None, n_jobs: Any = None
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.l2s = l2s

    def _codes(self, fold: Fold, setting: Candidate) -> Codes:
        return fold.ridge_codes(setting["l2"])


class CROCCV(GridSelector):
    """`CROC` with l2 and its weight chosen by cross-validation.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges of the collaborative code; None is 8 values from ``1e-6 * N/700`` to ``10 * N/700``.
    weights : array-like or None, default=None
        Shares of the collaborative residual; None is 1.0, 0.9, ..., 0.0.
    subspace_l2 : float, default=1e-4
        Ridge of the class projections.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = CROC
    default_rules = ()
    grids = (
        Grid("l2s", "l2", np.geomspace(1e-6, 10, 8), per_samples=700),
        Grid("weights", "weight", np.linspace(0, 1, 11).round(1)),
    )

    def __init__(
        self,
        *,
        l2s: Any = None,
        weights: Any = None,
        subspace_l2: float = 1e-4,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.l2s = l2s
        self.weights = weights
        self.subspace_l2 = subspace_l2

    def _candidates(self, n_samples: int) -> list[Candidate]:
        return [{**c, "subspace_l2": self.subspace_l2} for c in super()._candidates(n_samples)]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        own = coded(NSC(l2=self.subspace_l2), fold).values
        alone = CodedParts(fold.dictionary, fold.queries, own).residuals() ** 2
        for l2, members in groupby(enumerate(candidates), key=lambda member: member[1]["l2"]):
            codes = coded(CRC(l2=l2), fold).values
            parts = CodedParts(fold.dictionary, fold.queries, codes)
            together, energies, rounding = parts.residuals() ** 2, parts.energies(), parts.rounding()
            for index, candidate in members:
                weight = candidate["weight"]
                scores = quotient((1 - weight) * alone + weight * together, energies)
                yield index, settle_ties(scores, rounding)


class ProCRCCV(GridSelector):
    """`ProCRC` with gamma and l2 chosen by cross-validation.

    Parameters
    ----------
    gammas : array-like or None, default=None
        Weights of the agreement between the classes; None is 10, 1, 0.1, 0.01, 0.001.
    l2s : array-like or None, default=None
        Ridges; None is 8 values from ``1e-6 * N/700`` to ``10 * N/700``.
    rules : list of str or None, default=None
        Decision rules; None is reconstruction.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = ProCRC
    default_rules = ("reconstruction",)
    grids = (
        Grid("gammas", "gamma", (10.0, 1.0, 0.1, 0.01, 0.001), largest_first=False),
        Grid("l2s", "l2", np.geomspace(1e-6, 10, 8), per_samples=700),
    )

    def __init__(
        self,
        *,
        gammas: Any = None,
        l2s: Any = None,
        rules: Any = None,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.gammas = gammas
        self.l2s = l2s


class NSCCV(GridSelector):
    """`NSC` with l2 and the rule chosen by cross-validation.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is 1e3, 1e2, ..., 1e-6.
    rules : list of str or None, default=None
        Decision rules; None is residual.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = NSC
    grids = (Grid("l2s", "l2", 10.0 ** np.arange(3, -7, -1)),)

    def __init__(
        self, *, l2s: Any = None, rules: Any = None, cv: Any = None, scoring: Any = None, n_jobs: Any = None
    ) -> None:
        super().__init__(rules=rules, cv=cv, scoring=scoring, n_jobs=n_jobs)
        self.l2s = l2s
