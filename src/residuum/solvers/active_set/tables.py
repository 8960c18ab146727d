"""What the compiled kernels take and keep: arrays in named tuples, and the options they are compiled with."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from residuum.system.compiling import KEPT

# "ninf" is left out: infinite penalties exclude atoms, so infinities must keep their meaning.
OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": KEPT,
    "fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan"},
    "error_model": "numpy",
}
# Functions that only compiled code calls need no wrapper for Python, which is slow to compile.
INNER: dict[str, Any] = {**OPTIONS, "cache": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
# The steps of a round are called from one place only. Compiled each by itself, what they call would be
# optimised again at every level.
STEP: dict[str, Any] = {**INNER, "inline": "always"}

# What has become of a query.
DONE, RUNNING, GROW, STUCK, EXHAUSTED = range(5)
# What `run` does with it: go on to the optimum, do one round, or certify its code as it is.
TO_THE_END, ONE_ROUND, CERTIFY = range(3)


class Rows(NamedTuple):
    """The atoms in unit norm: atom j is ``scale[j]`` times row j of the array that is not empty.

    Longer atoms (`copies`) have places: atom j is ``common`` times that, and further on ``own`` times that.

    There are two arrays because float32 rows are read without a copy in float64, and one function that reads
    either compiles faster than everything compiled for each.
    """

    double: np.ndarray  # (n_atoms, n_features) or (0, n_features) float64
    single: np.ndarray  # (n_atoms, n_features) or (0, n_features) float32
    scale: np.ndarray  # (n_atoms,) float64
    place: np.ndarray  # (n_atoms,) int64, or empty; in units of n_features
    common: float
    own: float


class Atoms(NamedTuple):
    """The dictionary as the kernels see it."""

    x: Rows
    gram32: np.ndarray  # (n_atoms, n_atoms) float32, or (0, 0)
    weight: np.ndarray  # (n_atoms,) float64: shift_j = weight_j * (shift of the query), at least 1 if l1 > 0
    weight32: np.ndarray  # the same in float32
    barred: np.ndarray  # (n_atoms,) float32: inf for atoms that never enter (zero, duplicate), else 0
    hidden: np.ndarray  # (n_atoms,) float32: inf for atoms that no certificate has to look at, else 0
    lines: np.ndarray  # (n_atoms,) int64: equal for atoms that are exactly multiples of each other
    ridge: np.ndarray  # (n_atoms,) float64
    inner: np.ndarray  # float64, as long as a query, with X'inner >= 1, or empty


# What is known of one query besides its support.
STATE = np.dtype(
    [
        ("shift", np.float64),
        ("size", np.int64),  # atoms in the support
        ("objective", np.float64),  # minus ||y||^2
        ("violation", np.float64),
        ("gap", np.float64),
        ("rounding", np.float64),  # violation that rounding the code makes, where that is more than usual
        ("n_iter", np.int64),
        ("status", np.int64),
        ("fine", np.bool_),  # whether its working sets are solved in float64
        ("settle", np.bool_),  # whether its next round certifies without looking for atoms in float32
    ],
    align=True,
)


class Queries(NamedTuple):
    """Queries of unit norm with their codes; a support is in ascending order.

    For a single query the arrays are without their first axis, but for `state`.
    """

    y: np.ndarray  # (n, n_features) float64, or as long as longer atoms
    residual: np.ndarray  # likewise
    atom: np.ndarray  # (n, capacity) int32: the support
    value: np.ndarray  # (n, capacity) float64: the codes on it
    state: np.ndarray  # (n,) of STATE


class Limits(NamedTuple):
    """What ends a query, and how fast its working set grows."""

    signed: bool
    tol: float  # violation and gap at which a query ends: what was asked for, or what rounding allows
    wish: float  # violation and gap that were asked for
    entry: float  # least violation of an atom that enters in float64
    first: int  # new atoms in the first round
    more: int  # new atoms in later rounds
    sweeps: int  # of coordinate descent
    max_iter: int


class Task(NamedTuple):
    """All that the steps of one query need."""

    atoms: Atoms
    query: Queries  # a single one
    work: Scratch
    limits: Limits


class Prices(NamedTuple):
    """Prices x_j'r / unit of all atoms in float32, and how far they can be trusted."""

    p: np.ndarray  # (n_atoms,) float32
    unit: float
    shift: float  # shift of the query / unit
    bound: float  # of the rounding error
    likely: float  # rounding error to expect
    entry: float  # least violation, not divided by unit, of an atom that enters in float64


# What is kept of one member of the working set.
MEMBER = np.dtype(
    [
        ("new", np.bool_),  # whether it is about to join the support
        ("inside", np.bool_),  # whether it is in the passive set
        ("have", np.bool_),  # whether its row of ``gram`` is filled, as it is when it is first used
        ("code", np.float64),
        ("b", np.float64),  # x_j'y
        ("sign", np.float64),  # +1 or -1
        ("shift", np.float64),
        ("ridge", np.float64),
    ],
    align=True,
)


class Scratch(NamedTuple):
    """Memory of one thread for the working set of one query."""

    atom: np.ndarray  # (size,) int32: positions in the dictionary of the members
    member: np.ndarray  # (size,) of MEMBER
    g: np.ndarray  # (size,): x_j'r - ridge_j c_j of each member
    gram: np.ndarray  # (size, size) Gram matrix of the working set
    pos: np.ndarray  # (size,) int32: places of the passive members in the working set
    z: np.ndarray  # (size,): minimiser of the passive set
    t: np.ndarray  # (size,): gradient at z, or a direction
    chol: np.ndarray  # (size, size): Cholesky factor of the passive set, with reciprocals on the diagonal
    found: np.ndarray  # (n_atoms,) int32: atoms that were chosen
    price: np.ndarray  # (n_atoms,) float32: x_j'r
    excess: np.ndarray  # (n_atoms,) float32: by how much a price exceeds what is allowed
    r: np.ndarray  # residual


def make_scratch(size: int, n_atoms: int, length: int) -> Scratch:
    """Allocate the memory of one thread for working sets of ``size`` atoms."""
    return Scratch(
        atom=np.zeros(size, np.int32),
        member=np.zeros(size, MEMBER),
        g=np.zeros(size),
        gram=np.empty((size, size)),
        pos=np.zeros(size, np.int32),
        z=np.zeros(size),
        t=np.zeros(size),
        chol=np.empty((size, size)),
        found=np.empty(n_atoms, np.int32),
        price=np.empty(n_atoms, np.float32),
        excess=np.empty(n_atoms, np.float32),
        r=np.empty(length),
    )
