"""The smallest set of training samples without which a query is answered otherwise.

Finding it takes exponentially many solves, so what is found is an irreducible set, an upper bound: none of
its samples could have stayed. Where every single sample, and every pair, can be tried, the lower bound is
exact too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from residuum.estimators.explanation import Explanation
from residuum.explorer.queries import Query
from residuum.explorer.session import Exploration, Removed
from residuum.explorer.settings import Settings

MOST_SOLVES = 600  # for trying single samples and pairs
_ONE_BY_ONE = 12  # samples that are removed one at a time, each with a new code; then twice as many at a time


@dataclass(frozen=True)
class SmallestSet:
    """Bounds on the size of the smallest set, and a set.

    Attributes
    ----------
    samples : tuple of int or None
        A set without which the answer changes, and each of which is needed for that; None where the answer
        never changes, because only one class is left.
    answer : int or None
        Position of the class that is answered then.
    at_least : int
        No smaller set changes the answer; equal to the number of samples where the set is a smallest one.
    solves : int
        How many codes were computed.
    ended_early : bool
        Whether the search was stopped before it had tried what it wanted to.
    """

    samples: tuple[int, ...] | None
    answer: int | None
    at_least: int
    solves: int
    ended_early: bool = False

    @property
    def exact(self) -> bool:
        """Whether the set is a smallest one."""
        return self.samples is not None and len(self.samples) == self.at_least


def smallest_set(
    exploration: Exploration,
    query: Query,
    settings: Settings,
    removed: Removed | None = None,
    *,
    goes_on: Callable[[], bool] = lambda: True,
) -> SmallestSet:
    """A small set of training samples whose removal changes the winning class.

    Parameters
    ----------
    exploration, query, settings
        What is asked.
    removed : Removed or None
        What is left out already.
    goes_on : callable
        Asked before every solve; False ends the search with the bounds so far.
    """
    search = _Search(exploration, query, settings, removed or Removed(), goes_on)
    first = search.without(())
    winner, candidates = first.label, search.candidates(first)
    found = _greedy(search, first)
    if found is None:
        return SmallestSet(None, None, 1, search.solves, not search.complete)
    found, at_least = _irreducible(search, found, winner), 1
    if len(found) > 1 and len(candidates) <= MOST_SOLVES:
        single = search.first_that_changes([(sample,) for sample in candidates], winner)
        found, at_least = (single or found), 2 if search.complete else 1
    if len(found) > 2 and at_least == 2:
        pair = _pair(search, candidates, winner)
        found, at_least = (pair or found), 2 if pair is None else 3
    answer = exploration.class_of[search.without(found).label]
    bound = min(at_least, len(found))
    return SmallestSet(tuple(sorted(found)), answer, bound, search.solves, not search.complete)


class _Search:
    """Codes of one query without some samples, counted."""

    def __init__(
        self,
        exploration: Exploration,
        query: Query,
        settings: Settings,
        start: Removed,
        goes_on: Callable[[], bool],
    ) -> None:
        gone = {*start.samples} if query.own_sample is None else {*start.samples, query.own_sample}
        self._everyone = [sample for sample in exploration.position if sample not in gone]
        self._ask = lambda samples: exploration.explanation(
            query, settings, Removed((*start.samples, *samples), start.classes)
        )
        self._goes_on = goes_on
        self.solves, self.complete = 0, True

    def without(self, samples: Sequence[int]) -> Explanation:
        """The explanation without these samples as well."""
        self.solves += 1
        return self._ask(tuple(samples))

    def may_go_on(self) -> bool:
        """Whether nobody has ended the search."""
        self.complete = self.complete and self._goes_on()
        return self.complete

    def candidates(self, explanation: Explanation) -> list[int]:
        """Samples whose removal can matter, those that carry most first.

        A sample without a coefficient changes no optimum, but it does change a given number of steps.
        """
        used = [atom.sample for atom in sorted(explanation.atoms, key=lambda atom: -abs(atom.share))]
        if explanation.stopping != "steps":
            return used
        known = set(used)
        return used + [sample for sample in self._everyone if sample not in known]

    def first_that_changes(self, sets: Sequence[tuple[int, ...]], winner: Any) -> tuple[int, ...] | None:
        """The first set without which another class wins; None where there is none."""
        for samples in sets:
            if not self.may_go_on():
                return None
            if self.without(samples).label != winner:
                return samples
        return None


def _greedy(search: _Search, first: Explanation) -> tuple[int, ...] | None:
    """Remove what carries the winning class most, code again, until another class wins."""
    gone: list[int] = []
    explanation, winner, step = first, first.label, 1
    while explanation.label == winner:
        carriers = [atom for atom in explanation.atoms if atom.label == winner and atom.share > 0]
        if explanation.runner_up is None or not carriers or not search.may_go_on():
            return None
        carriers.sort(key=lambda atom: -atom.share)
        gone += [atom.sample for atom in carriers[:step]]
        if len(gone) >= _ONE_BY_ONE:
            step *= 2
        explanation = search.without(gone)
    return tuple(gone)


def _irreducible(search: _Search, samples: tuple[int, ...], winner: Any) -> tuple[int, ...]:
    """Put back what is not needed for another answer, in halves while there are many, at last one by one."""
    kept, size = list(samples), max(1, len(samples) // 2)
    while True:
        before, position = len(kept), 0
        while position < len(kept):
            fewer = kept[:position] + kept[position + size :]
            if fewer and search.may_go_on() and search.without(fewer).label != winner:
                kept = fewer
            else:
                position += size
        if (size == 1 and len(kept) == before) or not search.complete:
            return tuple(kept)
        size = max(1, size // 2)


def _pair(search: _Search, candidates: list[int], winner: Any) -> tuple[int, ...] | None:
    """A pair without which another class wins, () if there is none, None if there are too many to try.

    No single sample changes the answer. So one of a pair carries the query, and the other one carries it when
    the first has gone.
    """
    if len(candidates) + search.solves > MOST_SOLVES:
        return None
    single, sets = set(candidates), []
    for sample in candidates:
        if not search.may_go_on():
            return None
        after = search.candidates(search.without((sample,)))
        sets += [(sample, other) for other in after if other > sample or other not in single]
        if len(sets) + search.solves > MOST_SOLVES:
            return None
    found = search.first_that_changes(sets, winner)
    return found or (() if search.complete else None)
