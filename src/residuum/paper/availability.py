"""Which rows of a table can run on this machine, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from residuum.errors import ResiduumError
from residuum.paper.data import DATASETS
from residuum.paper.entries import PaperTable
from residuum.paper.photo_trials import PhotoTrials
from residuum.paper.trials import ArrayTrials

# What `PaperTable.data` stands for.
TRIALS: dict[str, Any] = {"arrays": ArrayTrials, "photographs": PhotoTrials}


def available(
    table: PaperTable, names: Iterable[int | str], home: str | None, *, allow_subset: bool = False
) -> tuple[dict[int | str, str | None], dict[str, str]]:
    """Which of the named rows can run, those of a subset where there is nothing more; and what is missing.

    The first is name of a row -> fingerprint of the list of its images (None for arrays), the second data set
    or kind of features -> reason and what to do, one line each.
    """
    trials, wanted = TRIALS[table.data], set(names)
    found: dict[str, Any] = {}
    missing: dict[str, str] = {}

    def at_hand(name: str, look: Callable[[], Any]) -> bool:
        if name not in found and name not in missing:
            try:
                found[name] = look()
            except ResiduumError as error:
                advice = f" See 'residuum data status {name}'." if name in DATASETS else ""
                missing[name] = str(error).splitlines()[0] + advice
        return name in found

    listings: dict[int | str, str | None] = {}
    for row in (row for row in table.rows if row.name in wanted):
        if at_hand(row.dataset, partial(trials.find, row, home, allow_subset=allow_subset)):
            listing, is_subset = found[row.dataset]
            check = partial(trials.check_features, row.features, home)
            if row.subset == is_subset and at_hand(row.features, check):
                listings[row.name] = listing
    return listings, missing
