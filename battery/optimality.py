"""The conditions of optimality of every problem, literally, in long double and from the atoms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from battery.subjects import dense

Wide = np.longdouble


@dataclass(frozen=True)
class Literal:
    """``min_c ||y - Xc||^2 + l2 ||c||^2 + l1 ||c||_1 + w ||min(c, 0)||^2 + gamma sum_k ||Xc - X_k c_k||^2``.

    ``||y - Xc||^2`` has the weight 1 - own, and ``sum_k ||y - X_k c_k||^2`` has the weight own.
    ``w = inf`` is ``c >= 0``; with `summed` codes sum to one as well.
    """

    l2: float = 0.0
    l1: float = 0.0
    w: float = 0.0
    gamma: float = 0.0
    own: float = 0.0
    summed: bool = False


def literal_problem(fitted: Any) -> Literal:
    """What a fitted classifier minimises, by the table in the README."""
    kind, n = type(fitted).__name__, fitted.dictionary_.n_atoms
    ridge = 0.001 * n / 700
    if kind == "NSC":
        return Literal(l2=fitted.l2, own=1.0)
    if kind == "SRC":
        return Literal(l1=fitted.l1, w=np.inf if fitted.positive else 0.0)
    if kind in ("CRC", "CROC"):
        return Literal(l2=ridge if fitted.l2 is None else fitted.l2)
    if kind == "ProCRC":
        return Literal(l2=fitted.l2, gamma=fitted.gamma / (len(fitted.classes_) if fitted.per_class else 1))
    if kind == "NRC":
        return Literal(w=np.inf)
    if kind == "SimplexRC":
        return Literal(l2=fitted.l2, w=np.inf, summed=True)
    if kind == "CRNRC":
        return Literal(own=fitted.gamma / (1 + fitted.gamma), w=np.inf)
    return Literal(l2=fitted.l2, w=fitted.neg_weight)


def value(problem: Literal, blocks: list[Any], y: Any, code: Any) -> Any:
    """The objective; infinite where a code is negative and must not be."""
    parts = _parts(blocks, code)
    whole = sum(parts)
    fit = (1 - problem.own) * np.sum((y - whole) ** 2)
    fit += problem.own * sum(np.sum((y - part) ** 2) for part in parts)
    fit += problem.gamma * sum(np.sum((whole - part) ** 2) for part in parts)
    negative = np.minimum(code, 0)
    if np.isinf(problem.w) and negative.any():
        return Wide(np.inf)
    weight = 0.0 if np.isinf(problem.w) else problem.w
    return fit + problem.l2 * code @ code + problem.l1 * np.abs(code).sum() + weight * negative @ negative


def half_gradient(problem: Literal, blocks: list[Any], y: Any, code: Any) -> Any:
    """Half the gradient of everything but l1 and an infinite w."""
    parts = _parts(blocks, code)
    whole, slopes = sum(parts), []
    for k, block in enumerate(blocks):
        slope = block.T @ ((1 - problem.own) * (whole - y) + problem.own * (parts[k] - y))
        slope += problem.gamma * sum(block.T @ (whole - part) for j, part in enumerate(parts) if j != k)
        slopes.append(slope)
    slope = np.concatenate(slopes) + problem.l2 * code
    return slope if np.isinf(problem.w) else slope + problem.w * np.minimum(code, 0)


def violation(problem: Literal, blocks: list[Any], y: Any, code: Any) -> float:
    """The largest ``|c_j - prox_j(c - gradient / 2)|``, zero exactly at a minimiser."""
    half = half_gradient(problem, blocks, y, code)
    point = code - half
    if problem.summed:
        moved = on_simplex(point)
    elif np.isinf(problem.w):
        moved = np.maximum(point - problem.l1 / 2, 0)
    else:
        moved = np.sign(point) * np.maximum(np.abs(point) - problem.l1 / 2, 0)
    return float(np.abs(code - moved).max(initial=0))


def on_simplex(point: Any) -> Any:
    """The nearest point that is not negative and sums to one."""
    ordered = np.sort(point)[::-1]
    levels = (ordered.cumsum() - 1) / np.arange(1, len(point) + 1)
    return np.maximum(point - levels[np.flatnonzero(ordered > levels)[-1]], 0)


def violations(fitted: Any, queries: Any, solution: Any) -> Any:
    """The violation of every query, from the atoms and the codes alone."""
    blocks = wide_blocks(fitted)
    problem = literal_problem(fitted)
    codes = dense(solution.codes).astype(Wide)
    return np.array(
        [violation(problem, blocks, unit(query), code) for query, code in zip(queries, codes, strict=True)]
    )


def wide_blocks(fitted: Any) -> list[Any]:
    """The atoms of each class as columns."""
    dictionary = fitted.dictionary_
    return [dictionary.atoms[block].astype(Wide).T for block in dictionary.blocks]


def unit(query: Any) -> Any:
    """A vector of norm 1 in its direction, or zero."""
    query = np.asarray(query, dtype=Wide)
    largest = np.abs(query).max(initial=0)
    if not largest:
        return query
    query = query / largest
    return query / np.sqrt(query @ query)


def _parts(blocks: list[Any], code: Any) -> list[Any]:
    """``X_k c_k`` of every class."""
    ends = np.cumsum([block.shape[1] for block in blocks])
    return [block @ part for block, part in zip(blocks, np.split(code, ends[:-1]), strict=True)]
