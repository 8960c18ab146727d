"""Exact questions about floating-point vectors: is one a multiple of another, or a combination of others?

Rounding makes such questions undecidable in floating point. But every such number is an integer times a
power of two, so the questions can be asked modulo an odd prime, where arithmetic is exact and fast. A vector
that depends on others does so modulo every prime. One that does not could seem to modulo a prime that divides
one certain integer; that this happens for both primes below by accident has a probability near 2^-60.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from residuum.dictionary import FloatArray

PRIMES = (2147483629, 2147483587)  # below 2^31, so that the product of two residues fits into 64 bits
LOWEST = -1130  # exponents of two from here on, for a mantissa of 53 bits, reach every float64

Residues = npt.NDArray[np.int64]


@cache
def _powers(prime: int) -> Residues:
    """2^k modulo a prime, from k = LOWEST."""
    return np.array([pow(2, k, prime) for k in range(LOWEST, 1025)], dtype=np.int64)


def _residues(numbers: FloatArray, prime: int) -> Residues:
    mantissa, exponent = np.frexp(numbers.astype(np.float64, copy=False))
    integer = np.ldexp(mantissa, 53).astype(np.int64)
    return integer % prime * _powers(prime)[exponent - 53 - LOWEST] % prime


def are_multiples(some: FloatArray, others: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each row is a multiple of the row beside it, of either sign; no row of `others` is zero."""
    rows, pivot = np.arange(len(some)), np.abs(others).argmax(axis=1)
    equal = np.ones(len(some), dtype=bool)
    for prime in PRIMES:
        a, b = _residues(some, prime), _residues(others, prime)
        cross = a * b[rows, pivot][:, None] % prime
        equal &= (cross == b * a[rows, pivot][:, None] % prime).all(axis=1)
    return equal


def are_combinations(some: FloatArray, basis: FloatArray) -> npt.NDArray[np.bool_]:
    """Whether each of some rows is a linear combination of the rows of `basis`."""
    equal = np.ones(len(some), dtype=bool)
    for prime in PRIMES:
        rows = _residues(np.vstack([basis, some]), prime)
        for i in range(len(basis)):
            filled = np.flatnonzero(rows[i])
            if not len(filled):
                continue
            pivot = rows[i] * pow(int(rows[i, filled[0]]), -1, prime) % prime
            rest = rows[i + 1 :]
            rest -= rest[:, filled[0], None] * pivot % prime
            rest %= prime
        equal &= ~rows[len(basis) :].any(axis=1)
    return equal
