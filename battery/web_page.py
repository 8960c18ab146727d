"""The page and the server against hostile requests; no request leaves the machine. The tests prove it."""

from __future__ import annotations

from collections.abc import Iterator

from battery import Case, Scope
from battery.through_pytest import results_of


def cases(scope: Scope) -> Iterator[Case]:
    """Every test of the page in Chromium and of the server; the quick share has hostile requests only."""
    yield results_of("tests/test_server_hostile.py")
    if not scope.quick:
        yield results_of("tests/test_explorer_page.py")
        yield results_of("tests/test_server_running.py")
