"""L-BFGS for the zeros of gradients of convex functions, for many vectors at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from residuum.dictionary import FloatArray

_MEMORY = 12  # steps that are remembered
_LEAST_SLOPE = 0.5  # a step whose slope at its end exceeds this share of that at its start is shortened


class LBFGS:
    """L-BFGS for many vectors at once, each with its own history; steps are judged by their slopes."""

    def __init__(self, start: FloatArray) -> None:
        self.trial = start  # where F is evaluated next
        nothing: FloatArray = np.zeros(0)
        self.point = self.gradient = self.direction = self.slope = nothing
        self.length: FloatArray = np.ones(len(start))
        self.begun = False
        self.pairs: list[list[FloatArray]] = []  # [step, change of the gradient, 1 / their product]

    def take(self, gradient: FloatArray, preconditioner: FloatArray) -> None:
        """Move to the trial points that are good enough, and set the next ones."""
        if not self.begun:
            self.begun, accepted = True, np.ones(len(gradient), dtype=bool)
            self.point, self.gradient = self.trial.copy(), gradient.copy()
        else:
            slope = np.einsum("qd,qd->q", gradient, self.direction)
            accepted = slope <= -_LEAST_SLOPE * self.slope
            self._remember(self.trial - self.point, gradient - self.gradient, accepted)
            self.point = np.where(accepted[:, None], self.trial, self.point)
            self.gradient = np.where(accepted[:, None], gradient, self.gradient)
            # Along the direction the slope is nearly linear, so this is about where it vanishes.
            shorter = self.length * self.slope
            np.divide(shorter, self.slope - slope, out=shorter, where=~accepted)
            self.length = np.where(accepted, 1.0, shorter)
        direction = -self._times_inverse(self.gradient, preconditioner)
        if self.direction.size:
            direction = np.where(accepted[:, None], direction, self.direction)
        self.direction = direction
        self.slope = np.einsum("qd,qd->q", self.gradient, direction)
        self.trial = self.point + self.length[:, None] * direction

    def _remember(self, step: FloatArray, change: FloatArray, accepted: Any) -> None:
        product = np.einsum("qd,qd->q", step, change)
        useful = accepted & (product > 0)
        inverse = np.divide(1.0, product, out=np.zeros_like(product), where=useful)
        self.pairs = [*self.pairs[-_MEMORY + 1 :], [step, change, inverse]]

    def _times_inverse(self, gradient: FloatArray, preconditioner: FloatArray) -> FloatArray:
        """The two loops of L-BFGS; a pair that is of no use to a query has an inverse of 0 there."""
        vector, weights = gradient.copy(), []
        for step, change, inverse in reversed(self.pairs):
            weights.append(inverse * np.einsum("qd,qd->q", step, vector))
            vector -= weights[-1][:, None] * change
        vector *= preconditioner
        if self.pairs:  # scaled to the curvature of the last step
            _, change, inverse = self.pairs[-1]
            bent = inverse * np.einsum("qd,qd->q", change, preconditioner * change)
            vector /= np.where(bent > 0, bent, 1.0)[:, None]
        for (step, change, inverse), weight in zip(self.pairs, reversed(weights), strict=True):
            vector += (weight - inverse * np.einsum("qd,qd->q", change, vector))[:, None] * step
        return vector

    def keep(self, chosen: Any) -> None:
        """Drop all other queries."""
        for name in ("trial", "point", "gradient", "direction", "slope", "length"):
            setattr(self, name, getattr(self, name)[chosen])
        self.pairs = [[array[chosen] for array in pair] for pair in self.pairs]
