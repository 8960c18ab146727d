"""What the exact engine prepares for a dictionary, shared by all solves over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from residuum.dictionary import Change, FloatArray

GRAM_BYTES = 1 << 30  # largest float32 Gram matrix that is built unasked
BLOCK = 512  # rows that are converted to float64 at a time
MODERATE = (1e-6, 1e6)  # norms of rows that are used as they are

IntArray = npt.NDArray[np.int64]


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, BLOCK):
        yield slice(start, min(start + BLOCK, n))


@dataclass(frozen=True)
class UnitAtoms:
    """The unit atoms ``scale[j] * rows[j]``. Where it can, `rows` is the array that was given, not a copy."""

    rows: FloatArray  # (n_atoms, n_features), float32 or float64
    scale: FloatArray  # (n_atoms,) float64; 0 for a zero atom

    @property
    def n_atoms(self) -> int:
        """Number of atoms."""
        return len(self.scale)

    def unit(self, positions: Any) -> FloatArray:
        """Some of them, in float64."""
        return self.rows[positions] * self.scale[positions, None]

    def products(self, vector: FloatArray) -> FloatArray:
        """x_j'v for all of them, in float64."""
        if self.rows.dtype == np.float64:
            return (self.rows @ vector) * self.scale
        return np.concatenate([self.unit(part) @ vector for part in _blocks(self.n_atoms)])


@dataclass(frozen=True)
class PreparedAtoms(UnitAtoms):
    """Atoms with what solves share; build it with :func:`prepare_atoms` and use it for many solves."""

    rows32: FloatArray  # the rows in float32
    norms: FloatArray  # (n_atoms,): of the atoms as given; 0 for a zero atom
    gram32: FloatArray  # (n_atoms, n_atoms) of the unit atoms, or (0, 0)
    twins: dict[bool, tuple[IntArray, IntArray]]  # signed -> (atom, group) of the atoms that have duplicates
    inner: FloatArray  # (n_features,): a product of at least 1 with every unit atom, or empty


