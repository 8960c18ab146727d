"""The answer to the paper's question in plain words, computed from the outcomes and from nothing else."""

from __future__ import annotations

import math
from collections import Counter

from residuum.paper.outcomes import LEVEL, Outcome

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
    honest = [outcome for outcome in outcomes if outcome.protocol == "best"]
    if honest:
        said.append(_in_short(honest))
    for protocol in dict.fromkeys(outcome.protocol for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.protocol == protocol]
        said.append(_winners(protocol, own))
        said.append(_rivals(protocol, own))
    if any(outcome.protocol == "authors" for outcome in outcomes):
        said.append(_closeness([outcome for outcome in outcomes if outcome.protocol == "authors"]))
    return said


def _in_short(outcomes: list[Outcome]) -> str:
    """Which representation helps, table by table, when no test sample had a say."""
    texts, leaders = [], set()
    for outcome in outcomes:
        wins = _wins([outcome])
        leaders.add(tuple(family for family, count in wins.items() if count == max(wins.values())))
        counts = ", ".join(f"{family} in {count}" for family, count in wins.items() if count)
        texts.append(f"of the {len(outcome.rows)} rows of {outcome.table.name}, {counts}")
    best = [_family_best(outcome, row) for outcome in outcomes for row in outcome.rows]
    apart = max(max(values.values()) - min(values.values()) for values in best)
    end = (
        "the same one helps most on every table"
        if len(leaders) == 1 and len(next(iter(leaders))) == 1
        else "no single representation helps everywhere: which one does depends on the data"
    )
    return (
        "In short, with parameters chosen on the training samples by our own searches (protocol best), the "
        f"best representation is, {'; '.join(texts)} (a tie to 0.1 point counts for both). So {end}, and the "
        f"three are at most {apart:.1f} points apart."
    )


def _family_best(outcome: Outcome, row: int | str) -> dict[str, float]:
    """Highest mean accuracy of every family."""
    return {
        family: max((_mean(outcome, row, m) for m in members if m in outcome.methods), default=-1.0)
        for family, members in FAMILIES.items()
    }


def _wins(outcomes: list[Outcome]) -> dict[str, int]:
    """In how many rows each family has the highest mean accuracy; ties to 0.1 point count for both."""
    wins = dict.fromkeys(FAMILIES, 0)
    for best in (_family_best(outcome, row) for outcome in outcomes for row in outcome.rows):
        top = round(max(best.values()), 1)
        for family, value in best.items():
            wins[family] += round(value, 1) == top
    return wins


def _winners(protocol: str, outcomes: list[Outcome]) -> str:
    counts = ", ".join(f"{family} {count}" for family, count in _wins(outcomes).items())
    names = ", ".join(dict.fromkeys(outcome.table.name for outcome in outcomes))
    return (
        f"Protocol {protocol} ({names}): of {sum(len(outcome.rows) for outcome in outcomes)} rows, the "
        "representation with the highest mean accuracy (ties to 0.1 point count for both) is "
        f"{counts}."
    )


def _mean(outcome: Outcome, row: int | str, method: str) -> float:
    value = outcome.mean(row, method)
    return -1.0 if math.isnan(value) else value


def _rivals(protocol: str, outcomes: list[Outcome]) -> str:
    counts: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        for row in outcome.rows:
            for method in (method for method in outcome.methods if method != "NRC"):
                p = outcome.p_value(row, method)
                if not math.isnan(p):
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


def _closeness(outcomes: list[Outcome]) -> str:
    gaps = [
        (
            outcome.difference(row, method),
            f"{method} at {outcome.table.row_title(row)} of {outcome.table.name}",
        )
        for outcome in outcomes
        for row in outcome.rows
        for method in outcome.methods
        if not math.isnan(outcome.difference(row, method))
    ]
    far = sorted((gap for gap in gaps if abs(gap[0]) > TOLERANCE), key=lambda gap: -abs(gap[0]))
    close = f"{len(gaps) - len(far)} of {len(gaps)} cells lie within {TOLERANCE:.1f} point of the paper"
    if not far:
        return f"With parameters chosen on the test samples as the authors' scripts did, {close}."
    listed = "; ".join(f"{where} {value:+.1f}".replace("-", "−") for value, where in far)
    return (
        f"With parameters chosen on the test samples as the authors' scripts did, {close}. "
        f"The others: {listed}."
    )
