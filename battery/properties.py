"""What must hold for every code of every problem, tried on examples that Hypothesis draws and shrinks.

Codes are non-negative where they must be, meet the literal conditions of optimality, and reach the objective
of independent solvers: SciPy's nnls, least squares of stacked matrices, brute force over all supports, the
literal Algorithm 2, and Clarabel. Permuting samples, rotating features and scaling change no score.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from oracles import algorithm_2, nnls_by_brute_force, simplex_by_brute_force, soft_code
from scipy.optimize import nnls as scipy_nnls
from sklearn.linear_model import Lasso

from battery import Case, Scope, Skipped
from battery.optimality import Literal, half_gradient, literal_problem, unit, value, violation, wide_blocks
from battery.subjects import dense
from residuum import CRC, CRNRC, CROC, NRC, NSC, SRC, ProCRC, SimplexRC, SoftNRC, lasso, nnls

weights = st.sampled_from([1e-6, 1e-4, 0.01, 0.1, 1.0, 10.0])
SUBJECTS: dict[str, Any] = {
    "NSC": st.builds(NSC, l2=weights),
    "SRC": st.builds(SRC, l1=st.sampled_from([1e-3, 0.01, 0.1, 0.5]), positive=st.booleans()),
    "CRC": st.builds(CRC, l2=weights),
    "CROC": st.builds(CROC, l2=weights, weight=st.sampled_from([0.0, 0.5, 1.0])),
    "ProCRC": st.builds(ProCRC, l2=weights, gamma=st.sampled_from([0.0, 0.01, 1.0])),
    "NRC": st.builds(NRC, rho=st.sampled_from([0.1, 1.0, 5.0]), max_iter=st.sampled_from([1, 5, 20])),
    "NRC exact": st.builds(NRC, solver=st.just("exact")),
    "SoftNRC": st.builds(SoftNRC, l2=weights, neg_weight=st.sampled_from([0.0, 0.01, 1.0, 100.0, math.inf])),
    "SimplexRC": st.builds(SimplexRC, l2=st.just(0.0) | weights),
    "CRNRC": st.builds(CRNRC, gamma=weights),
}


@dataclass(frozen=True)
class Samples:
    """Samples as rows, labels, and queries."""

    X: np.ndarray
    y: np.ndarray
    Q: np.ndarray


@st.composite
def samples(draw: Any) -> Samples:
    """Small whole numbers, which make ties and dependent samples, or numbers of any kind from a seed."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 10))
    y = np.array(draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
    if draw(st.booleans()):
        small = st.integers(-2, 3)
        X = draw(arrays(np.float64, (n, d), elements=small))
        Q = draw(arrays(np.float64, (2, d), elements=small))
    else:
        rng = np.random.default_rng(draw(st.integers(0, 2**32)))
        rank = draw(st.integers(1, d))
        X = rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d)) if rank < d else rng.normal(size=(n, d))
        Q = rng.normal(size=(2, d))
        if draw(st.booleans()):
            X, Q = np.abs(X), np.abs(Q)
        if n > 1 and draw(st.booleans()):
            X[-1] = X[0] * (1 + 1e-7) + 1e-8 * rng.normal(size=d)
    X[~X.any(axis=1)] = 1.0
    Q[~Q.any(axis=1)] = 1.0
    return Samples(X, y, Q)


def cases(scope: Scope) -> Iterator[Case]:
    """Properties of the classifiers and of nnls and lasso, and their objectives against Clarabel."""
    each = scope.count(50, 2000)
    for name, subject in SUBJECTS.items():
        yield Case(f"{name}, properties", partial(explore, check_classifier, subject, each, scope.seed))
    for name, function, l1s in (("nnls", nnls, [0.0, 0.01, 0.5]), ("lasso", lasso, [0.01, 0.5])):
        options = st.fixed_dictionaries({"l1": st.sampled_from(l1s), "l2": st.just(0.0) | weights})
        check = partial(check_function, function)
        yield Case(f"{name}, properties", partial(explore, check, options, each, scope.seed))
    for name, subject in SUBJECTS.items():
        if name != "NRC":  # five steps of ADMM minimise nothing
            count = scope.count(5, 150)
            yield Case(f"{name}, Clarabel", partial(explore, check_by_clarabel, subject, count, scope.seed))


def explore(check: Callable[[Any, Samples], None], subject: Any, count: int, start: int) -> int:
    """Try a check on so many examples."""

    @seed(start)
    @settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(subject, samples())
    def run(who: Any, data: Samples) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            check(who, data)

    run()
    return count


