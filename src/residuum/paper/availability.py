"""Which rows of a table can run on this machine, and why the others cannot."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from residuum.errors import ResiduumError
from residuum.paper.entries import PaperTable, Row
from residuum.paper.photo_trials import PhotoTrials
from residuum.paper.trials import ArrayTrials

# What `PaperTable.data` stands for.
TRIALS: dict[str, Any] = {"arrays": ArrayTrials, "photographs": PhotoTrials}


@dataclass(frozen=True)
class Availability:
    """The rows that can run here, and why the others cannot.

    Attributes
    ----------
    rows : tuple of Row
        Those whose data and features are at hand.
    listings : dict of str to str
        Name of a row of photographs -> fingerprint of the list of its images.
    missing : dict of str to str
        Data set or kind of features -> reason and what to do, one line each.
    """

    rows: tuple[Row, ...]
    listings: dict[int | str, str | None]
    missing: dict[str, str]


def available(
    table: PaperTable, names: Iterable[int | str], home: str | None, *, allow_subset: bool = False
) -> Availability:
    """Sort out which of the named rows can run; those of a subset where there is nothing more."""
    trials, wanted = TRIALS[table.data], set(names)
    found: dict[str, Any] = {}
    missing: dict[str, str] = {}

    def at_hand(name: str, look: Callable[[], Any]) -> bool:
        if name not in found and name not in missing:
            try:
                found[name] = look()
            except ResiduumError as error:
                missing[name] = str(error).splitlines()[0]
        return name in found

    rows = []
    for row in (row for row in table.rows if row.name in wanted):
        if not at_hand(row.dataset, partial(trials.find, row, home, allow_subset=allow_subset)):
            continue
        _, is_subset = found[row.dataset]
        if row.subset == is_subset and at_hand(
            row.features, partial(trials.check_features, row.features, home)
        ):
            rows.append(row)
    return Availability(tuple(rows), {row.name: found[row.dataset][0] for row in rows}, missing)
