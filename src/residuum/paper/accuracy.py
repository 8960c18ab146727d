"""Tables of accuracies from outcomes: the paper's numbers, ours, differences and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from residuum.paper.entries import PaperTable
from residuum.paper.outcomes import Outcome
from residuum.paper.protocols import PROTOCOLS
from residuum.paper.tables import TITLES
from residuum.reports.table import Table

# Rows of one kind of trust share a table: the paper's settings, features of our own, parts of data sets.
PARTS = {
    "paper": "",
    "added": ", beyond the paper: EfficientNet-Lite0 features",
    "subset": ", SUBSET of a data set: not comparable with the paper",
}


def parts_of(outcome: Outcome) -> Iterator[Outcome]:
    """One outcome for each kind of row, which is mostly the outcome itself."""
    for part in PARTS:
        rows = [row for row in outcome.rows if outcome.table.row(row).part == part]
        if rows:
            yield outcome.only(rows)


def accuracy_table(outcome: Outcome) -> Table:
    """Paper, ours, difference and p-value against NRC for each row, as the paper lays its tables out."""
    table, protocol = outcome.table, PROTOCOLS[outcome.protocol]
    rows: list[tuple[str, ...]] = []
    best = set()
    for row in outcome.rows:
        means = {m: outcome.mean(row, m) for m in outcome.methods}
        highest = max(round(v, 1) for v in means.values() if not math.isnan(v))
        head = table.row_title(row)
        printed = [table.paper_value(m, row) for m in means]
        known = any(value is not None for value in printed)
        if known:
            rows.append((f"{head}, paper", *map(_number, printed)))
        best |= {(len(rows), j) for j, v in enumerate(means.values(), start=1) if round(v, 1) == highest}
        rows.append((f"{head}, ours", *(_ours(outcome, row, m) for m in means)))
        if known:
            rows.append((f"{head}, difference", *(_signed(outcome.difference(row, m)) for m in means)))
        rows.append((f"{head}, p against NRC", *(_p(outcome, row, m) for m in means)))
    part = PARTS[table.row(outcome.rows[0]).part]
    title = f"{table.name.capitalize()}: {table.title}{part} ({outcome.protocol})"
    return Table(title, ("", *outcome.methods), tuple(rows), frozenset(best), _notes(outcome, protocol.title))


def _notes(outcome: Outcome, protocol_title: str) -> tuple[str, ...]:
    trials = outcome.trials
    spread = f"mean ± standard deviation over {trials} trials" if trials > 1 else "one trial"
    notes = [
        f"Protocol {outcome.protocol}: {protocol_title}.",
        f"Accuracy in per cent, {spread}; best of ours in bold. p: {outcome.test_name} between NRC and the "
        "method of the column, two-sided, not corrected for the number of comparisons.",
        *outcome.table.notes,
        *_row_notes(outcome),
    ]
    if outcome.quick:
        notes.insert(0, "QUICK RUN: fewer trials, rows or queries than the paper; not a reproduction.")
    return tuple(notes)


def _row_notes(outcome: Outcome) -> list[str]:
    """What is known of the splits and of the copies of the data, each said once."""
    table = outcome.table
    said = [table.row(row).note for row in outcome.rows if table.row(row).note]
    for row in outcome.rows:
        for note in outcome.notes.get(row, ()):
            of_all = all(note in outcome.notes.get(other, ()) for other in outcome.rows)
            said.append(note if of_all else f"{table.row_title(row)}: {note}")
    return list(dict.fromkeys(said))


def _number(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.1f}"


def _signed(value: float) -> str:
    return "" if math.isnan(value) else f"{value:+.1f}".replace("-", "−")


def _ours(outcome: Outcome, row: Any, method: str) -> str:
    deviation = outcome.deviation(row, method)
    return _number(outcome.mean(row, method)) + ("" if deviation is None else f" ± {deviation:.1f}")


def _p(outcome: Outcome, row: Any, method: str) -> str:
    p = outcome.p_value(row, method) if method != "NRC" else math.nan
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def parameter_table(outcome: Outcome) -> Table:
    """The parameters chosen most often, per row and method."""
    rows = tuple(
        (f"{outcome.table.row_title(row)}, {method}", _chosen(outcome.parameters[row, method]))
        for row in outcome.rows
        for method in outcome.methods
        if (row, method) in outcome.parameters
    )
    return Table(f"Chosen parameters ({outcome.protocol})", ("", "most frequent, of the trials"), rows)


_DULL = frozenset(
    {"estimator", "tol", "n_jobs", "positive", "per_class", "subspace_l2", "probability", "reject_by"}
)
_LINEAR = ("LinearSVC", "LogisticRegression")


def _chosen(parameters: list[dict[str, Any]]) -> str:
    texts = []
    for values in parameters:
        if values["estimator"] in _LINEAR:
            values = {"C": values["C"]}
        elif values.get("solver") == "exact":
            values = {"solver": "exact", "rule": values["rule"]}
        kept = {k: v for k, v in values.items() if k not in _DULL and v not in (None, "admm")}
        texts.append(
            ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in kept.items())
        )
    top = max(dict.fromkeys(texts), key=texts.count)
    return top if len(texts) == 1 else f"{top} ({texts.count(top)} of {len(texts)})"


def quoted_table(table: PaperTable) -> Table:
    """Other people's systems as the paper reports them."""
    systems = tuple(dict.fromkeys(name for values in table.quoted.values() for name in values))
    rows = tuple(
        (f"{TITLES[dataset]}, as the paper reports", *(_number(values.get(name)) for name in systems))
        for dataset, values in table.quoted.items()
    )
    notes = (
        f"Quoted from the paper's {table.name.capitalize()}, accuracy in per cent; nothing in this table was "
        "run here. What was run on the same data is shown apart, as rows of Table 6.",
    )
    title = f"{table.name.capitalize()}: {table.title}, QUOTED from the paper"
    return Table(title, ("", *systems), rows, notes=notes)


