"""Tables of accuracies from outcomes: the paper's numbers, ours, differences and tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from residuum.paper.entries import PaperTable
from residuum.paper.outcomes import Outcome
from residuum.paper.protocols import PROTOCOLS
from residuum.paper.tables import TITLES
from residuum.reports.numbers import four_digits, one_decimal, signed
from residuum.reports.table import Table

# Rows of one kind of trust share a table: the paper's settings, features of our own, parts of data sets.
PARTS = {
    "paper": "",
    "added": ", beyond the paper: features of our own choice",
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
    table, methods = outcome.table, outcome.methods
    rows: list[tuple[str, ...]] = []
    best = set()
    for name in outcome.rows:
        row = table.row(name)
        means = [round(outcome.mean(name, m), 1) for m in methods]
        highest = max(value for value in means if not math.isnan(value))
        if row.paper:
            rows.append((f"{row.title}, paper", *(one_decimal(row.paper.get(m)) for m in methods)))
        best |= {(len(rows), j) for j, value in enumerate(means, start=1) if value == highest}
        rows.append((f"{row.title}, ours", *(one_decimal(*outcome.spread(name, m)) for m in methods)))
        if row.paper:
            differences = (signed(outcome.difference(name, m)) for m in methods)
            rows.append((f"{row.title}, difference", *differences))
        rows.append((f"{row.title}, p against NRC", *(_p(outcome, name, m) for m in methods)))
    part = PARTS[table.row(outcome.rows[0]).part]
    title = f"{table.name.capitalize()}: {table.title}{part} ({outcome.protocol})"
    return Table(title, ("", *methods), tuple(rows), frozenset(best), _notes(outcome))


def _p(outcome: Outcome, row: Any, method: str) -> str:
    p = outcome.p_value(row, method) if method != "NRC" else math.nan
    return "" if math.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def _notes(outcome: Outcome) -> tuple[str, ...]:
    """How the numbers came about, and what is known of the splits and of the copies of the data."""
    table, trials = outcome.table, outcome.trials
    spread = f"mean ± standard deviation over {trials} trials" if trials > 1 else "one trial"
    notes = ["QUICK RUN: fewer trials, rows or queries than the paper; not a reproduction."] * outcome.quick
    notes += [
        f"Protocol {outcome.protocol}: {PROTOCOLS[outcome.protocol].title}.",
        f"Accuracy in per cent, {spread}; best of ours in bold. p: {outcome.test_name} between NRC and the "
        "method of the column, two-sided, not corrected for the number of comparisons.",
        *table.notes,
        *(table.row(row).note for row in outcome.rows if table.row(row).note),
    ]
    for row in outcome.rows:
        for note in outcome.notes.get(row, ()):
            of_all = all(note in outcome.notes.get(other, ()) for other in outcome.rows)
            notes.append(note if of_all else f"{table.row(row).title}: {note}")
    return tuple(dict.fromkeys(notes))


def parameter_table(outcome: Outcome) -> Table:
    """The parameters chosen most often, per row and method."""
    rows = tuple(
        (f"{outcome.table.row(row).title}, {method}", _chosen(outcome.parameters[row, method]))
        for row in outcome.rows
        for method in outcome.methods
        if (row, method) in outcome.parameters
    )
    return Table(f"Chosen parameters ({outcome.protocol})", ("", "most frequent, of the trials"), rows)


# Parameters that a search chooses; the others are the same everywhere.
_CHOSEN = ("gamma", "l1", "l2", "max_iter", "neg_weight", "rho", "rule", "solver", "weight")


def _chosen(parameters: list[dict[str, Any]]) -> str:
    texts = []
    for values in parameters:
        exact = values.get("solver") == "exact"
        names = ("C",) if "C" in values else ("solver", "rule") if exact else _CHOSEN
        kept = {name: values[name] for name in names if values.get(name) not in (None, "admm")}
        texts.append(", ".join(f"{name}={four_digits(value)}" for name, value in kept.items()))
    top = max(dict.fromkeys(texts), key=texts.count)
    return top if len(texts) == 1 else f"{top} ({texts.count(top)} of {len(texts)})"


def quoted_table(table: PaperTable) -> Table:
    """Other people's systems as the paper reports them."""
    systems = tuple(dict.fromkeys(name for values in table.quoted.values() for name in values))
    rows = tuple(
        (f"{TITLES[dataset]}, as the paper reports", *(one_decimal(values.get(name)) for name in systems))
        for dataset, values in table.quoted.items()
    )
    name = table.name.capitalize()
    notes = (
        f"Quoted from the paper's {name}, accuracy in per cent; nothing in this table was "
        "run here. What was run on the same data is shown apart, as rows of Table 6.",
    )
    return Table(f"{name}: {table.title}, QUOTED from the paper", ("", *systems), rows, notes=notes)


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
        for row in map(best.table.row, best.rows):
            if "NRC" not in row.paper:
                continue
            place, printed = f"{best.table.name}, {row.title}", row.paper["NRC"]
            cells = [(held.get((best.table.name, protocol)), method) for protocol, method in HONEST.values()]
            ours = [one_decimal(*o.spread(row.name, m)) if o else "" for o, m in cells]
            rows.append((place, one_decimal(printed), *ours))
            means = (best.mean(row.name, method) for method in ("NRC", "SoftNRC"))
            highest = round(max((value for value in means if not math.isnan(value)), default=-1.0), 1)
            if highest < printed:
                short.append(f"{place.replace(',', '')} ({signed(highest - printed)})")
    if not rows:
        return None
    notes = (
        "Parameters and rules by 5-fold cross-validation within the training samples of each trial.",
        "The paper's numbers were chosen on the test samples, by its authors' scripts.",
        f"The better of NRCCV() and SoftNRCCV() falls short of the paper's NRC on: {', '.join(short)}."
        if short
        else "The better of NRCCV() and SoftNRCCV() is at or above the paper's NRC on every row.",
    )
    title, heads = "Chosen on the training samples alone", ("", "NRC, paper", *HONEST)
    return Table(title, heads, tuple(rows), notes=notes)
