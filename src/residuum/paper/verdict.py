"""The answer to the paper's question in plain words, computed from the outcomes and from nothing else."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from residuum.experiments.paired import LEVEL
from residuum.paper.outcomes import Outcome
from residuum.reports.numbers import signed

REPRESENTATIONS = {
    "sparse": ("SRC",),
    "collaborative": ("CRC", "CROC", "ProCRC"),
    "non-negative": ("NRC", "SoftNRC"),
}
# The others are counted too: a representation that loses to them has not won.
FAMILIES = {**REPRESENTATIONS, "nearest subspace": ("NSC",), "linear": ("SVM", "softmax")}
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
    end = (
        "the same one helps most on every table"
        if len(leaders) == 1 and len(leaders.pop()) == 1
        else "none of them helps most everywhere: which one does depends on the data"
    )
    return (
        "In short, with parameters chosen on the training samples by our own searches (protocol best), the "
        f"best is, {'; '.join(texts)} (a tie to 0.1 point counts for both; linear are SVM and softmax). "
        f"{_chance(outcomes)} So {end}, and the sparse, collaborative and non-negative representations are "
        f"at most {_apart(outcomes):.1f} points apart."
    )


def _chance(outcomes: list[Outcome]) -> str:
    """In how many rows the lead of the best family over the next one is within chance."""
    rows = [(outcome, row) for outcome in outcomes for row in outcome.rows]
    open_rows = 0
    for outcome, row in rows:
        means = _means(outcome, row)
        best = max(means, key=lambda method: means[method])
        rivals = {m: mean for m, mean in means.items() if _family(m) != _family(best)}
        if rivals:
            rival = max(rivals, key=lambda method: rivals[method])
            open_rows += outcome.p_value(row, rival, best) >= LEVEL
    tests = " or ".join(dict.fromkeys(outcome.test_name for outcome in outcomes))
    return (
        f"In {open_rows} of the {len(rows)} rows the lead over the next family is within chance "
        f"(p >= {LEVEL}, {tests})."
    )


def _family(method: str) -> str:
    return next(family for family, members in FAMILIES.items() if method in members)


def _means(outcome: Outcome, row: Any) -> dict[str, float]:
    """Mean accuracy of every method of a family that was run."""
    known = {method for members in FAMILIES.values() for method in members}
    means = {method: outcome.mean(row, method) for method in outcome.methods if method in known}
    return {method: mean for method, mean in means.items() if not math.isnan(mean)}


def _family_best(outcome: Outcome, row: Any) -> dict[str, float]:
    """Highest mean accuracy of every family of which something was run."""
    best: dict[str, float] = {}
    for method, mean in _means(outcome, row).items():
        best[_family(method)] = max(mean, best.get(_family(method), mean))
    return best


def _apart(outcomes: list[Outcome]) -> float:
    """Largest difference between two representations in a row, in points."""
    rows = [_family_best(outcome, row) for outcome in outcomes for row in outcome.rows]
    values = [[best[family] for family in REPRESENTATIONS if family in best] for best in rows]
    return max((max(some) - min(some) for some in values if some), default=0.0)


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
        "highest mean accuracy (ties to 0.1 point count for both; linear are SVM and softmax) is "
        f"{counts}. {_chance(outcomes)}"
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
