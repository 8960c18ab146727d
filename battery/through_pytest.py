"""Groups that the tests prove: their results, counted as cases."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

from battery import ROOT, Case, Skipped


def results_of(*arguments: str) -> Case:
    """Run pytest with these arguments: a case that counts the tests, and fails with the first that fails."""
    return Case(" ".join(arguments), partial(_run, arguments))


def _run(arguments: tuple[str, ...]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert report.exists(), done.stdout[-3000:]
        tests = list(ElementTree.parse(report).iter("testcase"))
    bad = [(test, part) for test in tests for part in test if part.tag in ("failure", "error")]
    names = ", ".join(f"{test.get('classname')}::{test.get('name')}" for test, _ in bad)
    assert not bad, f"{names}: {bad[0][1].get('message')}"
    assert done.returncode == 0, done.stdout[-3000:]
    skipped = [part.get("message") for test in tests for part in test if part.tag == "skipped"]
    if len(skipped) == len(tests):
        raise Skipped(skipped[0])
    return len(tests) - len(skipped)
