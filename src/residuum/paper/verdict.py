"""The answer to the paper's question in plain words, computed from the outcomes and from nothing else."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from residuum.paper.outcomes import LEVEL, Outcome
from residuum.reports.numbers import signed

FAMILIES = {
    "sparse": ("SRC",),
    "collaborative": ("CRC", "CROC", "ProCRC"),
    "non-negative": ("NRC", "SoftNRC"),
}
TOLERANCE = 1.0  # points


def verdict(outcomes: list[Outcome]) -> list[str]:
    """A few sentences: who wins where under each protocol, and how close we come to the paper."""
    if not outcomes:
        return ["No table has been run yet."]
    said = []
    if any(outcome.quick for outcome in outcomes):
        said.append(
            "Some of this comes from a quick run, with less data than the paper: read it as a first look."
        )
    if any(o.table.row(r).subset for o in outcomes for r in o.rows):
        said.append("Some rows come from a part of a data set: they say nothing about the paper's numbers.")
    of_protocol: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        of_protocol.setdefault(outcome.protocol, []).append(outcome)
    if "best" in of_protocol:
        said.append(_in_short(of_protocol["best"]))
    for protocol, own in of_protocol.items():
        said += [_winners(protocol, own), _rivals(protocol, own)]
    if "authors" in of_protocol:
        said.append(_closeness(of_protocol["authors"]))
    return said


def _in_short(outcomes: list[Outcome]) -> str:
    """Which representation helps, table by table, when no test sample had a say."""
    texts, leaders = [], set()
    for outcome in outcomes:
        wins = _wins([outcome])
        leaders.add(tuple(family for family, count in wins.items() if count == max(wins.values())))
        counts = ", ".join(f"{family} in {count}" for family, count in wins.items() if count)
        texts.append(f"of the {len(outcome.rows)} rows of {outcome.table.name}, {counts}")
    best = [_family_best(outcome, row).values() for outcome in outcomes for row in outcome.rows]
    apart = max(max(values) - min(values) for values in best)
    end = (
        "the same one helps most on every table"
        if len(leaders) == 1 and len(leaders.pop()) == 1
        else "no single representation helps everywhere: which one does depends on the data"
    )
    return (
        "In short, with parameters chosen on the training samples by our own searches (protocol best), the "
        f"best representation is, {'; '.join(texts)} (a tie to 0.1 point counts for both). So {end}, and the "
        f"three are at most {apart:.1f} points apart."
    )


def _family_best(outcome: Outcome, row: Any) -> dict[str, float]:
    """Highest mean accuracy of every family; -1 where none of it was run."""
    means = {method: outcome.mean(row, method) for method in outcome.methods}
    return {
        family: max((means[m] for m in members if not math.isnan(means.get(m, math.nan))), default=-1.0)
        for family, members in FAMILIES.items()
    }


def _wins(outcomes: list[Outcome]) -> Counter[str]:
    """In how many rows each family has the highest mean accuracy; ties to 0.1 point count for both."""
    wins = Counter(dict.fromkeys(FAMILIES, 0))
    for best in (_family_best(outcome, row) for outcome in outcomes for row in outcome.rows):
        top = round(max(best.values()), 1)
        wins.update(family for family, value in best.items() if round(value, 1) == top)
    return wins


def _winners(protocol: str, outcomes: list[Outcome]) -> str:
    counts = ", ".join(f"{family} {count}" for family, count in _wins(outcomes).items())
    names = ", ".join(outcome.table.name for outcome in outcomes)
    return (
        f"Protocol {protocol} ({names}): of {sum(len(outcome.rows) for outcome in outcomes)} rows, the "
        "representation with the highest mean accuracy (ties to 0.1 point count for both) is "
        f"{counts}."
    )


def _rivals(protocol: str, outcomes: list[Outcome]) -> str:
    counts: dict[str, Counter[str]] = {}
    for outcome, row, method in _places(outcomes):
        p = outcome.p_value(row, method)
        if method != "NRC" and not math.isnan(p):
            ahead = outcome.mean(row, "NRC") > outcome.mean(row, method)
            word = "open" if p >= LEVEL else "better" if ahead else "worse"
            counts.setdefault(method, Counter())[word] += 1
    texts = "; ".join(
        f"{method} " + ", ".join(f"{count[word]} {word}" for word in ("better", "worse", "open"))
        for method, count in counts.items()
    )
    return (
        f"Protocol {protocol}: NRC against each rival, rows where it is better, worse, or no difference is "
        f"seen at p < {LEVEL}: {texts}."
    )


def _places(outcomes: list[Outcome]) -> list[tuple[Outcome, Any, str]]:
    return [(o, row, method) for o in outcomes for row in o.rows for method in o.methods]


def _closeness(outcomes: list[Outcome]) -> str:
    gaps = {
        f"{method} at {o.table.row(row).title} of {o.table.name}": o.difference(row, method)
        for o, row, method in _places(outcomes)
        if not math.isnan(o.difference(row, method))
    }
    far = {where: gap for where, gap in gaps.items() if abs(gap) > TOLERANCE}
    listed = "; ".join(f"{where} {signed(far[where])}" for where in sorted(far, key=lambda w: -abs(far[w])))
    return (
        "With parameters chosen on the test samples as the authors' scripts did, "
        f"{len(gaps) - len(far)} of {len(gaps)} cells lie within {TOLERANCE:.1f} point of the paper."
        + f" The others: {listed}."
        * bool(far)
    )
