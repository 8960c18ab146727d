"""What solvers ask of a dictionary, answered by passes over its shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from residuum.dictionary import ClassMoments, FloatArray, Integers, outer_products
from residuum.scale.runner import Runner
from residuum.scale.shards import Run, Shard, Shards

MOST_TASKS = 64  # of a sum over shards: each task adds up consecutive shards before anything is sent
ATOMS_AT_ONCE = 2048  # their products with a block of queries stay in the cache
ROW_MULTIPLE = 48  # so that what BLAS does with a row depends on its place alone, not on the number of rows
ENTRIES_PER_QUERY = 2080  # 504 queries at a time, a multiple of 12, where float32 products make the codes

LARGEST = "largest"  # the name under which maxima are formed and not sums
_TRIALS = 12  # passes that look for an inner direction


class Several(tuple[Shard, ...]):
    """Consecutive shards whose results are added up in their order, whatever works on them."""

    @property
    def nbytes(self) -> int:
        """Bytes of the largest of them, since they are read one after the other."""
        return max(shard.nbytes for shard in self)

    def __str__(self) -> str:
        return f"shards {self[0].path} to {self[-1].path}"


class ShardedDictionary:
    """A dictionary in shards with the attributes and products of `residuum.dictionary.Dictionary`."""

    spectrum = weights = None
    longest = 1.0
    dtype = np.dtype(np.float32)

    def __init__(self, shards: Shards, runner: Runner) -> None:
        self.shards, self.runner = shards, runner
        self.sizes = shards.sizes
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        self.masses = self.sizes.astype(np.float64)
        self.n_atoms, self.n_features = int(self.starts[-1]), shards.n_features
        self.n_classes = len(self.sizes)
        self.blocks = [slice(int(a), int(b)) for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)]
        self.atoms = _LazyAtoms(self)

    @cached_property
    def samples(self) -> Integers:
        """Number of the training sample behind each atom."""
        found = np.empty(self.n_atoms, dtype=np.int64)
        for shard in self.shards.shards:
            numbers = shard.rows()[0]
            for run in shard.runs:
                found[placed(run)] = numbers[run.first : run.stop]
        return found

    @cached_property
    def atom_class(self) -> Integers:
        """Class of every atom."""
        return np.repeat(np.arange(self.n_classes), self.sizes)

    def coefficients(self, codes: Any) -> Any:
        """Codes over the unit-norm samples, which are the atoms."""
        return codes

    @cached_property
    def groups(self) -> list[Several]:
        """Consecutive shards, at most 64 times; which ones depends on their number alone."""
        shards = self.shards.shards
        step = -(-len(shards) // MOST_TASKS)
        return [Several(shards[first : first + step]) for first in range(0, len(shards), step)]

    def map(self, function: Callable[..., Any], *common: Any) -> Iterator[tuple[Shard, Any]]:
        """Every shard with what a function makes of it."""
        shards = self.shards.shards
        return zip(shards, self.runner.map(function, shards, *common), strict=True)

    def sums(self, function: Callable[..., dict[Any, Any]], *common: Any) -> dict[Any, Any]:
        """Sums of the arrays that a function makes of every shard, by name, in the order of the shards.

        Under the name "largest" it is the maximum.
        """
        total: dict[Any, Any] = {}
        for found in self.runner.map(_added_up, self.groups, function, *common):
            _add(total, found)
        return total

    @cached_property
    def moments(self) -> ClassMoments:
        """``S_k = X_k X_k'`` of every class."""
        found = self.sums(_moments)
        empty = np.zeros((self.n_features,) * 2)
        return ClassMoments([found.get(k, empty) for k in range(self.n_classes)], self.sizes)

    @cached_property
    def normal(self) -> FloatArray:
        """``XX'`` in float64."""
        if "moments" in vars(self):
            return np.sum(self.moments.matrices, axis=0)
        return self.sums(_normal)["normal"]

    @cached_property
    def interior(self) -> FloatArray:
        """A direction u with ``x_j'u >= 1`` for every atom, or an empty array when none was found.

        The search of `residuum.dictionary.inner_direction`, with one pass for each of its steps.
        """
        u = self.sums(_mean)["sum"]
        for _ in range(_TRIALS):
            u = u / max(float(np.linalg.norm(u)), 1e-300)
            lowest, atom = min((found for _, found in self.map(_lowest, u)), key=lambda found: found[0])
            # Products are rounded, so they could be a little smaller than they seem.
            lowest -= (self.n_features + 8) * np.finfo(np.float64).eps
            if lowest > 1e-3:
                return u / lowest
            u = u + 0.5 * atom
        return np.empty(0)

    def correlations(self, points: FloatArray) -> FloatArray:
        """``x_j'v`` for every row v of points, in their precision if that is higher: (n_points, n_atoms)."""
        found = np.empty((len(points), self.n_atoms), dtype=np.result_type(points, np.float32))
        for shard, products in self.map(_correlations, points):
            for run in shard.runs:
                found[:, placed(run)] = products[:, run.first : run.stop]
        return found

    def combinations(self, codes: Any) -> FloatArray:
        """``Xc`` for every code, in their precision if that is higher: (n_codes, n_features)."""
        found = np.zeros((codes.shape[0], self.n_features), dtype=np.result_type(codes.dtype, np.float32))
        for block in self.blocks:
            for some in _cut(block):
                found += codes[:, some] @ self.atoms[some].astype(found.dtype)
        return found


