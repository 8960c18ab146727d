"""What soft non-negative coding prepared, carried over to a dictionary that gained or lost atoms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ._change import Change
from ._newton_block import Prepared
from ._room import Places, Room, from_arrivals, places_after

MAX_MOVED = 32  # beyond it the corrections of low rank cost more than they save


def prepare_changed(old: Prepared, change: Change) -> Prepared | None:
    """The atoms in the old basis, with those V that moved told apart; None to prepare anew.

        M_new = M - M V (w S + V'MV)^{-1} V'M,   X'M_new X = X'MX - Z (w S + V'MV)^{-1} Z',   Z = X'MV

    with their signs S, 1 for those that joined and -1 for those that left, and M as it was when the basis was
    computed: ``X'MX`` only gains and loses rows.
    """
    n_moved, n_features = len(old.signs) + change.size, len(old.basis)
    if old.gram32 is None or n_moved > MAX_MOVED or old.basis.shape != (n_features, n_features):
        return None
    n_before, n_after = old.n_atoms, change.after.n_atoms
    arrived = from_arrivals(old.places, change)
    joined = change.after.rows(change.added) @ old.basis
    gone = old.atoms[arrived.removed]
    rows: dict[str, Any] = {"atoms": joined, "atoms32": joined.astype(np.float32)}
    arrays: dict[str, Any]
    scaled = (joined * old.shrink).astype(np.float32)
    if not len(change.removed):
        places: Places | None = places_after(old.places, change)
        rows["gram32"] = np.hstack([scaled @ old.atoms32.T, scaled @ rows["atoms32"].T])
        room = old.own_room(rows).extended(n_before, rows)
    else:
        places = None
        arrays = {name: arrived.carry(getattr(old, name), rows[name]) for name in rows}
        gram32 = old.gram32[:n_before, :n_before]
        arrays["gram32"] = arrived.carry_square(gram32, scaled @ arrays["atoms32"].T)
        room = Room(n_after, arrays)
    arrays = {**room.arrays(n_after)}
    signs = np.concatenate([old.signs, np.ones(len(joined)), -np.ones(len(gone))])
    moved = np.concatenate([old.moved.reshape(-1, n_features), joined, gone])
    return replace(old, **arrays, moved=moved, signs=signs, places=places, room=room)