def check_classifier(model: Any, data: Samples) -> None:
    """Codes, objectives and equivariances of one classifier on one example."""
    model.fit(data.X, data.y)
    problem, blocks = literal_problem(model), wide_blocks(model)
    solution = model.solve(data.Q)
    codes = dense(solution.codes)
    assert np.isfinite(codes).all()
    unique = True
    for i, query in enumerate(data.Q):
        target = unit(query)
        if math.isinf(problem.w):
            assert codes[i].min() >= 0, "a negative code"
        if isinstance(model, NRC) and model.solver == "admm":
            X = np.hstack(blocks).astype(float)
            expected = algorithm_2(X, target.astype(float), model.rho, model.max_iter)[-1][1]
            np.testing.assert_allclose(codes[i], expected, atol=1e-8)
            continue
        certified(problem, blocks, target, codes[i], solution, i)
        unique = unique and is_unique(problem, blocks, target, codes[i])
    if unique:
        check_equivariance(model, data)


def certified(problem: Literal, blocks: Any, target: Any, code: Any, solution: Any, i: int) -> None:
    """The literal violation, and the objective against every oracle that fits."""
    code = code.astype(np.longdouble)
    scale = 1 + problem.l2 + (0 if math.isinf(problem.w) else problem.w)
    found = violation(problem, blocks, target, code) / scale
    assert found <= 10 * solution.violation[i] + 1e-9, f"claimed {solution.violation[i]:.1e}, is {found:.1e}"
    slack = 1e-12
    if not solution.converged[i]:  # no proof is known, and SciPy may gain 1e-9 by codes of 1e8 that cancel
        slack = 1e-6
        assert problem.l2 == 0, "not converged with a ridge"
        assert nearly_dependent(stacked_rows(problem, blocks, target)[0]), "not converged"
    reach = 1 + float(np.abs(code).sum())  # what rounding makes of so long a code counts as converged
    assert found <= max(1e-6, 4 * np.finfo(float).eps * reach), f"violation {found:.1e}, reach {reach:.1e}"
    reached = value(problem, blocks, target, code)
    for name, best in oracle_values(problem, blocks, target).items():
        assert reached <= best * (1 + 1e-9) + slack, f"{name} reaches {best:.17g}, we {reached:.17g}"


def nearly_dependent(columns: Any) -> bool:
    """Whether some columns depend on each other by more than float64 can tell in their products."""
    singular = np.linalg.svd(columns.astype(float), compute_uv=False)
    return bool((singular < 1e-6 * singular[0]).any())


