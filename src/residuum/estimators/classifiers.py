"""NSC, SRC, CRC, CROC, ProCRC, NRC and SoftNRC: each states its problem, its solver and its rule.

All of them have the fitted attributes ``classes_`` (labels in sorted order), ``dictionary_`` (the unit-norm
atoms), ``solver_`` (prepared for the dictionary) and ``n_features_in_``.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import Interval, Options, StrOptions

from residuum.dictionary import Dictionary, FloatArray
from residuum.estimators.base import (
    N_JOBS,
    POSITIVE,
    RULE,
    RepresentationClassifier,
)
from residuum.estimators.weighted import CLASS_WEIGHT, WeightedClassifier
from residuum.problem import CodingProblem
from residuum.rules import ClassParts, quotient
from residuum.solvers import ADMM, ActiveSet, ClosedForm, Solver, soft_solver

_ITERATIVE = {"rule": [RULE], "tol": [POSITIVE], "n_jobs": N_JOBS}


class NSC(WeightedClassifier):
    """``min_c sum_k ||y - X_k c_k||^2 + l2*||c||^2``: nearest subspace classifier.

    Every class codes the query on its own; the class whose span comes closest wins.

    Parameters
    ----------
    l2 : float, default=1e-4
        Ridge that keeps the least squares of a class well posed.
    rule : {"residual", "scaled_residual", "reconstruction"}, default="residual"
        How the code becomes one score per class.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of their samples are multiplied (see `fit`). "balanced" is
        ``n_samples / (n_classes * n_samples of the class)``; a dict gives the weight of each label.

    Examples
    --------
    >>> from residuum import NSC
    >>> NSC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _classes_span_the_plane = True
    _shrinking_residuals = True  # a class of as many samples as features spans everything
    _parameter_constraints = {"l2": [POSITIVE], "rule": [RULE], "class_weight": CLASS_WEIGHT}

    def __init__(self, *, l2: float = 1e-4, rule: str = "residual", class_weight: Any = None) -> None:
        self.l2 = l2
        self.rule = rule
        self.class_weight = class_weight

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        return ClosedForm(CodingProblem(shared=0, classwise=1, l2=self.l2), dictionary)


class SRC(RepresentationClassifier):
    """``min_c ||y - Xc||^2 + l1*||c||_1``: sparse representation classifier (Wright et al. 2009).

    Parameters
    ----------
    l1 : float, default=0.01
        Weight of the 1-norm. The code is zero from ``2*max|X'y|`` on, at most 2.
    rule : {"residual", "scaled_residual", "reconstruction"}, default="residual"
        How the code becomes one score per class.
    positive : bool, default=False
        Whether only non-negative coefficients are allowed.
    tol : float, default=1e-10
        A code has converged if its violation of the optimality conditions and its gap, a proved bound on how
        far its objective is above the optimum relative to ``||y||^2``, are both at most this.
    n_jobs : int or None, default=None
        Threads; None follows joblib's configuration and OMP_NUM_THREADS.

    Examples
    --------
    >>> from residuum import SRC
    >>> SRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _classes_span_the_plane = True
    _no_weights = "the 1-norm of a code is the same however often a sample is repeated"
    _parameter_constraints = {"l1": [POSITIVE], "positive": ["boolean"], **_ITERATIVE}

    def __init__(
        self,
        *,
        l1: float = 0.01,
        rule: str = "residual",
        positive: bool = False,
        tol: float = 1e-10,
        n_jobs: int | None = None,
    ) -> None:
        self.l1 = l1
        self.rule = rule
        self.positive = positive
        self.tol = tol
        self.n_jobs = n_jobs

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        problem = CodingProblem(l1=self.l1, neg_weight=math.inf if self.positive else 0.0)
        return ActiveSet(problem, dictionary, tol=self.tol, n_jobs=self.n_jobs)


class CRC(WeightedClassifier):
    """``min_c ||y - Xc||^2 + l2*||c||^2``: collaborative representation classifier (Zhang et al. 2011).

    Parameters
    ----------
    l2 : float or None, default=None
        Ridge; None is ``0.001 * n_atoms / 700``, as CRC's authors set it (with weights, their sum).
    rule : {"scaled_residual", "residual", "reconstruction"}, default="scaled_residual"
        How the code becomes one score per class. The default is the rule of CRC's own paper; "residual" is
        the rule of Xu et al. (2019).
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of their samples are multiplied (see `fit`). "balanced" is
        ``n_samples / (n_classes * n_samples of the class)``; a dict gives the weight of each label.

    Examples
    --------
    >>> from residuum import CRC
    >>> CRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _classes_span_the_plane = True
    _parameter_constraints = {"l2": [POSITIVE, None], "rule": [RULE], "class_weight": CLASS_WEIGHT}

    def __init__(
        self, *, l2: float | None = None, rule: str = "scaled_residual", class_weight: Any = None
    ) -> None:
        self.l2 = l2
        self.rule = rule
        self.class_weight = class_weight

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        return ClosedForm(CodingProblem(l2=_ridge(self.l2, dictionary)), dictionary)


