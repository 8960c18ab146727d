"""Arguments that the functions share: checked, and turned into plain arrays."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array

from residuum.plain_numbers import check_numbers
from residuum.problem import Float64Array
from residuum.solvers.tall import NO_SUM, SUM_AT_MOST, SUM_TO, BoundedLeastSquares

POSITIVE = [Interval(Real, 0, None, closed="neither")]
NON_NEGATIVE = [Interval(Real, 0, None, closed="left")]
FLOATS = [np.float64, np.float32]


def is_plain(array: Any, ndims: tuple[int, ...]) -> bool:
    """Whether this is an array as we need it, so that the checks of all other kinds can be skipped."""
    return type(array) is np.ndarray and array.dtype in FLOATS and array.ndim in ndims and array.size > 0


def checked_array(array: Any, name: str, owner: str, ndims: tuple[int, ...] = (2,)) -> Any:
    """A float32 or float64 array with finite entries."""
    with np.errstate(over="ignore", invalid="ignore"):
        if is_plain(array, ndims) and np.isfinite(array.sum()):
            return array
    array, flat = check_numbers(array, name, owner), 1 in ndims
    least = 0 if flat else 1
    return check_array(array, dtype=FLOATS, ensure_2d=not flat, ensure_min_features=least, input_name=name)


def shaped(value: Any, name: str, owner: str, shape: tuple[int, int]) -> Any:
    if value is None:
        return None
    array = check_array(value, accept_sparse="csr", ensure_2d=False, ensure_min_samples=0, input_name=name)
    array = np.atleast_2d(array) if array.ndim == 1 else array
    if array.shape != shape:
        raise ValueError(
            f"The {name!r} parameter of {owner} must have shape {shape}. Got {array.shape} instead."
        )
    return array


def check_rows(owner: str, A: Any, B: Any) -> None:
    if len(B) != len(A):
        raise ValueError(
            f"The 'B' parameter of {owner} must have as many rows as A ({len(A)}). "
            f"Got {len(B)} instead; right-hand sides are columns, as in numpy.linalg.lstsq."
        )


def checked_block(B: Any, n_features: int, owner: str) -> Any:
    """Right-hand sides, in which NaN is allowed."""
    block = B
    if not is_plain(B, (1, 2)):
        block = check_array(
            check_numbers(B, "B", owner),
            dtype=FLOATS,
            ensure_2d=False,
            ensure_min_features=0,
            ensure_all_finite=False,
            input_name="B",
        )
    check_rows(owner, range(n_features), block)
    return block


@dataclass(frozen=True)
class Tikhonov:
    """The penalty weight ||Lx||^2.

    Parameters
    ----------
    weight : float
        Not negative.
    regularizer : array of shape (any, n_atoms), optional
        L, for example ``np.diff(np.eye(n_atoms), axis=0)`` for solutions that are smooth; the identity if
        None.
    """

    weight: float
    regularizer: Any = None

    def checked(self, owner: str, n: int) -> tuple[float, Float64Array | None]:
        """Weight and L, as the solver takes them."""
        weight = self.weight
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 <= float(weight) < np.inf:
            raise ValueError(
                f"The 'weight' of Tikhonov in {owner} must be a number that is not negative. Got {weight!r}."
            )
        if self.regularizer is None:
            return float(weight), None
        L = check_array(self.regularizer, dtype=np.float64, input_name="regularizer")
        if L.shape[1] != n:
            raise ValueError(
                f"The 'regularizer' of Tikhonov in {owner} must have as many columns as A ({n}). "
                f"Got shape {L.shape} instead."
            )
        return float(weight), L


@dataclass(frozen=True)
class Limits:
    """What the functions know of the variables: bounds and a sum, as they were passed."""

    bounds: Any
    sum_to: Any
    sum_at_most: Any

    def problem(self, owner: str, A: Float64Array, l1: float, l2: Any, **data: Any) -> BoundedLeastSquares:
        """The problem with all arguments checked; `data` are further fields of it."""
        n = A.shape[1]
        lower, upper = checked_bounds(self.bounds, n, owner)
        kind, total = self._sum(lower, upper, owner)
        if l1 and (lower < 0).any():
            raise ValueError(
                f"The 'l1' parameter of {owner} needs variables that cannot be negative. Got bounds below "
                f"zero for {int((lower < 0).sum())} of {n}. Use residuum.lasso for variables of any sign."
            )
        term = l2 if isinstance(l2, Tikhonov) else Tikhonov(l2)
        weight, L = term.checked(owner, n)
        problem = BoundedLeastSquares(A, lower, upper, kind, total, float(l1), weight, L, **data)
        if not problem.is_moderate:
            raise ValueError(
                f"The columns of A in {owner}, with those of its regularizer, must have norms between 1e-120 "
                "and 1e120, or be zero. Got others. Scale them, and the bounds the other way."
            )
        return problem

    def _sum(self, lower: Float64Array, upper: Float64Array, owner: str) -> tuple[int, float]:
        sum_to, sum_at_most = self.sum_to, self.sum_at_most
        if sum_to is None and sum_at_most is None:
            return NO_SUM, 0.0
        name = "sum_at_most" if sum_to is None else "sum_to"
        total = sum_at_most if sum_to is None else sum_to
        if sum_to is not None and sum_at_most is not None:
            raise ValueError(f"Only one of 'sum_to' and 'sum_at_most' of {owner} can be given. Got both.")
        if isinstance(total, bool) or not isinstance(total, Real) or not np.isfinite(float(total)):
            raise ValueError(f"The {name!r} parameter of {owner} must be a finite number. Got {total!r}.")
        least, most = float(lower.sum()), float(upper.sum()) if sum_at_most is None else np.inf
        if not least <= float(total) <= most:
            raise ValueError(
                f"The {name!r} parameter of {owner} must be a sum that variables within their bounds can "
                f"have, from {least:g} to {most:g}. Got {total:g}. Widen the bounds."
            )
        return (SUM_AT_MOST if sum_to is None else SUM_TO), float(total)


def checked_out(out: Any, n: int, n_rhs: int | None) -> Any:
    """Where the points go, right-hand sides first."""
    if out is None:
        return None
    if not isinstance(out, np.ndarray) or out.dtype != np.float64 or out.ndim != 2 or len(out) != n:
        raise ValueError(
            f"The 'out' parameter of least_squares must be a float64 array of shape ({n}, n_rhs). Got "
            f"{type(out).__name__} of {getattr(out, 'dtype', 'no')} and shape {getattr(out, 'shape', None)}."
        )
    if n_rhs is not None and out.shape[1] != n_rhs:
        raise ValueError(
            f"The 'out' parameter of least_squares must have one column for each right-hand side, that is "
            f"{n_rhs}. Got {out.shape[1]}."
        )
    return out.T


def checked_bounds(bounds: Any, n: int, owner: str) -> tuple[Float64Array, Float64Array]:
    told = f"The 'bounds' parameter of {owner} must be (lower, upper), each a number or {n} numbers"
    try:
        lower, upper = (np.broadcast_to(np.asarray(side, dtype=np.float64), (n,)).copy() for side in bounds)
    except (TypeError, ValueError):
        raise ValueError(f"{told}. Got {bounds!r} instead.") from None
    if np.isnan(lower).any() or np.isnan(upper).any() or not (lower <= upper).all():
        bad = int(np.flatnonzero(~(lower <= upper))[0])
        raise ValueError(
            f"{told}, with lower <= upper. Got [{lower[bad]:g}, {upper[bad]:g}] for variable {bad}."
        )
    if (lower == np.inf).any() or (upper == -np.inf).any():
        raise ValueError(f"{told}, with lower < inf and upper > -inf. Got {bounds!r} instead.")
    return lower, upper


def checked_weights(weights: Any, n_features: int) -> Any:
    if weights is None:
        return None
    weights = check_array(weights, dtype=np.float64, ensure_2d=False, input_name="weights")
    if len(weights) != n_features or weights.ndim > 2:
        raise ValueError(
            f"The 'weights' parameter of least_squares must have as many rows as A ({n_features}). "
            f"Got shape {weights.shape} instead."
        )
    if (weights < 0).any():
        raise ValueError(
            "The 'weights' parameter of least_squares must not be negative. "
            f"Got {weights.min():g}; weights multiply squared residuals."
        )
    return weights
