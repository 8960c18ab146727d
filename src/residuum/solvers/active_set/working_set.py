"""The optimum over a few atoms, all of which may be in the support: one step of a search over many more.

    minimise_c  ||y - Xc||^2 + l2 ||c||^2 + l1 ||c||_1    subject to c >= 0 (any sign when signed)

The engine prepares a dictionary for many queries and ends with a certificate. A step of column generation
needs neither: every query has atoms of its own, and its code is certified when no atom joins any more.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from residuum.dictionary import FloatArray, squares

from .chunk import read_only
from .kernels import FINE, correlation, factor, gram_from_features, pivot_blocks, refine
from .single import pivot_singly
from .tables import OPTIONS, Rows, make_scratch

# Times 1 + ||c||_1: the violation at which an atom enters (of the start), and the largest that may be left.
ENTRY, ACCURATE = 1e-15, 1e-14


@njit(**OPTIONS)
def _minimise(x, y, work, gram32, shift, ridge, signed, threshold, code):
    """Overwrite a feasible code by the optimum, with its residual in ``work.r``; whether it was reached."""
    n = code.shape[0]
    for a in range(n):
        work.atom[a], member = a, work.member[a]
        member.code, member.sign = code[a], -1.0 if code[a] < 0.0 else 1.0
        member.shift, member.ridge = shift[a], ridge[a]
        member.have = False
    gram_from_features(work, n, x, y)
    m = pivot_blocks(work, n, gram32, FINE, signed, threshold)
    if m < 0:
        m = pivot_singly(work, n, gram32, signed)
        if factor(work, n, m, np.int64(0), gram32, FINE) < m:
            return False
    worst, reach = refine(work, m, x, y), 1.0
    code[:] = 0.0
    for i in range(m):
        a = work.pos[i]
        if work.z[i] * work.member[a].sign < 0.0:
            return False
        code[a] = work.z[i]
        reach += abs(work.z[i])
    for a in range(n):  # one that depends on the others may have been left out
        if code[a] == 0.0:
            price = correlation(x, a, work.r)
            worst = max(worst, (abs(price) if signed else price) - shift[a])
    return worst <= ACCURATE * reach


def minimise_over(
    atoms: FloatArray, y: FloatArray, start: FloatArray, *, l1: float, l2: float, signed: bool
) -> tuple[FloatArray, FloatArray] | None:
    """The optimal code over all atoms and its residual, or None where they are too close to dependent.

    Parameters
    ----------
    atoms : ndarray of shape (n_atoms, n_features), float32
        Rows whose norms are 1 but for rounding.
    y : ndarray of shape (n_features,)
        The query, no longer than 1.
    start : ndarray of shape (n_atoms,)
        A feasible code; the nearer, the faster.
    l1, l2 : float
        Non-negative weights.
    signed : bool
        Allow negative codes.
    """
    scale = 1.0 / np.sqrt(squares(atoms.astype(np.float64)))
    code = start / scale
    empty, places = read_only(np.empty((0, atoms.shape[1]))), read_only(np.empty(0, np.int64))
    rows = Rows(empty, read_only(atoms), read_only(scale), places, 1.0, 0.0)
    work = make_scratch(len(atoms), len(atoms), atoms.shape[1])
    reach = 1.0 + float(np.abs(start).sum())
    weights = 0.5 * l1 * scale, l2 * scale**2
    none = read_only(np.empty((0, 0), np.float32))
    if not _minimise(rows, read_only(y), work, none, *weights, signed, ENTRY * reach, code):
        return None
    return code * scale, work.r
