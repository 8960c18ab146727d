"""Tables of accuracies from outcomes: the paper's numbers, ours, differences and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from residuum.paper.outcomes import Outcome
from residuum.paper.photo_tables import ADDED, SPLIT_NOTES, TITLES, PhotoTable, QuotedTable
from residuum.paper.protocol import PROTOCOLS
from residuum.reports.table import Table

# Rows of one kind of trust share a table: the paper's settings, features of our own, parts of data sets.
PARTS = {
    "paper": "",
    "added": f", beyond the paper: {', '.join(TITLES[name] for name in ADDED)} features",
    "subset": ", SUBSET of a data set: not comparable with the paper",
}


def parts_of(outcome: Outcome) -> Iterator[Outcome]:
    """The outcome itself; of a table of photographs, one outcome for each kind of row."""
    table = outcome.table
    if not isinstance(table, PhotoTable):
        yield outcome
        return
    for part in PARTS:
        rows = [row for row in outcome.rows if table.row(row).part == part]
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
    part = PARTS[table.row(outcome.rows[0]).part] if isinstance(table, PhotoTable) else ""
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
        *_photo_notes(outcome),
    ]
    if outcome.quick:
        notes.insert(0, "QUICK RUN: fewer trials, rows or queries than the paper; not a reproduction.")
    return tuple(notes)


def _photo_notes(outcome: Outcome) -> list[str]:
    table = outcome.table
    if not isinstance(table, PhotoTable):
        return []
    told = [SPLIT_NOTES[table.row(row).dataset] for row in outcome.rows]
    told += [f"{table.row_title(row)}: {note}" for row in outcome.rows for note in outcome.notes.get(row, ())]
    return list(dict.fromkeys(told))


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


def quoted_table(table: QuotedTable) -> Table:
    """Other people's systems as the paper reports them."""
    systems = tuple(dict.fromkeys(name for values in table.quoted.values() for name in values))
    rows = tuple(
        (
            f"{TITLES[dataset]}, as the paper reports",
            *(_number(values.get(name)) for name in systems),
            _number(table.paper[dataset]),
        )
        for dataset, values in table.quoted.items()
    )
    notes = (
        f"Quoted from the paper's {table.name.capitalize()}, accuracy in per cent; nothing in this table was "
        "run here. What was run on the same data is shown apart, as rows of Table 6.",
    )
    title = f"{table.name.capitalize()}: {table.title}, QUOTED from the paper"
    return Table(title, ("", *systems, "NRC of the paper"), rows, notes=notes)


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
    held = {(o.table.name, o.protocol): o for o in outcomes if not isinstance(o.table, PhotoTable)}
    rows: list[tuple[str, ...]] = []
    short = []
    for name in dict.fromkeys(table for table, protocol in held if protocol == "best"):
        table = held[name, "best"].table
        for row in held[name, "best"].rows:
            cells = {
                column: (held[name, protocol], method) if (name, protocol) in held else None
                for column, (protocol, method) in HONEST.items()
            }
            means = {c: cell[0].mean(row, cell[1]) if cell else math.nan for c, cell in cells.items()}
            printed = table.paper_value("NRC", row)
            best = max((means[c] for c in ("NRCCV()", "SoftNRCCV()") if not math.isnan(means[c])), default=-1)
            if printed is not None and round(best, 1) < printed:
                short.append(
                    f"{name} {table.row_title(row)} ({round(best, 1) - printed:+.1f})".replace("-", "\u2212")
                )
            texts = [_ours(cell[0], row, cell[1]) if cell else "" for cell in cells.values()]
            rows.append((f"{name}, {table.row_title(row)}", _number(printed), *texts))
    if not rows:
        return None
    said = (
        f"The better of NRCCV() and SoftNRCCV() falls short of the paper's NRC on: {', '.join(short)}."
        if short
        else "The better of NRCCV() and SoftNRCCV() is at or above the paper's NRC on every row."
    )
    notes = (
        "Parameters and rules by 5-fold cross-validation within the training samples of each trial.",
        "The paper's numbers were chosen on the test samples, by its authors' scripts.",
        said,
    )
    heads = ("", "NRC, paper", *HONEST)
    return Table("Chosen on the training samples alone", heads, tuple(rows), frozenset(), notes)
