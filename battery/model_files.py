"""Model files that were damaged or made by an enemy: a typed error, little memory, and no wrong answer.

The tests flip 260 bytes, cut files off at 26 places, swap labels, and try unknown types and versions. Here
every value of the description is replaced by hostile ones in a file whose seal is good.
"""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from parsers import GOLDEN, golden_members, sealed

from battery import ROOT, Case, Scope
from battery.commands import environment
from battery.through_pytest import results_of

HOSTILE: dict[str, Any] = {
    "a text": "abc",
    "null": None,
    "true": True,
    "minus one": -1,
    "zero": 0,
    "a fraction": 0.5,
    "10**30": 10**30,
    "1e308": 1e308,
    "a list": [],
    "an object": {},
    "nested": [[[[[[1]]]]]],
    "a member": {"array": "1.npy"},
    "NaN": {"float": "nan"},
    "infinity": {"float": "inf"},
    "a dtype": {"numpy": ["<f8", 1e300]},
    "a huge dtype": {"numpy": ["S1000000000", ""]},
}
MEGABYTES = 1024


def cases(scope: Scope) -> Iterator[Case]:
    """The tests of model files, and every place of a description with every hostile value."""
    if not scope.quick:  # `make test` runs them
        yield results_of("tests/test_storage.py")
    described = json.loads(golden_members()["model.json"])
    for place in places(described):
        for name, value in HOSTILE.items():
            yield Case(f"{'.'.join(map(str, place))} is {name}", partial(replaced, place, value))
    for name, content in list(BOMBS.items())[: scope.count(1, len(BOMBS))]:
        yield Case(f"60 MB of {name}", partial(bomb, content))


def places(node: Any, before: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value, but for the notes of the user, which mean nothing to a model."""
    if before:
        yield before
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if (*before, key) != ("about",):
            yield from places(value, (*before, key))


def replaced(place: tuple[Any, ...], value: Any) -> None:
    """One value is another: an error of ours, or the same answers as the file it was made from."""
    from residuum import load_model
    from residuum.errors import ModelFileError

    described = copy.deepcopy(json.loads(golden_members()["model.json"]))
    node = described
    for key in place[:-1]:
        node = node[key]
    if node[place[-1]] == value and type(node[place[-1]]) is type(value):
        return
    node[place[-1]] = value
    expected = np.load(GOLDEN.with_suffix(".npz"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.residuum"
        path.write_bytes(sealed({**golden_members(), "model.json": json.dumps(described).encode()}))
        try:
            model = load_model(path)
        except ModelFileError as refused:
            if "model.residuum" not in str(refused):
                raise AssertionError("the error does not name the file") from refused
            return
    parameter = "parameters" in place
    assert parameter or place[-1] in ("name", "residuum"), f"{value!r} was taken"
    try:
        check_usable(model, expected["queries"])
    except ValueError:
        if not parameter or place[1] != 2:  # a solver may refuse a number
            raise


def check_usable(model: Any, queries: Any) -> None:
    """A model that opens answers with its own labels, learns one more sample, and is shown as text."""
    found = model.predict(queries)
    assert len(found) == len(queries)
    classifier = model[-1] if hasattr(model, "steps") else model
    assert set(found.tolist()) <= set(classifier.classes_.tolist())
    features = model[:-1].transform(queries) if hasattr(model, "steps") else queries
    assert np.isfinite(classifier.residuals(features)).all(), "a residual is not finite"
    classifier.partial_fit(features[:1], classifier.classes_[:1])
    assert repr(model)


BOMBS = {
    "nested lists": b"[" * 30_000_000 + b"]" * 30_000_000,
    "flat lists": b"[" + b"[]," * 20_000_000 + b"0]",
    "numbers": b"[" + b"1," * 30_000_000 + b"1]",
    "one text": b'"' + b"x" * 60_000_000 + b'"',
    "keys": b"{" + b",".join(b'"%d":0' % i for i in range(5_000_000)) + b"}",
}


def bomb(content: bytes) -> None:
    """A description of 60 MB is refused within 1 GB beyond what the libraries take."""
    described = golden_members()["model.json"].rstrip()
    assert described.endswith(b"}")
    whole = described[:-1] + b', "more": ' + content + b"}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.residuum"
        path.write_bytes(sealed({**golden_members(), "model.json": whole}))
        done = subprocess.run(
            [sys.executable, "-c", MEASURED, str(path)],
            env=environment(PYTHONPATH=f"{ROOT / 'src'}"),
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, f"code {done.returncode}: {done.stderr[-800:]}"
    grown = int(done.stdout.splitlines()[-1])
    assert grown < MEGABYTES, f"{grown} MiB were used"


MEASURED = """
import sys
from residuum import load_model
from residuum.errors import ModelFileError
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) // 1024
import residuum.models.file, residuum.estimators
before = peak()
try:
    load_model(sys.argv[1])
    sys.exit("it was opened")
except ModelFileError as error:
    pass
print(peak() - before)
"""