# Column of the table of honest choices -> (protocol, method).
HONEST = {
    "NRC as published": ("published", "NRC"),
    "NRCCV()": ("best", "NRC"),
    "SoftNRCCV()": ("best", "SoftNRC"),
    "CRC": ("published", "CRC"),
    "SRC": ("published", "SRC"),
    "ProCRC": ("published", "ProCRC"),
}


def honest_table(outcomes: list[Outcome]) -> Table | None:
    """What choosing parameters on the training samples alone brings, beside the paper's NRC."""
    held = {(o.table.name, o.protocol): o for o in outcomes}
    rows: list[tuple[str, ...]] = []
    short = []
    for best in (outcome for outcome in outcomes if outcome.protocol == "best"):
        for row in best.rows:
            printed = best.table.paper_value("NRC", row)
            if printed is None:
                continue
            place = f"{best.table.name}, {best.table.row_title(row)}"
            cells = [(held.get((best.table.name, protocol)), method) for protocol, method in HONEST.values()]
            rows.append((place, _number(printed), *(_ours(o, row, m) if o else "" for o, m in cells)))
            ours = [best.mean(row, method) for method in ("NRC", "SoftNRC")]
            highest = round(max((value for value in ours if not math.isnan(value)), default=-1.0), 1)
            if highest < printed:
                short.append(f"{place.replace(',', '')} ({_signed(highest - printed)})")
    if not rows:
        return None
    falls_short = (
        f"The better of NRCCV() and SoftNRCCV() falls short of the paper's NRC on: {', '.join(short)}."
        if short
        else "The better of NRCCV() and SoftNRCCV() is at or above the paper's NRC on every row."
    )
    notes = (
        "Parameters and rules by 5-fold cross-validation within the training samples of each trial.",
        "The paper's numbers were chosen on the test samples, by its authors' scripts.",
        falls_short,
    )
    heads = ("", "NRC, paper", *HONEST)
    return Table("Chosen on the training samples alone", heads, tuple(rows), frozenset(), notes)