class CROC(WeightedClassifier):
    """``((1 - weight)*||y - P_k y||^2 + weight*||y - X_k c_k||^2) / ||c_k||^2`` with CRC's code c.

    Collaborative representation optimised classifier (Chi and Porikli 2014): between nearest subspace
    (weight 0) and collaborative representation (weight 1). ``P_k y`` is the ridge fit of class k alone.

    Parameters
    ----------
    weight : float in [0, 1], default=0.5
        Share of the collaborative residual.
    l2 : float or None, default=None
        Ridge of the collaborative code; None is ``0.001 * n_atoms / 700`` (with weights, their sum).
    subspace_l2 : float, default=1e-4
        Ridge of the projections P_k.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of their samples are multiplied (see `fit`). "balanced" is
        ``n_samples / (n_classes * n_samples of the class)``; a dict gives the weight of each label.

    Examples
    --------
    >>> from residuum import CROC
    >>> CROC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _classes_span_the_plane = True
    _parameter_constraints = {
        "weight": [Interval(Real, 0, 1, closed="both")],
        "l2": [POSITIVE, None],
        "subspace_l2": [POSITIVE],
        "class_weight": CLASS_WEIGHT,
    }
    _solver_names = ("solver_", "subspace_solver_")

    def __init__(
        self,
        *,
        weight: float = 0.5,
        l2: float | None = None,
        subspace_l2: float = 1e-4,
        class_weight: Any = None,
    ) -> None:
        self.weight = weight
        self.l2 = l2
        self.subspace_l2 = subspace_l2
        self.class_weight = class_weight

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        alone = CodingProblem(shared=0, classwise=1, l2=self.subspace_l2)
        self.subspace_solver_ = ClosedForm(alone, dictionary)
        return ClosedForm(CodingProblem(l2=_ridge(self.l2, dictionary)), dictionary)

    def _class_scores(self, parts: ClassParts) -> FloatArray:
        alone = self.subspace_solver_.class_parts(parts.queries)[0].residuals()
        mixture = (1 - self.weight) * alone**2 + self.weight * parts.residuals() ** 2
        scores = quotient(mixture, parts.energies())
        return scores.astype(min(alone.dtype, scores.dtype), copy=False)  # no more digits than the parts have


class ProCRC(WeightedClassifier):
    """``min_c ||y - Xc||^2 + l2*||c||^2 + gamma/K * sum_k ||Xc - X_k c_k||^2`` (Cai et al. 2016).

    Probabilistic collaborative representation classifier: the K classes should each explain the common
    reconstruction.

    Parameters
    ----------
    gamma : float, default=0.01
        Weight of the agreement between the classes.
    l2 : float, default=0.01
        Ridge.
    per_class : bool, default=True
        Whether gamma is divided by the number of classes K, as ProCRC's paper writes it. Its authors' code
        does not divide: False reads gamma as that code does.
    rule : {"reconstruction", "residual", "scaled_residual"}, default="reconstruction"
        How the code becomes one score per class.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of their samples are multiplied (see `fit`). "balanced" is
        ``n_samples / (n_classes * n_samples of the class)``; a dict gives the weight of each label.

    Examples
    --------
    >>> from residuum import ProCRC
    >>> ProCRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _classes_span_the_plane = True
    _parameter_constraints = {
        "gamma": [Options(Real, {0}), POSITIVE],
        "l2": [POSITIVE],
        "per_class": ["boolean"],
        "rule": [RULE],
        "class_weight": CLASS_WEIGHT,
    }

    def __init__(
        self,
        *,
        gamma: float = 0.01,
        l2: float = 0.01,
        per_class: bool = True,
        rule: str = "reconstruction",
        class_weight: Any = None,
    ) -> None:
        self.gamma = gamma
        self.l2 = l2
        self.per_class = per_class
        self.rule = rule
        self.class_weight = class_weight

    def problem(self, n_classes: int) -> CodingProblem:
        """``sum_k ||Xc - X_k c_k||^2 = (K - 2)||Xc||^2 + sum_k ||X_k c_k||^2`` put into the common form."""
        gamma = self.gamma / n_classes if self.per_class else self.gamma
        return CodingProblem(shared=1 + gamma * (n_classes - 2), classwise=gamma, l2=self.l2)

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        return ClosedForm(self.problem(dictionary.n_classes), dictionary)


