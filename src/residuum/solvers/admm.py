"""``min_c f(c) + g(z), c = z`` by alternating directions: Algorithm 2 of the paper."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from residuum.dictionary import Dictionary, FloatArray
from residuum.problem import CodingProblem, Solution
from residuum.solvers.factors import AtomFactor, FeatureFactor, quadratic_factor


class ADMM:
    """Algorithm 2, for the problem with ``Q = shared*G + classwise*B + l2*I``, from ``z = delta = 0``:

        c     <- (Q + rho/2 I)^{-1} (X'y + rho/2 z + delta/2)
        z     <- argmin_z l1*||z||_1 + neg_weight*||min(z, 0)||^2 + rho/2*||z - (c - delta/rho)||^2
        delta <- delta + rho (z - c)

    The code is z. With ``s = c - delta_old/rho`` the last line reads ``delta = rho (z - s)``, so the pair
    (z, delta) is a function of s and the first line becomes
    ``c <- (Q + rho/2 I)^{-1} (X'y + rho/2 (2z - s))``: one array of state, and for non-negative codes
    ``2z - s = |s|``.

    Parameters
    ----------
    problem, dictionary
        What is minimised, and over which atoms.
    rho : float
        Penalty parameter.
    max_iter : int
        Number of steps T.
    tol : float or None
        None makes exactly max_iter steps, as published. A number stops each query on its own once
        ``||c - z||``, ``||c - c_old||`` and ``||z - z_old||`` (2-norms) are all at most tol.
    """

    has_threads = False

    def __init__(
        self,
        problem: CodingProblem,
        dictionary: Dictionary,
        *,
        rho: float = 1.0,
        max_iter: int = 5,
        tol: float | None = None,
    ) -> None:
        self.problem, self.dictionary = problem, dictionary
        self.rho, self.max_iter, self.tol = rho, max_iter, tol

    @property
    def entries_per_query(self) -> int:
        """Numbers that are held for each query while it is coded."""
        return self.dictionary.n_atoms

    @cached_property
    def _inverse(self) -> AtomFactor | FeatureFactor:
        return quadratic_factor(self.dictionary, self.problem, self.problem.l2 + self.rho / 2)

    def prepare(self) -> None:
        """Factor now rather than at the first query."""
        self._inverse.prepare()

    def steps(self, queries: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield (c_t, z_t) for t = 1, 2, ...; each pair is new and may be kept."""
        first = self._inverse.encode(queries)  # (Q + rho/2 I)^{-1} X'y
        c = s = first
        while True:
            z = self.problem.prox(s, self.rho)
            yield c, z
            s, points = self._advance(first, z, s)
            c = s + points - z

    def _advance(self, first: FloatArray, z: FloatArray, s: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The next s, and the points ``p = 2z - s = z + delta/rho`` it comes from, in the array of the old s.

        ``c = first + rho/2 (Q + rho/2 I)^{-1} p`` and ``s = c - delta/rho = c - p + z``.
        """
        points = np.subtract(z, s, out=None if s is first else s)
        points += z
        s = self._inverse.shift(points, weight=self.rho / 2)
        s += first
        s += z
        return s, points

    def solve(self, queries: FloatArray, *, certify: bool = True) -> Solution:
        """Code every query."""
        if self.tol is None:
            codes, n_iter, converged = self._fixed(queries)
        else:
            codes, n_iter, converged = self._until(queries, self.tol)
        return self.problem.certified(
            self.dictionary, queries, codes, n_iter=n_iter, converged=converged, certify=certify
        )

    def _fixed(self, queries: FloatArray) -> tuple[FloatArray, np.ndarray, np.ndarray]:
        first = s = self._inverse.encode(queries)
        z = self.problem.prox(s, self.rho)
        for _ in range(self.max_iter - 1):
            s, _ = self._advance(first, z, s)
            z = self.problem.prox(s, self.rho)
        count = len(queries)
        # A fixed budget has no target to miss, so nothing is called unconverged.
        return z, np.full(count, self.max_iter, dtype=np.int64), np.ones(count, dtype=bool)

    def _until(self, queries: FloatArray, tol: float) -> tuple[FloatArray, np.ndarray, np.ndarray]:
        count, n_atoms = len(queries), self.dictionary.n_atoms
        codes = np.zeros((count, n_atoms), dtype=self.dictionary.dtype)
        n_iter = np.full(count, self.max_iter, dtype=np.int64)
        converged = np.zeros(count, dtype=bool)
        active = np.arange(count)
        first = self._inverse.encode(queries)
        c = s = first
        c_old = z_old = np.zeros_like(first)
        for step in range(1, self.max_iter + 1):
            z = self.problem.prox(s, self.rho)
            done = _all_small((c - z, c - c_old, z - z_old), tol)
            codes[active] = z
            if done.any():
                n_iter[active[done]] = step
                converged[active[done]] = True
                keep = ~done
                active, first, c, z, s = active[keep], first[keep], c[keep], z[keep], s[keep]
                if not len(active):
                    break
            c_old, z_old = c, z
            s, points = self._advance(first, z, s)
            c = s + points - z
        return codes, n_iter, converged


def _all_small(differences: tuple[FloatArray, ...], tol: float) -> np.ndarray:
    return np.logical_and.reduce([np.sqrt(np.einsum("ij,ij->i", d, d)) <= tol for d in differences])
