"""Lawson and Hanson's method on an orthogonal factor, for supports too ill-conditioned for a Gram matrix.

It works in NumPy, one query at a time: such supports are too few to compile for. Atom j is the column
(x_j; sqrt(ridge_j) e_k) of A, where k is its place in the support, and A = QR. Residuals are computed from Q
and not from the codes, which may be so large that nothing is left of the residual after rounding.

An atom that enters lowers the objective by the square of its excess over its distance from the span of the
support. So the atom enters for which this is largest, however small its excess is: of two atoms that are
nearly opposite neither seems worth anything until the other is there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from residuum.dictionary import FloatArray

from .atoms import IntArray, PreparedAtoms
from .tables import Atoms

DEPENDENT = 3e-14  # distance from the span, atoms being of unit norm
NOISE = 1e-15  # excess that rounding can make, for a residual of unit norm
PROGRESS = 1e-13  # by which the objective falls before atoms that failed may try again
MOST_TRIED = 200  # atoms whose distance from the span is computed, those of largest excess


class Support(NamedTuple):
    """Atoms in order of entry, with their codes and the signs that these must have."""

    atom: IntArray
    code: FloatArray
    sign: FloatArray

    def without(self, place: int) -> Support:
        """The others."""
        return Support(*(np.delete(array, place) for array in self))  # type: ignore[arg-type]

    def joined_by(self, atom: int, sign: float) -> Support:
        """These and one more, whose code is zero."""
        return Support(np.append(self.atom, atom), np.append(self.code, 0.0), np.append(self.sign, sign))


class Fit(NamedTuple):
    """The minimiser on a support."""

    q: FloatArray  # orthonormal basis of its columns
    residual: FloatArray  # with one further feature for each atom of the support
    objective: float  # up to a constant


def _to_the_border(support: Support, direction: FloatArray, most: float) -> tuple[Support, int]:
    """Move the codes at most ``most`` times along a direction, until one reaches zero: its place, or -1."""
    towards_zero = direction * support.sign < 0
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(towards_zero, np.abs(support.code / direction), np.inf)
    place = int(steps.argmin()) if len(steps) else -1
    if place >= 0 and steps[place] <= most:
        return support._replace(code=support.code + steps[place] * direction), place
    return support, -1


def _step(
    support: Support, columns: FloatArray, y: FloatArray, shifts: FloatArray
) -> tuple[Support, int, bool, Fit | None]:
    """Move towards the minimiser on the support: the place of the atom that has to leave on the way, or -1.

    Then come whether it left because it depends on the others, and the minimiser if it was reached.
    """
    q, r = np.linalg.qr(columns)
    small = np.abs(np.diagonal(r)) <= DEPENDENT
    n_independent = int(small.argmax()) if small.any() else len(small)
    if n_independent < len(support.atom):
        last = len(support.atom) - 1
        if n_independent == last and shifts.any():
            # Along this direction Xc stays as it is while the l1 norm falls, until a code reaches zero.
            others = solve_triangular(r[:last, :last], r[:last, last])
            moved, place = _to_the_border(support, np.append(-others, 1.0) * support.sign[last], np.inf)
            if place >= 0:
                return moved, place, False, None
        return support, n_independent, True, None
    lean = solve_triangular(r, shifts * support.sign, trans="T")
    along = q[: len(y)].T @ y
    z = solve_triangular(r, along - lean)
    moved, place = _to_the_border(support, z - support.code, 1.0)
    if place >= 0:
        return moved, place, False, None
    residual = np.concatenate([y, np.zeros(len(columns) - len(y))])
    for _ in range(2):  # once more takes away what rounding left
        residual -= q @ (q.T @ residual)
    fit = Fit(q, residual + q @ lean, float(residual @ residual + 2 * lean @ along - lean @ lean))
    return support._replace(code=z), -1, False, fit


class _Search:
    """One query on its way."""

    def __init__(
        self, prepared: PreparedAtoms, atoms: Atoms, y: FloatArray, shift: float, signed: bool
    ) -> None:
        self.prepared, self.atoms, self.y, self.signed = prepared, atoms, y, signed
        self.shifts = shift * atoms.weight
        self.closed = atoms.barred > 0

    def settle(self, support: Support, entered: int) -> tuple[Support, Fit]:
        """Move to the minimiser on the support, or on what is left of it when atoms had to leave."""
        while True:
            ridge = np.diag(np.sqrt(self.atoms.ridge[support.atom]))
            columns = np.vstack([self.prepared.unit(support.atom).T, ridge])
            support, leaving, dependent, fit = _step(support, columns, self.y, self.shifts[support.atom])
            if fit is not None:
                return support, fit
            if dependent or support.atom[leaving] == entered:
                self.closed[support.atom[leaving]] = True
            support = support.without(leaving)

    def entering(self, support: Support, fit: Fit) -> tuple[int, float]:
        """The atom that lowers the objective most, or -1, and its sign."""
        d = len(self.y)
        residual = fit.residual[:d]
        price = self.prepared.products(residual)
        excess = (np.abs(price) if self.signed else price) - self.shifts
        excess[self.closed] = excess[support.atom] = -np.inf
        noise = NOISE * (float(np.linalg.norm(residual)) + self.shifts)
        tried = np.flatnonzero(excess > noise)
        if not len(tried):
            return -1, 1.0
        tried = tried[np.argsort(-excess[tried], kind="stable")[:MOST_TRIED]]
        apart = np.zeros((len(tried), len(fit.q)))
        apart[:, :d] = self.prepared.unit(tried)
        for _ in range(2):
            apart -= (apart @ fit.q) @ fit.q.T
        distance = np.sqrt(np.einsum("ij,ij->i", apart, apart) + self.atoms.ridge[tried])
        best = int((excess[tried] / np.maximum(distance, DEPENDENT)).argmax())
        return int(tried[best]), 1.0 if price[tried[best]] >= 0 else -1.0


def solve_carefully(
    prepared: PreparedAtoms,
    atoms: Atoms,
    y: FloatArray,
    shift: float,
    *,
    support: Support,
    signed: bool,
) -> Support:
    """Optimise one query of unit norm from a feasible code, until rounding hides what is left."""
    search = _Search(prepared, atoms, y, shift, signed)
    entered, lowest = -1, np.inf
    for _ in range(3 * min(prepared.n_atoms, 4 * len(y)) + 30):
        support, fit = search.settle(support, entered)
        if fit.objective < lowest - PROGRESS:
            lowest, search.closed = fit.objective, atoms.barred > 0
        entered, sign = search.entering(support, fit)
        if entered < 0:
            break
        support = support.joined_by(entered, sign)
    return support
