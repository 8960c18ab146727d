"""What soft non-negative coding prepared, carried over to a dictionary that gained or lost atoms."""

from __future__ import annotations

import numpy as np
from scipy.linalg.blas import sgemm

from ._change import Change
from ._newton_block import Prepared

MAX_MOVED = 32  # beyond it the corrections of low rank cost more than they save


def prepare_changed(old: Prepared, change: Change) -> Prepared | None:
    """``X X'`` and ``X'MX`` corrected for the atoms that moved, in the old basis; None to prepare anew.

        M_new = M - M V (w S + V'MV)^{-1} V'M,   X'M_new X = X'MX - Z (w S + V'MV)^{-1} Z',   Z = X'MV

    with the atoms V that moved and their signs S, 1 for those that joined and -1 for those that left.
    """
    n_moved, n_features = len(old.signs) + change.size, len(old.basis)
    if old.gram32 is None or n_moved > MAX_MOVED or old.basis.shape != (n_features, n_features):
        return None
    joined = change.after.atoms[change.added].astype(np.float64) @ old.basis
    gone = old.atoms[change.removed]
    signs = np.concatenate([np.ones(len(joined)), -np.ones(len(gone))])
    moved = np.concatenate([joined, gone])  # V'
    seen = old.metric(moved)  # V'M
    core = np.linalg.inv(old.w_neg * np.diag(signs) + seen @ moved.T)
    atoms = change.carry(old.atoms, joined)
    atoms32 = change.carry(old.atoms32, joined.astype(np.float32))
    reach = seen.astype(np.float32) @ atoms32.T  # Z', (n_moved, n_atoms)
    gram32 = change.carry_square(old.gram32, seen[: len(joined)].astype(np.float32) @ atoms32.T)
    # gram32 is symmetric and in C order: as its transpose it is what BLAS can correct in place.
    sgemm(-1.0, reach, core.astype(np.float32) @ reach, beta=1.0, c=gram32.T, trans_a=True, overwrite_c=True)
    return Prepared(
        old.l2,
        old.neg_weight,
        old.basis,
        atoms,
        old.eigenvalues,
        gram32,
        np.concatenate([old.moved.reshape(-1, n_features), moved]),
        np.concatenate([old.signs, signs]),
        atoms32,
    )
