"""The certificate of one difficult query, at any price: large codes, nearly dependent atoms, ties.

The bounds are those of `certify`; two things are better here. Residuals and prices are computed with more
digits than float64 has, where the machine offers them. And the point r' fulfils the equation not only for the
atoms of the support but for a set W that is extended by every atom that would be infeasible otherwise. W must
be independent, which an orthogonal factor tells far better than a Gram matrix. An infeasible atom that
depends on W can only be ignored if it does so exactly (`exact`) and without an l1 weight: then its price is
exactly zero.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr, solve_triangular

from residuum.dictionary import FloatArray

from .atoms import IntArray, PreparedAtoms
from .exact import are_combinations
from .tables import Atoms

Flags = npt.NDArray[np.bool_]

LONG = np.longdouble
U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order
U_LONG = 1.1 * float(np.finfo(LONG).eps)
MORE = 1.0 + 1e-12  # covers the rounding of the bounds themselves
MOST_EXTENSIONS = 20
MOST_EXACT = 3e8  # operations of a question to `exact`
DEPENDENT = 1e-15  # distance from the span of W at which an atom cannot join it
NEAR = 1e-6  # distance from the span of W beyond which an atom does not depend on it
FAR = 1e-13  # distance of r' from what is known of it that need not be looked at from every atom


class Case(NamedTuple):
    """One query of unit norm with its code, both exact."""

    prepared: PreparedAtoms
    atoms: Atoms
    signed: bool
    shift: float
    y: FloatArray  # (n_features,) long
    support: IntArray
    code: FloatArray  # on the support, long

    @property
    def sign(self) -> FloatArray:
        """Signs of the code."""
        return np.where(self.code < 0, -1.0, 1.0)

    def shifts(self, positions: IntArray | slice) -> FloatArray:
        """The shift of some atoms."""
        return self.shift * self.atoms.weight[positions]

    def long_atoms(self, positions: IntArray) -> FloatArray:
        """Some unit atoms with all the digits there are."""
        prepared = self.prepared
        rows = prepared.rows[positions].astype(LONG) * prepared.scale[positions, None].astype(LONG)
        return prepared.copies.atoms(rows, positions)


class Excess(NamedTuple):
    """x_j'v - shift_j of all atoms for a vector v, in modulus when signed, and a bound on the errors."""

    over: FloatArray
    error: FloatArray
    sign: FloatArray  # of x_j'v


def _excess(case: Case, vector: FloatArray) -> Excess:
    """Prices in float64 where that tells enough, else with all the digits there are."""
    norm = float(np.sqrt(vector @ vector))
    price = case.prepared.products(vector.astype(np.float64))
    shifts = case.shifts(slice(None))
    near = np.flatnonzero((np.abs(price) if case.signed else price) - shifts > -1e-6 * norm)
    price[near] = case.long_atoms(near) @ vector
    over = (np.abs(price) if case.signed else price) - shifts
    error = np.full(len(price), U * (len(vector) + 8) * norm)
    error[near] = U_LONG * (len(vector) + 8) * norm
    return Excess(over, error + U * (8 * shifts + np.abs(price)) + 1e-300, np.where(price < 0, -1.0, 1.0))


def prove(case: Case) -> tuple[float, float]:
    """Largest violation of the code, and a bound on its distance from the minimum."""
    code, support = case.code, case.support
    if not np.isfinite(code).all():
        return np.inf, np.inf
    ridge, shifts, size = case.atoms.ridge[support], case.shifts(support), np.abs(code)
    r = case.y - code @ case.long_atoms(support)
    further = -np.sqrt(ridge.astype(LONG)) * code
    rho = U_LONG * (len(support) + 8) * (1.0 + float(size.sum()))
    norm = float(np.sqrt(r @ r + further @ further))
    off = case.atoms.hidden == 0
    off[support] = False
    found = _excess(case, r)
    gradient = (case.long_atoms(support) @ r - shifts * case.sign - ridge * code).astype(np.float64)
    own = found.error[support] + 8 * U * (ridge * size).astype(np.float64)
    slack = float(size @ (np.abs(gradient) + own))
    over = max(
        float((found.over + found.error)[off].max(initial=0.0)),
        float((gradient * case.sign + own).max(initial=0.0)),
    )
    bounds = [(norm + rho) ** 2 + 2 * float(shifts @ size)]
    bounds.append(_by_projecting(case, np.concatenate([r, further]), rho, off))
    if case.shift > 0:
        lost = over / (case.shift + over) + 20 * U
        bounds.append((rho + lost * norm) ** 2 + 2 * (lost * float(shifts @ size) + slack))
    if len(inner := case.atoms.inner):
        length = MORE * float(np.linalg.norm(inner))
        along = max(float(inner @ (case.y - r)), 0.0) + length * (rho + 8 * U)
        bounds.append((rho + over * length) ** 2 + 2 * (over * along + slack))
    violation = max(float(np.abs(gradient).max(initial=0.0)), float(found.over[off].max(initial=0.0)))
    return violation, min(bounds) * (MORE + 4 * len(r) * U)


