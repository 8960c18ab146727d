"""Atheris on every parser of files: nothing but our own errors, and no more than 1 GB of memory.

A fuzzer runs in a process of its own: ``python -m battery.fuzzing PARSER SECONDS SEED CORPUS FOUND``. Bytes
that break a parser are left in ``tests/corpus/PARSER``, where an ordinary test tries them ever after.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from parsers import PARSERS, examples, parse

from battery import ROOT, TESTS, Case, Scope, Skipped
from battery.through_pytest import results_of

MEGABYTES = 1024  # beyond what the libraries take
QUICK = 2  # seconds


def cases(scope: Scope) -> Iterator[Case]:
    """What was found before, and then every parser."""
    if not scope.quick:  # `make test` runs them
        yield results_of("tests/test_corpus.py", "-n0")
    seconds = scope.count(QUICK, 600)
    for name in PARSERS:
        yield Case(f"{name}, {seconds} s", partial(fuzz, name, seconds, scope.seed))


def fuzz(name: str, seconds: int, seed: int) -> int:
    """Run a fuzzer and return how many inputs it tried; what it finds is kept in the corpus of the tests."""
    if find_spec("atheris") is None:
        raise Skipped("needs atheris")
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as found:
        for i, content in enumerate(examples(name)):
            (Path(corpus) / f"example-{i}").write_bytes(content)
        done = subprocess.run(
            [sys.executable, "-m", "battery.fuzzing", name, str(seconds), str(seed + 1), corpus, found],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=seconds + 3000,
            check=False,
        )
        for path in Path(found).iterdir():
            kept = TESTS / "corpus" / name
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, kept)
    _, _, reason = done.stdout.partition("Uncaught Python exception")
    assert done.returncode == 0, f"code {done.returncode}: {(reason or done.stdout)[:1400]}"
    tried = re.search(r"Done (\d+) runs", done.stdout)
    assert tried, done.stdout[-800:]
    return int(tried[1])


def main(name: str, seconds: str, seed: str, corpus: str, found: str) -> None:
    """The fuzzer itself, which ends with an error at the first bytes that break the parser."""
    import atheris

    if int(seconds) > QUICK:
        os.nice(10)  # all fuzzers run at once, beside groups that matter more
    with atheris.instrument_imports(include=["residuum"]), tempfile.TemporaryDirectory() as warm:
        for content in examples(name):
            parse(name, content, Path(warm))  # imports whatever the parser needs
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    with tempfile.TemporaryDirectory() as folder:
        options = [
            "fuzz", corpus, f"-max_total_time={seconds}", f"-seed={seed}", "-timeout=300", "-max_len=65536",
            f"-rss_limit_mb={used + MEGABYTES}", f"-artifact_prefix={found}/", "-print_final_stats=1",
        ]  # fmt: skip
        atheris.Setup(options, lambda content: parse(name, content, Path(folder)))
        atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
