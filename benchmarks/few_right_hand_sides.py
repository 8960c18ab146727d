"""From how many right-hand sides on does one call of `nnls` cost less than a loop over SciPy's?

    OMP_NUM_THREADS=1 python benchmarks/few_right_hand_sides.py

Processor microseconds per right-hand side of 200 x 10, medians of 15 runs, one thread.
"""

import argparse
import time

import numpy as np
import scipy.optimize
from stored import add_option, store

from residuum import nnls

rng = np.random.default_rng(0)
A = rng.random((200, 10))
B = A @ (rng.random((10, 1000)) * (rng.random((10, 1000)) < 0.4)) + 0.05 * rng.normal(size=(200, 1000))


def looped(A, B):
    """Solve for one column after the other."""
    return np.column_stack([scipy.optimize.nnls(A, b)[0] for b in B.T])


def ours(A, B):
    """Solve for all columns."""
    return nnls(A, B, dense=True, n_jobs=1).x


def median_time(solve, B):
    """Microseconds per column of B."""
    times = []
    for _ in range(15):
        start = time.process_time()
        solve(A, B)
        times.append(time.process_time() - start)
    return 1e6 * np.median(times) / B.shape[1]


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
add_option(parser)
file, rows = parser.parse_args().json, []
np.testing.assert_allclose(ours(A, B), looped(A, B), atol=1e-12)
print("right-hand sides   residuum   SciPy")
for count in (1, 10, 30, 100, 1000):
    times = median_time(ours, B[:, :count]), median_time(looped, B[:, :count])
    print(f"{count:16} {times[0]:10.1f} {times[1]:7.1f}")
    rows.append({"right-hand sides": count, "residuum": times[0], "SciPy": times[1]})
store(file, {"unit": "processor microseconds per right-hand side", "rows": rows})