class Equations(NamedTuple):
    """The atoms of W as columns, scaled to unit norm together with their further features."""

    members: IntArray
    columns: FloatArray  # (n_features + size of the support, n_members) long
    targets: FloatArray  # what their products with r' shall be
    back: FloatArray  # Y with Y'C = I nearly: Yt is nearly the shortest vector whose products with C are t
    spread: float  # at least 1 / the smallest singular value of C; inf if it is not known


def _equations(case: Case, members: IntArray, sign: FloatArray) -> Equations:
    d = len(case.y)
    ridge = case.atoms.ridge[members].astype(LONG)
    size = np.sqrt(1 + ridge)
    columns = np.zeros((d + len(members), len(members)), dtype=LONG)
    columns[:d] = case.long_atoms(members).T / size
    columns[d + np.arange(len(members)), np.arange(len(members))] = np.sqrt(ridge) / size
    q, r = np.linalg.qr(columns.astype(np.float64))
    if (np.abs(np.diagonal(r)) <= DEPENDENT).any():
        return Equations(members, columns, size, columns, np.inf)
    # Solving Z R = I, and not R Z = I, makes Y'C as near to I as rounding allows.
    back = q @ solve_triangular(r, np.eye(len(members)), trans="T")
    length = float(np.linalg.norm(back)) * MORE
    spread = np.inf
    for kind, unit in ((np.float64, U), (LONG, U_LONG)):  # more digits only where they are needed
        left = back.T.astype(kind) @ columns.astype(kind) - np.eye(len(members))
        wrong = float(np.linalg.norm(left.astype(np.float64)))
        wrong += unit * (d + len(members) + 8) * length * np.sqrt(len(members))
        if wrong < 0.5:
            spread = length / (1 - wrong)
            break
    return Equations(members, columns, case.shifts(members) * sign / size, back, spread)


class Point(NamedTuple):
    """A vector v near the exact solution r' of some equations."""

    vector: FloatArray  # long
    left: float  # bound on the largest entry of C'r' - C'v
    far: float  # bound on ||r' - v||


def _solve(equations: Equations, vector: FloatArray) -> Point:
    """Project a vector until rounding ends it."""
    columns, norm = equations.columns, float(np.sqrt(vector @ vector))
    last = np.inf
    for _ in range(6):
        left = columns.T @ vector - equations.targets
        worst = float(np.abs(left).max(initial=0.0))
        if worst >= 0.5 * last:
            break
        last = worst
        vector = vector - equations.back @ left
    left = columns.T @ vector - equations.targets
    error = U_LONG * (len(vector) + 8) * norm + 8 * U * np.abs(equations.targets).astype(np.float64)
    bound = np.abs(left).astype(np.float64) + error
    far = float(np.linalg.norm(bound)) * equations.spread * MORE
    return Point(vector, float(bound.max(initial=0.0)), far)


