"""What the exact engine prepares for a dictionary, shared by all solves over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.change import Change
from residuum.dictionary import FloatArray, inner_direction, squares

from .copies import Copies, IntArray
from .exact import are_multiples

GRAM_BYTES = 1 << 30  # largest float32 Gram matrix that is built unasked
BLOCK = 512  # rows that are converted to float64 at a time
MODERATE = (1e-6, 1e6)  # norms of rows that are used as they are

Exponents = npt.NDArray[np.int32]  # of two


def _blocks(first: int, end: int) -> Iterator[slice]:
    for start in range(first, end, BLOCK):
        yield slice(start, min(start + BLOCK, end))


@dataclass(frozen=True)
class UnitAtoms:
    """The unit atoms ``scale[j] * rows[j]``, or longer ones made of them (`copies`).

    Where it can, `rows` is the array that was given, not a copy.
    """

    rows: FloatArray  # (n_atoms, n_features), float32 or float64
    scale: FloatArray  # (n_atoms,) float64; 0 for a zero atom
    copies: Copies

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.scale)

    @property
    def length(self) -> int:
        """Number of their entries."""
        return self.rows.shape[1] * (1 + self.copies.n_classes)

    def unit_rows(self, positions: Any) -> FloatArray:
        """Some rows of unit norm, in float64."""
        return self.rows[positions] * self.scale[positions, None]

    def unit(self, positions: Any) -> FloatArray:
        """Some of them, in float64."""
        return self.copies.atoms(self.unit_rows(positions), positions)

    def products(self, vector: FloatArray) -> FloatArray:
        """x_j'v for all of them, in float64."""
        found = np.empty(self.n_atoms)
        for some, folded in self.copies.folded(vector):
            if self.rows.dtype == np.float64:
                found[some] = (self.rows[some] @ folded) * self.scale[some]
            else:
                start, stop, _ = some.indices(self.n_atoms)
                for part in _blocks(start, stop):
                    found[part] = self.unit_rows(part) @ folded
        return found


@dataclass(frozen=True)
class PreparedAtoms(UnitAtoms):
    """Atoms with what solves share; build it with :func:`prepare_atoms` and use it for many solves."""

    rows32: FloatArray  # the rows in float32
    exponents: Exponents  # (n_atoms,): atom j as given is 2**exponents[j] times row j
    gram32: FloatArray  # (n_atoms, n_atoms) of the unit atoms, or (0, 0)
    trusted: bool  # whether the Gram matrix was computed here and not given
    twins: dict[bool, tuple[IntArray, IntArray]]  # signed -> (atom, group) of the atoms that have duplicates
    lines: IntArray  # (n_atoms,): an atom of which this one is a multiple, not nearly but exactly, or itself
    inner: FloatArray  # (n_features,): a product of at least 1 with every unit atom, or empty


def binary_scaled(rows: FloatArray) -> tuple[FloatArray, FloatArray, Exponents]:
    """Rows times powers of two, which is exact, their norms, and the exponents that scale them back."""
    largest = np.abs(rows).max(axis=1, initial=0.0).astype(np.float64)
    exponents = np.frexp(largest)[1]
    scaled = np.ldexp(rows.astype(np.float64, copy=False), -exponents[:, None])
    return np.ascontiguousarray(scaled), np.sqrt(squares(scaled)), exponents


def unit_rows(rows: FloatArray) -> tuple[FloatArray, FloatArray, Exponents]:
    """Rows of unit norm, in float64, and their norms as numbers and exponents of two."""
    unit, norms, exponents = binary_scaled(rows)
    unit /= np.where(norms > 0, norms, 1.0)[:, None]
    return unit, norms, exponents


def _scaled(atoms: FloatArray, copies: Copies) -> tuple[UnitAtoms, Exponents]:
    """Unit atoms, and the exponents of two between their rows and the atoms as given."""
    kind = np.float32 if atoms.dtype == np.float32 else np.float64
    rows = np.require(atoms, dtype=kind, requirements=["C", "A"])
    norms: FloatArray = np.empty(len(rows))
    exponents = np.zeros(len(rows), np.int32)
    for part in _blocks(0, len(rows)):
        block = rows[part].astype(np.float64, copy=False)
        with np.errstate(over="ignore"):
            norms[part] = np.sqrt(np.einsum("ij,ij->i", block, block))
    low, high = MODERATE
    if ((norms < low) | (norms > high)).any():
        scaled, moderate, exponents = binary_scaled(rows)
        if ((norms < low) | (norms > high))[moderate > 0].any():
            rows, norms = scaled, moderate
        else:
            exponents = np.zeros(len(rows), np.int32)
    scale = np.divide(1.0, norms, out=np.zeros(len(rows)), where=norms > 0)
    return UnitAtoms(rows, scale, copies), exponents


