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


def value_and_error(A, b, code, l1, l2):
    """Objective with all the digits that the machine has, and a bound on its error."""
    A, b, code = A.astype(LONG), b.astype(LONG), code.astype(LONG)
    residual = b - A @ code
    size = np.abs(b) + np.abs(A) @ np.abs(code)
    wrong = EPS * (len(code) + 4) * size
    value = residual @ residual + l2 * (code @ code) + l1 * np.abs(code).sum()
    error = (2 * np.abs(residual) + wrong) @ wrong + EPS * (len(b) + len(code) + 8) * value
    return value, error


def exact_value(A, b, code, l1, l2):
    """Objective in rational arithmetic."""
    used = np.flatnonzero(code)
    weights = [Fraction(float(code[j])) for j in used]
    total = sum((Fraction(l1) * abs(c) + Fraction(l2) * c * c for c in weights), Fraction(0))
    for i in range(len(b)):
        rest = Fraction(float(b[i]))
        for j, c in zip(used, weights, strict=True):
            rest -= Fraction(float(A[i, j])) * c
        total += rest * rest
    return total


def scaled_columns(A, b, l2):
    """Columns of unit norm, continued by the roots of their ridges, their right-hand side, the norms."""
    A, n = A.astype(np.float64), A.shape[1]
    size = np.linalg.norm(A, axis=0)
    size[size == 0] = 1
    return np.vstack([A / size, np.diag(np.sqrt(l2) / size)]), np.concatenate([b, np.zeros(n)]), size


def on_support(columns, target, size, part, signs, l1):
    """The minimiser on a support with its signs, clipped to them."""
    C, code = columns[:, part], np.zeros(columns.shape[1])
    with contextlib.suppress(np.linalg.LinAlgError):
        lean = np.linalg.lstsq(C.T, l1 / 2 / size[part] * signs, rcond=None)[0] if l1 else 0.0
        z = np.linalg.lstsq(C, target - lean, rcond=None)[0]
        code[part] = np.where(z * signs > 0, z, 0.0)
    return code / size


def rivals(A, b, code, l1, l2, signed, rng):
    """Feasible codes that may be better."""
    columns, target, size = scaled_columns(A, b, l2)
    n = len(size)
    if not signed and l1 == 0:
        for factor in (1.0, size):
            with contextlib.suppress(RuntimeError):
                yield scipy.optimize.nnls(columns * factor, target, maxiter=30 * n)[0] * factor / size
    elif not signed and n <= len(b) + (n if l2 else 0):
        lean = np.linalg.lstsq(columns.T, l1 / 2 / size, rcond=None)[0]
        with contextlib.suppress(RuntimeError):
            yield scipy.optimize.nnls(columns, target - lean, maxiter=30 * n)[0] / size
    used = set(np.flatnonzero(code).tolist())
    for k in range(3):  # the minimiser on the support, and on the support with an atom more or less
        part = sorted(used ^ {int(rng.integers(0, n))} if k else used)
        missing = rng.choice([-1.0, 1.0]) if signed else 1.0
        signs = np.where(code[part] == 0, missing, np.sign(code[part]))
        yield on_support(columns, target, size, part, signs, l1) if part else np.zeros(n)
    yield np.zeros(n)


def all_supports(A, b, l1, l2, signed):
    """The minimiser on every support, for few atoms."""
    scaled = scaled_columns(A, b, l2)
    n = A.shape[1]
    for count in range(1, n + 1):
        for part in map(list, itertools.combinations(range(n), count)):
            for signs in itertools.product((1.0, -1.0), repeat=count) if signed else [(1.0,) * count]:
                yield on_support(*scaled, part, np.array(signs), l1)


def is_refuted(A, b, code, gap, rival, l1, l2):
    """Whether a rival is better than the gap allows."""
    if not np.isfinite(rival).all():
        return False
    energy = float(b.astype(LONG) @ b.astype(LONG))
    mine, my_error = value_and_error(A, b, code, l1, l2)
    other, other_error = value_and_error(A, b, rival, l1, l2)
    allowed = LONG(gap) * energy
    if mine - other + my_error + other_error <= allowed * (1 - 1e-15):
        return False
    exact_energy = sum((Fraction(float(v)) ** 2 for v in b), Fraction(0))
    excess = exact_value(A, b, code, l1, l2) - exact_value(A, b, rival, l1, l2)
    return excess > Fraction(float(gap)) * exact_energy


def check_call(rng, report):
    """Solve one problem for all its right-hand sides; count and keep lies."""
    name, A, B, l1, l2, signed, tol = make_problem(rng)
    if not (np.isfinite(A).all() and np.isfinite(B).all()):
        return 0
    with_gram = {"gram": A.T @ A} if rng.random() < 0.1 and name != "badly_scaled" else {}
    options = {"l2": l2, "tol": tol, "n_jobs": 1, "dense": True, **with_gram}
    solution = lasso(A, B, l1, **options) if signed else nnls(A, B, l1=l1, **options)
    exhaustive = A.shape[1] <= (4 if signed else 6) and rng.random() < 0.1
    counts = report["counts"]
    for i in range(B.shape[1]):
        b, code, gap = B[:, i], solution.codes[i], solution.gap[i]
        counts["problems"] += 1
        counts["converged"] += bool(solution.converged[i])
        counts["certified to 1e-6"] += bool(gap <= 1e-6)
        sane = np.isfinite(code).all() and np.isfinite([gap, solution.violation[i]]).all()
        wrong = [] if sane and (signed or (code >= 0).all()) else ["number"]
        reach = np.abs(code) @ np.linalg.norm(A, axis=0) / max(np.linalg.norm(b), 1e-300)
        small = max(tol, 4.04 * np.finfo(float).eps * reach)
        if solution.converged[i] and not (gap <= tol and solution.violation[i] <= small):
            wrong.append("converged")
        others = rivals(A, b, code, l1, l2, signed, rng)
        if exhaustive:
            others = itertools.chain(others, all_supports(A, b, l1, l2, signed))
        if sane and any(is_refuted(A, b, code, gap, rival, l1, l2) for rival in others):
            wrong.append("gap")
        for kind in wrong:
            counts[f"lies: {kind}"] += 1
            report["lies"].append((kind, name, A, b, l1, l2, signed, tol))
        if not solution.converged[i]:
            report["open"][name] += 1
        report["families"][name] += 1
    if rng.random() < 0.1:
        _check_problem(rng, A, B, l1, l2, signed, solution.codes, report)
    return B.shape[1]


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
        for b, code, best, gap in zip(B.T, tried, codes, gaps, strict=True):
            report["counts"]["gaps of problems"] += 1
            others = (best, 0 * best, 0.999 * best) if b.any() and np.isfinite(gap) else ()
            if np.isnan(gap) or any(is_refuted(X, b, code, gap, other, l1, l2) for other in others):
                report["counts"]["lies: gap of a problem"] += 1
                report["lies"].append(("problem", problem, X, b, code, gap))


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