def _by_projecting(case: Case, r: FloatArray, rho: float, off: Flags) -> float:
    """With r' so that the equation holds exactly for all of W; r has its further features."""
    d, members, sign = len(case.y), case.support, case.sign
    best, open_ = np.inf, off.copy()
    for _ in range(MOST_EXTENSIONS):
        equations = _equations(case, members, sign)
        if not np.isfinite(equations.spread):
            break
        start = np.concatenate([r, np.zeros(len(equations.columns) - len(r), dtype=LONG)])
        point = _solve(equations, start)
        moved = point.vector - start
        square = (float(np.sqrt(moved @ moved)) + point.far + rho) ** 2
        if square >= best:
            break
        found = _excess(case, point.vector[:d])
        risky = np.flatnonzero(open_ & (found.over + found.error + point.far > 0))
        might = found.over[risky] + found.error[risky] + _leaning(case, equations, point, risky)
        risky, might = risky[might > 0], might[might > 0]
        ridge = case.atoms.ridge[risky]
        with np.errstate(divide="ignore", over="ignore"):
            best = min(best, square + float(np.sum(np.where(ridge > 0, might * might / ridge, np.inf))))
        exempt = _depend_exactly(case, equations, risky)
        open_[risky[exempt]] = False
        risky = risky[~exempt]
        if not len(risky):
            return min(best, square)
        joining = _joining(case, equations, risky)
        if not len(joining):
            break
        open_[joining] = False
        members, sign = np.append(members, joining), np.append(sign, found.sign[joining])
    return best


def _leaning(case: Case, equations: Equations, point: Point, some: IntArray) -> FloatArray:
    """Bound on x_k'(r' - v) for some atoms.

    r' - v = Cs with C'Cs = t, the products that are left. With any x_k = Cb + e it is b't + e'(r' - v).
    """
    d = len(case.y)
    if point.far <= FAR:
        return np.full(len(some), point.far)
    rest = np.zeros((len(some), len(equations.columns)), dtype=LONG)
    rest[:, :d] = case.long_atoms(some)
    b = np.zeros((len(some), len(equations.members)), dtype=LONG)
    for _ in range(3):  # the first b is not accurate if W is ill-conditioned
        more = rest @ equations.back.astype(LONG)
        b += more
        rest -= more @ equations.columns.T
    size = np.abs(b).sum(axis=1)
    distance = np.sqrt(np.sum(rest * rest, axis=1)) + U_LONG * (3 * b.shape[1] + 8) * (1 + size)
    return np.minimum(point.far, (size * point.left + distance * point.far).astype(np.float64))


def _depend_exactly(case: Case, equations: Equations, some: IntArray) -> Flags:
    """Which of some atoms depend exactly on W, so that their price is exactly zero."""
    rows, copies, exempt = case.prepared.rows, case.prepared.copies, np.zeros(len(some), dtype=bool)
    if case.shift > 0 or case.atoms.ridge.any():
        return exempt
    # Nearly duplicates depend exactly on atoms hardly ever, and may be many.
    near = np.flatnonzero((_apart(case, equations, some)[1] <= NEAR) & (case.atoms.barred[some] == 0))
    work = float(len(equations.members)) * (len(equations.members) + len(near)) * case.prepared.length
    if len(near) and work <= MOST_EXACT:
        # Weights that are not zero do not change which atoms are dependent.
        both = (copies.atoms(rows[j], j, weighted=False) for j in (some[near], equations.members))
        exempt[near] = are_combinations(*both)
    return exempt


def _joining(case: Case, equations: Equations, some: IntArray) -> IntArray:
    """Those of some atoms that can join W; none if that could not make all of them feasible.

    Rounding makes what depends on W and on the others seem apart from them, the more so the nearer W is to
    dependent. Such atoms wait until the others have joined.
    """
    apart, distance = _apart(case, equations, some)
    if (distance <= DEPENDENT).any() or (case.atoms.barred[some] > 0).any():
        return some[:0]
    r, order = qr(apart, mode="r", pivoting=True)
    size = np.abs(np.diagonal(r))
    return some[order[: max(1, int((size > max(DEPENDENT, 8 * U * equations.spread)).sum()))]]


def _apart(case: Case, equations: Equations, some: IntArray) -> tuple[FloatArray, FloatArray]:
    """What some atoms have outside the span of W, as columns, and its length."""
    x = np.zeros((len(equations.columns), len(some)))
    x[: len(case.y)] = case.prepared.unit(some).T
    columns = equations.columns.astype(np.float64)
    for _ in range(2):
        x -= equations.back @ (columns.T @ x)
    return x, np.sqrt(np.einsum("ij,ij->j", x, x))
