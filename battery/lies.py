"""The search for lying certificates: problems for which a solver claims more than it reaches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

from battery import Case, Scope, Skipped


def cases(scope: Scope) -> Iterator[Case]:
    """Problems in portions, so that progress shows."""
    total = scope.count(5_000, 1_000_000)
    portion = min(total, 20_000)
    for first in range(0, total, portion):
        yield Case(f"problems from {first}", partial(search, portion, scope.seed + first))


def search(n_problems: int, seed: int) -> int:
    """Search so many problems; every count of a lie must be zero."""
    if find_spec("search_for_lies") is None:
        raise Skipped("needs tests/search_for_lies.py")
    import search_for_lies

    counts = search_for_lies.search(n_problems, seed)["counts"]
    lies = {name: count for name, count in counts.items() if name.startswith("lies")}
    assert not lies, f"{lies} of {counts['problems']} problems, seed {seed}"
    return counts["problems"]