class _LazyAtoms:
    """The atoms of a sharded dictionary, read when they are asked for."""

    dtype = np.dtype(np.float32)

    def __init__(self, dictionary: ShardedDictionary) -> None:
        self._dictionary = dictionary
        self.shape = (dictionary.n_atoms, dictionary.n_features)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, chosen: slice) -> FloatArray:
        first, stop, _ = chosen.indices(len(self))
        found = np.empty((max(0, stop - first), self.shape[1]), dtype=np.float32)
        for shard in self._dictionary.shards.shards:
            for run in shard.runs:
                low, high = max(first, run.position), min(stop, run.position + run.stop - run.first)
                if low < high:
                    shift = run.first - run.position
                    rows = np.arange(low + shift, high + shift)
                    found[low - first : high - first] = shard.some_atoms(rows)
        return found


def placed(run: Run) -> slice:
    """Where the atoms of a run stand in the whole dictionary."""
    return slice(run.position, run.position + run.stop - run.first)


def _cut(block: slice) -> Iterator[slice]:
    for first in range(block.start, block.stop, ATOMS_AT_ONCE):
        yield slice(first, min(first + ATOMS_AT_ONCE, block.stop))


def blocks_of(run: Run) -> Iterator[slice]:
    """The rows of a run in a shard, a few at a time."""
    return _cut(slice(run.first, run.stop))


def padded(rows: FloatArray, dtype: Any) -> FloatArray:
    """Rows in another precision with rows of zeros behind them, so that their number is a multiple of 48."""
    count = len(rows)
    wide = np.zeros((-(-max(count, 1) // ROW_MULTIPLE) * ROW_MULTIPLE, rows.shape[1]), dtype=dtype)
    wide[:count] = rows
    return wide


def product(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """``rows @ matrix`` for padded rows, the same bits for a row whatever the number of rows.

    BLAS has other kernels for small products, so small matrices are always multiplied by 48 rows at a time.
    In float64 the place of a row does not matter either. In float32 it does on some processors, where
    OpenBLAS treats six rows of every twelve in another way than the other six.
    """
    if ROW_MULTIPLE * matrix.size > 2**22:
        return rows @ matrix
    return np.concatenate([rows[i : i + ROW_MULTIPLE] @ matrix for i in range(0, len(rows), ROW_MULTIPLE)])


def _add(total: dict[Any, Any], more: dict[Any, Any]) -> None:
    for name, array in more.items():
        if name not in total:
            total[name] = array
        elif name == LARGEST:
            np.maximum(total[name], array, out=total[name])
        else:
            total[name] += array


def _added_up(shards: Several, function: Callable[..., dict[Any, Any]], *common: Any) -> dict[Any, Any]:
    total: dict[Any, Any] = {}
    for shard in shards:
        _add(total, function(shard, *common))
    return total


def _moments(shard: Shard) -> dict[int, FloatArray]:
    atoms = shard.atoms()
    return {run.label: outer_products(atoms[run.first : run.stop]) for run in shard.runs}


def _normal(shard: Shard) -> dict[str, FloatArray]:
    return {"normal": outer_products(shard.atoms())}


def _mean(shard: Shard) -> dict[str, FloatArray]:
    return {"sum": shard.atoms().sum(axis=0, dtype=np.float64)}


def _lowest(shard: Shard, direction: FloatArray) -> tuple[float, FloatArray]:
    atoms = shard.atoms()
    lowest, row = np.inf, np.zeros(shard.n_features)
    for first in range(0, len(atoms), ATOMS_AT_ONCE):
        some = atoms[first : first + ATOMS_AT_ONCE].astype(np.float64)
        products = some @ direction
        worst = int(products.argmin())
        if products[worst] < lowest:
            lowest, row = float(products[worst]), some[worst].copy()  # a view would keep the block
    return lowest, row


def _correlations(shard: Shard, points: FloatArray) -> FloatArray:
    atoms = shard.atoms()
    dtype = np.result_type(points, np.float32)
    found = np.empty((len(points), len(atoms)), dtype=dtype)
    rows = padded(points, dtype)
    for first in range(0, len(atoms), ATOMS_AT_ONCE):
        some = atoms[first : first + ATOMS_AT_ONCE]
        found[:, first : first + ATOMS_AT_ONCE] = product(rows, some.astype(dtype, copy=False).T)[
            : len(points)
        ]
    return found
