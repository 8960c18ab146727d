"""One wording for parameters of a transformer that are refused."""

from __future__ import annotations

from numbers import Integral
from typing import NoReturn

from residuum.errors import UsageError


def refuse(owner: object, name: str, allowed: str) -> NoReturn:
    """Raise the error that names a parameter, what is allowed, and what was got."""
    kind, value = type(owner).__name__, getattr(owner, name)
    raise UsageError(f"The '{name}' parameter of {kind} must be {allowed}. Got {value!r} instead.")


def check_integers(owner: object, **limits: tuple[int, int]) -> None:
    """Refuse the first of these parameters that is not an integer within its limits."""
    for name, (low, high) in limits.items():
        value = getattr(owner, name)
        if not isinstance(value, Integral) or isinstance(value, bool) or not low <= int(value) <= high:
            refuse(owner, name, f"an integer from {low} to {high}")
