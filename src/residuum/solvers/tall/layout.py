"""How the compiled steps keep one program: all its vectors in one array, all its numbers in another.

All vectors of a program are rows of one array V, named by the constants below, and all its numbers entries of
one array S: a function that took each array by itself would count every one of them at each call, which takes
longer than the arithmetic. Loops run over blocks of LANES columns where a free set may have few variables;
the compiler turns such blocks into vector instructions.
"""

from __future__ import annotations

import numpy as np

from residuum.problem import Float64Array

# Rows of V. Given: bounds, the farthest that a variable can be where the sum implies that, the weights of the
# sum, the part of the linear term that is no product with b, norms of the columns, the linear term, and the
# gradient of an inner direction (`matrices`).
LOW, HIGH, FARTHEST, W, SHIFT, ALPHA, LINEAR, SLOPE = range(8)
# Computed: the point, its gradient h - Qx, h, the state of each variable, memory, and one over the norms.
X, P, H, AT, OLD, BEST, T, TW, PIVOT, SCALE = range(8, 18)
N_ROWS = 18
# Entries of S. Given: roundings that an entry of the gradient goes through, the sum and what kind of sum it
# is, tolerance, whether any bound is neither zero nor infinite, and, where A is not known, how far below zero
# an eigenvalue of Q can be, else -1; of each matrix: least eigenvalue at least, ridges of the proximal points
# and of the first solve, square and error of its inner direction; norm of b.
DEPTH, TOTAL, KIND, TOL, SHIFTED, CONCAVE, MU, EPS, FIRST, LENGTH, SLACK, BETA = range(12)
# Computed: ridge of the present factor, whether the sum counts as an equation now, its multiplier, size of
# the free set, steps taken, the certificate: violation, gap, objective minus beta^2, violation that rounding
# x makes; and how large a combination of columns the bounds and the sum force x to be.
RIDGE, SUMMED, NU, SIZE, STEPS, VIOLATION, GAP, VALUE, ROUNDING, FORCED = range(12, 22)
N_ENTRIES = 22

NO_SUM, SUM_TO, SUM_AT_MOST = range(3)
FREE, AT_LOW, AT_HIGH = 0.0, -1.0, 1.0

LANES = 8
U = 1.2e-16  # unit roundoff of float64, with room for terms of higher order


def aligned(shape: tuple[int, ...]) -> Float64Array:
    """Zeros that begin at a multiple of 64 bytes, as vector instructions like it."""
    size = int(np.prod(shape))
    room = np.zeros(size + 8)
    first = (-room.ctypes.data % 64) // 8
    return room[first : first + size].reshape(shape)
