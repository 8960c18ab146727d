"""What does `least_squares` need beyond its input and output for a million right-hand sides of 200 x 10?

    python benchmarks/million_right_hand_sides.py [--count 1000000]

Peak memory of the process by `resource.getrusage`, less what it had before the call (the input), and less the
arrays that are returned; processor microseconds per right-hand side beside the product A'B.
"""

import argparse
import resource
import time

import numpy as np
from stored import add_option, store

from residuum import least_squares
from residuum.experiments.tall_benchmark import spectra

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--count", type=int, default=1_000_000)
add_option(parser)
given = parser.parse_args()
rng = np.random.default_rng(0)
A = spectra(200, 10, rng)
B = np.empty((200, given.count))
for start in range(0, given.count, 10_000):
    part = B[:, start : start + 10_000]
    part[:] = A @ (rng.random((10, part.shape[1])) * (rng.random((10, part.shape[1])) < 0.4))
    part += 0.005 * rng.standard_normal(part.shape)
least_squares(A, B[:, :2])  # compile and load


def peak():
    """Megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


before, start = peak(), time.process_time()
solution = least_squares(A, B)
seconds, more = time.process_time() - start, peak() - before
arrays = (solution.codes, solution.violation, solution.gap, solution.converged, solution.n_iter)
returned = sum(array.nbytes for array in (*arrays, solution.residual_norm)) / 2**20
start = time.process_time()
for first in range(0, given.count, 100_000):
    A.T @ B[:, first : first + 100_000]
product = time.process_time() - start
print(f"input {B.nbytes / 2**20:.0f} MB, returned {returned:.0f} MB, beyond both {more - returned:.0f} MB")
print(f"{1e6 * seconds / given.count:.2f} µs per right-hand side, {seconds / product:.1f} times A'B")
print(f"converged: {int(solution.converged.sum())} of {given.count}")
figures = {
    "count": given.count,
    "input MB": B.nbytes / 2**20,
    "returned MB": returned,
    "beyond both MB": more - returned,
    "microseconds": 1e6 * seconds / given.count,
    "products": seconds / product,
    "converged": int(solution.converged.sum()),
}
store(given.json, figures)