def _twins(atoms: UnitAtoms, signed: bool) -> tuple[IntArray, IntArray]:
    """Atoms that have a duplicate, with the first atom of their group.

    The product with a random direction is the same for equal atoms but for rounding, and hardly for others:
    atoms are sorted by it, and neighbours whose products nearly agree are compared entry by entry.
    """
    probe = np.random.default_rng(0).standard_normal((atoms.length,))
    key = atoms.products(probe / np.sqrt(probe @ probe))
    if signed:
        key = np.abs(key)
    order = np.argsort(key, kind="stable")
    linked = np.diff(key[order]) <= 1e-13
    close = np.flatnonzero(linked)
    for part in _blocks(0, len(close)):
        pair = order[close[part]], order[close[part] + 1]
        one, other = map(atoms.unit_rows, pair)
        if signed:
            other *= np.sign(np.einsum("ij,ij->i", one, other))[:, None]
        equal = np.abs(one - other).max(axis=1, initial=0.0) <= 1e-15
        linked[close[part]] = equal & atoms.copies.together(*pair)
    starts = np.flatnonzero(np.concatenate([[True], ~linked]))
    sizes = np.diff(np.append(starts, len(order)))
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.minimum.reduceat(order, starts), sizes)
    shared = np.flatnonzero(np.bincount(group, minlength=len(order))[group] > 1)
    return shared, group[shared]


def _lines(atoms: UnitAtoms, twins: tuple[IntArray, IntArray]) -> IntArray:
    """For every atom the first of its group of twins if it is exactly a multiple of that, else itself."""
    lines = np.arange(atoms.n_atoms)
    shared, group = twins
    for part in _blocks(0, len(shared)):
        some, first = shared[part], group[part]
        multiples = are_multiples(atoms.rows[some], atoms.rows[first]) & atoms.copies.together(some, first)
        lines[some] = np.where(multiples, first, some)
    return lines


def _inner(atoms: UnitAtoms, twins: tuple[IntArray, IntArray], lines: IntArray) -> FloatArray:
    """A direction inside the half space of all atoms; it is sought harder where there is need.

    The price of an atom that is nearly a duplicate of one in the support cannot be told from zero, so that
    certificates need the direction. If any exists, the point of the convex hull of the atoms that is nearest
    to zero is one: a multiple of Xw for the minimiser of ||Xw||^2 + (1 - sum_j w_j)^2 over w >= 0.
    Longer atoms have the same products with the longer direction as their rows have with the direction.
    """
    inner = inner_direction(atoms.rows, atoms.scale)
    shared, group = twins
    if not (len(inner) or (lines[shared] == lines[group]).all()):
        from .engine import solve_active_set  # which imports this module

        longer = np.column_stack([atoms.unit_rows(slice(None)), atoms.scale > 0])
        weights = solve_active_set(longer, np.eye(longer.shape[1])[-1:], n_jobs=1).codes.toarray()[0]
        inner = inner_direction(atoms.rows, atoms.scale, start=weights @ longer[:, :-1])
    # The weights of the copies are rounded.
    return (1 + 1e-14) * atoms.copies.queries(inner[None])[0] if len(inner) else inner


def _build_gram(atoms: UnitAtoms) -> FloatArray:
    """The Gram matrix of the unit atoms: products in float64, kept in float32."""
    gram32 = np.empty((atoms.n_atoms, atoms.n_atoms), np.float32)
    for part in _blocks(0, atoms.n_atoms):
        unit = atoms.unit_rows(part)
        for other in _blocks(0, part.stop):
            block = atoms.copies.scale_gram(unit @ atoms.unit_rows(other).T, part, other)
            gram32[part, other] = block
            gram32[other, part] = block.T
    return gram32


