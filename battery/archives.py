"""Hostile archives: nothing outside the target, nothing left behind, every cap enforced."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from battery import Case, Scope, refusal
from battery.through_pytest import results_of
from residuum.errors import ArchiveError
from residuum.system.archives import safe_extract


def cases(scope: Scope) -> Iterator[Case]:
    """Every test of archives, and one too large for the tests."""
    yield results_of("tests/test_archives.py")
    if not scope.quick:
        yield Case("a tar of a million members", million_members)


def million_members() -> None:
    """A small file that would make a million others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with gzip.open(folder / "many.tar.gz", "wb", compresslevel=1) as stream:
            for i in range(1_000_000):
                stream.write(tarfile.TarInfo(f"m{i}").tobuf())
            stream.write(bytes(1024))
        said = refusal(lambda: safe_extract(folder / "many.tar.gz", folder / "target"), ArchiveError)
        assert "members" in said or "expands" in said, said
        assert [path.name for path in folder.iterdir()] == ["many.tar.gz"]
