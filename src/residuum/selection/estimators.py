"""NRCCV, SoftNRCCV, SRCCV, CRCCV, CROCCV, ProCRCCV and NSCCV.

Grids that are not given scale with the number of training samples N, because the eigenvalues of ``X'X`` do.
Candidates are listed from the simplest to the most complex, and the first of those with the best mean score
is chosen: the larger ridge or penalty, the fewer steps, the smaller price of negative coefficients, the
earlier rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice, product
from typing import Any

import numpy as np

from residuum.estimators.base import N_JOBS
from residuum.estimators.classifiers import CRC, CROC, NRC, NSC, SRC, ProCRC, SoftNRC
from residuum.problem import CodingProblem
from residuum.rules import RULES, CodedParts, quotient
from residuum.selection.base import Candidate, GridSelector
from residuum.selection.folds import Codes, Fold, in_doubt, per_part
from residuum.solvers import ADMM, ActiveSet, ClosedForm, Newton, soft_solver
from residuum.solvers.base import dense

_GRID: dict[str, list[Any]] = {
    "cv": ["cv_object"],
    "scoring": [str, callable, None],
    "n_jobs": N_JOBS,
}
_VALUES = ["array-like", None]
_RULES = ["array-like"]


def _grid(owner: GridSelector, name: str, default: Iterable[Any], *, largest_first: bool = True) -> list[Any]:
    values = getattr(owner, name)
    values = list(default if values is None else values)
    if not values or any(not isinstance(v, (int, float, np.number)) or not v >= 0 for v in values):
        raise ValueError(
            f"The {name!r} parameter of {type(owner).__name__} must be a non-empty list of non-negative "
            f"numbers. Got {getattr(owner, name)!r} instead."
        )
    return sorted((v.item() if isinstance(v, np.number) else v for v in values), reverse=largest_first)


def _rules(owner: GridSelector) -> list[str]:
    rules = [owner.rules] if isinstance(owner.rules, str) else list(owner.rules)
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown or not rules:
        raise ValueError(
            f"The 'rules' parameter of {type(owner).__name__} must be a non-empty list of names from "
            f"{sorted(RULES)}. Got {rules!r} instead."
        )
    return rules


def _grouped(candidates: list[Candidate], *names: str) -> dict[tuple[Any, ...], list[int]]:
    """Indices of the candidates that agree in the named parameters."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, candidate in enumerate(candidates):
        groups.setdefault(tuple(candidate.get(name) for name in names), []).append(index)
    return groups


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
    rules : list of str, default=("residual", "reconstruction")
        Decision rules.
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
    _parameter_constraints = {
        "rhos": _VALUES,
        "max_iters": _VALUES,
        "rules": _RULES,
        "exact": ["boolean"],
        **_GRID,
    }

    def __init__(
        self,
        *,
        rhos: Any = None,
        max_iters: Any = None,
        rules: Any = ("residual", "reconstruction"),
        exact: bool = True,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.rhos = rhos
        self.max_iters = max_iters
        self.rules = rules
        self.exact = exact
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        rhos = _grid(self, "rhos", [n_samples / 1000 * f for f in (30, 10, 3, 1, 0.3, 0.1, 0.03)])
        steps = _grid(self, "max_iters", (2, 5, 10, 20), largest_first=False)
        rules = _rules(self)
        found: list[Candidate] = [
            {"solver": "admm", "max_iter": T, "rho": rho, "rule": rule}
            for T, rho, rule in product(steps, rhos, rules)
        ]
        if self.exact:
            found += [{"solver": "exact", "rule": rule} for rule in rules]
        return found

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        problem = CodingProblem(neg_weight=math.inf)
        for (solver, rho), members in _grouped(candidates, "solver", "rho").items():
            if solver == "exact":
                # Without a ridge the optimum need not be unique.
                codes = ActiveSet(problem, fold.plain).solve(fold.plain_queries, certify=False).codes
                for index in members:
                    yield index, fold.settled_plain(codes, candidates[index]["rule"])
                continue
            of_step: dict[int, dict[str, int]] = {}
            for index in members:
                of_step.setdefault(candidates[index]["max_iter"], {})[candidates[index]["rule"]] = index
            steps = ADMM(problem, fold.dictionary, rho=rho).steps(fold.queries)
            for step, (_, z) in enumerate(islice(steps, max(of_step)), start=1):
                rules = of_step.get(step, {})
                for rule, scores in fold.scores(Codes(z), rules).items() if rules else ():
                    yield rules[rule], scores


class SoftNRCCV(GridSelector):
    """`SoftNRC` with l2, neg_weight and the rule chosen by cross-validation.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is ``N/1000 * (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)``.
    neg_weights : array-like or None, default=None
        Prices of negative coefficients; None is ``(0.1, 1, 10, inf)``. inf is the exact non-negative optimum.
    rules : list of str, default=("residual",)
        Decision rules.
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
    _parameter_constraints = {"l2s": _VALUES, "neg_weights": _VALUES, "rules": _RULES, **_GRID}

    def __init__(
        self,
        *,
        l2s: Any = None,
        neg_weights: Any = None,
        rules: Any = ("residual",),
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.l2s = l2s
        self.neg_weights = neg_weights
        self.rules = rules
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        l2s = _grid(self, "l2s", [n_samples / 1000 * f for f in (0.3, 0.1, 0.03, 0.01, 0.003, 0.001)])
        weights = _grid(self, "neg_weights", (0.1, 1.0, 10.0, math.inf), largest_first=False)
        return [
            {"neg_weight": weight, "l2": l2, "rule": rule}
            for weight, l2, rule in product(weights, l2s, _rules(self))
        ]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        for (l2, weight), members in _grouped(candidates, "l2", "neg_weight").items():
            solver = soft_solver(CodingProblem(l2=l2, neg_weight=weight), fold.dictionary)
            if isinstance(solver, Newton) and fold.settles_winners:
                codes = _until_clear(fold, solver, l2)
            else:
                codes = Codes(dense(solver.solve(fold.queries, certify=False).codes))
            yield from _by_rule(fold, codes, candidates, members)


class SRCCV(GridSelector):
    """`SRC` with l1 and the rule chosen by cross-validation.

    Parameters
    ----------
    l1s : array-like or None, default=None
        Weights of the 1-norm; None is 0.3, 0.1, 0.03, 0.01, 0.003, 0.001: they do not scale with N, because
        an l1 of ``2*max|X'y| <= 2`` makes every code zero whatever N is.
    rules : list of str, default=("residual",)
        Decision rules.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = SRC
    _parameter_constraints = {"l1s": _VALUES, "rules": _RULES, **_GRID}

    def __init__(
        self,
        *,
        l1s: Any = None,
        rules: Any = ("residual",),
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.l1s = l1s
        self.rules = rules
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        l1s = _grid(self, "l1s", (0.3, 0.1, 0.03, 0.01, 0.003, 0.001))
        return [{"l1": l1, "rule": rule} for l1, rule in product(l1s, _rules(self))]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        start = None
        for (l1,), members in _grouped(candidates, "l1").items():
            solver = ActiveSet(CodingProblem(l1=l1), fold.dictionary)
            codes = start = solver.solve(fold.queries, certify=False, start=start).codes
            for index in members:
                yield index, fold.settled(codes, candidates[index]["rule"])


class CRCCV(GridSelector):
    """`CRC` with l2 and the rule chosen by cross-validation; one decomposition per fold serves every l2.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is 20 values from ``1e-6 * N/700`` to ``10 * N/700``, evenly spaced in the logarithm.
    rules : list of str, default=("scaled_residual", "residual")
        Decision rules.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = CRC
    _parameter_constraints = {"l2s": _VALUES, "rules": _RULES, **_GRID}

    def __init__(
        self,
        *,
        l2s: Any = None,
        rules: Any = ("scaled_residual", "residual"),
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.l2s = l2s
        self.rules = rules
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        l2s = _grid(self, "l2s", np.geomspace(1e-6, 10, 20) * n_samples / 700)
        return [{"l2": l2, "rule": rule} for l2, rule in product(l2s, _rules(self))]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        for (l2,), members in _grouped(candidates, "l2").items():
            yield from _by_rule(fold, fold.ridge_codes(l2), candidates, members)


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
    _parameter_constraints = {"l2s": _VALUES, "weights": _VALUES, "subspace_l2": [float, int], **_GRID}

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
        self.l2s = l2s
        self.weights = weights
        self.subspace_l2 = subspace_l2
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        l2s = _grid(self, "l2s", np.geomspace(1e-6, 10, 8) * n_samples / 700)
        weights = _grid(self, "weights", np.linspace(0, 1, 11).round(1))
        return [
            {"l2": l2, "weight": weight, "subspace_l2": self.subspace_l2}
            for l2, weight in product(l2s, weights)
        ]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        subspaces = CodingProblem(shared=0, classwise=1, l2=self.subspace_l2)
        own = Codes(ClosedForm(subspaces, fold.dictionary).solve(fold.queries, certify=False).codes)
        alone, alone_doubt = fold.residuals_with_doubt(own)
        for (l2,), members in _grouped(candidates, "l2").items():
            codes = fold.ridge_codes(l2)
            together, together_doubt = fold.residuals_with_doubt(codes)
            energies = fold.class_products(codes.values, codes.values)
            for index in members:
                weight = candidates[index]["weight"]
                scores, doubt = per_part(
                    energies,
                    (1 - weight) * alone + weight * together,
                    (1 - weight) * alone_doubt + weight * together_doubt,
                )
                rows = in_doubt(scores, doubt)
                if len(rows):
                    by_class, shared = (
                        CodedParts(fold.dictionary, fold.queries[rows], c.exact(rows)) for c in (own, codes)
                    )
                    mixture = (1 - weight) * by_class.residuals() ** 2 + weight * shared.residuals() ** 2
                    fold.correct(scores, rows, quotient(mixture, shared.energies()))
                yield index, scores


class ProCRCCV(GridSelector):
    """`ProCRC` with gamma and l2 chosen by cross-validation.

    Parameters
    ----------
    gammas : array-like or None, default=None
        Weights of the agreement between the classes; None is 10, 1, 0.1, 0.01, 0.001.
    l2s : array-like or None, default=None
        Ridges; None is 8 values from ``1e-6 * N/700`` to ``10 * N/700``.
    rules : list of str, default=("reconstruction",)
        Decision rules.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = ProCRC
    _parameter_constraints = {"gammas": _VALUES, "l2s": _VALUES, "rules": _RULES, **_GRID}

    def __init__(
        self,
        *,
        gammas: Any = None,
        l2s: Any = None,
        rules: Any = ("reconstruction",),
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.gammas = gammas
        self.l2s = l2s
        self.rules = rules
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        l2s = _grid(self, "l2s", np.geomspace(1e-6, 10, 8) * n_samples / 700)
        gammas = _grid(self, "gammas", (10.0, 1.0, 0.1, 0.01, 0.001), largest_first=False)
        return [
            {"gamma": gamma, "l2": l2, "rule": rule} for gamma, l2, rule in product(gammas, l2s, _rules(self))
        ]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        for (gamma, l2), members in _grouped(candidates, "gamma", "l2").items():
            problem = ProCRC(gamma=gamma, l2=l2).problem(fold.dictionary.n_classes)
            codes = ClosedForm(problem, fold.dictionary).solve(fold.queries, certify=False).codes
            yield from _by_rule(fold, Codes(dense(codes)), candidates, members)


class NSCCV(GridSelector):
    """`NSC` with l2 and the rule chosen by cross-validation.

    Parameters
    ----------
    l2s : array-like or None, default=None
        Ridges; None is 1e3, 1e2, ..., 1e-6.
    rules : list of str, default=("residual",)
        Decision rules.
    cv, scoring, n_jobs
        As in `NRCCV`.

    Attributes
    ----------
    best_params_, best_score_, cv_results_, best_estimator_, classes_
        As in `NRCCV`.
    """

    classifier = NSC
    _parameter_constraints = {"l2s": _VALUES, "rules": _RULES, **_GRID}

    def __init__(
        self,
        *,
        l2s: Any = None,
        rules: Any = ("residual",),
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.l2s = l2s
        self.rules = rules
        self.cv = cv
        self.scoring = scoring
        self.n_jobs = n_jobs

    def _candidates(self, n_samples: int) -> list[Candidate]:
        l2s = _grid(self, "l2s", 10.0 ** np.arange(3, -7, -1))
        return [{"l2": l2, "rule": rule} for l2, rule in product(l2s, _rules(self))]

    def _fold_scores(self, fold: Fold, candidates: list[Candidate]) -> Iterator[tuple[int, np.ndarray]]:
        for (l2,), members in _grouped(candidates, "l2").items():
            problem = CodingProblem(shared=0, classwise=1, l2=l2)
            codes = ClosedForm(problem, fold.dictionary).solve(fold.queries, certify=False).codes
            yield from _by_rule(fold, Codes(dense(codes)), candidates, members)


def _until_clear(fold: Fold, solver: Newton, l2: float) -> Codes:
    """Codes near the optimum: most winners are clear long before it, the others are solved to the end."""
    end, solver.tol = solver.tol, 1e-8
    solution = solver.solve(fold.queries)

    def solve(rows: Any) -> np.ndarray:
        solver.tol = end
        return solver.solve(fold.queries[rows]).codes

    return fold.nearly(solution, l2, solve)


def _by_rule(
    fold: Fold, codes: Codes, candidates: list[Candidate], members: list[int]
) -> Iterator[tuple[int, np.ndarray]]:
    index_of = {candidates[index]["rule"]: index for index in members}
    for rule, scores in fold.scores(codes, index_of).items():
        yield index_of[rule], scores