def _scale_gram(gram: FloatArray, atoms: UnitAtoms, exponents: Exponents) -> FloatArray | None:
    """The Gram matrix of the unit atoms from that of the atoms; None when it overflows.

    It is compared with the atoms where that is cheap: its diagonal, and its products with three vectors.
    """
    gram32 = np.empty(gram.shape, np.float32)
    with np.errstate(all="ignore"):
        inverse = np.ldexp(atoms.scale, -exponents)
        for part in _blocks(0, atoms.n_atoms):
            gram32[part] = gram[part] * inverse[part, None] * inverse
        if not np.isfinite(gram32).all():
            return None
    probes = np.random.default_rng(0).choice([-1.0, 1.0], (atoms.n_atoms, 3))
    combined = np.zeros((atoms.rows.shape[1], 3))
    for part in _blocks(0, atoms.n_atoms):
        combined += atoms.unit(part).T @ probes[part]
    right = np.column_stack([atoms.products(vector) for vector in combined.T])
    wrong = np.abs(gram32 @ probes.astype(np.float32) - right)
    # What float32 may lose in the sums, here or in a Gram matrix of the caller.
    allowed = 1e-6 * (np.sqrt(atoms.rows.shape[1]) + 10) * np.sqrt(atoms.n_atoms)
    diagonal = np.abs(np.diagonal(gram32) - (atoms.scale > 0)).max(initial=0.0)
    if (worst := max(float(wrong.max(initial=0.0)), float(diagonal))) > allowed:
        raise ValueError(
            "The 'gram' parameter must be A.T @ A, the inner products of the columns of A. Got a matrix "
            f"that differs from it by up to {worst:.1e}, for columns of unit norm. Leave gram out to have it "
            "computed."
        )
    return gram32


def prepare_atoms(
    atoms: FloatArray,
    *,
    gram: FloatArray | None = None,
    build_gram: bool = True,
    copies: Copies | None = None,
) -> PreparedAtoms:
    """Scale atoms and, where it is small enough, build their Gram matrix.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features)
        Finite, float32 or float64. An array in C order with norms that are not extreme is kept and not
        copied, so it must not be changed afterwards; a read-only memory map is read where it is.
    gram : ndarray of shape (n_atoms, n_atoms), optional
        ``atoms @ atoms.T`` if it is at hand.
    build_gram : bool
        Whether to build a Gram matrix that was not given, when it takes at most 1 GiB.
    copies : Copies, optional
        How longer atoms are made of these; without it atoms are what was given. Not together with `gram`.
    """
    unit, exponents = _scaled(atoms, copies or Copies())
    gram32 = None if gram is None else _scale_gram(gram, unit, exponents)
    trusted = gram32 is None
    if gram32 is None and (gram is not None or (build_gram and 4 * unit.n_atoms**2 <= GRAM_BYTES)):
        gram32 = _build_gram(unit)
    twins = {signed: _twins(unit, signed) for signed in (False, True)}
    lines = _lines(unit, twins[True])
    return PreparedAtoms(
        rows=unit.rows,
        scale=unit.scale,
        copies=unit.copies,
        rows32=unit.rows.astype(np.float32, copy=False),
        exponents=exponents,
        gram32=np.empty((0, 0), np.float32) if gram32 is None else gram32,
        trusted=trusted,
        twins=twins,
        lines=lines,
        inner=_inner(unit, twins[False], lines),
    )


def prepare_copies(plain: PreparedAtoms, atoms: FloatArray, copies: Copies) -> PreparedAtoms:
    """What `prepare_atoms` makes of atoms and copies; the Gram matrix without copies is reused."""
    if not len(plain.gram32):
        return prepare_atoms(atoms, copies=copies)
    gram32 = np.empty_like(plain.gram32)
    for part in _blocks(0, len(gram32)):
        gram32[part] = copies.scale_gram(plain.gram32[part], part, slice(None))
    return replace(prepare_atoms(atoms, build_gram=False, copies=copies), gram32=gram32)


def prepare_changed_atoms(old: PreparedAtoms, change: Change) -> PreparedAtoms:
    """What `prepare_atoms` makes of the atoms after a change; the old Gram matrix is reused."""
    atoms = change.after.atoms
    if (4 * len(atoms) ** 2 <= GRAM_BYTES) != bool(len(old.gram32)):
        return prepare_atoms(atoms)
    prepared = prepare_atoms(atoms, build_gram=False)
    if not len(old.gram32):
        return prepared
    new = prepared.unit(change.added)
    products = np.hstack([new @ prepared.unit(part).T for part in _blocks(0, len(atoms))])
    return replace(prepared, gram32=change.carry_square(old.gram32, products.astype(np.float32)))
