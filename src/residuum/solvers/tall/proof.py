"""The certificate of one right-hand side whose Q is singular and whose variables are not all bounded.

Let W be a set of independent columns. With q = Q_WW^{-1} (p - nu w)_W, the gradient p - nu w is Qq + e, where
e is zero on W, and

    f(x) - f(y) <= 2 (p - nu w)'d - d'Qd + 2 nu w'd  <=  q'Qq + 2 e'd + 2 nu w'd.

So d need not be bounded on W, and elsewhere e_j differs from p_j - nu w_j by ||a_j|| sqrt(q'Qq) at most. W
takes in every variable that could go to infinity and gain. A column that is exactly a combination of others
in W has e_j = 0 too; whether it is, rounding cannot tell, but `exact` can.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from residuum.problem import Float64Array
from residuum.solvers.active_set.exact import are_combinations

from .careful import Descent, multiplier
from .layout import NO_SUM, SUM_AT_MOST, SUM_TO, U
from .matrices import Matrices, least_eigenvalue
from .program import BoundedLeastSquares

DEPENDENT = 1e-7  # distance from the span of other columns, relative to the largest, of a column outside W
MOST_EXTENSIONS = 8
HUGE = 1e200  # a gain that only an infinite distance makes
FAR = 1e300  # stands for an infinite distance, because it may be multiplied by zero


class Point(NamedTuple):
    """A point in scaled variables, with all that its certificate needs."""

    x: Float64Array
    linear: Float64Array  # A'Wb - l1/2
    beta: float
    nu: float


class Prover:
    """Proves gaps for one matrix Q (without ridge) with column norms alpha; what depends on W is kept."""

    def __init__(
        self, problem: BoundedLeastSquares, Q: Float64Array, alpha: Float64Array, weights: Any
    ) -> None:
        self.problem, self.Q, self.alpha = problem, Q, alpha
        self.lower, self.upper, self.farthest, self.w, self.shift = problem.vectors()
        used = np.ones(len(problem.A), bool) if weights is None else weights > 0
        root = np.ones(len(problem.A)) if weights is None else np.sqrt(weights)
        penalty = np.ldexp(problem.penalty, -problem.exponents)
        self.rows = np.vstack([problem.columns[used], penalty]).T  # (n, any): exact, for `are_combinations`
        if problem.kind != NO_SUM:
            self.rows = np.column_stack([self.rows, self.w])
        self.columns = np.vstack([root[:, None] * problem.columns, np.sqrt(problem.l2) * penalty])
        self._known: dict[bytes, tuple[Any, float]] = {}

    def _independent(self, members: Any) -> tuple[Any, float]:
        """Independent ones of some variables, and a bound below the least eigenvalue of their Q, or 0."""
        key = members.tobytes()
        if key not in self._known:
            r, order = qr(self.columns[:, members], mode="r", pivoting=True)
            size = np.abs(np.diagonal(r))
            count = int((size > DEPENDENT * size[:1]).sum())
            basis, others = members[np.sort(order[:count])], members[order[count:]]
            sub = self.Q[np.ix_(basis, basis)]
            mu = float(least_eigenvalue(sub[None], self.problem.depth)[0])
            if len(others) and not are_combinations(self.rows[others], self.rows[basis]).all():
                mu = 0.0
            self._known[key] = basis, mu
        return self._known[key]

    def gradient(self, point: Point) -> Float64Array:
        """``p - nu w``."""
        return point.linear - self.Q @ point.x - point.nu * self.w

    def violation(self, point: Point, scale: float) -> float:
        """Of the optimality conditions, for columns of unit norm and relative to `scale`."""
        q, alpha = self.gradient(point), self.alpha
        room = np.where(q > 0, self.upper - point.x, point.x - self.lower)
        some = alpha > 0
        amiss = np.minimum(np.abs(q[some]) / alpha[some], room[some] * alpha[some])
        return float(amiss.max(initial=0.0)) / scale

    def gap(self, point: Point, wish: float) -> float:
        """A bound on the distance of the objective from its minimum; inf where none is known.

        W takes in what could go to infinity, and first also what could gain more than `wish` within its
        bounds.
        """
        return min(self._gap(point, wish), self._gap(point, np.inf))

    def _gap(self, point: Point, most: float) -> float:
        x, w, nu = point.x, self.w, point.nu
        q = self.gradient(point)
        reach = point.beta + float(self.alpha @ np.abs(x))
        error = U * self.problem.depth * reach * self.alpha + 4 * U * (np.abs(nu * w) + self.shift)
        above, below = np.minimum(np.maximum(self.farthest - x, 0.0), FAR), np.minimum(x - self.lower, FAR)
        members, far = np.zeros(len(x), bool), 0.0
        for _ in range(MOST_EXTENSIONS):
            moved = error + self.alpha * far
            up, down = np.maximum(q + moved, 0.0) * above, np.maximum(moved - q, 0.0) * below
            gain = 2 * np.maximum(up, down)
            outside = ((gain > most) | (gain > HUGE)) & ~members
            if not outside.any():
                break
            members |= outside
            basis, mu = self._independent(np.flatnonzero(members))
            if mu <= 0:
                return np.inf
            far = float(np.linalg.norm(np.abs(q[basis]) + error[basis]) / np.sqrt(mu))
        else:
            return np.inf
        total = far * far + float(gain[~members].sum())
        if self.problem.kind != NO_SUM:
            summing = abs(self.problem.total) + float(np.abs(w * x).sum())
            total += 2 * abs(nu) * (abs(self.problem.total - float(w @ x)) + U * (len(x) + 4) * summing)
        return total * (1 + 1e-12 + 4 * U * self.problem.depth)


class Difficult:
    """The right-hand sides of one matrix that the kernels could not certify."""

    def __init__(self, problem: BoundedLeastSquares, matrices: Matrices, k: int, weights: Any) -> None:
        n = problem.A.shape[1]
        Q = matrices.Q[k][:, :n]
        self.problem, self.root = problem, 1.0 if weights is None else np.sqrt(weights)
        self.prover = Prover(problem, Q, matrices.alpha[k], weights)
        self.descent = Descent(self.prover.columns, (self.prover.lower, self.prover.upper), self.prover.w)

    def finish(self, point: Point, found: Float64Array, b: Float64Array, tol: float) -> tuple[Any, Any]:
        """A better point or a better certificate, in the columns of `kernels.solve_block`."""
        problem = self.problem
        best = self._certified(found, point)
        if (best[1] <= tol and best[0] <= max(tol, best[3])) or problem.l1:
            return point.x, best
        other = self._descended(point, self.root * b)
        again = self._certified(np.array([np.inf, np.inf, *found[2:]]), other)
        return (other.x, again) if max(again[:2]) < max(best[:2]) else (point.x, best)

    def _descended(self, point: Point, b: Float64Array) -> Point:
        """The optimum, from a point near it."""
        problem, prover = self.problem, self.prover
        low, high, w = prover.lower, prover.upper, prover.w
        target = np.concatenate([b, np.zeros(len(prover.columns) - len(b))])
        start = np.clip(point.x, low, high)
        summed = problem.kind == SUM_TO or (problem.kind == SUM_AT_MOST and point.nu > 0)
        x = self.descent.solve(target, start, summed)
        if problem.kind == SUM_AT_MOST and not summed and w @ x > problem.total:
            summed, x = True, self.descent.solve(target, start, True)
        nu = 0.0
        if summed:
            nu = multiplier(point.linear - prover.Q @ x, w, (x > low) & (x < high), x, (low, high))
            nu = max(nu, 0.0) if problem.kind == SUM_AT_MOST else nu
        return point._replace(x=x, nu=nu)

    def _certified(self, found: Float64Array, point: Point) -> Float64Array:
        prover, scale, problem = self.prover, float(found[6]), self.problem
        found = found.copy()
        value = -float(point.x @ (2 * point.linear - prover.Q @ point.x))
        reach = float(prover.alpha @ np.abs(point.x))
        rounding = 4 * U * problem.depth * (point.beta + reach) ** 2
        whole = max(point.beta**2 + value, 0.0) + rounding
        gap = min(prover.gap(point, 1e-14 * scale**2), whole * (1 + 1e-9))
        found[1] = min(found[1], gap / scale**2)
        amiss = 0.0
        if problem.kind != NO_SUM:
            over = float(prover.w @ point.x) - problem.total
            amiss = over if problem.kind == SUM_AT_MOST else abs(over)
            amiss = max(amiss, 0.0) / max(abs(problem.total), float(np.abs(prover.w * point.x).sum()), 1e-300)
        violation = max(prover.violation(point, scale), amiss)
        return np.array([violation, found[1], value, 8 * U * reach / scale, found[4], point.nu, scale])
