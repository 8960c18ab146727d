"""The prices ``x_j'r`` of all atoms of a shard: the best candidates, and a proof where there is none.

Prices are computed in float32 first. An atom is a candidate where its price exceeds its shift by more than
rounding is likely to make of it. Of a query without candidates, the atoms that the bound of the rounding
error cannot clear are priced again in float64; so the largest excess that is reported for such a query holds
for every atom of the shard.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from residuum.dictionary import FloatArray, Integers
from residuum.scale.dictionary import ATOMS_AT_ONCE, padded, product
from residuum.scale.shards import Shard
from residuum.system.compiling import KEPT

EPS32 = 6.0e-8  # unit roundoff of float32, rounded up
TYPICAL = 4.0e-8  # times sqrt(n_features): the rounding error to expect of a float32 price
U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order
MOST_MOVED = 1e-12  # the penalty holds for residuals that are no farther away than this
NEAR = 1e-9  # excesses below minus this need not be told apart


class Request(NamedTuple):
    """Residuals to price, and what is needed to judge the prices; one entry for every query."""

    residual: FloatArray  # (n_queries, n_features) float64
    reach: FloatArray  # (n_queries,): 1 + ||c||_1
    support: Integers  # numbers of the atoms of all supports, query after query, ascending within each
    ends: Integers  # (n_queries,): where the support of each ends
    shift: float
    signed: bool
    entry: FloatArray  # (n_queries,): least excess in float64 that counts
    most: int  # candidates wanted of each shard
    bar_duplicates: bool


class Priced(NamedTuple):
    """What a shard says about every query."""

    query: Integers  # of each candidate
    row: Integers  # of each candidate, in the shard
    excess: FloatArray  # of each candidate, float32: only its order counts
    largest: FloatArray  # (n_queries,): largest excess of an atom outside the support, where no candidate is
    penalty: FloatArray  # (n_queries,): bound on the sum of max(excess, 0)^2, where no candidate is


@njit(cache=KEPT, nogil=True)
def _select(prices, first, signed, cut, likely, unclear, barred, best, best_row, counts, open_rows, n_open):
    """Keep the best candidates of a block of prices, and list the atoms that float32 cannot clear.

    ``best[i]`` is a heap with the smallest on top. Returns False when the list has no more room.
    """
    n_best = best.shape[1]
    for i in range(counts.shape[0]):
        low = cut[i] - unclear[i]
        for j in range(prices.shape[1]):
            p = abs(prices[i, j]) if signed else prices[i, j]
            if not p > low or barred[first + j]:  # NaN marks the support
                continue
            over = p - cut[i]
            if over <= likely[i]:
                if n_open[i] >= open_rows.shape[1]:
                    return False
                open_rows[i, n_open[i]] = first + j
                n_open[i] += 1
                continue
            if counts[i] < n_best:  # sift up
                k = counts[i]
                counts[i] += 1
                while k > 0 and best[i, (k - 1) // 2] > over:
                    best[i, k], best_row[i, k] = best[i, (k - 1) // 2], best_row[i, (k - 1) // 2]
                    k = (k - 1) // 2
                best[i, k], best_row[i, k] = over, first + j
            elif over > best[i, 0]:  # replace the smallest and sift down
                k = 0
                while True:
                    child = 2 * k + 1
                    if child >= n_best:
                        break
                    if child + 1 < n_best and best[i, child + 1] < best[i, child]:
                        child += 1
                    if best[i, child] >= over:
                        break
                    best[i, k], best_row[i, k] = best[i, child], best_row[i, child]
                    k = child
                best[i, k], best_row[i, k] = over, first + j
    return True


def price(shard: Shard, request: Request) -> Priced:
    """Candidates of every query among the atoms of a shard, and the largest excess where there is none."""
    atoms, count = shard.atoms(), len(request.residual)
    norms = np.sqrt(np.einsum("qd,qd->q", request.residual, request.residual))
    unit = padded(request.residual / np.where(norms > 0, norms, 1.0)[:, None], np.float32)
    scale = np.maximum(norms, 1e-300)
    cut = (request.shift / scale).astype(np.float32)
    d = request.residual.shape[1]
    unclear = (EPS32 * 1.05 * ((d + 10) + 4.0 * request.shift / scale)).astype(np.float32) + NEAR / scale
    likely = TYPICAL * np.sqrt(d) * request.reach
    # No price can exceed the norm of a residual, and one that is rounding alone needs no look at its atoms.
    clear = norms * (1 + 1e-6) <= request.entry
    cut[clear] = np.inf
    limits = (cut, likely.astype(np.float32), unclear.astype(np.float32))
    barred = np.zeros(len(atoms), dtype=np.bool_)
    if request.bar_duplicates and shard.n_duplicates:
        barred[:] = shard.rows()[1]
    best = np.zeros((count, request.most), np.float32)
    best_row = np.zeros((count, request.most), np.int32)
    counts = np.zeros(count, np.int64)
    own = _own_rows(shard, request)
    room = 64
    open_rows, n_open = np.empty((count, room), np.int32), np.zeros(count, np.int64)
    for first in range(0, len(atoms), ATOMS_AT_ONCE):
        prices = product(unit, atoms[first : first + ATOMS_AT_ONCE].T)
        inside = (own[1] >= first) & (own[1] < first + prices.shape[1])
        prices[own[0][inside], own[1][inside] - first] = np.nan
        while True:
            state = (best.copy(), best_row.copy(), counts.copy(), n_open.copy())
            if _select(
                prices[:count],
                first,
                request.signed,
                *limits,
                barred,
                best,
                best_row,
                counts,
                open_rows,
                n_open,
            ):
                break
            best, best_row, counts, n_open = state
            open_rows = np.concatenate([open_rows, np.empty_like(open_rows)], axis=1)
    return _settled(atoms, request, norms, (best, best_row, counts), (open_rows, n_open))


def _own_rows(shard: Shard, request: Request) -> tuple[Integers, Integers]:
    """Query and row of every atom of a support that lies in this shard."""
    query = np.repeat(np.arange(len(request.ends)), np.diff(request.ends, prepend=0))
    queries, rows = [], []
    for run in shard.runs:
        inside = (request.support >= run.position) & (request.support < run.position + run.stop - run.first)
        queries.append(query[inside])
        rows.append(request.support[inside] - run.position + run.first)
    return np.concatenate([*queries, query[:0]]), np.concatenate([*rows, request.support[:0]])


def _settled(atoms: Any, request: Request, norms: FloatArray, best: Any, left: Any) -> Priced:
    """Price in float64 what float32 leaves open, for the queries without a candidate."""
    (value, rows, counts), (open_rows, n_open) = best, left
    found = np.arange(value.shape[1]) < counts[:, None]
    query, row = np.nonzero(found)[0], rows[found]
    excess = value[found].astype(np.float64) * norms[query]
    clear = norms * (1 + 1e-6) <= request.entry
    largest = np.where(counts > 0, np.inf, np.where(clear, norms * (1 + 1e-6), -NEAR))
    penalty = np.where(clear, len(atoms) * (norms * (1 + 1e-6) + MOST_MOVED) ** 2, 0.0)
    extra: list[tuple[Integers, Integers, FloatArray]] = []
    tau = U * (atoms.shape[1] + 8) * norms + 8 * U * request.shift
    for i in np.flatnonzero((counts == 0) & (n_open > 0)).tolist():
        some = open_rows[i, : n_open[i]]
        products = atoms[some].astype(np.float64) @ request.residual[i]
        over = (np.abs(products) if request.signed else products) - request.shift
        largest[i] = max(largest[i], float(over.max()))
        penalty[i] = float(np.sum(np.maximum(over + tau[i] + MOST_MOVED, 0) ** 2))
        entering = np.flatnonzero(over > request.entry[i])
        entering = entering[np.argsort(-over[entering], kind="stable")][: request.most]
        extra.append((np.full(len(entering), i), some[entering], over[entering]))
    queries, more_rows, overs = (list(part) for part in zip(*extra, strict=True)) if extra else ([], [], [])
    return Priced(  # in as few bytes as will do, since every shard sends it in every pass
        np.concatenate([query, *queries]).astype(np.min_scalar_type(len(norms))),
        np.concatenate([row, *more_rows]).astype(np.min_scalar_type(len(atoms))),
        np.concatenate([excess, *overs]).astype(np.float32),
        largest,
        penalty,
    )


@dataclass(frozen=True)
class Wanted:
    """Some rows of a shard."""

    shard: Shard
    rows: Integers

    def __str__(self) -> str:
        return str(self.shard)

    @property
    def nbytes(self) -> int:
        """Bytes of these rows."""
        return 4 * len(self.rows) * self.shard.n_features


def fetch(wanted: Wanted) -> FloatArray:
    """The atoms that are wanted of a shard."""
    return wanted.shard.some_atoms(wanted.rows)
