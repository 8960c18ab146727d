"""Search for a certificate that lies: python tests/search_for_lies.py [problems] [--seed 0] [--seconds 600].

Small random problems of all degenerate kinds are solved, and every certificate is held against better codes
that other methods find. Values are compared in exact rational arithmetic where floating point leaves it open.
A lie is

    gap        a code that is better by more than the gap allows;
    converged  a query that counts as converged with a gap or a violation above what its tolerance promises;
    number     a code, gap or violation that is not a number or infinite, or a code of wrong sign.

Not to converge, or to report a large gap, is no lie; the share of such answers is counted as well.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import time
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
import scipy.linalg
import scipy.optimize

from residuum import lasso, nnls
from residuum.dictionary import Dictionary
from residuum.problem import CodingProblem

N_QUERIES = 16  # right-hand sides of one dictionary
LONG = np.longdouble
EPS = float(np.finfo(LONG).eps)


def gaussian(rng, d, n):
    return rng.standard_normal((d, n))


def non_negative(rng, d, n):
    return rng.random((d, n)) * (rng.random((d, n)) < 0.7)


def duplicates(rng, d, n):
    return gaussian(rng, d, n)[:, rng.integers(0, max(1, n // 2), n)] * rng.choice([1.0, 2.0, 3.0, 0.7], n)


def mirrored(rng, d, n):
    A = gaussian(rng, d, n)[:, rng.integers(0, max(1, n // 2), n)]
    return A * rng.choice([-1.0, 1.0], n) * rng.choice([1.0, 1.0, 3.0], n)


def nearly_opposite(rng, d, n):
    base = gaussian(rng, d, max(1, n // rng.integers(2, 7)))
    A = base[:, rng.integers(0, base.shape[1], n)] * rng.choice([-1.0, 1.0], n)
    return A + 10.0 ** rng.uniform(-14, -4) * gaussian(rng, d, n)


def rank_deficient(rng, d, n):
    rank = rng.integers(1, min(d, n) + 1)
    return gaussian(rng, d, rank) @ gaussian(rng, rank, n)


def exactly_rank_deficient(rng, d, n):
    rank = rng.integers(1, min(d, n) + 1)
    return rng.integers(-3, 4, (d, rank)).astype(float) @ rng.integers(-3, 4, (rank, n)).astype(float)


def collinear(rng, d, n):
    return np.outer(rng.standard_normal(d), rng.standard_normal(n))


def hilbert(rng, d, n):
    return scipy.linalg.hilbert(max(d, n))[:d, :n] * rng.choice([-1.0, 1.0, 1.0], n)


def vandermonde(rng, d, n):
    return np.vander(rng.uniform(-1, 1, d), n, increasing=True) * rng.choice([-1.0, 1.0], n)


def with_zeros(rng, d, n):
    return gaussian(rng, d, n) * (rng.random(n) < 0.7)


def badly_scaled(rng, d, n):
    family = FAMILIES[rng.integers(0, len(FAMILIES) - 1)]
    return family(rng, d, n) * 10.0 ** rng.uniform(-8, 8, n)


def integers(rng, d, n):
    return rng.integers(-1, 2, (d, n)).astype(float)


FAMILIES = [
    gaussian,
    non_negative,
    duplicates,
    mirrored,
    nearly_opposite,
    rank_deficient,
    exactly_rank_deficient,
    collinear,
    hilbert,
    vandermonde,
    with_zeros,
    integers,
    badly_scaled,
]


def queries(rng, A):
    """Right-hand sides: noise, integers, in the cone, in the span, against the cone, orthogonal, an atom."""
    d, n = A.shape
    size = np.maximum(np.abs(A).max(axis=0), 1e-300)
    Q = np.linalg.svd(A / size)[0]
    kinds = [
        lambda: rng.standard_normal(d),
        lambda: rng.integers(-2, 3, d).astype(float),
        lambda: A @ (rng.random(n) * (rng.random(n) < 0.5) / size),
        lambda: A @ (rng.standard_normal(n) / size),
        lambda: -A @ (rng.random(n) / size),
        lambda: Q[:, -1] + 10.0 ** rng.uniform(-12, 0) * rng.standard_normal(d),
        lambda: A[:, rng.integers(0, n)].copy(),
        lambda: A[:, rng.integers(0, n)] / size.max() + 1e-8 * rng.standard_normal(d),
    ]
    return np.column_stack([kinds[k]() for k in rng.integers(0, len(kinds), N_QUERIES)])


def make_problem(rng):
    """A, B and the options of one call."""
    d, n = rng.integers(1, 13, 2)
    family = FAMILIES[rng.integers(0, len(FAMILIES))]
    A = family(rng, d, n)
    B = queries(rng, A)
    if rng.random() < 0.3:
        with np.errstate(all="ignore"):
            A, B = A.astype(np.float32), B.astype(np.float32)
    size = float(np.abs(A).max(initial=0.0)) or 1.0
    weight = [0.0, 10.0 ** rng.uniform(-12, 0)]
    l1 = weight[int(rng.random() < 0.4)] * size
    l2 = weight[int(rng.random() < 0.3)] * size * size
    signed = l1 > 0 and rng.random() < 0.5
    tol = [1e-10, 1e-10, 1e-6, 1e-3, 1e-14][rng.integers(0, 5)]
    return family.__name__, A, B, float(l1), float(l2), bool(signed), tol


def values_and_errors(A, targets, codes, l1, l2):
    """Objectives of codes (rows) for targets (rows) in long double, and bounds of their errors."""
    A, targets, codes = A.astype(LONG), targets.astype(LONG), codes.astype(LONG)
    d, n = A.shape
    residuals = targets - codes @ A.T
    wrong = EPS * (n + 4) * (np.abs(targets) + np.abs(codes) @ np.abs(A.T))
    values = (residuals**2).sum(axis=1) + l2 * (codes**2).sum(axis=1) + l1 * np.abs(codes).sum(axis=1)
    errors = ((2 * np.abs(residuals) + wrong) * wrong).sum(axis=1) + EPS * (d + n + 8) * values
    return values, errors


def as_integers(numbers):
    """Floating-point numbers as integers times one power of two: integers, and the power.

    Sums and products of these are exact, and many times faster than those of fractions.
    """
    parts, powers = np.frexp(np.asarray(numbers, dtype=np.float64))
    least = int(np.min(powers, where=parts != 0, initial=2000))
    whole = (parts * 2.0**53).astype(np.int64).astype(object)
    shifts = np.where(parts != 0, powers - least, 0).astype(object)
    return whole << shifts, least - 53


def exact_value(A, b, code, l1, l2, columns=None):
    """Objective in rational arithmetic; `columns` is ``as_integers(A)``, where that is known."""
    (columns, of_columns), (target, of_target) = columns or as_integers(A), as_integers(b)
    used = np.flatnonzero(code)
    weights, of_weights = as_integers(code[used])
    power = min(of_columns + of_weights, of_target)
    whole = columns[:, used] @ weights if len(used) else 0 * target
    residual = (target << (of_target - power)) - (whole << (of_columns + of_weights - power))
    total = Fraction(int(residual @ residual)) * Fraction(2) ** (2 * power)
    if l1:
        total += Fraction(l1) * int(np.abs(weights).sum()) * Fraction(2) ** of_weights
    if l2:
        total += Fraction(l2) * int((weights * weights).sum()) * Fraction(2) ** (2 * of_weights)
    return total


def scaled_columns(A, l2):
    """Columns of unit norm, continued by the roots of their ridges, and the norms."""
    A = A.astype(np.float64)
    size = np.linalg.norm(A, axis=0)
    size[size == 0] = 1
    return np.vstack([A / size, np.diag(np.sqrt(l2) / size)]), size


def on_supports(columns, size, targets, signs, l1):
    """Minimisers on supports with their signs (0 is an atom left out), clipped to them: a row for each.

    Row i of `targets` belongs to row i of `signs`.
    """
    precision = np.finfo(float).eps * max(columns.shape)
    try:
        inverse = np.linalg.pinv(columns * (signs != 0)[:, None, :], precision)
    except np.linalg.LinAlgError:
        return np.zeros_like(signs)
    lean = np.einsum("snm,sn->sm", inverse, l1 / 2 / size * signs)
    z = np.einsum("snm,sm->sn", inverse, targets - lean)
    return np.where(z * signs > 0, z, 0.0) / size


def by_scipy(columns, size, target, d, l1, l2):
    """The non-negative minimiser as SciPy finds it, where the problem can be written as one of its own."""
    n = len(size)
    if l1 == 0:
        for factor in (1.0, size):
            with contextlib.suppress(RuntimeError):
                yield scipy.optimize.nnls(columns * factor, target, maxiter=30 * n)[0] * factor / size
    elif n <= d + (n if l2 else 0):
        lean = np.linalg.lstsq(columns.T, l1 / 2 / size, rcond=None)[0]
        with contextlib.suppress(RuntimeError):
            yield scipy.optimize.nnls(columns, target - lean, maxiter=30 * n)[0] / size


def nearby_signs(codes, signed, rng):
    """Signs of each code, and twice those with an atom more or less: (3, n_queries, n_atoms)."""
    signs = np.repeat(np.sign(codes)[None], 3, axis=0)
    for one in signs[1:].reshape(-1, signs.shape[2]):
        j = rng.integers(0, len(one))
        one[j] = (rng.choice([-1.0, 1.0]) if signed else 1.0) if one[j] == 0 else 0.0
    return signs


def rivals(A, B, codes, l1, l2, signed, rng, *, exhaustive):
    """Feasible codes that may be better: the query that each is for, and the codes."""
    columns, size = scaled_columns(A, l2)
    n_queries, n = codes.shape
    targets = np.hstack([B.T, np.zeros((n_queries, n))])
    owners, found = [np.arange(n_queries)], [np.zeros((n_queries, n))]
    for i in range(0 if signed else n_queries):
        others = list(by_scipy(columns, size, targets[i], len(A), l1, l2))
        owners.append(np.full(len(others), i))
        found.append(np.reshape(others, (-1, n)))
    for signs in nearby_signs(codes, signed, rng):
        owners.append(np.arange(n_queries))
        found.append(on_supports(columns, size, targets, signs, l1))
    if exhaustive:
        every = np.array(list(itertools.product((0.0, 1.0, -1.0) if signed else (0.0, 1.0), repeat=n)))
        for i in range(n_queries):
            owners.append(np.full(len(every), i))
            found.append(on_supports(columns, size, targets[i], every, l1))
    return np.concatenate(owners), np.concatenate(found)


def refuted(A, B, codes, gaps, owners, others, l1, l2):
    """Queries with a rival that is better than the gap allows, exactly where long double leaves it open."""
    energies = (B.T.astype(LONG) ** 2).sum(axis=1)
    allowed = gaps.astype(LONG) * energies * (1 - 1e-15)
    mine, my_errors = values_and_errors(A, B.T, codes, l1, l2)
    finite = np.isfinite(others).all(axis=1)
    owners, others = owners[finite], others[finite]
    theirs, their_errors = values_and_errors(A, B.T[owners], others, l1, l2)
    is_open = (mine + my_errors)[owners] - theirs + their_errors > allowed[owners]
    is_open &= (mine + my_errors > allowed)[owners]  # no objective is below zero
    found, limits, columns = set(), {}, as_integers(A)
    for i, rival in zip(owners[is_open].tolist(), others[is_open], strict=True):
        if i in found:
            continue
        if i not in limits:
            energy = sum(Fraction(float(v)) ** 2 for v in B[:, i])
            mine_exact = exact_value(A, B[:, i], codes[i], l1, l2, columns)
            limits[i] = mine_exact - Fraction(float(gaps[i])) * energy
        if limits[i] > 0 and exact_value(A, B[:, i], rival, l1, l2, columns) < limits[i]:
            found.add(i)
    return found


def check_call(rng, report):
    """Solve one problem for all its right-hand sides; count and keep lies."""
    name, A, B, l1, l2, signed, tol = make_problem(rng)
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        return
    with_gram = {"gram": A.T @ A} if rng.random() < 0.1 and name != "badly_scaled" else {}
    options = {"l2": l2, "tol": tol, "n_jobs": 1, "dense": True, **with_gram}
    solution = lasso(A, B, l1, **options) if signed else nnls(A, B, l1=l1, **options)
    codes, gaps, violations = solution.codes, solution.gap, solution.violation
    exhaustive = A.shape[1] <= (4 if signed else 6) and rng.random() < 0.1
    sane = np.isfinite(codes).all(axis=1) & np.isfinite(gaps) & np.isfinite(violations)
    right = sane & (codes >= 0).all(axis=1) if not signed else sane
    lengths = np.maximum(np.linalg.norm(B.astype(float), axis=0), 1e-300)
    reach = np.abs(codes) @ np.linalg.norm(A.astype(float), axis=0) / lengths
    small = np.maximum(tol, 4.04 * np.finfo(float).eps * reach)
    met = (gaps <= tol) & (violations <= small)
    kept = np.flatnonzero(sane)
    owners, others = rivals(A, B[:, kept], codes[kept], l1, l2, signed, rng, exhaustive=exhaustive)
    better = refuted(A, B[:, kept], codes[kept], gaps[kept], owners, others, l1, l2)
    wrong = {
        "number": np.flatnonzero(~right),
        "converged": np.flatnonzero(solution.converged & ~met),
        "gap": kept[sorted(better)],
    }
    counts = report["counts"]
    counts["problems"] += B.shape[1]
    counts["tried on every support"] += B.shape[1] * exhaustive
    counts["converged"] += int(np.count_nonzero(solution.converged))
    counts["certified to 1e-6"] += int(np.count_nonzero(gaps <= 1e-6))
    for kind, queries_of_kind in wrong.items():
        for i in queries_of_kind:
            counts[f"lies: {kind}"] += 1
            report["lies"].append((kind, name, A, B[:, i], l1, l2, signed, tol))
    report["open"][name] += int(np.count_nonzero(~solution.converged))
    report["families"][name] += B.shape[1]
    if rng.random() < 0.1:
        _check_problem(rng, A, B, l1, l2, signed, codes, report)


def _check_problem(rng, A, B, l1, l2, signed, codes, report):
    """The gap of `CodingProblem` for codes near the optimum and far from it."""
    size = np.linalg.norm(A.astype(float), axis=0)
    if not ((size > 0.01) & (size < 100)).all():
        return
    X, codes = (A / size).astype(A.dtype), codes * size
    dictionary = Dictionary(np.ascontiguousarray(X.T), np.array([0, len(size)]), np.arange(len(size)))
    problem = CodingProblem(l1=l1, l2=l2, neg_weight=0.0 if signed else np.inf)
    moved = codes * (1 + 10.0 ** rng.uniform(-16, 0) * rng.standard_normal(codes.shape))
    for tried in (codes, moved if signed else np.maximum(moved, 0)):
        gaps = problem.gap(dictionary, B.T, tried)
        report["counts"]["gaps of problems"] += len(gaps)
        checked = np.flatnonzero(B.any(axis=0) & np.isfinite(gaps))
        others = np.concatenate([codes[checked], 0 * codes[checked], 0.999 * codes[checked]])
        owners = np.tile(np.arange(len(checked)), 3)
        better = refuted(X, B[:, checked], tried[checked], gaps[checked], owners, others, l1, l2)
        for i in {*np.flatnonzero(np.isnan(gaps)).tolist(), *checked[sorted(better)].tolist()}:
            report["counts"]["lies: gap of a problem"] += 1
            report["lies"].append(("problem", problem, X, B[:, i], tried[i], gaps[i]))


def search(n_problems, seed=0, seconds=None):
    """Look at so many problems, or as many as the time allows; counts, and the lies that were found."""
    report = {"counts": Counter(), "open": Counter(), "families": Counter(), "lies": []}
    rng = np.random.default_rng(seed)
    end = None if seconds is None else time.monotonic() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while report["counts"]["problems"] < n_problems and (end is None or time.monotonic() < end):
            check_call(rng, report)
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("problems", type=int, nargs="?", default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float)
    arguments = parser.parse_args()
    report = search(arguments.problems, arguments.seed, arguments.seconds)
    shown = {**report["counts"], "not converged": report["open"], "of": report["families"]}
    print(json.dumps(shown, indent=1))
    for lie in report["lies"][:20]:
        print(*lie, sep="\n")
    raise SystemExit(1 if report["lies"] else 0)


if __name__ == "__main__":
    main()
