"""SimplexRC and CRNRC, descendants of NRC; what they bring is measured in docs/descendants.md."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from sklearn.utils._param_validation import Options

from residuum.dictionary import Dictionary, FloatArray
from residuum.estimators.base import N_JOBS, POSITIVE, RULE, RepresentationClassifier
from residuum.problem import CodingProblem
from residuum.rules import ClassParts
from residuum.solvers import ActiveSet, Simplex, Solver


class SimplexRC(RepresentationClassifier):
    """``min_c ||y - Xc||^2 + l2*||c||^2  s.t.  c >= 0, sum(c) = 1``: codes on the simplex.

    Exact `NRC` whose coefficients are shares: the query is compared with mixtures of training samples. With a
    ridge this is the affine non-negative collaborative representation of Yin et al. (2020), solved to its
    optimum.

    Parameters
    ----------
    l2 : float, default=0.0
        Ridge, which spreads the shares over more samples.
    rule : {"residual", "scaled_residual", "reconstruction"}, default="residual"
        How the code becomes one score per class.
    tol : float, default=1e-10
        A code has converged if its violation of the optimality conditions or of the sum, and its gap, a
        proved bound on how far its objective is above the optimum relative to ``||y||^2``, are both at most
        this.
    n_jobs : int or None, default=None
        Threads; None follows joblib's configuration and OMP_NUM_THREADS.

    Examples
    --------
    >>> from residuum import SimplexRC
    >>> model = SimplexRC().fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> model.predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    >>> float(model.encode([[5, 1, 1]]).sum().round(12))
    1.0
    """

    _no_weights = "without a ridge the best code is as good however often a sample is repeated"
    _parameter_constraints = {
        "l2": [Options(Real, {0}), POSITIVE],
        "rule": [RULE],
        "tol": [POSITIVE],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self, *, l2: float = 0.0, rule: str = "residual", tol: float = 1e-10, n_jobs: int | None = None
    ) -> None:
        self.l2 = l2
        self.rule = rule
        self.tol = tol
        self.n_jobs = n_jobs

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        problem = CodingProblem(l2=self.l2, neg_weight=math.inf)
        return Simplex(problem, dictionary, tol=self.tol, n_jobs=self.n_jobs)

    def _class_scores(self, parts: ClassParts) -> FloatArray:
        scores = super()._class_scores(parts)
        # The shares of a zero query say nothing of it: every class ties, as it does where codes are zero.
        return np.where(parts.queries.any(axis=1, keepdims=True), scores, scores.dtype.type(1))


class CRNRC(RepresentationClassifier):
    """``min_c ||y - Xc||^2 + gamma * sum_k ||y - X_k c_k||^2  s.t.  c >= 0``: each class explains y too.

    The class-specific residual constraint non-negative representation of Yin and Wu (2020), solved to its
    optimum: from exact `NRC` (gamma near 0) to non-negative least squares of every class alone (large gamma).
    Divided by 1 + gamma it is the common problem with ``shared = 1/(1 + gamma)`` and
    ``classwise = gamma/(1 + gamma)``.

    Parameters
    ----------
    gamma : float, default=1.0
        Weight of the residuals of the single classes.
    rule : {"residual", "scaled_residual", "reconstruction"}, default="residual"
        How the code becomes one score per class.
    tol : float, default=1e-10
        A code has converged if its violation of the optimality conditions and its gap, a proved bound on how
        far its objective, divided by 1 + gamma, is above the optimum relative to ``||y||^2``, are both at
        most this.
    n_jobs : int or None, default=None
        Threads; None follows joblib's configuration and OMP_NUM_THREADS.

    Examples
    --------
    >>> from residuum import CRNRC
    >>> model = CRNRC(gamma=1.0).fit([[2, 0, 0], [3, 1, 0], [0, 0, 1]], ["a", "a", "b"])
    >>> model.predict([[5, 1, 1]])
    array(['a'], dtype='<U1')
    """

    _classes_span_the_plane = True
    _no_weights = "without a ridge the best code is as good however often a sample is repeated"
    _parameter_constraints = {"gamma": [POSITIVE], "rule": [RULE], "tol": [POSITIVE], "n_jobs": N_JOBS}

    def __init__(
        self, *, gamma: float = 1.0, rule: str = "residual", tol: float = 1e-10, n_jobs: int | None = None
    ) -> None:
        self.gamma = gamma
        self.rule = rule
        self.tol = tol
        self.n_jobs = n_jobs

    def _make_solver(self, dictionary: Dictionary) -> Solver:
        shared = 1 / (1 + self.gamma)
        problem = CodingProblem(shared=shared, classwise=self.gamma * shared, neg_weight=math.inf)
        return ActiveSet(problem, dictionary, tol=self.tol, n_jobs=self.n_jobs)