class NRC(RepresentationClassifier):
    """``min_c ||y - Xc||^2  s.t.  c >= 0``: non-negative representation classifier (Xu et al. 2019).

    As published, the code is not the minimiser but the result of five steps of ADMM from zero, somewhere
    between a collaborative and a non-negative code.

    .. warning::
        With few steps, a small rho and many more atoms than features the code overshoots (``Xc`` lies far
        from ``y``), and the plain residual can then fail badly. ``solve(X)`` reports violation and gap;
        where they are large, raise rho, use ``rule="reconstruction"``, or prefer `SoftNRC`.

    Parameters
    ----------
    solver : {"admm", "exact"}, default="admm"
        "admm" is Algorithm 2 of the paper; "exact" finds the minimiser, with a certificate.
    rho : float, default=1.0
        Penalty parameter of ADMM.
    max_iter : int, default=5
        Steps of ADMM, at most a million: a model file from elsewhere must not keep its reader busy for ever.
    step_tol : float or None, default=None
        None makes exactly max_iter steps of ADMM, as published. A number stops each query once the paper's
        three convergence conditions hold to it, and then max_iter is the most steps allowed.
    tol : float, default=1e-10
        Of the exact solver only: a code has converged if its violation of the optimality conditions and its
        gap, a proved bound on how far its objective is above the optimum relative to ``||y||^2``, are both at
        most this.
    rule : {"residual", "scaled_residual", "reconstruction"}, default="residual"
        How the code becomes one score per class.
    n_jobs : int or None, default=None
        Threads of the exact solver; None follows joblib's configuration and OMP_NUM_THREADS.

    Examples
    --------
    >>> from residuum import NRC
    >>> NRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _no_weights = "without a ridge the best code is as good however often a sample is repeated"
    _parameter_constraints = {
        "solver": [StrOptions({"admm", "exact"})],
        "rho": [POSITIVE],
        "max_iter": [Interval(Integral, 1, 10**6, closed="both")],
        "step_tol": [POSITIVE, None],
        **_ITERATIVE,
    }

    def __init__(
        self,
        *,
        solver: str = "admm",
        rho: float = 1.0,
        max_iter: int = 5,
        step_tol: float | None = None,
        tol: float = 1e-10,
        rule: str = "residual",
        n_jobs: int | None = None,
    ) -> None:
        self.solver = solver
        self.rho = rho
        self.max_iter = max_iter
        self.step_tol = step_tol
        self.tol = tol
        self.rule = rule
        self.n_jobs = n_jobs

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        self.n_iter_ = self.max_iter
        problem = CodingProblem(neg_weight=math.inf)
        if self.solver == "exact":
            return ActiveSet(problem, dictionary, tol=self.tol, n_jobs=self.n_jobs)
        return ADMM(problem, dictionary, rho=self.rho, max_iter=self.max_iter, tol=self.step_tol)


class SoftNRC(WeightedClassifier):
    """``min_c ||y - Xc||^2 + l2*||c||^2 + neg_weight*||min(c, 0)||^2``, solved to its optimum.

    The continuum from collaborative (``neg_weight=0``, CRC) to non-negative representation
    (``neg_weight=inf``, the exact NRC with a ridge). Negative coefficients are allowed at a price.

    Parameters
    ----------
    l2 : float, default=0.01
        Ridge.
    neg_weight : float, default=1.0
        Extra price of negative coefficients, from 0 to inf.
    rule : {"residual", "scaled_residual", "reconstruction"}, default="residual"
        How the code becomes one score per class.
    tol : float, default=1e-10
        Largest relative duality gap of a code; float32 data reaches 1e-6. A code lies within
        ``sqrt(gap / l2)`` of the optimum, for a unit-norm query, and codes from different batches of queries
        may differ by that much.
    n_jobs : int or None, default=None
        Threads; None follows joblib's configuration and OMP_NUM_THREADS.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, by which those of their samples are multiplied (see `fit`). "balanced" is
        ``n_samples / (n_classes * n_samples of the class)``; a dict gives the weight of each label.

    Examples
    --------
    >>> from residuum import SoftNRC
    >>> SoftNRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"]).predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _parameter_constraints = {
        "l2": [POSITIVE],
        "neg_weight": [Options(Real, {0, math.inf}), POSITIVE],
        "class_weight": CLASS_WEIGHT,
        **_ITERATIVE,
    }

    def __init__(
        self,
        *,
        l2: float = 0.01,
        neg_weight: float = 1.0,
        rule: str = "residual",
        tol: float = 1e-10,
        n_jobs: int | None = None,
        class_weight: Any = None,
    ) -> None:
        self.l2 = l2
        self.neg_weight = neg_weight
        self.rule = rule
        self.tol = tol
        self.n_jobs = n_jobs
        self.class_weight = class_weight

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        problem = CodingProblem(l2=self.l2, neg_weight=self.neg_weight)
        return soft_solver(problem, dictionary, tol=self.tol, n_jobs=self.n_jobs)


def _ridge(l2: float | None, dictionary: Dictionary) -> float:
    return 0.001 * float(dictionary.masses.sum()) / 700 if l2 is None else l2