def oracle_values(problem: Literal, blocks: Any, target: Any) -> dict[str, Any]:
    """Objectives that independent solvers reach, each evaluated by the literal formula."""
    narrow = [block.astype(float) for block in blocks]
    X, y, n = np.hstack(narrow), target.astype(float), sum(block.shape[1] for block in blocks)
    found: dict[str, Any] = {}
    if problem.summed:
        if n <= 8:
            found["brute force"] = simplex_by_brute_force(X, y, problem.l2)[0]
    elif problem.l1 == 0 and math.isinf(problem.w):
        stacked = stacked_rows(problem, narrow, y)
        found["SciPy's nnls"] = scipy_nnls(*stacked)[0]
        if n <= 8:
            found["brute force"] = nnls_by_brute_force(*stacked)[0]
    elif problem.l1:
        search = Lasso(
            alpha=problem.l1 / (2 * len(y)), fit_intercept=False, positive=math.isinf(problem.w), tol=1e-12,
            max_iter=20_000,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["scikit-learn's Lasso"] = search.fit(X, y).coef_
    elif problem.w:
        found["Newton's method"] = soft_code(X, y, problem.l2, problem.w)
    else:
        found["least squares"] = np.linalg.lstsq(*stacked_rows(problem, narrow, y), rcond=None)[0]
    return {name: value(problem, blocks, target, code.astype(np.longdouble)) for name, code in found.items()}


def stacked_rows(problem: Literal, blocks: list[Any], y: Any) -> tuple[Any, Any]:
    """Rows whose sum of squares is the objective, but for bounds."""
    X, n, start = np.hstack(blocks), sum(block.shape[1] for block in blocks), 0
    rows, right = [], []
    for block in blocks:
        only = np.zeros_like(X)
        only[:, start : start + block.shape[1]] = block
        start += block.shape[1]
        rows += [math.sqrt(problem.own) * only, math.sqrt(problem.gamma) * (X - only)]
        right += [math.sqrt(problem.own) * y, np.zeros(len(y))]
    rows += [math.sqrt(1 - problem.own) * X, math.sqrt(problem.l2) * np.eye(n)]
    right += [math.sqrt(1 - problem.own) * y, np.zeros(n)]
    keep = [bool(part.any()) for part in rows]  # no rows of zeros
    return np.vstack(list(compress(rows, keep))), np.concatenate(list(compress(right, keep)))


def is_unique(problem: Literal, blocks: Any, target: Any, code: Any) -> bool:
    """Whether the minimiser is unique by a clear margin: atoms that are used or could be are independent."""
    if problem.l2 >= 1e-4:
        return True
    X = np.hstack(blocks).astype(float)
    slope = half_gradient(problem, blocks, target, code.astype(np.longdouble)).astype(float)
    limit = problem.l1 / 2
    if problem.summed:  # the multiplier of the sum is one more slope, and one more row of the atoms
        slope, X = slope - slope.min(), np.vstack([X, np.ones(X.shape[1])])
    open_to_use = (code != 0) | (
        slope < 1e-6 - limit if math.isinf(problem.w) else np.abs(slope) > limit - 1e-6
    )
    chosen = X[:, open_to_use]
    if chosen.shape[1] == 0:
        return True
    singular = np.linalg.svd(chosen, compute_uv=False)
    return chosen.shape[1] <= chosen.shape[0] and singular[-1] > 1e-3


def check_equivariance(model: Any, data: Samples) -> None:
    """Samples in another order, features rotated, everything scaled: the same scores."""
    rng = np.random.default_rng(len(data.X))
    order = rng.permutation(len(data.X))
    rotation = np.linalg.qr(rng.normal(size=(data.X.shape[1],) * 2))[0]
    factors = 10 ** rng.uniform(-100, 100, size=(len(data.X), 1))
    expected, labels = model.residuals(data.Q), model.predict(data.Q)
    ranked = np.sort(expected, axis=1)
    clear = np.ones(len(labels), bool)
    if ranked.shape[1] > 1:
        clear = ranked[:, 1] > ranked[:, 0] + 1e-5 * (1 + ranked[:, 0])
    # A query orthogonal to all samples has a code of rounding errors, which says nothing.
    clear &= np.abs(dense(model.encode(data.Q))).max(axis=1) > 1e-9
    changed = {
        "permuted": (data.X[order], data.y[order], data.Q),
        "rotated": (data.X @ rotation, data.y, data.Q @ rotation),
        "scaled": (data.X * factors, data.y, data.Q * 1e-50),
    }
    for kind, (X, y, Q) in changed.items():
        model.fit(X, y)
        found = model.residuals(Q)
        np.testing.assert_array_equal(model.predict(Q)[clear], labels[clear], err_msg=kind)
        if getattr(model, "rule", "") == "residual":  # quotients by a small energy lose digits
            np.testing.assert_allclose(found, expected, atol=1e-5, err_msg=kind)


def check_function(function: Any, options: dict[str, float], data: Samples) -> None:
    """``nnls`` and ``lasso`` on the samples as columns, which here need not be of norm 1."""
    units = [unit(row) for row in data.X]
    A, B = np.array(units, dtype=float).T, np.array([unit(q) for q in data.Q], dtype=float).T
    solution = function(A, B, dense=True, **options)
    problem = Literal(**options, w=math.inf if function is nnls else 0.0)
    for i in range(B.shape[1]):
        code, target = solution.codes[i], B[:, i].astype(np.longdouble)
        assert function is lasso or code.min() >= 0, "a negative code"
        if problem.l1 and problem.l2:  # an elastic net: rows of the ridge make it a lasso
            problem_rows = np.vstack([A, math.sqrt(problem.l2) * np.eye(A.shape[1])])
            target = np.concatenate([target, np.zeros(A.shape[1])])
            blocks, plain = [problem_rows.astype(np.longdouble)], Literal(l1=problem.l1, w=problem.w)
        else:
            blocks, plain = [A.astype(np.longdouble)], problem
        certified(plain, blocks, target, code, solution, i)


def check_by_clarabel(model: Any, data: Samples) -> None:
    """An interior-point method on the problem as the README writes it."""
    try:
        import cvxpy
    except ImportError:
        raise Skipped("needs cvxpy") from None
    model.fit(data.X, data.y)
    problem, blocks = literal_problem(model), wide_blocks(model)
    narrow = [block.astype(float) for block in blocks]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    codes = dense(model.solve(data.Q).codes)
    for query, code in zip(data.Q, codes, strict=True):
        target = unit(query)
        c = cvxpy.Variable(int(ends[-1]))
        parts = [block @ c[a:b] for block, a, b in zip(narrow, ends, ends[1:], strict=False)]
        whole, y = sum(parts), target.astype(float)
        fit = problem.own * sum(cvxpy.sum_squares(y - p) for p in parts)
        fit += (1 - problem.own) * cvxpy.sum_squares(y - whole)
        objective = fit + problem.l2 * cvxpy.sum_squares(c) + problem.l1 * cvxpy.norm1(c)
        objective += problem.gamma * sum(cvxpy.sum_squares(whole - p) for p in parts)
        if not math.isinf(problem.w):
            objective += problem.w * cvxpy.sum_squares(cvxpy.neg(c))
        limits = [c >= 0] if math.isinf(problem.w) else []
        limits += [cvxpy.sum(c) == 1] if problem.summed else []
        best = cvxpy.Problem(cvxpy.Minimize(objective), limits).solve(solver="CLARABEL")
        reached = value(problem, blocks, target, code.astype(np.longdouble))
        assert reached <= best + 1e-6 * max(1, abs(best)), f"Clarabel {best:.12g}, we {reached:.12g}"
