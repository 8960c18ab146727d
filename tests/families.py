"""Small sets of atoms of every kind, as functions of a random generator."""

import numpy as np


def tall(rng):
    return rng.random((6, 15))


def wide(rng):
    return rng.random((8, 3))


def of_any_sign(rng):
    return rng.standard_normal((8, 4))


def rank_deficient(rng):
    return rng.standard_normal((7, 2)) @ rng.standard_normal((2, 6))


def duplicates(rng):
    half = rng.random((4, 5))
    return np.vstack([half, 3 * half[:3]])


def opposite(rng):
    half = rng.standard_normal((4, 5))
    return np.vstack([half, -half])


def nearly_equal(rng):
    return rng.random(5) + 1e-8 * rng.standard_normal((6, 5))


def with_zeros(rng):
    return np.vstack([rng.standard_normal((5, 4)), np.zeros((2, 4))])


def badly_scaled(rng):
    return rng.random((6, 5)) * 10.0 ** rng.uniform(-150, 150, (6, 1))


def one_atom(rng):
    return rng.random((1, 5))


FAMILIES = [tall, wide, of_any_sign, rank_deficient, duplicates, opposite, nearly_equal, with_zeros]
FAMILIES += [badly_scaled, one_atom]
