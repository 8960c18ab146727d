"""Lawson and Hanson's method on an orthogonal factor, for supports too ill-conditioned for a Gram matrix.

It works in NumPy, one query at a time: such supports are too few to compile for. Atom j is the column
(x_j; sqrt(ridge_j) e_k) of A, where k is its place in the support, and A = QR.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from residuum.dictionary import FloatArray

from .atoms import IntArray, PreparedAtoms
from .tables import Atoms

DEPENDENT = 2e-14  # distance from the span, atoms being of unit norm


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
) -> tuple[Support, int, bool]:
    """Move towards the minimiser on the support: the place of the atom that has to leave on the way, or -1.

    The last value says whether it left because it depends on the others.
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
                return moved, place, False
        return support, n_independent, True
    lean = solve_triangular(r, shifts * support.sign, trans="T")
    z = solve_triangular(r, q[: len(y)].T @ y - lean)
    moved, place = _to_the_border(support, z - support.code, 1.0)
    return (moved, place, False) if place >= 0 else (support._replace(code=z), -1, False)


def solve_carefully(
    prepared: PreparedAtoms,
    atoms: Atoms,
    y: FloatArray,
    shift: float,
    *,
    support: Support,
    signed: bool,
    least: float,
) -> Support:
    """Optimise one query of unit norm from a feasible code, until no violation is larger than `least`."""
    entered = -1
    closed = atoms.barred > 0
    for _ in range(3 * prepared.n_atoms + 30):
        while True:
            columns = np.vstack([prepared.unit(support.atom).T, np.diag(np.sqrt(atoms.ridge[support.atom]))])
            support, leaving, dependent = _step(support, columns, y, shift * atoms.weight[support.atom])
            if leaving < 0:
                break
            if dependent or support.atom[leaving] == entered:
                closed[support.atom[leaving]] = True
            support = support.without(leaving)
        price = prepared.products(y - support.code @ prepared.unit(support.atom))
        excess = (np.abs(price) if signed else price) - shift * atoms.weight
        excess[closed] = excess[support.atom] = -np.inf
        entered = int(excess.argmax())
        if excess[entered] <= least:
            break
        support = support.joined_by(entered, 1.0 if price[entered] >= 0 else -1.0)
    return support
