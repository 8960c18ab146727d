"""Downloads from a server on this machine that does everything servers do wrong; the tests prove it."""

from __future__ import annotations

from collections.abc import Iterator

from battery import Case, Scope
from battery.through_pytest import results_of


def cases(scope: Scope) -> Iterator[Case]:
    """Every test of downloads."""
    yield results_of("tests/test_download.py")
