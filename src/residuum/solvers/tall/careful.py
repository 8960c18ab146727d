"""Feasible descent on the columns themselves, for the right-hand sides that Q is too ill-conditioned for.

Squaring the columns loses what is below 1e-8 of them; an orthogonal factor keeps it down to 1e-16. It works
in NumPy, one right-hand side at a time. The objective falls with every step that moves; a variable that was
freed and came back without a gain is not freed again until there is one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import null_space

from residuum.problem import Float64Array

Flags = npt.NDArray[np.bool_]

RANK = 1e-14  # singular values, relative to the largest, that count as zero
NOISE = 1e-15  # gradient that rounding can make, for columns and a target of unit norm
PROGRESS = 1e-15


class Descent:
    """``min ||t - Mx||^2`` within bounds, with w'x fixed if `summed`; columns of M have norms near one."""

    def __init__(self, M: Float64Array, bounds: tuple[Float64Array, Float64Array], w: Float64Array) -> None:
        self.M, (self.lower, self.upper), self.w = M, bounds, w
        self.q, self.r = np.linalg.qr(M)  # (rows, k), (k, n)

    def solve(self, t: Float64Array, x: Float64Array, summed: bool) -> Float64Array:
        """Descend from a feasible point x."""
        free, closed = (x > self.lower) & (x < self.upper), np.zeros(len(x), bool)
        size, lowest, entered = float(np.linalg.norm(t)), np.inf, -1
        for _ in range(30 * len(x) + 30):
            residual = t - self.M @ x
            step = self._step(residual, free, summed)
            share, blocking = self._border(x, step)
            x = np.clip(x + share * step, self.lower, self.upper)
            if blocking >= 0:
                x[blocking] = self.lower[blocking] if step[blocking] < 0 else self.upper[blocking]
                free[blocking] = False
                closed[blocking] |= blocking == entered
                continue
            residual = t - self.M @ x
            value, scale = float(residual @ residual), max(size, float(np.linalg.norm(residual)))
            if value < lowest - PROGRESS * scale * scale:
                lowest = value
                closed[:] = False
            entered = self._entering(residual, x, free, closed, summed, NOISE * scale)
            if entered < 0:
                break
            free[entered] = True
        return x

    def _step(self, residual: Float64Array, free: Flags, summed: bool) -> Float64Array:
        """To the minimiser on the free variables."""
        step, places = np.zeros(len(free)), np.flatnonzero(free)
        columns, right = self.r[:, places], self.q.T @ residual
        if summed and len(places):
            along = null_space(self.w[None, places] / self.w[places].max())
            columns = columns @ along
            step[places] = along @ np.linalg.lstsq(columns, right, rcond=RANK)[0]
        elif len(places):
            step[places] = np.linalg.lstsq(columns, right, rcond=RANK)[0]
        return step

    def _border(self, x: Float64Array, step: Float64Array) -> tuple[float, int]:
        """How much of a step stays within the bounds, and the variable that stops it, or -1."""
        room = np.where(step > 0, self.upper - x, x - self.lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(step != 0, room / np.abs(step), np.inf)
        first = int(shares.argmin())
        return (float(shares[first]), first) if shares[first] < 1 else (1.0, -1)

    def _entering(
        self,
        residual: Float64Array,
        x: Float64Array,
        free: Flags,
        closed: Flags,
        summed: bool,
        noise: float,
    ) -> int:
        """The variable at a bound that lowers the objective most when it is freed, or -1."""
        gradient = self.M.T @ residual
        if summed:
            gradient = gradient - multiplier(gradient, self.w, free, x, (self.lower, self.upper)) * self.w
        gain = np.where(x <= self.lower, gradient, np.where(x >= self.upper, -gradient, -np.inf))
        gain[free | closed | (self.lower >= self.upper)] = -np.inf
        best = int(gain.argmax())
        return best if gain[best] > noise else -1


def multiplier(
    gradient: Float64Array,
    w: Float64Array,
    free: Flags,
    x: Float64Array,
    bounds: tuple[Float64Array, Float64Array],
) -> float:
    """The multiplier of the sum: from the free variables, or between what those at their bounds ask for."""
    if free.any():
        return float(gradient[free] @ w[free] / (w[free] @ w[free]))
    ratio = gradient / w
    could_rise = ratio[x < bounds[1]]
    return float(could_rise.max()) if len(could_rise) else 0.0