def unit_rows(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rows over their norms, in float64, and the norms, at any scale that floating point numbers have."""
    largest = np.abs(rows).max(axis=1, initial=0.0).astype(np.float64)
    safe = np.where(largest > 0, largest, 1.0)
    # Two factors, as 1/largest may overflow for subnormal rows.
    root = np.sqrt(safe)
    unit = rows / root[:, None]
    unit /= root[:, None]
    norms = np.sqrt(np.einsum("ij,ij->i", unit, unit))
    norms[norms == 0] = 1.0
    unit /= norms[:, None]
    return np.ascontiguousarray(unit, dtype=np.float64), norms * largest


def _scaled(atoms: FloatArray) -> tuple[UnitAtoms, FloatArray]:
    """Unit atoms and the norms of the atoms as given."""
    kind = np.float32 if atoms.dtype == np.float32 else np.float64
    rows = np.require(atoms, dtype=kind, requirements=["C", "A"])
    norms: FloatArray = np.empty(len(rows))
    for part in _blocks(len(rows)):
        block = rows[part].astype(np.float64, copy=False)
        with np.errstate(over="ignore"):
            norms[part] = np.sqrt(np.einsum("ij,ij->i", block, block))
        if not norms[part].all():
            norms[part] = unit_rows(block)[1]  # zero, or so small that its square vanishes
    present = norms > 0
    low, high = MODERATE
    if ((norms[present] < low) | (norms[present] > high)).any():
        rows, norms = unit_rows(rows)
        return UnitAtoms(rows, present.astype(np.float64)), norms
    return UnitAtoms(rows, np.where(present, 1.0 / np.where(present, norms, 1.0), 0.0)), norms


def _twins(atoms: UnitAtoms, signed: bool) -> tuple[IntArray, IntArray]:
    """Atoms that have a duplicate, with the first atom of their group.

    The product with a random direction is the same for equal atoms but for rounding, and hardly for others:
    atoms are sorted by it, and neighbours whose products nearly agree are compared entry by entry.
    """
    probe = np.random.default_rng(0).standard_normal((atoms.rows.shape[1],))
    key = atoms.products(probe / np.sqrt(probe @ probe))
    if signed:
        key = np.abs(key)
    order = np.argsort(key, kind="stable")
    linked = np.diff(key[order]) <= 1e-13
    close = np.flatnonzero(linked)
    for part in _blocks(len(close)):
        one = atoms.unit(order[close[part]])
        other = atoms.unit(order[close[part] + 1])
        if signed:
            other *= np.sign(np.einsum("ij,ij->i", one, other))[:, None]
        linked[close[part]] = np.abs(one - other).max(axis=1, initial=0.0) <= 1e-15
    starts = np.flatnonzero(np.concatenate([[True], ~linked]))
    sizes = np.diff(np.append(starts, len(order)))
    group = np.empty(len(order), np.int64)
    group[order] = np.repeat(np.minimum.reduceat(order, starts), sizes)
    shared = np.flatnonzero(np.bincount(group, minlength=len(order))[group] > 1)
    return shared, group[shared]


def _inner_direction(atoms: UnitAtoms) -> FloatArray:
    """Direction u with x_j'u >= 1 for every non-zero atom, to make dual points feasible; empty if none."""
    rows, scale, kind = atoms.rows, atoms.scale, atoms.rows.dtype
    present = scale > 0
    if not present.any():
        return np.empty(0)
    u = (scale.astype(kind) @ rows).astype(np.float64) / len(rows)
    for _ in range(30):
        products = np.where(present, (rows @ u.astype(kind)) * scale, np.inf)
        worst = int(products.argmin())
        if products[worst] > 1e-3 * np.linalg.norm(u):
            return u / float(atoms.products(u)[present].min())
        u = u / max(float(np.linalg.norm(u)), 1e-300) + 0.5 * atoms.unit([worst])[0]
    return np.empty(0)


def _build_gram(atoms: UnitAtoms) -> FloatArray:
    """The Gram matrix of the unit atoms: products in float64, kept in float32."""
    gram32 = np.empty((atoms.n_atoms, atoms.n_atoms), np.float32)
    for part in _blocks(atoms.n_atoms):
        unit = atoms.unit(part)
        for other in _blocks(part.stop):
            block = unit @ atoms.unit(other).T
            gram32[part, other] = block
            gram32[other, part] = block.T
    return gram32


def _scale_gram(gram: FloatArray, norms: FloatArray) -> FloatArray | None:
    """The Gram matrix of the unit atoms from that of the atoms; None when it overflows."""
    gram32 = np.empty(gram.shape, np.float32)
    with np.errstate(all="ignore"):
        inverse = np.where(norms > 0, 1.0 / norms, 0.0)
        for part in _blocks(len(norms)):
            gram32[part] = gram[part] * inverse[part, None] * inverse
    return gram32 if np.isfinite(gram32).all() else None


def prepare_atoms(
    atoms: FloatArray, *, gram: FloatArray | None = None, build_gram: bool = True
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
    """
    unit, norms = _scaled(atoms)
    gram32 = None if gram is None else _scale_gram(gram, norms)
    if gram32 is None and (gram is not None or (build_gram and 4 * len(norms) ** 2 <= GRAM_BYTES)):
        gram32 = _build_gram(unit)
    return PreparedAtoms(
        rows=unit.rows,
        scale=unit.scale,
        rows32=unit.rows.astype(np.float32, copy=False),
        norms=norms,
        gram32=np.empty((0, 0), np.float32) if gram32 is None else gram32,
        twins={signed: _twins(unit, signed) for signed in (False, True)},
        inner=_inner_direction(unit),
    )


def prepare_changed_atoms(old: PreparedAtoms, change: Change) -> PreparedAtoms:
    """What `prepare_atoms` makes of the atoms after a change; the old Gram matrix is reused."""
    atoms = change.after.atoms
    if (4 * len(atoms) ** 2 <= GRAM_BYTES) != bool(len(old.gram32)):
        return prepare_atoms(atoms)
    prepared = prepare_atoms(atoms, build_gram=False)
    if not len(old.gram32):
        return prepared
    new = prepared.unit(change.added)
    products = np.hstack([new @ prepared.unit(part).T for part in _blocks(len(atoms))])
    return replace(prepared, gram32=change.carry_square(old.gram32, products.astype(np.float32)))
