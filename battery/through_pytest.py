"""Groups that the tests prove: their results, counted as cases."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

from battery import ROOT, Case, Skipped


def results_of(*arguments: str, **environment: str) -> Iterator[Case]:
    """Run pytest with these arguments and yield one case for each test."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if not report.exists():
            yield Case(" ".join(arguments), lambda: _fail(done.stdout))
            return
        for test in ElementTree.parse(report).iter("testcase"):
            yield Case(f"{test.get('classname')}::{test.get('name')}", _outcome(test))


def _outcome(test: ElementTree.Element) -> object:
    bad = [part for part in test if part.tag in ("failure", "error")]
    skips = [part for part in test if part.tag == "skipped"]

    def run() -> None:
        if bad:
            _fail(f"{bad[0].get('message')}")
        if skips:
            raise Skipped(skips[0].get("message"))

    return run


def _fail(text: str) -> None:
    raise AssertionError(text[-3000:])
