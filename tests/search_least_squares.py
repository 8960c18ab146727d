"""Hold `least_squares` against brute force: python tests/search_least_squares.py [problems] [--seed 0].

For every option, small random problems of all degenerate kinds are solved and compared with the best of all
choices of active constraints. It counts

    lies      a feasible point that is better by more than the gap allows;
    worse     objectives more than 1e-9 above the best, relative to the scale of the certificate;
    outside   points outside their bounds, or further than 1e-12 from their sum;
    open      right-hand sides that did not converge, by family of matrices.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import Counter
from fractions import Fraction

import numpy as np
from oracles import constrained_by_brute_force
from search_for_lies import FAMILIES, queries

from residuum import Tikhonov, least_squares, least_squares_from_gram, tikhonov_path

LONG = np.longdouble


def _bounds(rng, n):
    ends = rng.choice([-np.inf, -1.0, 0.0, 0.0, 0.3], n)
    return ends, np.maximum(ends, 0) + rng.choice([0.0, 0.5, 2.0, np.inf, np.inf], n)


OPTIONS = {
    "plain": lambda rng, d, n: {},
    "free": lambda rng, d, n: {"bounds": (-np.inf, np.inf)},
    "box": lambda rng, d, n: {"bounds": (-rng.random(n), rng.random(n))},
    "bounds": lambda rng, d, n: {"bounds": _bounds(rng, n)},
    "sum_to": lambda rng, d, n: {"sum_to": float(rng.choice([1.0, 0.1, 7.0]))},
    "sum_to in a box": lambda rng, d, n: {"sum_to": 0.5, "bounds": (-0.5, 1.0)},
    "sum_at_most": lambda rng, d, n: {"sum_at_most": float(rng.choice([1.0, 0.1, 7.0]))},
    "l1": lambda rng, d, n: {"l1": float(10.0 ** rng.uniform(-6, 1))},
    "l1 and a sum": lambda rng, d, n: {"l1": float(10.0 ** rng.uniform(-6, 1)), "sum_at_most": 1.0},
    "l2": lambda rng, d, n: {"l2": float(10.0 ** rng.uniform(-6, 1))},
    "regularizer": lambda rng, d, n: {
        "l2": Tikhonov(
            float(10.0 ** rng.uniform(-4, 1)), rng.standard_normal((int(rng.integers(1, n + 2)), n))
        )
    },
    "weights": lambda rng, d, n: {"weights": rng.random(d) * (rng.random(d) < 0.8)},
    "own weights": lambda rng, d, n: {"weights": rng.random((d, 16)) * (rng.random((d, 16)) < 0.8)},
    "missing": lambda rng, d, n: {"missing": rng.random((d, 16)) < 0.3},
    "gram": lambda rng, d, n: {"gram": True},
    "gram in a box": lambda rng, d, n: {"gram": True, "bounds": (-rng.random(n), rng.random(n))},
    # The place of an option decides its random numbers, so a new one comes last.
    "path": lambda rng, d, n: {"path": True, "l2": float(10.0 ** rng.uniform(-6, 1))},
}


def reference(A, B, given):
    """Points and objectives by brute force, one call for each pattern of weights."""
    n = A.shape[1]
    options = dict(given)
    lower, upper = (np.broadcast_to(side, n).astype(float) for side in options.pop("bounds", (0.0, np.inf)))
    weights, term = options.pop("weights", None), options.pop("l2", 0.0)
    L, options["l2"] = (term.regularizer, term.weight) if isinstance(term, Tikhonov) else (None, term)
    if weights is None or weights.ndim == 1:
        root = np.ones(len(A)) if weights is None else np.sqrt(weights)
        return constrained_by_brute_force(root[:, None] * A, root[:, None] * B, lower, upper, L=L, **options)
    parts = [
        constrained_by_brute_force(w[:, None] * A, (w * b)[:, None], lower, upper, L=L, **options)
        for w, b in zip(np.sqrt(weights).T, B.T, strict=True)
    ]
    return np.hstack([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def objectives(A, B, X, given):
    """Objective for columns of X with all the digits there are, and the scale of a certificate."""
    n = A.shape[1]
    X, w = X.astype(LONG), given.get("weights", np.ones(len(A))).reshape(len(A), -1).astype(LONG)
    term = given.get("l2", 0.0)
    term = term if isinstance(term, Tikhonov) else Tikhonov(term)
    L = (np.eye(n) if term.regularizer is None else term.regularizer).astype(LONG)
    l1, l2 = LONG(given.get("l1", 0.0)), LONG(term.weight)
    value = np.sum(w * (B.astype(LONG) - A.astype(LONG) @ X) ** 2, axis=0) + l2 * np.sum((L @ X) ** 2, axis=0)
    value += l1 * X.sum(axis=0)
    norms = np.sqrt(w.T @ A.astype(LONG) ** 2 + l2 * np.sum(L**2, axis=0)).T  # (n, 1 or n_rhs)
    lower, upper = (np.broadcast_to(s, n)[:, None] for s in given.get("bounds", (0.0, np.inf)))
    forced = np.sum(norms * np.abs(np.clip(0.0, lower, upper)), axis=0)
    shortest = np.where(norms > 0, norms, np.inf).min(axis=0)
    shortest[np.isinf(shortest)] = 0.0
    forced = np.maximum(forced, abs(given.get("sum_to", 0.0)) * shortest)
    return value, (np.sqrt(np.sum(w * B.astype(LONG) ** 2, axis=0)) + forced) ** 2


def digits_lost(A, B, X, points, scale):
    """Bound on the error of a difference of objectives, relative to the scale."""
    size = np.linalg.norm(A, axis=0) @ np.maximum(np.abs(X), np.abs(points)) + np.linalg.norm(B, axis=0)
    lost = 8 * (len(X) + 4) * float(np.finfo(LONG).eps) * size
    return np.where(scale > 0, lost * (2 * np.sqrt(scale) + lost) / np.where(scale > 0, scale, 1), 0.0)


def solved(A, B, given):
    """The solution, and the options that brute force takes in place of missing entries."""
    if given.pop("gram", False):
        given["products"] = A.T @ A, A.T @ B
        return least_squares_from_gram(*given["products"], bounds=given.get("bounds", (0.0, np.inf))), given
    if given.pop("path", False):
        return tikhonov_path(A, B, given["l2"] * np.array([1.0, 100.0])).solutions[0], given
    missing = given.pop("missing", None)
    if missing is None:
        return least_squares(A, B, **given), given
    solution = least_squares(A, np.where(missing, np.nan, B), **given)
    return solution, {**given, "weights": 1.0 - missing}


def products_objectives(X, products):
    """``x'Gx - 2c'x`` with all the digits there are, and the scale of a certificate without A."""
    G, C = (part.astype(LONG) for part in products)
    root = np.sqrt(np.diagonal(G))[:, None]
    X = X.astype(LONG)
    norms = np.max(np.abs(C) / np.where(root > 0, root, 1), axis=0)
    return np.sum(X * (G @ X - 2 * C), axis=0), norms**2


def products_lead(x, y, products, r):
    """By how much y is better than x for right-hand side r, in rational numbers: squares lose the digits."""
    G, C = products
    exact = [[Fraction(float(entry)) for entry in point] for point in (x, y)]
    values = []
    for point in exact:
        value = sum(
            a * b * Fraction(float(G[i, j])) for i, a in enumerate(point) for j, b in enumerate(point)
        )
        values.append(value - 2 * sum(a * Fraction(float(C[i, r])) for i, a in enumerate(point)))
    return float(values[0] - values[1])


def check(A, B, given, family, counts):
    """One call held against brute force."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution, given = solved(A, B, dict(given))
    X = solution.x
    lower, upper = (np.broadcast_to(s, len(X))[:, None] for s in given.get("bounds", (0.0, np.inf)))
    outside = ((lower > X) | (upper < X)).any(axis=0) | ~np.isfinite(X).all(axis=0)
    total = given.get("sum_to", given.get("sum_at_most"))
    if total is not None:
        over = (X.sum(axis=0) - total) / np.maximum(abs(total), np.abs(X).sum(axis=0))
        outside |= (np.abs(over) if "sum_to" in given else over) > 1e-12
    products = given.pop("products", None)
    points, _ = reference(A, B, given)
    if products is None:
        (mine, scale), (best, _) = objectives(A, B, X, given), objectives(A, B, points, given)
    else:
        (mine, scale), (best, _) = (products_objectives(P, products) for P in (X, points))
    ahead = np.where(scale > 0, (mine - best) / np.where(scale > 0, scale, 1), mine - best)
    # With a sum, the rival may miss it by rounding; longdouble loses digits where points are large.
    lies = ahead > solution.gap + (1e-9 if total is not None else 1e-17) + digits_lost(A, B, X, points, scale)
    for r in np.flatnonzero(lies) if products is not None else ():
        lies[r] = products_lead(X[:, r], points[:, r], products, r) > solution.gap[r] * float(scale[r])
    lies |= solution.converged & ~(solution.gap <= 1e-10)
    found = {"lies": lies, "worse": ahead > 1e-9, "outside": outside, "open": ~solution.converged}
    counts["problems"] += B.shape[1]
    for name, rows in found.items():
        counts[name] += int(rows.sum())
    counts[f"open: {family}"] += int((~solution.converged).sum())
    counts["worse yet converged"] += int(((ahead > 1e-9) & solution.converged).sum())


def search(option, problems, seed=0, most=4):
    """Counts for one option."""
    rng = np.random.default_rng([seed, list(OPTIONS).index(option)])
    counts = Counter()
    while counts["problems"] < problems:
        n, d = int(rng.integers(1, most + 1)), int(rng.integers(1, 3 * most))
        family = FAMILIES[rng.integers(0, len(FAMILIES))]
        A = family(rng, d, n)
        check(A, queries(rng, A), OPTIONS[option](rng, d, n), family.__name__, counts)
    return {name: count for name, count in counts.items() if count}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--options", nargs="*", default=list(OPTIONS), choices=list(OPTIONS))
    parser.add_argument("--json", action="store_true", help="Print all counts as JSON when all are done.")
    given = parser.parse_args()
    found = {}
    for option in given.options:
        found[option] = search(option, given.problems, given.seed)
        if not given.json:
            print(option, json.dumps(found[option]), flush=True)
    if given.json:
        print(json.dumps({"options": found}))


if __name__ == "__main__":
    main()
