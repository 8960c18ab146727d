"""The certificate of one right-hand side that the kernels could not certify, with all the digits there are.

Residuals and gradients are computed in extended precision, where the machine has one. Let W be a set of
independent columns M_W whose least singular value is at least sigma, r the residual and c the part of the
gradient that is no product with it, so that q = M'r - c. For any v, and for d on W alone,

    2 q'd - d'Qd  =  2 (M_W v)'(M_W d) - ||M_W d||^2 + 2 e'd  <=  (||M_W v|| + ||e|| / sigma)^2  =  far^2,

where e = M_W'(r - M_W v) - c is nearly zero for the v that fits r best. So d need not be bounded on W, and
elsewhere the gradient changes by ``||a_j|| far`` at most. W takes in every variable that could go to infinity
and gain. A column that is exactly a combination of others in W changes nothing; whether it is, rounding
cannot tell, but `exact` can. What is left out: columns that are dependent up to rounding, but not exactly.
The exact minimiser is then as large as 1e16 ||b||, and no point that float64 can hold is near it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from residuum.problem import Float64Array
from residuum.solvers.active_set.exact import are_combinations

from .careful import Descent, multiplier
from .layout import NO_SUM, SUM_AT_MOST, SUM_TO, U
from .matrices import Matrices
from .program import BoundedLeastSquares

DEPENDENT = 1e-14  # distance from the span of other columns, relative to the largest, of a column outside W
MOST_EXTENSIONS = 8
HUGE = 1e200  # a gain that only an infinite distance makes
FAR = 1e300  # stands for an infinite distance, because it may be multiplied by zero
LONG = np.longdouble
U_LONG = 1.1 * float(np.finfo(LONG).eps)


class Point(NamedTuple):
    """A point in scaled variables with the multiplier of its sum, and the weighted right-hand side."""

    x: Float64Array
    nu: float
    target: Any  # (rows + penalty rows,) extended


class Basis(NamedTuple):
    """Independent columns."""

    places: Any
    sigma: float  # at most their least singular value; 0 if nothing is known
    inverse: Float64Array  # (count, rows), nearly


class Prover:
    """Proves gaps for one weighting of the rows; what depends on W is kept."""

    def __init__(self, problem: BoundedLeastSquares, alpha: Float64Array, weights: Any) -> None:
        self.problem, self.alpha = problem, alpha
        self.lower, self.upper, self.farthest, self.w, self.shift = problem.vectors()
        weights = np.ones(len(problem.A)) if weights is None else weights
        self.root = np.sqrt(weights.astype(LONG))
        penalty = np.ldexp(problem.penalty, -problem.exponents)
        self.rows = np.vstack([problem.columns[weights > 0], penalty]).T  # (n, any), for `are_combinations`
        if problem.kind != NO_SUM or problem.l1:
            self.rows = np.column_stack([self.rows, self.w])
        scaled = self.root[:, None] * problem.columns
        self.M = np.vstack([scaled, np.sqrt(LONG(problem.l2)) * penalty])  # extended
        self._known: dict[bytes, Basis] = {}

    def target(self, b: Float64Array) -> Any:
        """A right-hand side with the weights of its rows and the zeros of the penalty."""
        return np.concatenate([self.root * b, np.zeros(len(self.M) - len(b), LONG)])

    def residual(self, point: Point) -> Any:
        """``t - Mx``."""
        return point.target - self.M @ point.x

    def gradient(self, point: Point) -> Float64Array:
        """``p - nu w``."""
        exact = self.M.T @ self.residual(point) - self.shift - LONG(point.nu) * self.w
        return np.asarray(exact, dtype=np.float64)

    def reach(self, point: Point) -> float:
        """Norm of the right-hand side plus the norms of all columns times their variables."""
        return float(np.linalg.norm(point.target.astype(np.float64))) + float(self.alpha @ np.abs(point.x))

    def objective(self, point: Point) -> tuple[Any, float]:
        """The objective, and a bound on its error."""
        r, error = self.residual(point), U_LONG * self.problem.depth * self.reach(point)
        value = r @ r + 2 * (self.shift @ point.x.astype(LONG))
        return value, error * (2 * float(np.sqrt(r @ r)) + error) + 4 * U_LONG * float(value)

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
        x, w, nu, q = point.x, self.w, point.nu, self.gradient(point)
        error = self._error(point, self.reach(point)) + U * np.abs(q)
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
            far = self._far(point, self._independent(np.flatnonzero(members)))
            if not far < HUGE:
                return np.inf
        else:
            return np.inf
        total = far * far + float(gain[~members].sum())
        if self.problem.kind != NO_SUM:
            summing = abs(self.problem.total) + float(np.abs(w * x).sum())
            total += 2 * abs(nu) * (abs(self.problem.total - float(w @ x)) + U * (len(x) + 4) * summing)
        return total * (1 + 1e-12 + 4 * U * self.problem.depth)

    def _error(self, point: Point, reach: float) -> Float64Array:
        """Bound on the rounding error of the gradient in extended precision."""
        return U_LONG * (
            self.problem.depth * reach * self.alpha + 4 * (np.abs(point.nu * self.w) + self.shift)
        )

    def _far(self, point: Point, basis: Basis) -> float:
        """What the variables of W can gain is ``far^2``."""
        places, sigma, inverse = basis
        if sigma <= 0:
            return np.inf
        r, M = self.residual(point), self.M[:, places]
        c = self.shift[places] + LONG(point.nu) * self.w[places]
        v = inverse @ (r - inverse.T @ c)
        v += inverse @ (r - M @ v - inverse.T @ c)
        along = M @ v
        left = np.abs(M.T @ (r - along) - c).astype(np.float64)
        error = self._error(point, float(np.sqrt(r @ r)) + float(self.alpha[places] @ np.abs(v)))
        # The error of r itself is a vector of the features, of which W can gain its square at most.
        length = float(np.sqrt(along @ along)) + U_LONG * self.problem.depth * self.reach(point)
        return float(length + np.linalg.norm(left * (1 + U) + error[places]) / sigma) * (1 + 1e-12)

    def _independent(self, members: Any) -> Basis:
        """Independent ones of some variables.

        With X near the inverse of M and E = I - XM, the least singular value is at least (1 - ||E||) / ||X||.
        """
        key = members.tobytes()
        if key not in self._known:
            columns = self.M[:, members].astype(np.float64)
            r, order = qr(columns, mode="r", pivoting=True)
            size = np.abs(np.diagonal(r))
            count = int((size > DEPENDENT * size[:1]).sum())
            basis, others = members[np.sort(order[:count])], members[order[count:]]
            M = self.M[:, basis]
            inverse = np.linalg.pinv(M.astype(np.float64), rcond=1e-16)
            norms = float(np.linalg.norm(inverse)), float(np.linalg.norm(M.astype(np.float64)))
            wrong = float(np.linalg.norm((inverse @ M - np.eye(count)).astype(np.float64)))
            wrong += U_LONG * (len(M) + 8) * norms[0] * norms[1]
            sigma = (1 - wrong) / (norms[0] or 1.0) * (1 - 1e-12) if wrong < 0.5 else 0.0
            if len(others) and not are_combinations(self.rows[others], self.rows[basis]).all():
                sigma = 0.0
            self._known[key] = Basis(basis, sigma, inverse)
        return self._known[key]


class Difficult:
    """The right-hand sides of one matrix that the kernels could not certify."""

    def __init__(self, problem: BoundedLeastSquares, matrices: Matrices, k: int, weights: Any) -> None:
        self.problem, self.prover = problem, Prover(problem, matrices.alpha[k], weights)
        bounds = self.prover.lower, self.prover.upper
        self.descent = Descent(self.prover.M.astype(np.float64), bounds, self.prover.w)

    def finish(self, x: Float64Array, found: Float64Array, b: Float64Array, tol: float) -> tuple[Any, Any]:
        """A better point or a better certificate, in the columns of `kernels.solve_block`."""
        point = Point(x, float(found[5]), self.prover.target(b))
        best = self._certified(found, point)
        if (best[1] <= tol and best[0] <= max(tol, best[3])) or self.problem.l1:
            return x, best
        other = self._descended(point)
        again = self._certified(np.array([np.inf, np.inf, *found[2:]]), other)
        return (other.x, again) if again[1] < best[1] else (x, best)

    def _descended(self, point: Point) -> Point:
        """The optimum, from a point near it."""
        problem, prover = self.problem, self.prover
        low, high, w = prover.lower, prover.upper, prover.w
        target, start = point.target.astype(np.float64), np.clip(point.x, low, high)
        summed = problem.kind == SUM_TO or (problem.kind == SUM_AT_MOST and point.nu > 0)
        x = self.descent.solve(target, start, summed)
        if problem.kind == SUM_AT_MOST and not summed and w @ x > problem.total:
            summed, x = True, self.descent.solve(target, start, True)
        other = point._replace(x=x, nu=0.0)
        if not summed:
            return other
        nu = multiplier(prover.gradient(other), w, (x > low) & (x < high), x, (low, high))
        return other._replace(nu=max(nu, 0.0) if problem.kind == SUM_AT_MOST else nu)

    def _certified(self, found: Float64Array, point: Point) -> Float64Array:
        prover, scale, problem = self.prover, float(found[6]), self.problem
        value, error = prover.objective(point)
        gap = min(prover.gap(point, 1e-14 * scale**2), (float(value) + error) * (1 + 1e-9))
        amiss = 0.0
        if problem.kind != NO_SUM:
            over = float(prover.w @ point.x) - problem.total
            amiss = over if problem.kind == SUM_AT_MOST else abs(over)
            amiss = max(amiss, 0.0) / max(abs(problem.total), float(np.abs(prover.w * point.x).sum()), 1e-300)
        violation = max(prover.violation(point, scale), amiss)
        rounding = 8 * U * float(prover.alpha @ np.abs(point.x)) / scale
        less = float(value - point.target @ point.target)
        return np.array([violation, min(found[1], gap / scale**2), less, rounding, found[4], point.nu, scale])
