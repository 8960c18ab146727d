"""Memory: a large dictionary is answered in bounded space, and answering for ever takes no more."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from battery import ROOT, Case, Scope
from battery.commands import environment
from battery.subjects import CLASSIFIERS

WORKING_MEMORY = 1024  # MiB, scikit-learn's own default for what a method may hold besides its data

LARGE = """
import json, resource, sys, warnings
import numpy as np
import battery
from battery.subjects import classifier
warnings.simplefilter("ignore")
name, n, d, q = sys.argv[1], *map(int, sys.argv[2:])
rng = np.random.default_rng(0)

def peak():
    resource.getrusage(resource.RUSAGE_SELF)
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) / 1024

small = np.abs(rng.normal(size=(40, 5))).astype(np.float32)
classifier(name).fit(small, np.arange(40) % 4).predict(small)  # loads and compiles
before = peak()
centres = rng.normal(size=(10, d)).astype(np.float32)
labels = rng.integers(10, size=n)
X = rng.standard_normal((n, d), dtype=np.float32)
X += 2 * centres[labels]
# A few hard queries, whose codes use many samples, and others that are near one sample each.
Q = 0.2 * rng.standard_normal((q, d), dtype=np.float32)
Q[: q // 100] *= 5
Q[q // 100 :] += X[rng.integers(n, size=q - q // 100)]
model = classifier(name)
if "tol" in model.get_params():
    model.set_params(tol=0.01)  # memory is asked for, not digits
model.fit(X, labels).predict(Q)
print(json.dumps({"peak": peak() - before, "data": (X.nbytes + Q.nbytes) / 2**20}))
"""
LOOP = """
import ctypes, gc, json, sys, warnings
import battery
from battery.subjects import classifier, digits
warnings.simplefilter("ignore")
name, count = sys.argv[1], int(sys.argv[2])
X, y, Q = digits(300, 50)
model = classifier(name).fit(X, y)

def used():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

def turn(i):
    model.predict(Q)
    if i % 10 == 0:
        model.explain(Q[0])
        model.partial_fit(X[:2], y[:2])
        model.forget(samples=[model.n_samples_seen_ - 1, model.n_samples_seen_ - 2])

for i in range(count // 4):
    turn(i)
before = used()
for i in range(count):
    turn(i)
print(json.dumps({"before": before, "after": used()}))
"""


def cases(scope: Scope) -> Iterator[Case]:
    """60,000 x 500 in float32 with 10,000 queries, and 2,000 turns of predicting."""
    size = (20_000, 100, 400) if scope.quick else (60_000, 500, 10_000)
    names = list(CLASSIFIERS)
    for name in names[::3] if scope.quick else names:
        yield Case(f"{name}, {size[0]} x {size[1]}, {size[2]} queries", partial(large, name, *size))
    for name in names[1::3] if scope.quick else names:
        yield Case(f"{name}, predict again and again", partial(loop, name, scope.count(100, 2000)))


def large(name: str, *size: int) -> None:
    """The peak is the data and at most one and a half times the working memory."""
    found = _told(LARGE, name, *map(str, size))
    limit = found["data"] + 1.5 * WORKING_MEMORY
    assert found["peak"] <= limit, f"{found['peak']:.0f} MiB, allowed are {limit:.0f}"


def loop(name: str, count: int) -> int:
    """Memory grows by no more than one part in a hundred."""
    found = _told(LOOP, name, str(count))
    growth = found["after"] / found["before"] - 1
    assert growth <= 0.01, f"from {found['before']} kB to {found['after']} kB, {100 * growth:.1f} %"
    return count


def _told(script: str, *arguments: str) -> dict[str, float]:
    path = f"{ROOT / 'src'}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=environment(PYTHONPATH=path, OMP_NUM_THREADS="2"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-1500:]
    return json.loads(done.stdout)
